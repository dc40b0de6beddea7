//! A node's lease and registration: granted, registered, renewed, and all of it again when the lease has ended.

use std::time::Duration;

use crate::lease_clock::LeaseClock;
use crate::store::{LeaseGrant, LeaseId, Renewal, Revision, StoreError};

use super::retry_pause::RetryPause;

/// A node's lease and registration.
#[derive(Debug, Default)]
pub(super) struct LeaseKeeper {
    held: Option<HeldLease>,
    /// When the call in flight was sent.
    sent: Option<Duration>,
    /// Whether something else was to be registered since the call in flight was sent.
    is_outdated: bool,
    pub(super) pause: RetryPause,
}

/// A lease that the store has not called ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeldLease {
    pub(super) lease: LeaseId,
    pub(super) clock: LeaseClock,
    /// The revision of the registration.
    pub(super) registered: Option<Revision>,
}

/// What is to be asked next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaseNeed {
    Grant,
    Register(LeaseId),
    Renew(LeaseId),
}

/// What an answer changed.
#[derive(Debug)]
pub(super) enum LeaseOutcome {
    Unchanged,
    Registered,
    Lost,
    Failed(StoreError),
}

impl LeaseKeeper {
    pub(super) fn held(&self) -> Option<&HeldLease> {
        self.held.as_ref()
    }

    /// The lease, if the node may lead under it now.
    pub(super) fn leading_lease(&self, now: Duration) -> Option<LeaseId> {
        let held = self.held.filter(|held| held.clock.may_lead(now))?;
        Some(held.lease)
    }

    /// Returns whether the lease was not renewed in time, though the store has not called it ended.
    pub(super) fn is_overdue(&self, now: Duration) -> bool {
        self.held.is_some_and(|held| !held.clock.may_lead(now))
    }

    pub(super) fn is_busy(&self) -> bool {
        self.sent.is_some()
    }

    /// Returns what is to be asked now.
    pub(super) fn need(&self, now: Duration) -> Option<LeaseNeed> {
        if self.is_busy() || !self.pause.is_over(now) {
            return None;
        }
        match self.held {
            None => Some(LeaseNeed::Grant),
            // A lease that runs out is renewed first. The registration needs it.
            Some(held) if held.clock.renew_at() <= now => Some(LeaseNeed::Renew(held.lease)),
            Some(held) if held.registered.is_none() => Some(LeaseNeed::Register(held.lease)),
            Some(_) => None,
        }
    }

    /// Returns when the time alone changes something.
    pub(super) fn wakes_at(&self, now: Duration) -> Option<Duration> {
        let until = self.held.map(|held| held.clock.leads_until());
        let until = until.filter(|until| *until > now);
        let asks = match (self.is_busy(), self.held) {
            (true, _) => None,
            (false, Some(held)) if held.registered.is_some() => {
                Some(held.clock.renew_at().max(self.pause.until()))
            }
            (false, _) => Some(self.pause.until()),
        };
        until.into_iter().chain(asks).min()
    }

    /// Notes that a call left.
    pub(super) fn send(&mut self, now: Duration) {
        self.sent = Some(now);
        self.is_outdated = false;
    }

    /// The registration is not what it was. It is made again under the same lease.
    pub(super) fn unregister(&mut self) {
        self.is_outdated = self.is_busy();
        if let Some(held) = &mut self.held {
            held.registered = None;
        }
    }

    pub(super) fn granted(&mut self, answer: Result<LeaseGrant, StoreError>) -> LeaseOutcome {
        let sent = self.sent.take();
        match (answer, sent) {
            (Ok(grant), Some(sent)) => {
                self.pause.succeed();
                self.held = Some(HeldLease {
                    lease: grant.lease,
                    clock: LeaseClock::new(sent, grant.ttl),
                    registered: None,
                });
                LeaseOutcome::Unchanged
            }
            (Ok(_), None) => LeaseOutcome::Unchanged,
            (Err(error), _) => LeaseOutcome::Failed(error),
        }
    }

    pub(super) fn registered(&mut self, answer: Result<Revision, StoreError>) -> LeaseOutcome {
        self.sent = None;
        match (answer, &mut self.held) {
            (Ok(_), Some(_)) if self.is_outdated => {
                self.pause.succeed();
                LeaseOutcome::Unchanged
            }
            (Ok(revision), Some(held)) => {
                self.pause.succeed();
                held.registered = Some(revision);
                LeaseOutcome::Registered
            }
            (Ok(_), None) => LeaseOutcome::Unchanged,
            (Err(StoreError::LeaseGone), _) => self.lose(),
            (Err(error), _) => LeaseOutcome::Failed(error),
        }
    }

    pub(super) fn renewed(&mut self, answer: Result<Renewal, StoreError>) -> LeaseOutcome {
        let sent = self.sent.take();
        match (answer, sent, &mut self.held) {
            (Ok(Renewal::Renewed(ttl)), Some(sent), Some(held)) => {
                self.pause.succeed();
                held.clock = LeaseClock::new(sent, ttl);
                LeaseOutcome::Unchanged
            }
            (Ok(Renewal::Renewed(_)), _, _) => LeaseOutcome::Unchanged,
            (Ok(Renewal::Gone) | Err(StoreError::LeaseGone), _, _) => self.lose(),
            (Err(error), _, _) => LeaseOutcome::Failed(error),
        }
    }

    /// The lease was revoked, or is given up.
    pub(super) fn drop_lease(&mut self) {
        self.sent = None;
        self.held = None;
    }

    fn lose(&mut self) -> LeaseOutcome {
        self.pause.succeed();
        self.held = None;
        LeaseOutcome::Lost
    }
}
