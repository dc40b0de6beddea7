//! The bytes of virtio-blk: a queue's chains, the requests in them, and what a device says of itself.

pub mod chain;
pub mod device;
pub mod request;
