//! Conversations, byte by byte.

mod any_cut;
#[path = "../../../tests/fake_disk/mod.rs"]
mod fake_disk;
mod haggling;
mod line;
mod requests;

use crate::{block, tenancy};
