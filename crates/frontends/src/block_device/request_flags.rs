//! What a block protocol's request flags ask of a disk, one enum per flag.

/// Force unit access: says when the disk answers a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fua {
    /// The disk answers as soon as it has the change. A later flush makes the change durable.
    Off,
    /// The disk answers when the change would survive whatever a flushed change survives.
    On,
}

/// Whether the backing may punch a hole where bytes become zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hole {
    /// The backing may punch a hole.
    Allowed,
    /// The backing keeps the space allocated (NBD_CMD_FLAG_NO_HOLE).
    Forbidden,
}

/// How long a request that makes bytes zero may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZeroSpeed {
    /// The request may take as long as a write.
    Any,
    /// The request fails at once if it would take as long as a write (NBD_CMD_FLAG_FAST_ZERO).
    FastOnly,
}

/// How bytes become zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zeroing {
    /// Whether the backing may punch a hole.
    pub hole: Hole,
    /// Whether the disk may write zeroes if it has no faster way. If it may not, the fault is
    /// [`DiskFault::NotSupported`](super::DiskFault::NotSupported).
    pub speed: ZeroSpeed,
    /// When the disk answers.
    pub fua: Fua,
}

/// How many extents the client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtentLimit {
    /// The client wants only the first extent (NBD_CMD_FLAG_REQ_ONE).
    One,
    /// The client wants as many extents as fit a reply.
    Many,
}
