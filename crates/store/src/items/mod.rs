//! The items engine: values of variable size in append-only segments of one block each.
//!
//! Segcache (Yang, Yue, Vinayak, NSDI '21) is the model: segments by time to live, and a hash index of 8-byte slots.
//! Eviction goes segment by segment, oldest first, and what is hot survives. Blocks, tenants and lock-free reads are
//! additions of this engine.
//!
//! A record never changes once it is published, so a reader needs no lock. It finds a slot, sees that the block's
//! generation holds, and copies under its pin.

mod blocks;
mod chunk_names;
mod deferred_flush;
mod entry;
mod item_sample_log;
mod large;
mod listeners;
mod make_room;
mod merge;
#[cfg(test)]
mod oracle;
mod record;
mod segment_cursor;
mod segments;
mod shrink;
mod slot;
mod space_time;
mod sweep;
mod sweep_progress;
mod table;
mod tally;
mod tenant_items;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use sublet_types::{Second, TenantId};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::api::{Absence, Item, Lookup, PREFETCHED_KEYS_MAX, ReadKind, TENANTS_MAX, Value};
use crate::arena::{Arena, Block, BlockId, BlockOwner, RECORDS_BEGIN};
use crate::settings::StoreSettings;
use crate::tenants::{Tenant, Tenants};
pub use entry::Entry;
pub use item_sample_log::ItemUse;
pub use listeners::{EvictedItem, EvictionListener, LISTENER_WAITING_MAX};
use record::{HEAD_BYTES, Record, RecordHead, Role};
use slot::{FetchState, RecordAddress, Slot};
use sweep_progress::SweepProgress;
use table::{SlotRef, SlotResolver, Table};
pub(crate) use tenant_items::TenantItems;

pub(crate) use slot::BLOCKS_MAX;

/// Buckets that the crawl looks at per second. They are few, because an idle daemon should use no CPU.
const CRAWLED_AT_ONCE: u64 = 4096;

/// The engine: index and segments over one arena.
pub(crate) struct Items {
    pub(crate) arena: Arc<Arena>,
    pub(crate) tenants: Arc<Tenants>,
    /// The items of each tenant, by its number. Places without a tenant are small.
    by_tenant: Box<[OnceLock<Box<TenantItems>>]>,
    table: Table,
    /// The index of large values' chunks.
    chunks: OnceLock<Table>,
    seed: u64,
    item_max: u64,
    evicts: bool,
    chunk_names: AtomicU64,
    sweeper: SweepProgress,
    /// The bucket of the index that the crawl comes to next.
    crawled: AtomicU64,
}

/// The time of an operation, and a random number for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) now: Second,
    /// A number that differs from call to call.
    pub(crate) random: u64,
}

impl Items {
    pub(crate) fn new(
        arena: Arc<Arena>,
        tenants: Arc<Tenants>,
        index: BlockId,
        settings: &StoreSettings,
    ) -> Items {
        let blocks = arena.blocks().count();
        Items {
            by_tenant: (0..TENANTS_MAX).map(|_| OnceLock::new()).collect(),
            table: Table::new(&arena, index, blocks),
            chunks: OnceLock::new(),
            arena,
            tenants,
            seed: settings.seed,
            item_max: settings.item_max.0,
            evicts: settings.evicts,
            chunk_names: AtomicU64::new(1),
            sweeper: SweepProgress::default(),
            crawled: AtomicU64::new(0),
        }
    }

    /// A tenant's part of the engine. It is made when it is first needed.
    #[inline]
    pub(crate) fn tenant_items(&self, tenant: &Tenant) -> &TenantItems {
        self.by_tenant[usize::from(tenant.id.0)].get_or_init(Box::default)
    }

    /// Resets the counters of a removed tenant and what was learned of its items.
    pub(crate) fn reset(&self, tenant: &Tenant) {
        let tenant_items = self.tenant_items(tenant);
        tenant_items.tally.reset();
        tenant_items.samples.reset();
        tenant_items.deferred_flush.cancel();
        while !tenant_items.segments.try_reset(&self.arena) {
            tenant_items.segments.await_full();
        }
    }

    /// Reports each evicted item of a tenant to a listener, for as long as the listener lives.
    pub(crate) fn listen(&self, tenant: &Tenant) -> EvictionListener {
        EvictionListener::open(&self.tenant_items(tenant).listeners)
    }

