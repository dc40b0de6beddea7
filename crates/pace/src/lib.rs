//! When to poll and when to sleep. Going to sleep and being woken costs more than most requests, and
//! on a virtual machine several times more; polling costs a core. So a loop polls for a few
//! microseconds while requests keep coming and polling has paid lately, leaves the core to whoever
//! wants it, and sleeps otherwise.

#![forbid(unsafe_code)]

mod rule;

use std::time::{Duration, Instant};

pub use rule::{Rule, Step};

/// How a loop is asked to look for work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// At once: come back with what there is, or nothing.
    Glance,
    /// Sleep until something comes (or the loop's own time is up).
    Sleep,
}

/// What a look found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Something to do.
    Work,
    /// Nothing.
    Nothing,
}

/// A loop's pace: the rule and a clock.
#[derive(Debug)]
pub struct Pace {
    rule: Rule,
    origin: Instant,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            rule: Rule::default(),
            origin: Instant::now(),
        }
    }
}

impl Pace {
    /// Waits for work. `look` glances as often as the rule allows, then sleeps once.
    pub fn wait<E>(&mut self, mut look: impl FnMut(Look) -> Result<Found, E>) -> Result<(), E> {
        let began = self.now();
        self.rule.begin(began);
        let mut now = began;
        while self.rule.step(now) == Step::Poll {
            if look(Look::Glance)? == Found::Work {
                self.rule.came(self.now());
                return Ok(());
            }
            now = self.leave_core();
        }
        match look(Look::Sleep)? {
            Found::Work => self.rule.came(self.now()),
            Found::Nothing => self.rule.nothing_came(),
        }
        Ok(())
    }

    /// Lets whoever waits for this core run; says what time it is then.
    fn leave_core(&mut self) -> Duration {
        let left = self.now();
        std::thread::yield_now();
        let back = self.now();
        self.rule.left(back - left, back);
        back
    }

    fn now(&self) -> Duration {
        self.origin.elapsed()
    }
}
