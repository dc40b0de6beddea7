//! A lender as its borrower sees it: the guard says whether it is asked. It is what the daemon's page fetcher does, in
//! virtual time.

use std::time::Duration;

use sublet_lend::guard::{GuardPolicy, GuardState, LenderGuard};

use super::variants::GuardChoice;
use crate::virtual_time::{VirtualDuration, VirtualInstant};

/// How the lender may be asked now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AskDecision {
    purpose: AskPurpose,
    /// When the request is given up.
    pub(super) time_limit: VirtualDuration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AskPurpose {
    Fetch,
    Probe,
}

/// The guard of a lender, or none.
pub(super) struct AskedLender {
    choice: GuardChoice,
    guard: LenderGuard,
    probed_at: Option<VirtualInstant>,
    /// When the next ping is due, if pings decide.
    pings_at: VirtualInstant,
}

impl AskedLender {
    /// A lender that has just been connected. `miss` is what a read of the disk is expected to cost.
    pub(super) fn of(
        choice: GuardChoice,
        ping: VirtualDuration,
        miss: VirtualDuration,
    ) -> AskedLender {
        let policy = match choice {
            GuardChoice::Puma => GuardPolicy::Puma,
            GuardChoice::Relative | GuardChoice::None => GuardPolicy::Relative,
        };
        AskedLender {
            choice,
            guard: LenderGuard::new(policy, ping.into(), miss.into()),
            probed_at: None,
            pings_at: VirtualInstant::START,
        }
    }

    /// Sends the pings that are due under PUMA's rule.
    pub(super) fn ping_until(&mut self, now: VirtualInstant, ping: VirtualDuration) {
        let Some(interval) = self.guard.ping_interval() else {
            return;
        };
        while self.choice == GuardChoice::Puma && self.pings_at <= now {
            self.guard.pinged(ping.into());
            self.pings_at += VirtualDuration::from(interval);
        }
    }

    /// How the lender may be asked now. `None` if it is too slow. While our guard is shut, one read each ping interval
    /// tells whether the lender is quick again.
    pub(super) fn decide(&mut self, now: VirtualInstant) -> Option<AskDecision> {
        let limit: VirtualDuration = self.guard.time_limit().into();
        let fetch = |time_limit| AskDecision {
            purpose: AskPurpose::Fetch,
            time_limit,
        };
        match (self.choice, self.guard.state()) {
            (GuardChoice::None, _) => Some(fetch(VirtualInstant::NEVER.since(now))),
            (_, GuardState::Open) => Some(fetch(limit)),
            (GuardChoice::Puma, GuardState::Shut) => None,
            (GuardChoice::Relative, GuardState::Shut) => {
                let interval = self.guard.ping_interval()?.into();
                if self.probed_at.is_some_and(|at| now < at + interval) {
                    return None;
                }
                self.probed_at = Some(now);
                Some(AskDecision {
                    purpose: AskPurpose::Probe,
                    time_limit: limit.min((self.guard.backing() / 2).into()),
                })
            }
        }
    }

    /// Returns whether pages are sent. PUMA sends none while its guard is shut.
    pub(super) fn takes_pages(&self) -> bool {
        self.choice != GuardChoice::Puma || self.guard.state() == GuardState::Open
    }

    /// Records an answer, or a request that was given up after `took`.
    pub(super) fn ended(&mut self, asked: AskDecision, took: VirtualDuration) {
        let took: Duration = took.into();
        match (self.choice, asked.purpose) {
            (GuardChoice::None, _) => {}
            (_, AskPurpose::Probe) if took >= asked.time_limit.into() => {
                self.guard.ping_timed_out(took);
            }
            (_, AskPurpose::Probe) => {
                self.guard.pinged(took);
            }
            (_, AskPurpose::Fetch) if took >= asked.time_limit.into() => {
                self.guard.timed_out(took);
            }
            (_, AskPurpose::Fetch) => {
                self.guard.answered(took);
            }
        }
    }

    /// Records that a read of the disk took `took`.
    pub(super) fn missed(&mut self, took: VirtualDuration) {
        if self.choice != GuardChoice::None {
            self.guard.missed(took.into());
        }
    }
}
