//! The memory of Sublet: the arena, the items and pages in it, the tenants who own them, and release.
//!
//! The store knows no world: seconds, seeds and bytes are arguments, and memory comes in through one
//! small trait ([`Memory`]).

#![deny(unsafe_code)]

mod api;
mod arena;
pub mod disk;
mod engine;
pub mod eviction;
mod floors;
mod frames;
mod giving;
mod items;
mod loss;
mod notes;
mod pages;
mod reclaim;
mod release;
mod release_order;
mod save;
mod settings;
mod store;
mod tails;
mod tenants;
#[cfg(test)]
mod tests;
mod thread;
mod worker;

pub use api::*;
#[cfg(any(test, feature = "fake"))]
pub use arena::fake;
pub use arena::{Blank, Exhausted, Mapped, Memory};
pub use floors::FloorFigures;
pub use items::{Entry, Evicted, EvictionListener, ItemUse, LISTENER_WAITING_MAX};
pub use pages::{Removal, SHARERS_MAX};
pub use release_order::{BlockOrder, Candidate};
pub use settings::{PageSettings, StoreSettings};
pub use store::Store;
pub use worker::{Pin, Worker};
