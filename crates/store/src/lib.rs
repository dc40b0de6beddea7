//! The memory of Sublet: the arena, the items in it, the tenants who own them, and release.

#![deny(unsafe_code)]

mod api;
mod stand_in;

pub use api::*;
pub use stand_in::{Entry, Store, Worker};
