//! A limit for log lines, because clients can cause many of them: ten per minute per cause and object, then one line
//! with the count of those left out.
//!
//! A cause is a place in the code and its message. An object is the disk, the tenant or the file that a line is about.
//! Every line passes here, whatever code wrote it.

use std::collections::HashMap;
use std::fmt::{self, Write};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// The most lines of one cause and object in a [`WINDOW`].
const LINES_MAX: u32 = 10;

const WINDOW: Duration = Duration::from_secs(60);

/// The most causes and objects that are told apart at a time. Further lines share a place with all objects of their
/// cause, so that lines about many objects hide no other cause's lines.
const PLACES_MAX: usize = 4096;

/// The most causes that are told apart beyond that: more than there are lines in the code. If there were more, they
/// would share one place.
const CAUSES_MAX: usize = 1024;

/// The most characters of a line that its count repeats.
const WHAT_CHARS_MAX: usize = 200;

/// The fields that say what a line is about. A client's address is not among them, because a client could use as many
/// as it likes.
const OBJECTS: [&str; 6] = ["disk", "tenant", "name", "path", "folder", "listener"];

/// The module that writes the lines with counts. They always pass.
const COUNTS: &str = module_path!();

/// Lines that were left out, all of one cause and object.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SuppressedLines {
    level: Level,
    what: String,
    count: u64,
}

/// Decides which lines may be written. Time is an argument.
#[derive(Debug, Default)]
struct LineLimiter {
    places: HashMap<u64, LineWindow>,
    /// The windows of lines that have no place of their own, by cause.
    rest: HashMap<u64, LineWindow>,
}

/// Tells a line from others: its cause, and its cause with its object.
#[derive(Clone, Copy, Debug)]
struct LineKey {
    cause: u64,
    whole: u64,
}

#[derive(Debug)]
struct LineWindow {
    began: Duration,
    written: u32,
    left_out: SuppressedLines,
}

impl LineLimiter {
    /// Returns whether a line may be written. `what` is called once per place.
    fn admit(
        &mut self,
        now: Duration,
        key: LineKey,
        level: Level,
        what: impl FnOnce() -> String,
    ) -> bool {
        let begin = |what| LineWindow {
            began: now,
            written: 0,
            left_out: SuppressedLines {
                level,
                what,
                count: 0,
            },
        };
        if self.places.contains_key(&key.whole) || self.has_room(now) {
            let place = self.places.entry(key.whole);
            return place.or_insert_with(|| begin(what())).admit(now);
        }
        let is_known = self.rest.contains_key(&key.cause) || self.rest.len() < CAUSES_MAX;
        let cause = if is_known { key.cause } else { 0 };
        let place = self.rest.entry(cause);
        let place = place.or_insert_with(|| begin(format!("of many objects, such as {}", what())));
        place.admit(now)
    }

    fn has_room(&mut self, now: Duration) -> bool {
        if self.places.len() == PLACES_MAX {
            self.places.retain(|_, place| !place.is_idle(now));
        }
        self.places.len() < PLACES_MAX
    }

    /// Takes the counts of lines that were left out in minutes that are over.
    fn take_suppressed(&mut self, now: Duration) -> Vec<SuppressedLines> {
        let places = self.places.values_mut().chain(self.rest.values_mut());
        let taken = places
            .filter_map(|place| place.take_suppressed(now))
            .collect();
        self.places.retain(|_, place| !place.is_idle(now));
        self.rest.retain(|_, place| !place.is_idle(now));
        taken
    }
}

impl LineWindow {
    fn admit(&mut self, now: Duration) -> bool {
        // The count is reported first. Until then a minute goes on.
        if self.is_idle(now) {
            (self.began, self.written) = (now, 0);
        }
        let may = self.written < LINES_MAX;
        match may {
            true => self.written += 1,
            false => self.left_out.count += 1,
        }
        may
    }

    fn is_over(&self, now: Duration) -> bool {
        now.saturating_sub(self.began) >= WINDOW
    }

    fn is_idle(&self, now: Duration) -> bool {
        self.is_over(now) && self.left_out.count == 0
    }

    fn take_suppressed(&mut self, now: Duration) -> Option<SuppressedLines> {
        if self.left_out.count == 0 || !self.is_over(now) {
            return None;
        }
        let taken = self.left_out.clone();
        (self.began, self.written, self.left_out.count) = (now, 0, 0);
        Some(taken)
    }
}

/// The limit as a part of the subscriber.
#[derive(Debug)]
pub(super) struct LogRateLimit {
    begin: Instant,
    limiter: Mutex<LineLimiter>,
}

impl LogRateLimit {
    pub(super) fn new() -> LogRateLimit {
        LogRateLimit {
            begin: Instant::now(),
            limiter: Mutex::default(),
        }
    }

    /// Writes a line for each cause and object of which lines were left out in a minute that is over.
    pub(super) fn report_suppressed(&self) {
        self.report_suppressed_at(self.begin.elapsed());
    }

    /// The same as [`report_suppressed`](LogRateLimit::report_suppressed), and also for minutes that are not over.
    pub(super) fn report_all_suppressed(&self) {
        self.report_suppressed_at(Duration::MAX);
    }

    fn report_suppressed_at(&self, now: Duration) {
        let taken = self.limiter.lock().take_suppressed(now);
        for SuppressedLines { level, what, count } in taken {
            // The level must be a constant of its line.
            match level {
                Level::ERROR => tracing::error!(
                    left_out = count,
                    "the limit on log lines left out more like this: {what}"
                ),
                Level::WARN => tracing::warn!(
                    left_out = count,
                    "the limit on log lines left out more like this: {what}"
                ),
                Level::INFO => tracing::info!(
                    left_out = count,
                    "the limit on log lines left out more like this: {what}"
                ),
                _ => tracing::debug!(
                    left_out = count,
                    "the limit on log lines left out more like this: {what}"
                ),
            }
        }
    }

