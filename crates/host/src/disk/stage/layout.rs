//! The bytes of a stage: a preface, a head for each slot, and the slots' pages.
//!
//! ```text
//!  0     "SUBLSTG1", version u32, slots u32                                        4,096 bytes
//!  4096  heads: version u32, name's length u32, name [64], page u64, sequence u64,
//!        checksum of the page u64, mark of the backing u64, zeroes, commit u64     128 bytes each
//!  then  pages, from the next multiple of 4,096 on                                 4,096 bytes each
//! ```
//!
//! Numbers are little-endian; checksums are XXH3. The commit word is that of the bytes before it, never zero.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use sublet_types::{DiskName, FileKind, PAGE_BYTES};
use xxhash_rust::xxh3::xxh3_64;

pub(super) const PREFACE_BYTES: u64 = 4096;
pub(super) const HEAD_BYTES: usize = 128;

const MAGIC: &[u8; 8] = b"SUBLSTG1";
const VERSION: u32 = FileKind::Stage.current();

const NAME: usize = 8;
const NAME_MAX: usize = 64;
const PAGE: usize = 72;
const SEQUENCE: usize = 80;
const CHECKSUM: usize = 88;
const MARK: usize = 96;
const COMMIT: usize = 120;

/// The first bytes of a stage.
pub(in super::super) struct Preface {
    pub(super) slots: u32,
}

impl Preface {
    /// Writes the preface of a new stage.
    pub(in super::super) fn write(file: &File, slots: u32) -> io::Result<()> {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..].copy_from_slice(&slots.to_le_bytes());
        file.write_all_at(&bytes, 0)
    }

    pub(super) fn read(file: &File) -> io::Result<Preface> {
        let mut bytes = [0; 16];
        file.read_exact_at(&mut bytes, 0)?;
        let version = u32_at(&bytes, 8);
        if &bytes[..8] != MAGIC {
            return Err(io::Error::other("this is no stage of swap pages"));
        }
        if let Err(unread) = FileKind::Stage.version(version) {
            return Err(io::Error::other(format!(
                "{unread}; the daemon that left it must be started again to drain it"
            )));
        }
        let slots = u32_at(&bytes, 12);
        match file.metadata()?.len() >= file_bytes(slots) && slots > 0 {
            true => Ok(Preface { slots }),
            false => Err(io::Error::other("the stage of swap pages is too short")),
        }
    }
}

/// The offset where the pages begin.
pub(super) fn pages_from(slots: u32) -> u64 {
    let heads = u64::from(slots) * HEAD_BYTES as u64;
    (PREFACE_BYTES + heads).next_multiple_of(PAGE_BYTES)
}

/// The offset of a slot's head.
pub(super) fn head_offset(slot: u32) -> u64 {
    PREFACE_BYTES + u64::from(slot) * HEAD_BYTES as u64
}

/// Bytes of a stage with this many slots.
pub(super) fn file_bytes(slots: u32) -> u64 {
    pages_from(slots) + u64::from(slots) * PAGE_BYTES
}

/// Says which page is in a slot.
pub(super) struct SlotHead {
    pub(super) disk: DiskName,
    /// Which backing the page is for. A disk of the same name may have another backing later.
    pub(super) mark: u64,
    pub(super) page: u64,
    pub(super) sequence: u64,
    checksum: u64,
}

impl SlotHead {
    /// A head that does not count.
    pub(super) const NONE: [u8; HEAD_BYTES] = [0; HEAD_BYTES];

    /// The bytes of a head that counts.
    pub(super) fn bytes(
        (disk, mark): &(DiskName, u64),
        page: u64,
        sequence: u64,
        content: &[u8],
    ) -> [u8; HEAD_BYTES] {
        let name = disk.as_str().as_bytes();
        let mut bytes = SlotHead::NONE;
        bytes[..4].copy_from_slice(&VERSION.to_le_bytes());
        bytes[4..NAME].copy_from_slice(&(name.len() as u32).to_le_bytes());
        bytes[NAME..NAME + name.len()].copy_from_slice(name);
        bytes[MARK..MARK + 8].copy_from_slice(&mark.to_le_bytes());
        bytes[PAGE..PAGE + 8].copy_from_slice(&page.to_le_bytes());
        bytes[SEQUENCE..SEQUENCE + 8].copy_from_slice(&sequence.to_le_bytes());
        bytes[CHECKSUM..CHECKSUM + 8].copy_from_slice(&xxh3_64(content).to_le_bytes());
        let commit = commit_of(&bytes);
        bytes[COMMIT..].copy_from_slice(&commit.to_le_bytes());
        bytes
    }

    /// The head of a slot, if it counts.
    pub(super) fn read(file: &File, slot: u32) -> io::Result<Option<SlotHead>> {
        let mut bytes = SlotHead::NONE;
        file.read_exact_at(&mut bytes, head_offset(slot))?;
        Ok(SlotHead::parse(&bytes))
    }

    pub(super) fn parse(bytes: &[u8; HEAD_BYTES]) -> Option<SlotHead> {
        if u64_at(bytes, COMMIT) != commit_of(bytes) || u32_at(bytes, 0) != VERSION {
            return None;
        }
        let len = u32_at(bytes, 4) as usize;
        let name = bytes.get(NAME..NAME + len.min(NAME_MAX))?;
        Some(SlotHead {
            disk: std::str::from_utf8(name).ok()?.parse().ok()?,
            mark: u64_at(bytes, MARK),
            page: u64_at(bytes, PAGE),
            sequence: u64_at(bytes, SEQUENCE),
            checksum: u64_at(bytes, CHECKSUM),
        })
    }

    /// Returns whether these are the bytes of the head's page.
    pub(super) fn matches(&self, content: &[u8]) -> bool {
        self.checksum == xxh3_64(content)
    }
}

/// The commit word that a head must have.
fn commit_of(bytes: &[u8; HEAD_BYTES]) -> u64 {
    xxh3_64(&bytes[..COMMIT]).max(1)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..]
        .first_chunk()
        .map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..]
        .first_chunk()
        .map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
