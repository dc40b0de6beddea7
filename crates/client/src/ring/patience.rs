//! How long a client that has asked something looks for the answer before it sleeps. This wait is no idle one: the
//! answer is on its way. It takes a few microseconds from a daemon that polls, and the time of a wake-up more from
//! one that sleeps; a client that slept meanwhile would ask again only after its own wake-up, so neither would ever
//! see that polling pays.

use std::hint;
use std::thread;
use std::time::{Duration, Instant};

/// The longest that a client looks: a wake-up of the daemon, up to 40 µs on the machines this was measured on, and a
/// batch's work.
const LOOK_MAX: Duration = Duration::from_micros(100);

/// Looks between two times that the core is offered to others.
const LOOKS_BETWEEN: u32 = 16;

/// Whoever is away from the core for longer than this gave it to somebody else.
const AWAY_MIN: Duration = Duration::from_micros(30);

/// How long a client does not look after somebody else took the core.
const CROWDED: Duration = Duration::from_millis(1);

/// Whether it pays to look for answers.
#[derive(Debug, Default)]
pub(super) struct Patience {
    crowded_until: Option<Instant>,
}

impl Patience {
    /// Looks for an answer; says whether it has come.
    pub(super) fn look(&mut self, has_come: impl Fn() -> bool) -> bool {
        let began = Instant::now();
        let mut now = began;
        while self.crowded_until.is_none_or(|until| now >= until) && now - began < LOOK_MAX {
            for _ in 0..LOOKS_BETWEEN {
                if has_come() {
                    return true;
                }
                hint::spin_loop();
            }
            let left = Instant::now();
            thread::yield_now();
            now = Instant::now();
            if now - left > AWAY_MIN {
                self.crowded_until = Some(now + CROWDED);
            }
        }
        has_come()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn an_answer_that_is_there_is_found_and_one_that_is_not_is_not_waited_for() {
        let mut patience = Patience::default();
        assert!(patience.look(|| true));
        let looks = Cell::new(0u32);
        let began = Instant::now();
        assert!(!patience.look(|| {
            looks.set(looks.get() + 1);
            false
        }));
        assert!(looks.get() > 0 && began.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn a_crowded_core_is_left_alone() {
        let mut patience = Patience {
            crowded_until: Some(Instant::now() + Duration::from_secs(60)),
        };
        let looks = Cell::new(0u32);
        assert!(!patience.look(|| {
            looks.set(looks.get() + 1);
            false
        }));
        assert_eq!(looks.get(), 1);
    }
}