    fn admits(&self, event: &Event<'_>) -> bool {
        let metadata = event.metadata();
        if metadata.target() == COUNTS {
            return true;
        }
        let mut subject = LineSubject::default();
        event.record(&mut subject);
        let mut hasher = DefaultHasher::new();
        (metadata.file(), metadata.line(), &subject.place).hash(&mut hasher);
        if !subject.is_foreign {
            subject.message.hash(&mut hasher);
        }
        let cause = hasher.finish();
        subject.object.hash(&mut hasher);
        let key = LineKey {
            cause,
            whole: hasher.finish(),
        };
        let now = self.begin.elapsed();
        self.limiter
            .lock()
            .admit(now, key, *metadata.level(), || subject.what())
    }
}

/// What a line is about.
#[derive(Default)]
struct LineSubject {
    message: String,
    object: String,
    /// The place in the code, if the line came through the crate `log`: its message is not a constant then.
    place: String,
    is_foreign: bool,
}

impl LineSubject {
    fn what(&self) -> String {
        let what = self.message.chars().chain(self.object.chars());
        what.take(WHAT_CHARS_MAX).collect()
    }
}

impl Visit for LineSubject {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name if OBJECTS.contains(&name) => write!(self.object, " {name}={value:?}"),
            name if name.starts_with("log.") => {
                self.is_foreign = true;
                write!(self.place, " {value:?}")
            }
            _ => Ok(()),
        };
    }
}

/// Lets lines through, or leaves them out.
pub(super) struct RateLimitLayer(pub(super) &'static LogRateLimit);

impl<S: Subscriber> Layer<S> for RateLimitLayer {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        self.0.admits(event)
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, OnceLock};

    use tracing_subscriber::fmt::MakeWriter;
    use tracing_subscriber::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn admit(limiter: &mut LineLimiter, at: Duration, key: u64) -> bool {
        // Two causes, each with many objects.
        let keys = LineKey {
            cause: key % 2,
            whole: key,
        };
        limiter.admit(at, keys, Level::WARN, || format!("line {key}"))
    }

    fn written(limiter: &mut LineLimiter, at: Duration, key: u64, lines: u32) -> usize {
        (0..lines).filter(|_| admit(limiter, at, key)).count()
    }

    #[test]
    fn ten_lines_a_minute_and_then_their_count() {
        let mut limiter = LineLimiter::default();
        assert_eq!(written(&mut limiter, SECOND, 1, 10_000), 10);
        assert_eq!(
            limiter.take_suppressed(60 * SECOND),
            [],
            "the minute goes on"
        );
        let taken = limiter.take_suppressed(61 * SECOND);
        let want = SuppressedLines {
            level: Level::WARN,
            what: "line 1".to_owned(),
            count: 9990,
        };
        assert_eq!(taken, [want], "though the noise has stopped");
        assert_eq!(limiter.take_suppressed(62 * SECOND), []);
        assert_eq!(written(&mut limiter, 62 * SECOND, 1, 20), 10);
    }

    #[test]
    fn two_objects_do_not_hide_each_other() {
        let mut limiter = LineLimiter::default();
        assert_eq!(written(&mut limiter, SECOND, 1, 1000), 10);
        assert_eq!(written(&mut limiter, SECOND, 2, 3), 3);
    }

    #[test]
    fn the_table_is_bounded_and_forgets_what_is_over() {
        let mut limiter = LineLimiter::default();
        for key in 0..PLACES_MAX as u64 {
            assert!(admit(&mut limiter, SECOND, key));
        }
        let more = PLACES_MAX as u64..2 * PLACES_MAX as u64;
        let let_through = more.filter(|key| admit(&mut limiter, SECOND, *key)).count();
        let of_each = 2 * LINES_MAX as usize;
        assert_eq!(let_through, of_each, "all objects of a cause share a place");
        assert_eq!(limiter.places.len(), PLACES_MAX);
        assert_eq!(limiter.take_suppressed(90 * SECOND).len(), 2);
        assert!(limiter.places.is_empty());
    }

    /// Collects lines as they are written.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl<'a> MakeWriter<'a> for Lines {
        type Writer = Lines;

        fn make_writer(&'a self) -> Lines {
            self.clone()
        }
    }

    impl Lines {
        fn with(&self, what: &str) -> usize {
            let text = String::from_utf8(self.0.lock().clone()).expect("text");
            text.lines().filter(|line| line.contains(what)).count()
        }
    }

    #[test]
    fn a_guest_that_scribbles_causes_eleven_lines_and_hides_no_other() {
        static LIMIT: OnceLock<LogRateLimit> = OnceLock::new();
        let limit = LIMIT.get_or_init(LogRateLimit::new);
        let lines = Lines::default();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(lines.clone())
            .with_ansi(false)
            .finish()
            .with(RateLimitLayer(limit));
        tracing::subscriber::with_default(subscriber, || {
            for n in 0..10_000 {
                let say = |disk| tracing::warn!(disk, broken = n, "a guest's queue rests");
                say("db");
                if n == 5000 {
                    say("web");
                }
            }
            limit.report_all_suppressed();
        });
        assert_eq!(lines.with("db"), 11);
        assert_eq!(lines.with("left_out=9990"), 1);
        assert_eq!(lines.with("web"), 1);
    }
}
