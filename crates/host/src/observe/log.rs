//! Log lines, to stderr: text for people, or one JSON object a line. None of them can be had without end; `limit` says
//! how many.

use std::io::{self, IsTerminal};
use std::sync::LazyLock;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::prelude::*;

use super::limit::{Gate, Limit};
use crate::config::LogFormat;

static LIMIT: LazyLock<Limit> = LazyLock::new(Limit::new);

/// Why a filter was refused.
#[derive(Debug, thiserror::Error)]
#[error(
    "--log {filter:?} is no filter ({why}); write error, warn, info, debug, trace, or such as \"info,sublet_host=debug\""
)]
pub struct LogError {
    filter: String,
    why: String,
}

/// Begins to log. Once a process.
pub fn start(filter: &str, format: LogFormat) -> Result<(), LogError> {
    let refused = |why: String| LogError {
        filter: filter.to_owned(),
        why,
    };
    if let Some(vague) = filter.split(',').find(|part| part.trim().ends_with('=')) {
        return Err(refused(format!("{vague:?} names no level")));
    }
    let filter = EnvFilter::builder()
        .parse(filter)
        .map_err(|error| refused(error.to_string()))?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(io::stderr().is_terminal())
        // A line that cannot be written is lost; told of on the same stream, it would end the daemon.
        .log_internal_errors(false)
        .with_writer(io::stderr);
    match format {
        LogFormat::Text => lines.with_target(false).finish().with(Gate(&LIMIT)).init(),
        LogFormat::Json => lines.json().finish().with(Gate(&LIMIT)).init(),
    }
    Ok(())
}

/// Counts what the limit left out in minutes that are over: once a second.
pub fn tell_left_out() {
    LIMIT.tell();
}

/// The same, of what it left out so far: at the end.
pub fn tell_all_left_out() {
    LIMIT.tell_all();
}
