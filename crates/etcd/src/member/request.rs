//! What a member asks of its store, and the answers.

use std::time::Duration;

use crate::store::{
    Change, Entry, LeaseGrant, LeaseId, PrefixSnapshot, Renewal, Revision, StoreError, Term,
    WatchEnd,
};

/// A call that the driver is to make. Of each kind there is one at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreRequest {
    /// About the lease and the registration.
    Lease(LeaseRequest),
    /// About what stands below the prefix. It ends an open watch.
    View(ViewRequest),
    /// About the election.
    Election(ElectionRequest),
}

/// A call about the lease and the registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseRequest {
    /// Grant a lease.
    Grant {
        /// How long it is to live.
        ttl: Duration,
    },
    /// Register this node.
    Register {
        /// The key.
        key: String,
        /// The value.
        value: Vec<u8>,
        /// The lease.
        lease: LeaseId,
    },
    /// Renew the lease.
    Renew {
        /// The lease.
        lease: LeaseId,
    },
    /// End the lease.
    Revoke {
        /// The lease.
        lease: LeaseId,
    },
}

/// A call about what stands below the prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ViewRequest {
    /// Read the prefix.
    Read {
        /// The prefix.
        prefix: String,
    },
    /// Watch the prefix. The watch is open from [`StoreAnswer::WatchOpened`] on. It ends when [`StoreAnswer::Changed`]
    /// has an error, or with the next request of this kind.
    Watch {
        /// The prefix.
        prefix: String,
        /// The first revision to tell.
        from: Revision,
    },
}

/// A call about the election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElectionRequest {
    /// Try to become the leader.
    Campaign {
        /// The leader's key.
        key: String,
        /// The value.
        value: Vec<u8>,
        /// The lease.
        lease: LeaseId,
    },
    /// Lead no more.
    Resign {
        /// The leader's key.
        key: String,
        /// The term.
        term: Term,
    },
}

/// The answer to a request.
#[derive(Debug)]
pub enum StoreAnswer {
    /// To [`LeaseRequest::Grant`].
    Granted(Result<LeaseGrant, StoreError>),
    /// To [`LeaseRequest::Register`]: the revision of the change.
    Registered(Result<Revision, StoreError>),
    /// To [`LeaseRequest::Renew`].
    Renewed(Result<Renewal, StoreError>),
    /// To [`LeaseRequest::Revoke`].
    Revoked(Result<(), StoreError>),
    /// To [`ViewRequest::Read`].
    Read(Result<PrefixSnapshot, StoreError>),
    /// To [`ViewRequest::Watch`]: the store's revision.
    WatchOpened(Result<Revision, WatchEnd>),
    /// An open watch told changes, or ended.
    Changed(Result<Vec<Change>, WatchEnd>),
    /// To [`ElectionRequest::Campaign`]: who leads.
    Campaigned(Result<Entry, StoreError>),
    /// To [`ElectionRequest::Resign`].
    Resigned(Result<(), StoreError>),
}
