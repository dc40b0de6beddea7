//! A store in memory with etcd's contract. [`FakeEtcd`] is the store itself, for a simulator that has its own network
//! and its own time. [`FakeStore`] is a [`crate::store::ClusterStore`] on it, whose clock and faults a test moves.

mod answering;
mod fake_etcd;
mod fake_store;

pub use self::answering::{failed_answer, unreachable};
pub use self::fake_etcd::FakeEtcd;
pub use self::fake_store::{FakeStore, FakeWatch};
