//! A key's place while one update holds it: read, then store or remove.

use sublet_types::{Expiry, Second};

use super::chunk_names::{CHUNKS_PER_BLOCK, chunk_fields};
use super::item_sample_log::ItemUse;
use super::listeners::EvictedItem;
use super::record::{Record, RecordFields, Role};
use super::slot::{FetchState, RecordAddress, Slot};
use super::space_time::HitStamp;
use super::table::{LockedStripe, SlotRef, Table};
use super::tenant_items::TenantItems;
use super::{Items, Moment};
use crate::api::{Absence, Item, ItemRefused, NewCas, NewItem, ReadKind};
use crate::arena::{BlockId, BlockOwner, LiveAmount, RecordClaim};
use crate::reclaim::has_room;
use crate::tenants::Tenant;

/// Attempts of an update to find room. Each makes some first.
const ATTEMPTS_MAX: u32 = 64;

/// Why a store inside an update failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StoreFailure {
    /// It is refused for good.
    Refused(ItemRefused),
    /// This many blocks must be made free first, outside the lock.
    NoRoom(u32),
    /// A flush came in between, and what was read is gone.
    Flushed,
}

/// A key's place, held by one update.
pub struct Entry<'a> {
    items: &'a Items,
    tenant: &'a Tenant,
    tenant_items: &'a TenantItems,
    key: &'a [u8],
    hash: u64,
    moment: Moment,
    held: LockedStripe<'a>,
    current: Option<Item<'a>>,
    old: Option<(SlotRef<'a>, Record<'a>)>,
    absence: Option<Absence>,
    /// The tenant's last flush when the item was looked at.
    flushed_before: u64,
    failure: Option<StoreFailure>,
    written: u64,
    grows: bool,
    /// A use was recorded and no item was there. What is stored here counts as used.
    counts_as_used: bool,
}

/// The result of one run of a decision.
struct UpdateAttempt<R> {
    answer: R,
    failure: Option<StoreFailure>,
    /// Bytes of records written.
    written: u64,
    /// Whether the index should grow by a bucket.
    grows: bool,
}

