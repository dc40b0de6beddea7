//! The lender: a real store that lends blocks, and what it was asked to keep in them.

use std::io;
use std::sync::Arc;

use sublet_store::{FarAddress, MappedMemory, PageSettings, Release, Store, StoreSettings, Worker};
use sublet_types::{Bytes, LentBlock, ReleaseMode};

use super::borrowing_store::{BLOCK, PAGE};
use crate::machine::tier_store::StoreTierError;
use crate::virtual_time::VirtualInstant;

/// Blocks that are never lent: the index, what the arena keeps back, and one more.
const UNLENT_BLOCKS: u64 = 4;

/// A host that lends.
pub(super) struct LendingStore {
    store: Arc<Store>,
    worker: Worker,
    /// The block of each index of the lease, if the borrower has it.
    lent: Vec<Option<LentBlock>>,
    most: u64,
}

impl LendingStore {
    /// A host that may lend this many blocks.
    ///
    /// # Errors
    ///
    /// There is no memory.
    pub(super) fn of(blocks: u64) -> Result<LendingStore, StoreTierError> {
        let capacity = (blocks + UNLENT_BLOCKS) * BLOCK;
        let memory = MappedMemory::reserve(capacity as usize, BLOCK as usize)?;
        let settings = StoreSettings {
            capacity: Bytes(capacity),
            limit: Bytes(capacity),
            item_max: Bytes(BLOCK / 4),
            seed: 1,
            evicts: true,
            pages: PageSettings {
                page_bytes: PAGE as usize,
                shards: 1,
                ..PageSettings::default()
            },
        };
        let store = Store::over(Box::new(memory), BLOCK as usize, settings)
            .ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        Ok(LendingStore {
            worker: store.worker()?,
            store,
            lent: Vec::new(),
            most: blocks,
        })
    }

    /// Lends until `blocks` are lent. Returns the new indices of the lease.
    pub(super) fn lend_up_to(&mut self, blocks: u64, now: VirtualInstant) -> std::ops::Range<u32> {
        let first = self.lent.len() as u32;
        while u64::from(self.store.lent()) < blocks.min(self.most)
            && let Some(block) = self.worker.lend(now.second())
        {
            self.lent.push(Some(block));
        }
        first..self.lent.len() as u32
    }

    /// Writes a page. Returns whether its block is still lent.
    pub(super) fn write(&self, address: FarAddress, bytes: &[u8]) -> bool {
        self.block(address).is_some_and(|block| {
            let fill = |page: &mut [u8]| page.copy_from_slice(bytes);
            self.worker.write_lent(block, address.place, fill)
        })
    }

    /// Reads a page. Returns whether it is there.
    pub(super) fn read(
        &self,
        address: FarAddress,
        now: VirtualInstant,
        read: impl FnOnce(&[u8]),
    ) -> bool {
        self.block(address).is_some_and(|block| {
            self.worker
                .read_lent(block, address.place, now.second(), read)
        })
    }

    fn block(&self, address: FarAddress) -> Option<LentBlock> {
        *self.lent.get(address.index as usize)?
    }

    /// Takes a block back that the borrower has returned.
    pub(super) fn end(&mut self, index: u32) {
        let block = self.lent.get_mut(index as usize).and_then(Option::take);
        self.worker.end_lent(&Vec::from_iter(block));
    }

    /// Shrinks the arena so that the host itself has `blocks` of it. Lent blocks go first, and nobody is asked. Returns
    /// the indices of those that were taken back.
    pub(super) fn take_for_itself(&mut self, blocks: u64, now: VirtualInstant) -> Vec<u32> {
        let left = (self.most + UNLENT_BLOCKS).saturating_sub(blocks);
        self.store.set_limit(Bytes(left * BLOCK));
        let release = Release {
            amount: self.store.held() - self.store.limit(),
            mode: ReleaseMode::Fast,
            tenant: None,
        };
        if release.amount > Bytes::ZERO {
            self.worker.release(release, now.second());
        }
        let taken = self.store.drain_taken_back();
        let index_of = |block: &LentBlock| {
            self.lent
                .iter()
                .position(|lent| lent.as_ref() == Some(block))
        };
        let indices: Vec<usize> = taken.iter().filter_map(index_of).collect();
        for index in &indices {
            self.lent[*index] = None;
        }
        indices.into_iter().map(|index| index as u32).collect()
    }
}
