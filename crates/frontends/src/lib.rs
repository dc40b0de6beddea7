//! Protocols in front of the store: bytes in, bytes out, one folder each.

#![deny(unsafe_code)]

pub mod backend;
pub mod block;
pub mod doors;
pub mod figures;
pub mod memcached;
pub mod nbd;
pub mod ring;
mod serving;
pub mod tenancy;
pub mod vhost_user;
