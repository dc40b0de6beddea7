//! Log lines, to stderr: text for people, or one JSON object a line. None of them can be had without end; `limit` says
//! how many. A thread of its own writes them, so that nobody else waits where stderr is a pipe that nobody reads; what has
//! no room in its queue is lost, and counted.

use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, OnceLock};

use parking_lot::Mutex;
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::{LevelFilter, ParseError, Targets};
use tracing_subscriber::prelude::*;

use super::limit::{Gate, Limit};
use crate::config::LogFormat;

static LIMIT: LazyLock<Limit> = LazyLock::new(Limit::new);

/// Lines that may wait to be written: some hundred KiB.
const QUEUE_MAX: usize = 4096;

/// Counts the lines that had no room in the queue.
static LOST: OnceLock<ErrorCounter> = OnceLock::new();

/// How many of them were told of.
static LOST_TOLD: AtomicUsize = AtomicUsize::new(0);

/// Whoever has it has the last lines written before the process ends. It waits for that for a second at most.
static WRITER: Mutex<Option<WorkerGuard>> = Mutex::new(None);

/// Why a filter was refused.
#[derive(Debug, thiserror::Error)]
#[error(
    "--log {filter:?} is no filter ({why}); write error, warn, info, debug, trace, or such as \"info,sublet_host=debug\""
)]
pub struct LogError {
    filter: String,
    why: String,
}

/// Begins to log, until what it gives is dropped. Once a process.
pub fn start(filter: &str, format: LogFormat) -> Result<Closing, LogError> {
    let refused = |why: String| LogError {
        filter: filter.to_owned(),
        why,
    };
    if let Some(vague) = filter.split(',').find(|part| part.trim().ends_with('=')) {
        return Err(refused(format!("{vague:?} names no level")));
    }
    let parts: Vec<&str> = filter.split(',').map(str::trim).collect();
    let filter: Targets = parts
        .join(",")
        .parse()
        .map_err(|error: ParseError| refused(error.to_string()))?;
    let (queue, writer) = NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(QUEUE_MAX)
        .thread_name("log")
        .finish(io::stderr());
    let _ = LOST.set(queue.error_counter());
    *WRITER.lock() = Some(writer);
    let lines = tracing_subscriber::fmt()
        .with_max_level(most(&filter))
        .with_ansi(io::stderr().is_terminal())
        // A line that cannot be written is lost; told of on the same stream, it would end the daemon.
        .log_internal_errors(false)
        .with_writer(queue);
    match format {
        LogFormat::Text => {
            let lines = lines.with_target(false).finish();
            lines.with(filter).with(Gate(&LIMIT)).init();
        }
        LogFormat::Json => {
            let lines = lines.json().finish();
            lines.with(filter).with(Gate(&LIMIT)).init();
        }
    }
    Ok(Closing)
}

/// The most that a filter lets through anywhere.
fn most(filter: &Targets) -> LevelFilter {
    let levels = filter.iter().map(|(_, level)| level);
    let most = levels.chain(filter.default_level()).max();
    most.unwrap_or(LevelFilter::OFF)
}

/// Has what waits written, for a second at most. Nothing is logged after it.
pub fn end() {
    drop(WRITER.lock().take());
}

/// Has the last lines written when it is dropped.
pub struct Closing;

impl Drop for Closing {
    fn drop(&mut self) {
        end();
    }
}

/// Counts what the limit left out in minutes that are over, and what nobody read: once a second.
pub(crate) fn tell_left_out() {
    LIMIT.tell();
    let lost = LOST.get().map_or(0, ErrorCounter::dropped_lines);
    let more = lost.saturating_sub(LOST_TOLD.swap(lost, Ordering::Relaxed));
    if more > 0 {
        tracing::warn!(
            lines = more,
            "lines of this log were lost, since nobody read it"
        );
    }
}

/// The same, of what it left out so far: at the end.
pub(crate) fn tell_all_left_out() {
    LIMIT.tell_all();
}
