//! Something that fails again and again, and works again at last: what of that the log is told.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// What the log was told already is told again after this.
const REST: Duration = Duration::from_secs(60);

/// Causes that are told apart; more are one.
const CAUSES_MAX: usize = 8;

/// Something that may fail again and again. The log hears of it when it begins, for another cause, when it works
/// again, and once a minute besides, each time with how often it failed since the last line.
#[derive(Debug, Default)]
pub struct Ailment {
    /// Looked at where it works: nothing is locked then.
    is_ill: AtomicBool,
    news: Mutex<News>,
}

#[derive(Debug, Default)]
struct News {
    /// When the last line was written.
    told: Option<Instant>,
    /// What that was.
    says_ill: bool,
    /// Those that lines were written about lately.
    causes: Vec<String>,
    latest: String,
    failures: u64,
}

impl News {
    fn is_due(&self, now: Instant) -> bool {
        self.told.is_none_or(|told| now - told >= REST)
    }

    fn tell(&mut self, is_ill: bool, now: Instant) -> u64 {
        self.told = Some(now);
        self.says_ill = is_ill;
        std::mem::take(&mut self.failures)
    }
}

impl Ailment {
    /// It failed. Says how often, if a line is to be written.
    pub fn fails(&self, cause: &str, now: Instant) -> Option<u64> {
        let mut news = self.news.lock();
        let was_ill = self.is_ill.swap(true, Ordering::Relaxed);
        if !was_ill && news.is_due(now) {
            news.causes.clear();
        }
        news.failures += 1;
        cause.clone_into(&mut news.latest);
        let is_known = news.causes.iter().any(|known| known == cause);
        let is_new = !is_known && news.causes.len() < CAUSES_MAX;
        if is_new {
            news.causes.push(cause.to_owned());
        }
        (is_new || news.is_due(now)).then(|| news.tell(true, now))
    }

    /// It worked. Says how often it had failed, if the log believes that it does not work.
    pub fn works(&self, now: Instant) -> Option<u64> {
        if !self.is_ill.load(Ordering::Relaxed) {
            return None;
        }
        let mut news = self.news.lock();
        self.is_ill.store(false, Ordering::Relaxed);
        news.says_ill.then(|| news.tell(false, now))
    }

    /// Why it does not work, if it does not.
    pub fn cause(&self) -> Option<String> {
        let is_ill = self.is_ill.load(Ordering::Relaxed);
        is_ill.then(|| self.news.lock().latest.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds at which lines were written, of a backing that is tried once a second.
    fn lines(tries: impl IntoIterator<Item = Result<(), &'static str>>) -> Vec<(u64, u64)> {
        let (ailment, start) = (Ailment::default(), Instant::now());
        let told = tries.into_iter().zip(0..).filter_map(|(tried, second)| {
            let now = start + Duration::from_secs(second);
            let failures = match tried {
                Ok(()) => ailment.works(now),
                Err(cause) => ailment.fails(cause, now),
            };
            Some((second, failures?))
        });
        told.collect()
    }

    #[test]
    fn what_goes_on_failing_is_told_once_a_minute_and_at_its_end() {
        let tries = std::iter::repeat_n(Err("EIO"), 150).chain([Ok(()), Ok(())]);
        assert_eq!(lines(tries), [(0, 1), (60, 60), (120, 60), (150, 29)]);
    }

    #[test]
    fn another_cause_is_told_at_once_and_only_once() {
        let tries = (0..50).map(|n| Err(["EIO", "ENOSPC"][n / 10 % 2]));
        assert_eq!(lines(tries), [(0, 1), (10, 10)]);
    }

    #[test]
    fn what_fails_now_and_then_fills_no_log() {
        let tries = (0..130).map(|n| if n % 2 == 0 { Err("EIO") } else { Ok(()) });
        assert_eq!(
            lines(tries),
            [(0, 1), (1, 0), (62, 31), (63, 0), (124, 31), (125, 0)]
        );
    }

    #[test]
    fn the_cause_is_known_while_it_lasts() {
        let (ailment, now) = (Ailment::default(), Instant::now());
        assert_eq!((ailment.works(now), ailment.cause()), (None, None));
        ailment.fails("EIO", now);
        ailment.fails("ENOSPC", now);
        assert_eq!(ailment.cause().as_deref(), Some("ENOSPC"));
        ailment.works(now);
        assert_eq!(ailment.cause(), None);
    }
}
