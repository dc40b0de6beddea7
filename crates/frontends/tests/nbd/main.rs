//! NBD over sockets: by a plain client of ours, and by the clients that people use.

mod clients;
#[path = "../fake_disk/mod.rs"]
mod fake_disk;
mod large_replies;
mod many;
mod node;
mod parting;
mod queue;
mod tls;

use sublet_frontends::{block, tenancy};
