//! Protocols in front of the store: bytes in, bytes out, one folder each.

#![deny(unsafe_code)]

pub mod block;
pub mod memcached;
pub mod ring;
pub mod tenancy;
pub mod vhost_user;
