//! The bytes of replies.

use crate::block_device::{Extent, ExtentLimit};
use crate::nbd::socket_buffer::SocketBuffer;

const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Bytes of a simple reply before its data.
pub(crate) const SIMPLE_BYTES: usize = 16;

/// Bytes of a chunk's header.
const CHUNK_BYTES: usize = 20;

/// Bytes of a chunk before the data of a read.
pub(crate) const READ_CHUNK_BYTES: usize = CHUNK_BYTES + 8;

/// The flag of the last chunk.
const DONE: u16 = 1 << 0;

/// The id of base:allocation.
pub(crate) const ALLOCATION_ID: u32 = 1;

/// The backing has no bytes there, and reads give zeroes.
const HOLE_AND_ZERO: u32 = 3;

/// The most extents in one reply.
const EXTENTS_MAX: usize = 1 << 12;

mod kind {
    pub(super) const NONE: u16 = 0;
    pub(super) const OFFSET_BYTES: u16 = 1;
    pub(super) const BLOCK_STATUS: u16 = 5;
    pub(super) const ERROR: u16 = 1 << 15 | 1;
}

/// How the daemon writes its reply to a read or to BLOCK_STATUS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyFormat {
    /// NBD simple replies.
    #[default]
    Simple,
    /// NBD structured reply chunks.
    Structured,
}

/// What went wrong, as the protocol numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errno {
    /// EPERM.
    NotPermitted = 1,
    /// EIO.
    Io = 5,
    /// EINVAL.
    Invalid = 22,
    /// ENOSPC.
    NoSpace = 28,
    /// EOVERFLOW.
    Overflow = 75,
    /// ENOTSUP.
    NotSupported = 95,
    /// ESHUTDOWN.
    Shutdown = 108,
}

impl Errno {
    fn text(self) -> &'static str {
        match self {
            Errno::NotPermitted => "the disk is read-only",
            Errno::Io => "the backing failed",
            Errno::Invalid => "the request makes no sense for this disk",
            Errno::NoSpace => "there is no room",
            Errno::Overflow => "too many bytes for one reply",
            Errno::NotSupported => "not faster than a write",
            Errno::Shutdown => "the disk is going away",
        }
    }
}

/// Bytes of the header before the data of a read.
pub(crate) fn read_header_len(format: ReplyFormat) -> usize {
    match format {
        ReplyFormat::Structured => READ_CHUNK_BYTES,
        ReplyFormat::Simple => SIMPLE_BYTES,
    }
}

/// Writes the header before `len` bytes that were read at `at`.
pub(crate) fn write_read_header(
    space: &mut [u8],
    format: ReplyFormat,
    cookie: u64,
    at: u64,
    len: u32,
) {
    match format {
        ReplyFormat::Structured => {
            let (header, rest) = space.split_at_mut(CHUNK_BYTES);
            header.copy_from_slice(&chunk(kind::OFFSET_BYTES, cookie, len + 8));
            rest[..8].copy_from_slice(&at.to_be_bytes());
        }
        ReplyFormat::Simple => {
            space[..SIMPLE_BYTES].copy_from_slice(&simple_bytes(0, cookie));
        }
    }
}

/// Writes that a read of no bytes succeeded.
pub(crate) fn empty_read(out: &mut SocketBuffer, format: ReplyFormat, cookie: u64) {
    match format {
        ReplyFormat::Structured => out.push(&chunk(kind::NONE, cookie, 0)),
        ReplyFormat::Simple => done(out, cookie),
    }
}

/// Writes that a request succeeded. It is for every request but reads and BLOCK_STATUS.
pub fn done(out: &mut SocketBuffer, cookie: u64) {
    out.push(&simple_bytes(0, cookie));
}

/// Writes that a request failed, in the request's error format.
pub fn failed(out: &mut SocketBuffer, format: ReplyFormat, cookie: u64, errno: Errno) {
    if format == ReplyFormat::Simple {
        out.push(&simple_bytes(errno as u32, cookie));
        return;
    }
    let text = errno.text().as_bytes();
    out.push(&chunk(kind::ERROR, cookie, 6 + text.len() as u32));
    out.push(&(errno as u32).to_be_bytes());
    out.push(&(text.len() as u16).to_be_bytes());
    out.push(text);
}

/// Writes which of `len` bytes the backing has, as far as is known. It writes no more extents than `limit` allows.
pub fn extents(
    out: &mut SocketBuffer,
    cookie: u64,
    len: u32,
    limit: ExtentLimit,
    found: &[Extent],
) {
    let most = match limit {
        ExtentLimit::One => 1,
        ExtentLimit::Many => EXTENTS_MAX,
    };
    let runs = runs(found, len, most);
    out.push(&chunk(
        kind::BLOCK_STATUS,
        cookie,
        4 + 8 * runs.len() as u32,
    ));
    out.push(&ALLOCATION_ID.to_be_bytes());
    for (len, hole) in runs {
        out.push(&len.to_be_bytes());
        out.push(&if hole { HOLE_AND_ZERO } else { 0 }.to_be_bytes());
    }
}

/// The extents within `len` bytes, with equal neighbours joined. There is at least one run, and at most `most`.
fn runs(found: &[Extent], len: u32, most: usize) -> Vec<(u32, bool)> {
    let mut runs: Vec<(u32, bool)> = Vec::new();
    let mut left = len;
    for extent in found.iter().filter(|extent| extent.len > 0) {
        let within = u64::from(left).min(extent.len) as u32;
        let is_full = runs.len() == most;
        match runs.last_mut() {
            Some((run, hole)) if *hole == extent.hole => *run += within,
            _ if is_full => break,
            _ => runs.push((within, extent.hole)),
        }
        left -= within;
        if left == 0 {
            break;
        }
    }
    if runs.is_empty() {
        runs.push((len, false));
    }
    runs
}

fn simple_bytes(errno: u32, cookie: u64) -> [u8; SIMPLE_BYTES] {
    let mut bytes = [0; SIMPLE_BYTES];
    bytes[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    bytes[4..8].copy_from_slice(&errno.to_be_bytes());
    bytes[8..].copy_from_slice(&cookie.to_be_bytes());
    bytes
}

/// The header of a reply's only chunk.
fn chunk(kind: u16, cookie: u64, len: u32) -> [u8; CHUNK_BYTES] {
    let mut bytes = [0; CHUNK_BYTES];
    bytes[..4].copy_from_slice(&CHUNK_MAGIC.to_be_bytes());
    bytes[4..6].copy_from_slice(&DONE.to_be_bytes());
    bytes[6..8].copy_from_slice(&kind.to_be_bytes());
    bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
    bytes[16..].copy_from_slice(&len.to_be_bytes());
    bytes
}
