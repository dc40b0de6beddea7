//! The bytes of replies.

use crate::block::Extent;
use crate::nbd::queue::Queue;

const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Bytes of a simple reply before what was read.
pub(crate) const SIMPLE_BYTES: usize = 16;

/// Bytes of a chunk before what is in it.
const CHUNK_BYTES: usize = 20;

/// Bytes of a chunk before what was read.
pub(crate) const READ_CHUNK_BYTES: usize = CHUNK_BYTES + 8;

/// The last chunk.
const DONE: u16 = 1 << 0;

/// By which number base:allocation goes.
pub(crate) const ALLOCATION_ID: u32 = 1;

/// Neither bytes in the backing nor anything but zeroes to read.
const HOLE_AND_ZERO: u32 = 3;

/// The most extents in one reply.
const EXTENTS_MAX: usize = 1 << 12;

mod kind {
    pub(super) const NONE: u16 = 0;
    pub(super) const OFFSET_BYTES: u16 = 1;
    pub(super) const BLOCK_STATUS: u16 = 5;
    pub(super) const ERROR: u16 = 1 << 15 | 1;
}

/// What went wrong, by the protocol's numbers.
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

/// Bytes before what was read.
pub(crate) fn read_head_bytes(structured: bool) -> usize {
    match structured {
        true => READ_CHUNK_BYTES,
        false => SIMPLE_BYTES,
    }
}

/// Writes what comes before `len` bytes that were read at `at`.
pub(crate) fn read_head(space: &mut [u8], structured: bool, cookie: u64, at: u64, len: u32) {
    if structured {
        let (head, rest) = space.split_at_mut(CHUNK_BYTES);
        head.copy_from_slice(&chunk(kind::OFFSET_BYTES, cookie, len + 8));
        rest[..8].copy_from_slice(&at.to_be_bytes());
    } else {
        space[..SIMPLE_BYTES].copy_from_slice(&simple_bytes(0, cookie));
    }
}

/// A read of nothing succeeded.
pub(crate) fn read_nothing(out: &mut Queue, structured: bool, cookie: u64) {
    match structured {
        true => out.push(&chunk(kind::NONE, cookie, 0)),
        false => done(out, cookie),
    }
}

/// Anything but a read or BLOCK_STATUS succeeded.
pub fn done(out: &mut Queue, cookie: u64) {
    out.push(&simple_bytes(0, cookie));
}

/// A request failed. `in_chunks`: as reads and BLOCK_STATUS are told of it on structured connections.
pub fn failed(out: &mut Queue, in_chunks: bool, cookie: u64, errno: Errno) {
    if !in_chunks {
        out.push(&simple_bytes(errno as u32, cookie));
        return;
    }
    let text = errno.text().as_bytes();
    out.push(&chunk(kind::ERROR, cookie, 6 + text.len() as u32));
    out.push(&(errno as u32).to_be_bytes());
    out.push(&(text.len() as u16).to_be_bytes());
    out.push(text);
}

/// Which of `len` bytes the backing has, as far as is known. Never more than one extent if `one`.
pub fn extents(out: &mut Queue, cookie: u64, len: u32, one: bool, found: &[Extent]) {
    let most = if one { 1 } else { EXTENTS_MAX };
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

/// Extents within `len` bytes, those that are alike as one; at least one, at most `most`.
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

/// The head of a chunk that is the only one.
fn chunk(kind: u16, cookie: u64, len: u32) -> [u8; CHUNK_BYTES] {
    let mut bytes = [0; CHUNK_BYTES];
    bytes[..4].copy_from_slice(&CHUNK_MAGIC.to_be_bytes());
    bytes[4..6].copy_from_slice(&DONE.to_be_bytes());
    bytes[6..8].copy_from_slice(&kind.to_be_bytes());
    bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
    bytes[16..].copy_from_slice(&len.to_be_bytes());
    bytes
}
