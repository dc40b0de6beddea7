//! NBD over sockets, with a plain client of this crate and with public clients.

mod backlog;
mod clients;
#[path = "../fake_disk/mod.rs"]
mod fake_disk;
mod large_replies;
mod many;
mod node;
mod shutdown;
mod tls;

use sublet_frontends::{block_device, tenancy};
