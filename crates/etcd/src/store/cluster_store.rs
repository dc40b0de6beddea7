//! The calls that a member makes.

use std::time::Duration;

use super::{Change, Entry, LeaseId, PrefixSnapshot, Revision, StoreError, Term};

/// A new lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseGrant {
    /// The lease.
    pub lease: LeaseId,
    /// How long it lives without a renewal. The store may give more than was asked for.
    pub ttl: Duration,
}

/// What became of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The lease lives on for at least this long after the request was sent.
    Renewed(Duration),
    /// There is no such lease. Its keys are gone, too.
    Gone,
}

/// Why a watch ended.
#[derive(Debug)]
pub enum WatchEnd {
    /// The connection to the store was lost, or the store ended the watch. Another may go on from the next revision.
    Cut(StoreError),
    /// Nothing came for long. Another watch, at another member of the store, is to go on from the next revision.
    Silent,
    /// Credentials were renewed. Another watch, with the new ones, is to go on from the next revision.
    Renewed,
    /// The store has forgotten changes that the watch was to tell. The prefix must be read again.
    Compacted,
}

/// A store that a cluster's nodes share.
///
/// - Each call ends within a bound of the store's own.
/// - Reads see every change that was acknowledged before they began.
/// - A call that failed may still take effect, also later. Each may be repeated.
pub trait ClusterStore: Send + Sync + 'static {
    /// A watch of this store.
    type Watch: StoreWatch;

    /// Grants a lease that lives for `ttl`, or longer if the store's least is more.
    fn grant(&self, ttl: Duration) -> impl Future<Output = Result<LeaseGrant, StoreError>> + Send;

    /// Lets a lease live for its whole time again.
    fn renew(&self, lease: LeaseId) -> impl Future<Output = Result<Renewal, StoreError>> + Send;

    /// Ends a lease, and deletes its keys. It is no error if the lease has ended.
    fn revoke(&self, lease: LeaseId) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Sets a key to a value until the lease ends. Returns the revision of the change.
    fn put(
        &self,
        key: &str,
        value: &[u8],
        lease: LeaseId,
    ) -> impl Future<Output = Result<Revision, StoreError>> + Send;

    /// Reads all keys that begin with `prefix`.
    fn read(&self, prefix: &str)
    -> impl Future<Output = Result<PrefixSnapshot, StoreError>> + Send;

    /// Watches all keys that begin with `prefix`, from this revision on. A revision that is still to come is allowed.
    fn watch(
        &self,
        prefix: &str,
        from: Revision,
    ) -> impl Future<Output = Result<Self::Watch, WatchEnd>> + Send;

    /// Creates a leader's key if nobody has it. Returns who has it then: the caller, if the entry's lease is its own.
    fn campaign(
        &self,
        key: &str,
        value: &[u8],
        lease: LeaseId,
    ) -> impl Future<Output = Result<Entry, StoreError>> + Send;

    /// Deletes a leader's key if it is still of this term.
    fn resign(&self, key: &str, term: Term) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// A watch that is open.
pub trait StoreWatch: Send + 'static {
    /// The store's revision when the watch began, as the member of the store knew it that serves the watch.
    fn opened_at(&self) -> Revision;

    /// Waits for the next changes. They come in the order of their revisions. Some may come again that came at the end
    /// of a watch before.
    fn next(&mut self) -> impl Future<Output = Result<Vec<Change>, WatchEnd>> + Send;
}
