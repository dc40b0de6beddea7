//! How long a client polls for an answer before it sleeps. The wait is not idle, because the answer is on its way. A
//! daemon that polls takes a few microseconds. A daemon that sleeps takes the time of a wake-up more.
//!
//! If the client slept meanwhile, it would ask again only after its own wake-up. Then neither side would ever see that
//! polling pays.

use std::hint;
use std::thread;
use std::time::{Duration, Instant};

/// The longest time that a client polls. It covers a wake-up of the daemon, up to 40 µs on the machines where this was
/// measured, and a batch's work.
const SPIN_MAX: Duration = Duration::from_micros(100);

/// How often a client polls between two offers of the core to other threads.
const SPINS_BETWEEN_YIELDS: u32 = 16;

/// If a thread is off the core for longer than this, another thread had the core.
const PREEMPTED_MIN: Duration = Duration::from_micros(30);

/// How long a client does not poll after another thread took the core.
const NO_SPIN_TIME: Duration = Duration::from_millis(1);

/// Whether polling for answers pays.
#[derive(Debug, Default)]
pub(super) struct SpinWait {
    no_spin_until: Option<Instant>,
}

impl SpinWait {
    /// Polls for an answer. Returns whether it has come.
    pub(super) fn spin(&mut self, has_come: impl Fn() -> bool) -> bool {
        let began = Instant::now();
        let mut now = began;
        while self.no_spin_until.is_none_or(|until| now >= until) && now - began < SPIN_MAX {
            for _ in 0..SPINS_BETWEEN_YIELDS {
                if has_come() {
                    return true;
                }
                hint::spin_loop();
            }
            let left = Instant::now();
            thread::yield_now();
            now = Instant::now();
            if now - left > PREEMPTED_MIN {
                self.no_spin_until = Some(now + NO_SPIN_TIME);
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
        let mut spin_wait = SpinWait::default();
        assert!(spin_wait.spin(|| true));
        let looks = Cell::new(0u32);
        let began = Instant::now();
        assert!(!spin_wait.spin(|| {
            looks.set(looks.get() + 1);
            false
        }));
        assert!(looks.get() > 0 && began.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn a_crowded_core_is_left_alone() {
        let mut spin_wait = SpinWait {
            no_spin_until: Some(Instant::now() + Duration::from_secs(60)),
        };
        let looks = Cell::new(0u32);
        assert!(!spin_wait.spin(|| {
            looks.set(looks.get() + 1);
            false
        }));
        assert_eq!(looks.get(), 1);
    }
}
