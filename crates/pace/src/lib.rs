//! Decides when a loop polls and when it sleeps.
//!
//! To sleep and be woken costs more than most requests do, and several times more on a virtual machine. To poll costs a
//! core. So a loop polls for a few microseconds while requests keep coming and polling has paid lately. It yields the
//! core to any thread that wants it. Otherwise it sleeps.

#![forbid(unsafe_code)]

mod rule;

use std::time::{Duration, Instant};

pub use rule::{PollDecision, PollRule};

/// How a loop looks for work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollMode {
    /// Return at once with what there is, or with nothing.
    NonBlocking,
    /// Sleep until work comes or the loop's own time is up.
    Blocking,
}

/// What a look found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollOutcome {
    /// There is work.
    Work,
    /// There is no work.
    Nothing,
}

/// A loop's pace: the rule together with a clock.
#[derive(Debug)]
pub struct AdaptivePoller {
    rule: PollRule,
    origin: Instant,
}

impl Default for AdaptivePoller {
    fn default() -> AdaptivePoller {
        AdaptivePoller::new(PollRule::default())
    }
}

impl AdaptivePoller {
    /// A pace by this rule.
    pub fn new(rule: PollRule) -> AdaptivePoller {
        AdaptivePoller {
            rule,
            origin: Instant::now(),
        }
    }

    /// Waits for work. It calls `look` without blocking as often as the rule allows, then once with blocking.
    pub fn wait<E>(
        &mut self,
        mut look: impl FnMut(PollMode) -> Result<PollOutcome, E>,
    ) -> Result<(), E> {
        let began = self.now();
        self.rule.begin_wait(began);
        let mut now = began;
        while self.rule.decide(now) == PollDecision::Poll {
            if look(PollMode::NonBlocking)? == PollOutcome::Work {
                self.rule.work_came(self.now());
                return Ok(());
            }
            now = self.yield_core();
        }
        match look(PollMode::Blocking)? {
            PollOutcome::Work => self.rule.work_came(self.now()),
            PollOutcome::Nothing => self.rule.nothing_came(),
        }
        Ok(())
    }

    /// Lets other threads run on this core. Returns the time after that.
    fn yield_core(&mut self) -> Duration {
        let left = self.now();
        std::thread::yield_now();
        let back = self.now();
        self.rule.yielded_core(back - left, back);
        back
    }

    fn now(&self) -> Duration {
        self.origin.elapsed()
    }
}
