//! Answers to a member's requests, for drivers in virtual time.

use crate::member::{ElectionRequest, LeaseRequest, StoreAnswer, StoreRequest, ViewRequest};
use crate::store::{StoreError, WatchEnd};

use super::FakeEtcd;

impl FakeEtcd {
    /// Does what a member asks for, and returns the answer. What an open watch tells later is the driver's work: see
    /// [`FakeEtcd::changes_from`].
    pub fn answer(&mut self, request: StoreRequest) -> StoreAnswer {
        match request {
            StoreRequest::Lease(request) => self.answer_about_lease(request),
            StoreRequest::View(ViewRequest::Read { prefix }) => {
                StoreAnswer::Read(Ok(self.read(&prefix)))
            }
            StoreRequest::View(ViewRequest::Watch { prefix, from }) => {
                let changes = self.changes_from(&prefix, from);
                let opened = changes.map(|_| self.revision());
                StoreAnswer::WatchOpened(opened.ok_or(WatchEnd::Compacted))
            }
            StoreRequest::Election(ElectionRequest::Campaign { key, value, lease }) => {
                StoreAnswer::Campaigned(self.campaign(&key, &value, lease))
            }
            StoreRequest::Election(ElectionRequest::Resign { key, term }) => {
                self.resign(&key, term);
                StoreAnswer::Resigned(Ok(()))
            }
        }
    }

    fn answer_about_lease(&mut self, request: LeaseRequest) -> StoreAnswer {
        match request {
            LeaseRequest::Grant { ttl } => StoreAnswer::Granted(Ok(self.grant(ttl))),
            LeaseRequest::Register { key, value, lease } => {
                StoreAnswer::Registered(self.put(&key, &value, Some(lease)))
            }
            LeaseRequest::Renew { lease } => StoreAnswer::Renewed(Ok(self.renew(lease))),
            LeaseRequest::Revoke { lease } => {
                self.revoke(lease);
                StoreAnswer::Revoked(Ok(()))
            }
        }
    }
}

/// The answer of a store that cannot be reached, or whose answer was lost.
pub fn failed_answer(request: &StoreRequest, error: StoreError) -> StoreAnswer {
    match request {
        StoreRequest::Lease(LeaseRequest::Grant { .. }) => StoreAnswer::Granted(Err(error)),
        StoreRequest::Lease(LeaseRequest::Register { .. }) => StoreAnswer::Registered(Err(error)),
        StoreRequest::Lease(LeaseRequest::Renew { .. }) => StoreAnswer::Renewed(Err(error)),
        StoreRequest::Lease(LeaseRequest::Revoke { .. }) => StoreAnswer::Revoked(Err(error)),
        StoreRequest::View(ViewRequest::Read { .. }) => StoreAnswer::Read(Err(error)),
        StoreRequest::View(ViewRequest::Watch { .. }) => {
            StoreAnswer::WatchOpened(Err(WatchEnd::Cut(error)))
        }
        StoreRequest::Election(ElectionRequest::Campaign { .. }) => {
            StoreAnswer::Campaigned(Err(error))
        }
        StoreRequest::Election(ElectionRequest::Resign { .. }) => StoreAnswer::Resigned(Err(error)),
    }
}

/// The error of a store that nobody reaches.
pub fn unreachable(kind: std::io::ErrorKind) -> StoreError {
    StoreError::Unreachable {
        endpoint: crate::gateway::Endpoint::default(),
        source: kind.into(),
    }
}
