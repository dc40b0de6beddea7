//! The sizes and bounds of the wire. Every buffer and table of this module is as large as one of them.

/// The version of the wire that this build speaks.
pub const WIRE_VERSION: u16 = 1;

/// Bytes of a page.
pub const PAGE_BYTES: usize = sublet_types::PAGE_BYTES as usize;

/// Pages of a lent block.
pub const BLOCK_PAGES: u16 = (sublet_types::BLOCK_BYTES / sublet_types::PAGE_BYTES) as u16;

/// The most pages of a message. More pages a message cost the lender as much CPU time a page.
pub const PAGES_MAX: usize = 64;

/// The most ranges of a message: each has at least one page.
pub const RANGES_MAX: usize = PAGES_MAX;

/// The most requests of a read connection that wait for their answer.
pub const READS_IN_FLIGHT_MAX: usize = 32;

/// The most requests of a write connection that wait for their answer.
pub const WRITES_IN_FLIGHT_MAX: usize = 8;

/// The lender reads no request from a connection while more bytes of its answers than this are unsent.
pub const UNSENT_BYTES_MAX: usize = 256 << 10;

/// The most open connections of a peer: one for each of the 256 disks that a host may have, and some for its rings and
/// for what it writes. An idle one takes 6 KiB of the lender, and one whose answers nobody reads 0.5 MiB.
pub const CONNECTIONS_MAX: usize = 320;

/// Bytes of a head.
pub const HEAD_BYTES: usize = 24;

/// Bytes of a range.
pub const RANGE_BYTES: usize = 8;

/// Bytes of a message's authentication code.
pub const MAC_BYTES: usize = 16;

/// Bytes of an answer before its pages: the head, a set of pages, and the code.
pub const ANSWER_BYTES: usize = HEAD_BYTES + 8 + MAC_BYTES;

/// The most bytes of a request before its pages: the head, the ranges, and the code.
pub const REQUEST_BYTES_MAX: usize = HEAD_BYTES + RANGES_MAX * RANGE_BYTES + MAC_BYTES;

/// The most bytes of a message with its pages.
pub const MESSAGE_BYTES_MAX: usize = REQUEST_BYTES_MAX + PAGES_MAX * PAGE_BYTES;
