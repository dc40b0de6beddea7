//! The bytes of virtio-blk: a queue's chains, the requests in them, and how a device describes itself.

pub mod chain;
pub mod device;
pub mod request;
