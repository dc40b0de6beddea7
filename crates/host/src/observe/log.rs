//! Log lines on stderr: text for people, or one JSON object per line. `rate_limit` bounds how many there are. A thread
//! of its own writes them, so that nobody else waits if stderr is a pipe that nobody reads. Lines that find no room in
//! the thread's queue are lost and counted.

use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, OnceLock};

use parking_lot::Mutex;
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::{LevelFilter, ParseError, Targets};
use tracing_subscriber::prelude::*;

use super::rate_limit::{LogRateLimit, RateLimitLayer};
use crate::config::LogFormat;

static LIMIT: LazyLock<LogRateLimit> = LazyLock::new(LogRateLimit::new);

/// The most lines that may wait to be written: some hundred KiB.
const QUEUE_MAX: usize = 4096;

/// Counts the lines that found no room in the queue.
static LOST: OnceLock<ErrorCounter> = OnceLock::new();

/// How many of them were reported.
static LOST_TOLD: AtomicUsize = AtomicUsize::new(0);

/// The guard writes the last lines before the process ends. It waits for that at most a second.
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

/// Starts the log, until the returned guard is dropped. Call it once per process.
pub fn start(filter: &str, format: LogFormat) -> Result<FlushGuard, LogError> {
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
        .with_max_level(max_level(&filter))
        .with_ansi(io::stderr().is_terminal())
        // A line that cannot be written is lost. If that were reported on the same stream, it would end the daemon.
        .log_internal_errors(false)
        .with_writer(queue);
    match format {
        LogFormat::Text => {
            let lines = lines.with_target(false).finish();
            lines.with(filter).with(RateLimitLayer(&LIMIT)).init();
        }
        LogFormat::Json => {
            let lines = lines.json().finish();
            lines.with(filter).with(RateLimitLayer(&LIMIT)).init();
        }
    }
    Ok(FlushGuard)
}

/// The most verbose level that a filter lets through anywhere.
fn max_level(filter: &Targets) -> LevelFilter {
    let levels = filter.iter().map(|(_, level)| level);
    let most = levels.chain(filter.default_level()).max();
    most.unwrap_or(LevelFilter::OFF)
}

/// Writes the lines that wait, for at most a second. Nothing is logged after it.
pub fn flush() {
    drop(WRITER.lock().take());
}

/// Writes the last lines when it is dropped.
pub struct FlushGuard;

impl Drop for FlushGuard {
    fn drop(&mut self) {
        flush();
    }
}

/// Logs how many lines the limit left out in minutes that are over, and how many were lost. Call it once per second.
pub(crate) fn report_suppressed() {
    LIMIT.report_suppressed();
    let lost = LOST.get().map_or(0, ErrorCounter::dropped_lines);
    let more = lost.saturating_sub(LOST_TOLD.swap(lost, Ordering::Relaxed));
    if more > 0 {
        tracing::warn!(
            lines = more,
            "this log lost lines because its reader was too slow; the daemon goes on: let the reader read faster, or log less with `--log`"
        );
    }
}

/// The same for everything left out so far. Call it at the end.
pub(crate) fn report_all_suppressed() {
    LIMIT.report_all_suppressed();
}