    /// Blocks that the index holds.
    pub(crate) fn index_blocks(&self) -> usize {
        self.tables().map(Table::blocks).sum()
    }

    pub(crate) fn tables(&self) -> impl Iterator<Item = &Table> {
        std::iter::once(&self.table).chain(self.chunks.get())
    }

    fn hash(&self, tenant: TenantId, key: &[u8]) -> u64 {
        xxh3_64_with_seed(key, self.seed ^ u64::from(tenant.0) << 48)
    }

    /// Starts to fetch what looking up these keys will touch. All buckets come first, then the records, so that the
    /// fetches overlap. The caller is pinned.
    pub(crate) fn prefetch(&self, tenant: TenantId, keys: &[&[u8]]) {
        let mut hashes = [0; PREFETCHED_KEYS_MAX];
        let hashes = &mut hashes[..keys.len().min(PREFETCHED_KEYS_MAX)];
        for (hash, key) in hashes.iter_mut().zip(keys) {
            *hash = self.hash(tenant, key);
            self.table.prefetch(*hash);
        }
        for hash in hashes {
            if let Some(slot) = self.table.guess(*hash) {
                let place = slot.record_address();
                self.arena.prefetch(place.block, place.at);
            }
        }
    }

    /// Looks an item up. The caller is pinned.
    pub(crate) fn read<R>(
        &self,
        tenant: &Tenant,
        key: &[u8],
        moment: Moment,
        reading: ReadKind,
        visit: impl FnOnce(&Item<'_>) -> R,
    ) -> Lookup<R> {
        let hash = self.hash(tenant.id, key);
        let tenant_items = self.tenant_items(tenant);
        if reading == ReadKind::Use {
            tenant_items.samples.record(hash, ItemUse::Get);
        }
        let mut missed = None;
        let (cell, record, value) = loop {
            let found = self
                .table
                .find(hash, |slot| self.record_of(slot, tenant.id, key));
            let Some((cell, record)) = found else {
                return Lookup::Miss(Absence::Unknown);
            };
            if let Some(absence) = self.absence(tenant_items, cell.slot, &record, moment.now) {
                self.forget(tenant, hash, key, cell.slot, absence);
                return Lookup::Miss(absence);
            }
            match self.value(tenant_items, &record, moment, reading) {
                Some(value) => break (cell, record, value),
                None if missed == Some(cell.slot.record_address()) => {
                    self.forget(tenant, hash, key, cell.slot, Absence::Unknown);
                    return Lookup::Miss(Absence::Unknown);
                }
                // A chunk is gone. Its item may have been replaced at this moment and its chunks with it.
                None => missed = Some(cell.slot.record_address()),
            }
        };
        let cas = || self.report_cas(tenant.id, hash, cell, &record);
        let answer = visit(&self.item(cell.slot, &record, value, &cas));
        if reading == ReadKind::Use {
            self.record_use(tenant_items, cell, moment);
        }
        Lookup::Hit(answer)
    }

    fn item<'a>(
        &'a self,
        slot: Slot,
        record: &Record<'a>,
        value: Value<'a>,
        cas: &'a dyn Fn() -> u64,
    ) -> Item<'a> {
        let fields = &record.fields;
        Item {
            key: fields.key,
            value,
            flags: fields.flags,
            expiry: fields.expiry,
            marks: fields.marks,
            cas,
            fetched: slot.is_fetched(),
            last_access: self.last_access(slot),
        }
    }

    /// When the item of a slot was last used or stored. Its block knows this, to within the block's other items.
    fn last_access(&self, slot: Slot) -> Second {
        let block = self.arena.block(slot.record_address().block);
        match slot.is_fetched() {
            true => block.last_hit(),
            false => block.opened(),
        }
    }

    /// The block that a slot names, if the slot is not stale.
    fn block_of(&self, slot: Slot) -> Option<&Block> {
        let place = slot.record_address();
        let block = self.arena.block(place.block);
        place.is_of(block.generation()).then_some(block)
    }

    /// The record of a slot, if it is this tenant's client item of this key.
    fn record_of(&self, slot: Slot, tenant: TenantId, key: &[u8]) -> Option<Record<'_>> {
        let place = slot.record_address();
        if !self.block_of(slot)?.is_owned_by(tenant) {
            return None;
        }
        let head = RecordHead::read(
            *self
                .arena
                .bytes(place.block, place.at, HEAD_BYTES)?
                .first_chunk()?,
        );
        let whole = self.arena.bytes(place.block, place.at, head.record_len())?;
        if !head.has_key(&whole[HEAD_BYTES..], key) {
            return None;
        }
        Record::read(whole).filter(|record| record.fields.role != Role::Chunk)
    }

    /// The record at a place, whatever it is.
    fn record_at(&self, block: BlockId, at: u32) -> Option<Record<'_>> {
        let head = RecordHead::read(*self.arena.bytes(block, at, HEAD_BYTES)?.first_chunk()?);
        Record::read(self.arena.bytes(block, at, head.record_len())?)
    }

    /// Why a record that was found does not count, if it does not.
    fn absence(
        &self,
        tenant_items: &TenantItems,
        slot: Slot,
        record: &Record<'_>,
        now: Second,
    ) -> Option<Absence> {
        let block = self.arena.block(slot.record_address().block);
        if tenant_items.segments.is_flushed(block.sequence()) {
            Some(Absence::Flushed)
        } else if record.fields.expiry.is_past(now) {
            Some(Absence::Expired)
        } else {
            None
        }
    }

    /// Removes a slot that led to nothing, unless it has changed since.
    fn forget(&self, tenant: &Tenant, hash: u64, key: &[u8], slot: Slot, absence: Absence) {
        let mut held = self.table.lock(hash);
        let same = |other: Slot| {
            let record = self.record_of(other, tenant.id, key)?;
            other.has_same_address(slot).then_some(record)
        };
        if let Some((cell, record)) = held.find(hash, same) {
            let tenant_items = self.tenant_items(tenant);
            tenant_items.samples.record(hash, ItemUse::Removed);
            if absence != Absence::Unknown {
                tenant_items.tally.reclaim(1, cell.slot);
            }
            self.unlink_chunks(&record);
            self.unlink(&mut held, cell, &record);
        }
    }

    /// The lasting cas unique of an item that was found at `cell`.
    ///
    /// An item whose unique nobody asked for has none of its own; its place serves. Once the unique is reported, the
    /// slot says so. A thread that moves the record then writes the unique into it.
    fn report_cas<'a>(
        &'a self,
        tenant: TenantId,
        hash: u64,
        mut cell: SlotRef<'a>,
        record: &Record<'a>,
    ) -> u64 {
        let mut here = *record;
        loop {
            if let Some(cas) = here.fields.cas {
                return cas;
            }
            let implied = self.implied_cas(cell.slot.record_address());
            if cell.slot.is_cas_reported() {
                return implied;
            }
            match cell.exchange(cell.slot.with_cas_reported()) {
                Ok(()) => return implied,
                Err(changed) if changed.has_same_address(cell.slot) => cell.slot = changed,
                Err(_) => {
                    // The item was moved or replaced. The same bytes elsewhere are the same item to any client.
                    // Otherwise the old unique is right: it is stale and will lose.
                    let again = |slot: Slot| self.record_of(slot, tenant, record.fields.key);
                    match self.table.find(hash, again) {
                        Some((moved, found)) if is_same(&found, record) => {
                            (cell, here) = (moved, found)
                        }
                        _ => return implied,
                    }
                }
            }
        }
    }

    /// The cas unique of a record that has none written into it. No two records ever share it.
    fn implied_cas(&self, place: RecordAddress) -> u64 {
        self.arena.block(place.block).sequence() << 21 | u64::from(place.at)
    }

    /// Records a use for eviction. Returns the slot after that.
    fn record_use(
        &self,
        tenant_items: &TenantItems,
        mut cell: SlotRef<'_>,
        moment: Moment,
    ) -> Slot {
        self.arena
            .block(cell.slot.record_address().block)
            .hit(moment.now, moment.random);
        let stamp = tenant_items.segments.clock().now();
        loop {
            let slot = cell.slot;
            let used = slot.with_stamp(stamp).with_fetched(FetchState::Fetched);
            if used == slot {
                return slot;
            }
            match cell.exchange(used) {
                // Another thread used it or got its cas unique, perhaps this very reader.
                Err(changed) if changed.has_same_address(slot) => cell.slot = changed,
                // The mark is lost if the item moves at this moment. That is one hit of an estimate.
                Ok(()) | Err(_) => return used,
            }
        }
    }

    /// Visits a tenant's items in one bucket of the index. Returns which bucket is next.
    pub(crate) fn scan(
        &self,
        tenant: &Tenant,
        bucket: u64,
        now: Second,
        visit: &mut dyn FnMut(&Item<'_>),
    ) -> Option<u64> {
        let buckets = self.table.buckets();
        if bucket >= buckets {
            return None;
        }
        let tenant_items = self.tenant_items(tenant);
        self.table.visit(bucket, |slot| {
            let place = slot.record_address();
            if !self
                .block_of(slot)
                .is_some_and(|block| block.is_owned_by(tenant.id))
            {
                return;
            }
            let Some(record) = self.record_at(place.block, place.at) else {
                return;
            };
            if record.fields.role == Role::Chunk
                || self.absence(tenant_items, slot, &record, now).is_some()
            {
                return;
            }
            let moment = Moment { now, random: 0 };
            let Some(value) = self.value(tenant_items, &record, moment, ReadKind::Peek) else {
                return;
            };
            let cas = || record.fields.cas.unwrap_or_else(|| self.implied_cas(place));
            visit(&self.item(slot, &record, value, &cas));
        });
        Some(bucket + 1)
    }

    /// Removes a tenant's expired and flushed items from one bucket of the index and counts them in `reclaimed`.
    /// Returns which bucket is next.
    pub(crate) fn reclaim(
        &self,
        tenant: &Tenant,
        bucket: u64,
        now: Second,
        reclaimed: &mut u64,
    ) -> Option<u64> {
        if bucket >= self.table.buckets() {
            return None;
        }
        let (tenant_items, mut dead) = (self.tenant_items(tenant), Vec::new());
        self.table.visit(bucket, |slot| {
            let place = slot.record_address();
            let is_owned = |block: &Block| block.is_owned_by(tenant.id);
            let record = self
                .block_of(slot)
                .filter(|block| is_owned(block))
                .and_then(|_| self.record_at(place.block, place.at));
            if let Some(record) = record
                && let Some(absence) = self.absence(tenant_items, slot, &record, now)
            {
                dead.push((record.fields.key, slot, absence));
            }
        });
        *reclaimed += dead.len() as u64;
        for (key, slot, absence) in dead {
            self.forget(tenant, self.hash(tenant.id, key), key, slot, absence);
        }
        Some(bucket + 1)
    }

    /// Crawls a little way through the index for items that were dead at `then` in segments that live on. Only tenants
    /// too small for segments by time to live have such items.
    fn crawl(&self, then: Second) {
        let buckets = self.table.buckets();
        let from = self.crawled.load(Ordering::Relaxed) % buckets;
        let to = (from + CRAWLED_AT_ONCE).min(buckets);
        let mixes = |tenant: &&Tenant| self.tenant_items(tenant).segments.mixes();
        for tenant in self.tenants.iter().filter(mixes) {
            let mut reclaimed = 0;
            for bucket in from..to {
                self.reclaim(tenant, bucket, then, &mut reclaimed);
            }
        }
        self.crawled.store(to, Ordering::Relaxed);
    }

    /// The record at `at`, and where the next one begins. Used to walk through full segments.
    fn walk(&self, block: BlockId, at: u32) -> Option<(Record<'_>, u32)> {
        let at = at.max(RECORDS_BEGIN);
        let filled = self.arena.block(block).filled.load(Ordering::Acquire);
        if at >= filled {
            return None;
        }
        let record = self.record_at(block, at)?;
        Some((record, at + record.len() as u32))
    }
}

/// Returns whether two records are the same to a client.
fn is_same(a: &Record<'_>, b: &Record<'_>) -> bool {
    a.value == b.value && a.fields.flags == b.fields.flags
}

impl SlotResolver for Items {
    fn hash_of(&self, slot: Slot) -> Option<u64> {
        let tenant = match self.block_of(slot)?.owner() {
            BlockOwner::Items(tenant) => tenant,
            BlockOwner::None | BlockOwner::Lent | BlockOwner::Pages(..) => return None,
        };
        let place = slot.record_address();
        let record = self.record_at(place.block, place.at)?;
        Some(self.hash_of_record(tenant, &record))
    }

    fn is_stale(&self, slot: Slot) -> bool {
        self.block_of(slot).is_none()
    }
}
