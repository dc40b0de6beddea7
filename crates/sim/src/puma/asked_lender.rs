//! A lender as its borrower sees it: the guard says whether it is asked. Like the daemon's page fetcher, a guest pings a
//! lender by reads of its pages, and by nothing else.

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
        }
    }

    /// How the lender may be asked now. `None` if it is too slow. If pings count, one read each ping interval is a ping,
    /// whether the guard is open or shut.
    pub(super) fn decide(&mut self, now: VirtualInstant) -> Option<AskDecision> {
        if self.choice == GuardChoice::None {
            return Some(AskDecision {
                purpose: AskPurpose::Fetch,
                time_limit: VirtualInstant::NEVER.since(now),
            });
        }
        if self.is_ping_due(now) {
            self.probed_at = Some(now);
            return Some(AskDecision {
                purpose: AskPurpose::Probe,
                time_limit: self.guard.probe_limit().into(),
            });
        }
        (self.guard.state() == GuardState::Open).then(|| AskDecision {
            purpose: AskPurpose::Fetch,
            time_limit: self.guard.time_limit().into(),
        })
    }

    fn is_ping_due(&self, now: VirtualInstant) -> bool {
        let interval = self.guard.ping_interval().map(VirtualDuration::from);
        interval.is_some_and(|interval| self.probed_at.is_none_or(|at| now >= at + interval))
    }

    /// Records an answer, or a request that was given up after `took`.
    pub(super) fn ended(&mut self, asked: AskDecision, took: VirtualDuration) {
        let (took, limit): (Duration, Duration) = (took.into(), asked.time_limit.into());
        match (self.choice, asked.purpose) {
            (GuardChoice::None, _) => {}
            (_, AskPurpose::Probe) if took >= limit => {
                self.guard.ping_timed_out(took);
            }
            (_, AskPurpose::Probe) => {
                self.guard.pinged(took);
            }
            (_, AskPurpose::Fetch) if took >= limit => {
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
