//! Values above a quarter of a block. They are cut into chunks over several blocks, each a record of its own.
//!
//! The client's item holds the chunks' name, their number and the total length. A chunk's key is that name and its
//! index. Chunks have an index of their own. Its locks are taken one at a time and under their item's lock, never the
//! other way round. If a chunk is lost, the whole value is a miss.

use std::sync::atomic::Ordering;

use sublet_types::{Second, TenantId};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::chunk_names::{CHUNK_KEY_BYTES, CHUNKS_PER_BLOCK, ChunkNames};
use super::record::{HEAD_BYTES, Record, Role};
use super::slot::Slot;
use super::table::Table;
use super::tenant_items::TenantItems;
use super::{Items, Moment};
use crate::api::{ReadKind, Value};

impl Items {
    /// The length of the longest record, including its key.
    pub(super) fn whole_max(&self) -> usize {
        self.arena.block_bytes() / 4
    }

    /// The length of a chunk. A block holds eight chunks with their heads.
    pub(super) fn chunk_len(&self) -> usize {
        let head_max = HEAD_BYTES + 1 + 4 + CHUNK_KEY_BYTES;
        self.arena.block_bytes() / CHUNKS_PER_BLOCK as usize - 1 - head_max
    }

    /// Names for the chunks of a value of `total` bytes.
    pub(super) fn new_names(&self, total: usize) -> ChunkNames {
        ChunkNames {
            total: total as u64,
            name: self.chunk_names.fetch_add(1, Ordering::Relaxed),
            chunks: total.div_ceil(self.chunk_len()) as u32,
        }
    }

    pub(super) fn hash_of_chunk(&self, key: &[u8]) -> u64 {
        xxh3_64_with_seed(key, !self.seed)
    }

    /// The index for records of a role. `None` if there was never such a record.
    pub(super) fn table_of(&self, role: Role) -> Option<&Table> {
        match role {
            Role::Chunk => self.chunks.get(),
            Role::Plain | Role::Large => Some(&self.table),
        }
    }

    /// The index of chunks, which is made for the first one. `None` if there is no block for it.
    pub(super) fn chunk_table(&self, now: Second) -> Option<&Table> {
        if let Some(table) = self.chunks.get() {
            return Some(table);
        }
        let block = self.index_block(now)?;
        let table = Table::new(&self.arena, block, self.arena.blocks().count());
        if self.chunks.set(table).is_err() {
            // Another thread made it at the same moment, so this block was never used.
            self.arena.retire(&[block]);
        }
        self.chunks.get()
    }

    /// The hash by which a record is found.
    pub(super) fn hash_of_record(&self, tenant: TenantId, record: &Record<'_>) -> u64 {
        match record.fields.role {
            Role::Chunk => self.hash_of_chunk(record.fields.key),
            Role::Plain | Role::Large => self.hash(tenant, record.fields.key),
        }
    }

    fn chunk_of(&self, slot: Slot, key: &[u8]) -> Option<Record<'_>> {
        self.block_of(slot)?;
        let place = slot.record_address();
        let record = self.record_at(place.block, place.at)?;
        (record.fields.role == Role::Chunk && record.fields.key == key).then_some(record)
    }

    /// The value of a record: its own, or that of its chunks if all are there.
    pub(super) fn value<'a>(
        &'a self,
        tenant_items: &TenantItems,
        record: &Record<'a>,
        moment: Moment,
        reading: ReadKind,
    ) -> Option<Value<'a>> {
        if record.fields.role != Role::Large {
            return Some(Value::Whole(record.value));
        }
        let names = ChunkNames::read(record.value)?;
        let chunks = self.chunks.get()?;
        let mut pieces = Vec::with_capacity(names.chunks as usize);
        for place in 0..names.chunks {
            let key = names.chunk_key(place);
            let is_it = |slot| self.chunk_of(slot, &key);
            let (cell, chunk) = chunks.find(self.hash_of_chunk(&key), is_it)?;
            if reading == ReadKind::Use {
                self.record_use(tenant_items, cell, moment);
            }
            pieces.push(chunk.value);
        }
        let total: usize = pieces.iter().map(|piece| piece.len()).sum();
        (total as u64 == names.total).then_some(Value::Chunks(pieces))
    }

    /// Removes the chunks of an item from the index, if it has any.
    pub(super) fn unlink_chunks(&self, record: &Record<'_>) {
        if record.fields.role != Role::Large {
            return;
        }
        let (Some(names), Some(chunks)) = (ChunkNames::read(record.value), self.chunks.get())
        else {
            return;
        };
        for place in 0..names.chunks {
            let key = names.chunk_key(place);
            let hash = self.hash_of_chunk(&key);
            let mut held = chunks.lock(hash);
            if let Some((cell, chunk)) = held.find(hash, |slot| self.chunk_of(slot, &key)) {
                self.unlink(&mut held, cell, &chunk);
            }
        }
    }
}
