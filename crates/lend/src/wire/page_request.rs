//! A request without its ranges, as both ends remember it until it is answered.

use super::head::MessageTag;

/// A request for pages of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRequest {
    /// The number of the request on its connection.
    pub tag: MessageTag,
    /// The lease.
    pub lease: u32,
    /// The number of its pages, 1 to 64.
    pub pages: usize,
}
