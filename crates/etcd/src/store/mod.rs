//! The contract between a member and its store. etcd's gateway and the store of the tests both keep it.

mod cluster_store;
mod entry;
mod error;

pub use self::cluster_store::{ClusterStore, LeaseGrant, Renewal, StoreWatch, WatchEnd};
pub use self::entry::{Change, Entry, LeaseId, PrefixSnapshot, Revision, Term};
pub(crate) use self::error::FaultScope;
pub use self::error::StoreError;
