//! Sessions, byte by byte.

mod any_cut;
#[path = "../../../tests/fake_disk/mod.rs"]
mod fake_disk;
mod loopback;
mod negotiation;
mod requests;

use crate::{block_device, tenancy};