impl Items {
    /// Reads an item and changes it atomically. The caller is pinned.
    ///
    /// If blocks are needed, it calls `make_room` without any lock held; this returns whether another attempt is
    /// worthwhile. Returns the decision's answer, and how many bytes of records were written.
    pub(crate) fn update<R>(
        &self,
        tenant: &Tenant,
        key: &[u8],
        moment: Moment,
        decide: &mut dyn FnMut(&mut Entry<'_>) -> R,
        make_room: &mut dyn FnMut(u32) -> bool,
    ) -> Result<(R, u64), ItemRefused> {
        let hash = self.hash(tenant.id, key);
        for _ in 0..ATTEMPTS_MAX {
            let attempt = self.attempt(tenant, key, hash, moment, decide);
            if attempt.grows {
                self.grow_index(&self.table, moment.now);
            }
            match attempt.failure {
                None => return Ok((attempt.answer, attempt.written)),
                Some(StoreFailure::Flushed) => {}
                Some(StoreFailure::Refused(why)) => return Err(why),
                Some(StoreFailure::NoRoom(blocks)) if make_room(blocks) => {}
                Some(StoreFailure::NoRoom(_)) => return Err(ItemRefused::NoMemory),
            }
        }
        Err(ItemRefused::NoMemory)
    }

    fn attempt<R>(
        &self,
        tenant: &Tenant,
        key: &[u8],
        hash: u64,
        moment: Moment,
        decide: &mut dyn FnMut(&mut Entry<'_>) -> R,
    ) -> UpdateAttempt<R> {
        let held = self.table.lock(hash);
        let tenant_items = self.tenant_items(tenant);
        let flushed_before = tenant_items.segments.flushed_before();
        let old = held.find(hash, |slot| self.record_of(slot, tenant.id, key));
        let absence = old
            .as_ref()
            .and_then(|(cell, record)| self.absence(tenant_items, cell.slot, record, moment.now));
        let tell = || {
            old.as_ref().map_or(0, |(cell, record)| {
                self.report_cas(tenant.id, hash, *cell, record)
            })
        };
        let value = old
            .as_ref()
            .filter(|_| absence.is_none())
            .and_then(|(_, record)| self.value(tenant_items, record, moment, ReadKind::Peek));
        let current = match (&old, value) {
            (Some((cell, record)), Some(value)) => Some(self.item(cell.slot, record, value, &tell)),
            _ => None,
        };
        let mut entry = Entry {
            items: self,
            tenant,
            tenant_items,
            key,
            hash,
            moment,
            held,
            current,
            old,
            absence,
            flushed_before,
            failure: None,
            written: 0,
            grows: false,
            counts_as_used: false,
        };
        let answer = decide(&mut entry);
        UpdateAttempt {
            answer,
            failure: entry.failure,
            written: entry.written,
            grows: entry.grows,
        }
    }
}

impl<'a> Entry<'a> {
    /// The item, if there is one.
    pub fn current(&self) -> Option<&Item<'a>> {
        self.current.as_ref()
    }

    /// Why there is no item.
    pub fn absence(&self) -> Absence {
        self.absence.unwrap_or(Absence::Unknown)
    }

    /// Counts a use of the item, as a read would. If there is none, what is stored here counts as used already.
    pub fn record_use(&mut self) {
        self.tenant_items.samples.record(self.hash, ItemUse::Get);
        match &mut self.old {
            Some((cell, _)) if self.current.is_some() => {
                cell.slot = self.items.record_use(self.tenant_items, *cell, self.moment);
            }
            _ => self.counts_as_used = true,
        }
    }

    /// Stores `new` here. Returns its cas unique, or 0 unless `new.cas` asks for it to be reported, kept or given.
    pub fn store(&mut self, new: &NewItem<'_>) -> u64 {
        self.try_store(new).unwrap_or_else(|hindrance| {
            self.failure = Some(hindrance);
            0
        })
    }

    /// Removes the item.
    pub fn remove(&mut self) {
        if let Some((cell, record)) = self.old.take() {
            self.tenant_items
                .samples
                .record(self.hash, ItemUse::Removed);
            self.items.unlink_chunks(&record);
            self.items.unlink(&mut self.held, cell, &record);
        }
        self.current = None;
    }

    fn try_store(&mut self, new: &NewItem<'_>) -> Result<u64, StoreFailure> {
        let total = new.value.iter().map(|piece| piece.len()).sum();
        let mut fields = self.fields_of(new);
        if fields.record_len(total) as u64 > self.items.item_max {
            return Err(StoreFailure::Refused(ItemRefused::TooLarge));
        }
        let longest = fields.record_len(total) + size_of::<u64>();
        let slot = if longest <= self.items.whole_max() {
            self.write(&mut fields, new.value, total)?
        } else {
            self.write_large(&mut fields, new.value, total)?
        };
        if self.tenant_items.segments.flushed_before() != self.flushed_before {
            if fields.role == Role::Large {
                self.discard_unpublished(slot);
            }
            return Err(StoreFailure::Flushed);
        }
        let slot = if new.cas == NewCas::Reported {
            slot.with_cas_reported()
        } else {
            slot
        };
        let lives = fields.live_amount(self.stored_len(&fields, total));
        self.publish(slot, lives, new.cas);
        let bytes = fields.record_len(total) as u32;
        self.tenant_items
            .samples
            .record(self.hash, ItemUse::Stored(bytes));
        Ok(match new.cas {
            NewCas::Fresh => 0,
            _ => fields
                .cas
                .unwrap_or_else(|| self.items.implied_cas(slot.record_address())),
        })
    }

    /// Removes the chunks of a record that will not be published from the index.
    fn discard_unpublished(&self, slot: Slot) {
        let place = slot.record_address();
        if let Some(record) = self.items.record_at(place.block, place.at) {
            self.items.unlink_chunks(&record);
        }
    }

    fn fields_of(&self, new: &NewItem<'_>) -> RecordFields<'a> {
        let cas = match new.cas {
            NewCas::Fresh | NewCas::Reported => None,
            NewCas::Keep => self.current.as_ref().map(Item::cas),
            NewCas::Is(cas) => Some(cas),
        };
        RecordFields {
            key: self.key,
            role: Role::Plain,
            marks: new.marks,
            expiry: new.expiry,
            flags: new.flags,
            cas,
        }
    }

    fn stored_len(&self, fields: &RecordFields<'_>, total: usize) -> usize {
        match fields.role {
            Role::Large => super::chunk_names::NAMES_BYTES,
            Role::Plain | Role::Chunk => total,
        }
    }

    /// Writes the item's record. `fields` gets a written cas unique if the implied one would not exceed that of the
    /// replaced item.
    fn write(
        &mut self,
        fields: &mut RecordFields<'_>,
        value: &[&[u8]],
        len: usize,
    ) -> Result<Slot, StoreFailure> {
        let claim = self.claim(fields, fields.record_len(len))?;
        let place = RecordAddress::new(claim.block, claim.at, claim.generation);
        let implied = self.items.implied_cas(place);
        let above = self
            .last_cas()
            .filter(|last| fields.cas.is_none() && *last >= implied && *last != u64::MAX);
        let Some(last) = above else {
            return Ok(self.fill(claim, fields, value, len));
        };
        // Segments of several classes are open at once, and this one is older than the last item's. What was claimed
        // becomes a dead record, so that a walk through the segment finds its way.
        self.fill(claim, fields, value, len);
        fields.cas = Some(last + 1);
        let claim = self.claim(fields, fields.record_len(len))?;
        Ok(self.fill(claim, fields, value, len))
    }

    /// The cas unique of the replaced item.
    fn last_cas(&self) -> Option<u64> {
        let (cell, record) = self.old.as_ref()?;
        Some(
            record
                .fields
                .cas
                .unwrap_or_else(|| self.items.implied_cas(cell.slot.record_address())),
        )
    }

    fn claim(
        &mut self,
        fields: &RecordFields<'_>,
        len: usize,
    ) -> Result<RecordClaim, StoreFailure> {
        self.written += len as u64;
        let arena = &self.items.arena;
        let class = self.tenant_items.segments.class_of(
            self.tenant,
            arena.block_bytes(),
            fields.expiry,
            self.moment.now,
        );
        self.tenant_items
            .segments
            .claim(self.tenant, arena, class, len as u32, self.moment.now)
            .ok_or(StoreFailure::NoRoom(1))
    }

    fn fill(
        &self,
        claim: RecordClaim,
        fields: &RecordFields<'_>,
        value: &[&[u8]],
        len: usize,
    ) -> Slot {
        self.items
            .fill(claim, self.hash_of(fields), fields, value, len)
    }

    fn hash_of(&self, fields: &RecordFields<'_>) -> u64 {
        match fields.role {
            Role::Chunk => self.items.hash_of_chunk(fields.key),
            Role::Plain | Role::Large => self.hash,
        }
    }

    /// Writes the chunks, then the record that names them. If that fails, it leaves no chunk behind.
    fn write_large(
        &mut self,
        fields: &mut RecordFields<'_>,
        value: &[&[u8]],
        total: usize,
    ) -> Result<Slot, StoreFailure> {
        let names = self.items.new_names(total);
        let blocks = names.chunks.div_ceil(CHUNKS_PER_BLOCK) + 1;
        // The chunks are written under the item's stripe, so others of that stripe wait for the copy.
        if !has_room(&self.items.arena, self.tenant, blocks) {
            return Err(StoreFailure::NoRoom(blocks));
        }
        fields.role = Role::Large;
        let mut cursor = PieceCutter::new(value);
        let mut outcome = Ok(());
        for place in 0..names.chunks {
            let key = names.chunk_key(place);
            let pieces = cursor.next(self.items.chunk_len());
            outcome = self.write_chunk(&chunk_fields(&key, fields), &pieces);
            if outcome.is_err() {
                break;
            }
        }
        let names = names.to_bytes();
        let written = outcome.and_then(|()| self.write(fields, &[&names], names.len()));
        if written.is_err() {
            let unfinished = Record {
                fields: *fields,
                value: &names,
            };
            self.items.unlink_chunks(&unfinished);
        }
        written
    }

    fn write_chunk(
        &mut self,
        fields: &RecordFields<'_>,
        pieces: &[&[u8]],
    ) -> Result<(), StoreFailure> {
        let len = pieces.iter().map(|piece| piece.len()).sum();
        let claim = self.claim(fields, fields.record_len(len))?;
        let slot = self.fill(claim, fields, pieces, len);
        let table = self
            .items
            .chunk_table(self.moment.now)
            .ok_or(StoreFailure::NoRoom(1))?;
        let hash = self.items.hash_of_chunk(fields.key);
        let lives = fields.live_amount(len);
        if self
            .items
            .link(&mut table.lock(hash), hash, slot, lives, self.moment.now)
        {
            self.items.grow_index(table, self.moment.now);
        }
        Ok(())
    }

    /// The new slot with what eviction knows of the key. A hot key stays hot when it is written. The fetched mark stays
    /// only if the value is the same.
    fn with_inherited_marks(&self, slot: Slot, cas: NewCas) -> Slot {
        let now = || self.tenant_items.segments.clock().now();
        match &self.old {
            _ if self.counts_as_used => slot.with_stamp(now()).with_fetched(FetchState::Fetched),
            Some((cell, _)) => {
                let fetched = match cas {
                    NewCas::Keep => cell.slot.fetch_state(),
                    _ => FetchState::Unfetched,
                };
                let stamp = cell.slot.stamp().carried(now());
                slot.with_stamp(stamp).with_fetched(fetched)
            }
            None => slot,
        }
    }

    /// Publishes the new record as the item. The old item goes with its chunks.
    fn publish(&mut self, slot: Slot, lives: LiveAmount, cas: NewCas) {
        let slot = self.with_inherited_marks(slot, cas);
        match self.old.take() {
            Some((cell, record)) => {
                self.held.replace(cell, slot);
                self.items.unlink_chunks(&record);
                let (new, old) = (
                    slot.record_address().block,
                    cell.slot.record_address().block,
                );
                self.items.arena.gain(new, lives);
                self.items.arena.lose(old, record.live_amount());
                if self.absence.is_some() {
                    self.tenant_items.tally.reclaim(1, cell.slot);
                }
            }
            None => {
                self.grows =
                    self.items
                        .link(&mut self.held, self.hash, slot, lives, self.moment.now)
            }
        }
        self.current = None;
    }
}

impl Items {
    /// Writes a record into its claim. Returns the slot that will name it.
    pub(super) fn fill(
        &self,
        claim: RecordClaim,
        hash: u64,
        fields: &RecordFields<'_>,
        value: &[&[u8]],
        len: usize,
    ) -> Slot {
        let block = self.arena.block(claim.block);
        let place = RecordAddress::new(claim.block, claim.at, claim.generation);
        let expiry = match fields.expiry {
            Expiry::At(second) => second.0,
            Expiry::Never => u32::MAX,
        };
        block.extend_expiry(expiry);
        self.arena
            .fill(claim, |range| fields.write(value, len, range));
        Slot::new(hash, place)
    }

    /// Adds a new slot to the index. Returns whether the index should grow. If the slot cannot be added, an item of its
    /// chain gives way: one that was never hit, if there is one.
    fn link(
        &self,
        held: &mut LockedStripe<'_>,
        hash: u64,
        slot: Slot,
        lives: LiveAmount,
        now: Second,
    ) -> bool {
        self.arena.gain(slot.record_address().block, lives);
        if let Ok(grows) = held.insert(&self.arena, hash, slot, self, || self.index_block(now)) {
            return grows;
        }
        let is_unhit = |cell: &SlotRef<'_>| cell.slot.stamp() == HitStamp::NEVER;
        let coldest = held.neighbours(hash).max_by_key(is_unhit);
        let Some(cell) = coldest else {
            return false;
        };
        held.replace(cell, slot);
        let place = cell.slot.record_address();
        if let Some(record) = self
            .block_of(cell.slot)
            .and_then(|_| self.record_at(place.block, place.at))
        {
            self.arena.lose(place.block, record.live_amount());
            self.count_eviction(cell.slot, &record);
        }
        false
    }

    fn grow_index(&self, table: &Table, now: Second) {
        // If no block is free, the chains grow longer instead.
        let _ = table.split(&self.arena, self, || self.index_block(now));
    }

    pub(super) fn index_block(&self, now: Second) -> Option<BlockId> {
        self.arena.allocate(BlockOwner::None, 0, now)
    }

    /// Removes an item from the index.
    pub(super) fn unlink<'t>(
        &self,
        held: &mut LockedStripe<'t>,
        cell: SlotRef<'t>,
        record: &Record<'_>,
    ) {
        held.remove(cell);
        self.arena
            .lose(cell.slot.record_address().block, record.live_amount());
    }

    fn count_eviction(&self, slot: Slot, record: &Record<'_>) {
        let owner = self.arena.block(slot.record_address().block).owner();
        if let BlockOwner::Items(tenant) = owner
            && let Some(tenant) = self.tenants.get(tenant)
        {
            let hash = self.hash(tenant.id, record.fields.key);
            self.record_eviction(tenant, hash, slot, record);
        }
    }

    /// Counts an eviction and notifies listeners.
    pub(super) fn record_eviction(
        &self,
        tenant: &Tenant,
        hash: u64,
        slot: Slot,
        record: &Record<'_>,
    ) {
        if record.fields.role == Role::Chunk {
            return; // its item counts
        }
        let tenant_items = self.tenant_items(tenant);
        tenant_items.samples.record(hash, ItemUse::Evicted);
        tenant_items.tally.evictions.add(1);
        let unfetched = u64::from(!slot.is_fetched());
        tenant_items.tally.evicted_unfetched.add(unfetched);
        if tenant_items.listeners.has_listeners() {
            let last_access = self.last_access(slot);
            tenant_items
                .listeners
                .notify(&EvictedItem::of(slot, record, last_access));
        }
    }
}

/// Cuts a value's pieces into chunks.
struct PieceCutter<'a> {
    rest: Vec<&'a [u8]>,
}

impl<'a> PieceCutter<'a> {
    fn new(value: &[&'a [u8]]) -> PieceCutter<'a> {
        PieceCutter {
            rest: value.iter().rev().copied().collect(),
        }
    }

    /// The next `len` bytes, or what is left.
    fn next(&mut self, len: usize) -> Vec<&'a [u8]> {
        let mut wanted = len;
        let mut pieces = Vec::new();
        while wanted > 0
            && let Some(piece) = self.rest.pop()
        {
            let (here, after) = piece.split_at(wanted.min(piece.len()));
            pieces.push(here);
            wanted -= here.len();
            if !after.is_empty() {
                self.rest.push(after);
            }
        }
        pieces
    }
}
