//! The items engine: variable-size values in append-only segments of one block each.
//!
//! Segcache (Yang, Yue, Vinayak, NSDI '21) is the model: segments by time to live, a hash index of 8-byte
//! slots, eviction segment by segment, the oldest first, so that what is hot survives. Blocks, tenants and lock-free reads
//! are ours. A record never changes once it is published, so a reader needs no lock: it finds a slot,
//! sees that the block's generation holds, and copies under its pin.

mod blocks;
mod chunk_names;
mod deferred;
mod entry;
mod followed;
mod large;
mod listeners;
mod merge;
#[cfg(test)]
mod oracle;
mod part;
mod record;
mod room;
mod segments;
mod shrink;
mod slot;
mod source;
mod space_time;
mod stale;
mod sweep;
mod table;
mod tally;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use sublet_types::{Second, TenantId};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::api::{Absence, EXPECTED_MAX, Item, Lookup, Reading, TENANTS_MAX, Value};
use crate::arena::{Arena, Block, BlockId, Claimant, RECORDS_BEGIN};
use crate::settings::StoreSettings;
use crate::tenants::{Tenant, Tenants};
pub use entry::Entry;
pub use followed::ItemUse;
pub use listeners::{Evicted, EvictionListener, LISTENER_WAITING_MAX};
pub(crate) use part::Part;
use record::{HEAD_BYTES, Head, Record, Role};
use slot::{Place, Slot};
use stale::Sweeper;
use table::{Cell, Judge, Table};

pub(crate) use slot::BLOCKS_MAX;

/// Buckets that the crawl looks at in a second: few, since an idle daemon is to use no CPU.
const CRAWLED_AT_ONCE: u64 = 4096;

/// The engine: index and segments over one arena.
pub(crate) struct Items {
    pub(crate) arena: Arc<Arena>,
    pub(crate) tenants: Arc<Tenants>,
    /// What each tenant has, by its number.
    parts: Box<[OnceLock<Part>]>,
    table: Table,
    /// The index of large values' chunks.
    chunks: OnceLock<Table>,
    seed: u64,
    item_max: u64,
    evicts: bool,
    chunk_names: AtomicU64,
    sweeper: Sweeper,
    /// The bucket of the index that the crawl comes to next.
    crawled: AtomicU64,
}

