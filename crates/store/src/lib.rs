//! The memory of Sublet: the arena, the items and pages in it, the tenants that own them, and release.
//!
//! The store reads no clock and calls no operating system. Callers pass seconds, seeds and bytes as arguments. Memory
//! comes from one small trait ([`Memory`]).

#![deny(unsafe_code)]

mod api;
mod arena;
mod borrowing;
pub mod disk_caching;
mod engine;
pub mod eviction;
mod floors;
mod frames;
mod giving;
mod items;
mod lent;
mod loss;
mod pages;
mod pinned_thread;
mod reclaim;
mod release;
mod release_order;
mod sample_log;
mod save;
mod settings;
mod store;
mod tails;
mod tenants;
#[cfg(test)]
mod tests;
mod worker;

pub use api::*;
#[cfg(any(test, feature = "fake"))]
pub use arena::fake;
pub use arena::{KernelOutOfMemory, MappedMemory, Memory, UnwrittenPage};
pub use borrowing::*;
pub use floors::FloorFigures;
pub use items::{Entry, EvictedItem, EvictionListener, ItemUse, LISTENER_WAITING_MAX};
pub use pages::{Removal, SHARERS_MAX};
pub use release_order::{BlockOrder, ReleaseCandidate};
pub use settings::{PageSettings, StoreSettings};
pub use store::Store;
pub use worker::{Pin, Worker};
