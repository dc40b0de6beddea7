//! How the record of a large value refers to its chunks.

use super::record::{RecordFields, Role};
use crate::api::Marks;

/// Chunks that a block holds.
pub(super) const CHUNKS_PER_BLOCK: u32 = 8;

pub(super) const CHUNK_KEY_BYTES: usize = 12;

pub(super) const NAMES_BYTES: usize = 20;

/// What a large item's record holds in place of its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChunkNames {
    /// Bytes of the whole value.
    pub(super) total: u64,
    /// A number drawn once for each large value.
    pub(super) name: u64,
    pub(super) chunks: u32,
}

impl ChunkNames {
    pub(super) fn to_bytes(self) -> [u8; NAMES_BYTES] {
        let mut bytes = [0; NAMES_BYTES];
        bytes[..8].copy_from_slice(&self.total.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.name.to_le_bytes());
        bytes[16..].copy_from_slice(&self.chunks.to_le_bytes());
        bytes
    }

    pub(super) fn read(bytes: &[u8]) -> Option<ChunkNames> {
        let (total, rest) = bytes.split_first_chunk::<8>()?;
        let (name, rest) = rest.split_first_chunk::<8>()?;
        let chunks = rest.first_chunk::<4>()?;
        Some(ChunkNames {
            total: u64::from_le_bytes(*total),
            name: u64::from_le_bytes(*name),
            chunks: u32::from_le_bytes(*chunks),
        })
    }

    /// The key of the chunk at `place`.
    pub(super) fn chunk_key(&self, place: u32) -> [u8; CHUNK_KEY_BYTES] {
        let mut key = [0; CHUNK_KEY_BYTES];
        key[..8].copy_from_slice(&self.name.to_le_bytes());
        key[8..].copy_from_slice(&place.to_le_bytes());
        key
    }
}

/// The fields of a chunk's record. It expires with its item.
pub(super) fn chunk_fields<'a>(key: &'a [u8], item: &RecordFields<'_>) -> RecordFields<'a> {
    RecordFields {
        key,
        role: Role::Chunk,
        marks: Marks::default(),
        expiry: item.expiry,
        flags: 0,
        cas: None,
    }
}