/// When, and with what luck, something happens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) now: Second,
    /// A number that differs from call to call.
    pub(crate) luck: u64,
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
            parts: (0..TENANTS_MAX).map(|_| OnceLock::new()).collect(),
            table: Table::new(&arena, index, blocks),
            chunks: OnceLock::new(),
            arena,
            tenants,
            seed: settings.seed,
            item_max: settings.item_max.0,
            evicts: settings.evicts,
            chunk_names: AtomicU64::new(1),
            sweeper: Sweeper::default(),
            crawled: AtomicU64::new(0),
        }
    }

    /// What a tenant has of the engine; made when it is first needed.
    #[inline]
    pub(crate) fn part(&self, tenant: &Tenant) -> &Part {
        self.parts[usize::from(tenant.id.0)].get_or_init(Part::default)
    }

    /// Sets what befell a tenant that went, and what was learned of its items, as for one that was never there.
    pub(crate) fn begin_anew(&self, tenant: &Tenant) {
        let part = self.part(tenant);
        part.tally.reset();
        part.followed.reset();
        part.deferred.cancel();
        while !part.segments.try_begin_anew(&self.arena) {
            part.segments.await_ring();
        }
    }

    /// Hears of each item of a tenant that is evicted from now on, for as long as the listener lives.
    pub(crate) fn listen(&self, tenant: &Tenant) -> EvictionListener {
        EvictionListener::open(&self.part(tenant).listeners)
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

    /// Starts fetching what looking up these keys will touch: all their buckets first, then the records, so
    /// that they come side by side and not one after the other. The caller is pinned.
    pub(crate) fn expect(&self, tenant: TenantId, keys: &[&[u8]]) {
        let mut hashes = [0; EXPECTED_MAX];
        let hashes = &mut hashes[..keys.len().min(EXPECTED_MAX)];
        for (hash, key) in hashes.iter_mut().zip(keys) {
            *hash = self.hash(tenant, key);
            self.table.expect(*hash);
        }
        for hash in hashes {
            if let Some(slot) = self.table.guess(*hash) {
                let place = slot.place();
                self.arena.expect(place.block, place.at);
            }
        }
    }

    /// Looks an item up. The caller is pinned.
    pub(crate) fn read<R>(
        &self,
        tenant: &Tenant,
        key: &[u8],
        moment: Moment,
        reading: Reading,
        visit: impl FnOnce(&Item<'_>) -> R,
    ) -> Lookup<R> {
        let hash = self.hash(tenant.id, key);
        let part = self.part(tenant);
        if reading == Reading::Use {
            part.followed.note(hash, ItemUse::Asked);
        }
        let mut missed = None;
        let (cell, record, value) = loop {
            let found = self
                .table
                .find(hash, |slot| self.record_of(slot, tenant.id, key));
            let Some((cell, record)) = found else {
                return Lookup::Miss(Absence::Unknown);
            };
            if let Some(absence) = self.absence(part, cell.slot, &record, moment.now) {
                self.forget(tenant, hash, key, cell.slot, absence);
                return Lookup::Miss(absence);
            }
            match self.value(part, &record, moment, reading) {
                Some(value) => break (cell, record, value),
                None if missed == Some(cell.slot.place()) => {
                    self.forget(tenant, hash, key, cell.slot, Absence::Unknown);
                    return Lookup::Miss(Absence::Unknown);
                }
                // A chunk is gone: with its item, if that was replaced at this moment.
                None => missed = Some(cell.slot.place()),
            }
        };
        let cas = || self.tell(tenant.id, hash, cell, &record);
        let answer = visit(&self.item(cell.slot, &record, value, &cas));
        if reading == Reading::Use {
            self.note_use(part, cell, moment);
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
            fetched: slot.fetched(),
            last_access: self.last_access(slot),
        }
    }

    /// When the item of a slot was last used or stored: its block knows, to within the block's other items.
    fn last_access(&self, slot: Slot) -> Second {
        let block = self.arena.block(slot.place().block);
        match slot.fetched() {
            true => block.last_hit(),
            false => block.opened(),
        }
    }

    /// The block that a slot names, if the slot is not stale.
    fn block_of(&self, slot: Slot) -> Option<&Block> {
        let place = slot.place();
        let block = self.arena.block(place.block);
        place.is_of(block.generation()).then_some(block)
    }

    /// The record of a slot, if it is this tenant's client item of this key.
    fn record_of(&self, slot: Slot, tenant: TenantId, key: &[u8]) -> Option<Record<'_>> {
        let place = slot.place();
        if !self.block_of(slot)?.is_owned_by(tenant) {
            return None;
        }
        let head = Head::read(
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
        let head = Head::read(*self.arena.bytes(block, at, HEAD_BYTES)?.first_chunk()?);
        Record::read(self.arena.bytes(block, at, head.record_len())?)
    }

    /// Why a record that was found is no answer, if it is none.
    fn absence(
        &self,
        part: &Part,
        slot: Slot,
        record: &Record<'_>,
        now: Second,
    ) -> Option<Absence> {
        let block = self.arena.block(slot.place().block);
        if part.segments.is_flushed(block.sequence()) {
            Some(Absence::Flushed)
        } else if record.fields.expiry.is_past(now) {
            Some(Absence::Expired)
        } else {
            None
        }
    }

    /// Removes a slot that turned out to lead to nothing, unless it has changed since.
    fn forget(&self, tenant: &Tenant, hash: u64, key: &[u8], slot: Slot, absence: Absence) {
        let mut held = self.table.lock(hash);
        let same = |other: Slot| {
            let record = self.record_of(other, tenant.id, key)?;
            other.has_same_place(slot).then_some(record)
        };
        if let Some((cell, record)) = held.find(hash, same) {
            let part = self.part(tenant);
            part.followed.note(hash, ItemUse::Gone);
            if absence != Absence::Unknown {
                part.tally.reclaim(1, cell.slot);
            }
            self.unlink_chunks(&record);
            self.unlink(&mut held, cell, &record);
        }
    }

    /// The lasting cas unique of an item that was found at `cell`.
    ///
    /// An item that nobody asked for its unique has none of its own: its place is as good. Once told, the
    /// slot says so, and whoever moves the record writes the unique into it.
    fn tell<'a>(
        &'a self,
        tenant: TenantId,
        hash: u64,
        mut cell: Cell<'a>,
        record: &Record<'a>,
    ) -> u64 {
        let mut here = *record;
        loop {
            if let Some(cas) = here.fields.cas {
                return cas;
            }
            let implied = self.implied_cas(cell.slot.place());
            if cell.slot.told() {
                return implied;
            }
            match cell.exchange(cell.slot.with_told()) {
                Ok(()) => return implied,
                Err(changed) if changed.has_same_place(cell.slot) => cell.slot = changed,
                Err(_) => {
                    // Moved or replaced. The same bytes elsewhere are the same item to any client;
                    // otherwise the old unique is right: it is out of date and will lose.
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

    /// The cas unique of a record that has none written into it: no two records ever share it.
    fn implied_cas(&self, place: Place) -> u64 {
        self.arena.block(place.block).sequence() << 21 | u64::from(place.at)
    }

    /// Notes a use, for eviction; returns the slot as it is then.
    fn note_use(&self, part: &Part, mut cell: Cell<'_>, moment: Moment) -> Slot {
        self.arena
            .block(cell.slot.place().block)
            .hit(moment.now, moment.luck);
        let stamp = part.segments.clock().now();
        loop {
            let slot = cell.slot;
            let used = slot.with_stamp(stamp).with_fetched(true);
            if used == slot {
                return slot;
            }
            match cell.exchange(used) {
                // Somebody else used it, or was told its cas unique: perhaps this very reader.
                Err(changed) if changed.has_same_place(slot) => cell.slot = changed,
                // Lost if the item moves at this moment: one hit of an estimate.
                Ok(()) | Err(_) => return used,
            }
        }
    }

    /// Visits a tenant's items in one bucket of the index and says which bucket is next.
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
        let part = self.part(tenant);
        self.table.visit(bucket, |slot| {
            let place = slot.place();
            if !self
                .block_of(slot)
                .is_some_and(|block| block.is_owned_by(tenant.id))
            {
                return;
            }
            let Some(record) = self.record_at(place.block, place.at) else {
                return;
            };
            if record.fields.role == Role::Chunk || self.absence(part, slot, &record, now).is_some()
            {
                return;
            }
            let moment = Moment { now, luck: 0 };
            let Some(value) = self.value(part, &record, moment, Reading::Peek) else {
                return;
            };
            let cas = || record.fields.cas.unwrap_or_else(|| self.implied_cas(place));
            visit(&self.item(slot, &record, value, &cas));
        });
        Some(bucket + 1)
    }

    /// Removes a tenant's expired and flushed items from one bucket of the index, counting them in `reclaimed`,
    /// and says which bucket is next.
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
        let (part, mut dead) = (self.part(tenant), Vec::new());
        self.table.visit(bucket, |slot| {
            let place = slot.place();
            let is_owned = |block: &Block| block.is_owned_by(tenant.id);
            let record = self
                .block_of(slot)
                .filter(|block| is_owned(block))
                .and_then(|_| self.record_at(place.block, place.at));
            if let Some(record) = record
                && let Some(absence) = self.absence(part, slot, &record, now)
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

    /// Goes a little way through the index for items that were dead at `then` in segments that live on. Only tenants
    /// too small for segments by time to live have such.
    fn crawl(&self, then: Second) {
        let buckets = self.table.buckets();
        let from = self.crawled.load(Ordering::Relaxed) % buckets;
        let to = (from + CRAWLED_AT_ONCE).min(buckets);
        let mixes = |tenant: &&Tenant| self.part(tenant).segments.mixes();
        for tenant in self.tenants.iter().filter(mixes) {
            let mut reclaimed = 0;
            for bucket in from..to {
                self.reclaim(tenant, bucket, then, &mut reclaimed);
            }
        }
        self.crawled.store(to, Ordering::Relaxed);
    }

    /// Where the next record after `at` begins, and the record at `at`. For walks through full segments.
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

/// Whether two records are the same to a client.
fn is_same(a: &Record<'_>, b: &Record<'_>) -> bool {
    a.value == b.value && a.fields.flags == b.fields.flags
}

impl Judge for Items {
    fn hash_of(&self, slot: Slot) -> Option<u64> {
        let tenant = match self.block_of(slot)?.owner() {
            Claimant::Tenant(tenant) => tenant,
            Claimant::None | Claimant::Pages(..) => return None,
        };
        let place = slot.place();
        let record = self.record_at(place.block, place.at)?;
        Some(self.hash_of_record(tenant, &record))
    }

    fn is_stale(&self, slot: Slot) -> bool {
        self.block_of(slot).is_none()
    }
}
