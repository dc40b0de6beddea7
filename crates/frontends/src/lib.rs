//! The protocols in front of the store. Each has a folder of its own, which turns bytes of requests into bytes of
//! replies.

#![deny(unsafe_code)]

pub mod backend;
pub mod block_device;
mod clock;
pub mod far_pages;
pub mod figures;
pub mod listeners;
pub mod memcached;
pub mod nbd;
pub mod ring;
mod serving;
pub mod tenancy;
pub mod vhost_user;
