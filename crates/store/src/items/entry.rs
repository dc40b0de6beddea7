//! A key's place while one update holds it: look, then store or remove.

use sublet_types::{Expiry, Second};

use super::chunk_names::{CHUNKS_PER_BLOCK, chunk_fields};
use super::followed::ItemUse;
use super::listeners::Evicted;
use super::part::Part;
use super::record::{Fields, Record, Role};
use super::slot::{Place, Slot};
use super::space_time::Stamp;
use super::table::{Cell, Held, Table};
use super::{Items, Moment};
use crate::api::{Absence, Item, NewCas, NewItem, Reading, Refused};
use crate::arena::{BlockId, Claim, Claimant, Lives};
use crate::reclaim::has_room;
use crate::tenants::Tenant;

/// Attempts of an update to find room, each after making some.
const ATTEMPTS_MAX: u32 = 64;

/// Why a store inside an update did not come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hindrance {
    /// For good.
    Refused(Refused),
    /// Room for so many blocks must be made first, outside the lock.
    NoRoom(u32),
    /// A flush came in between: what was looked at is gone.
    Flushed,
}

/// A key's place, held by one update.
pub struct Entry<'a> {
    items: &'a Items,
    tenant: &'a Tenant,
    part: &'a Part,
    key: &'a [u8],
    hash: u64,
    moment: Moment,
    held: Held<'a>,
    current: Option<Item<'a>>,
    old: Option<(Cell<'a>, Record<'a>)>,
    absence: Option<Absence>,
    /// The tenant's last flush when the item was looked at.
    flushed_before: u64,
    hindrance: Option<Hindrance>,
    written: u64,
    grows: bool,
    /// It was asked for in vain: what is stored in its place was.
    asked: bool,
}

/// What one run of a decision came to.
struct Attempt<R> {
    answer: R,
    hindrance: Option<Hindrance>,
    /// Bytes of records written.
    written: u64,
    /// Whether the index should grow by a bucket.
    grows: bool,
}

impl Items {
    /// Looks at an item and changes it with nobody in between. The caller is pinned; `make_room` is
    /// called, without any lock held, when blocks are wanted, and says whether it is worth another try.
    /// Returns, beside the decision's answer, how many bytes of records were written.
    pub(crate) fn update<R>(
        &self,
        tenant: &Tenant,
        key: &[u8],
        moment: Moment,
        decide: &mut dyn FnMut(&mut Entry<'_>) -> R,
        make_room: &mut dyn FnMut(u32) -> bool,
    ) -> Result<(R, u64), Refused> {
        let hash = self.hash(tenant.id, key);
        for _ in 0..ATTEMPTS_MAX {
            let attempt = self.attempt(tenant, key, hash, moment, decide);
            if attempt.grows {
                self.grow_index(&self.table, moment.now);
            }
            match attempt.hindrance {
                None => return Ok((attempt.answer, attempt.written)),
                Some(Hindrance::Flushed) => {}
                Some(Hindrance::Refused(why)) => return Err(why),
                Some(Hindrance::NoRoom(blocks)) if make_room(blocks) => {}
                Some(Hindrance::NoRoom(_)) => return Err(Refused::NoMemory),
            }
        }
        Err(Refused::NoMemory)
    }

    fn attempt<R>(
        &self,
        tenant: &Tenant,
        key: &[u8],
        hash: u64,
        moment: Moment,
        decide: &mut dyn FnMut(&mut Entry<'_>) -> R,
    ) -> Attempt<R> {
        let held = self.table.lock(hash);
        let part = self.part(tenant);
        let flushed_before = part.segments.flushed_before();
        let old = held.find(hash, |slot| self.record_of(slot, tenant.id, key));
        let absence = old
            .as_ref()
            .and_then(|(cell, record)| self.absence(part, cell.slot, record, moment.now));
        let tell = || {
            old.as_ref().map_or(0, |(cell, record)| {
                self.tell(tenant.id, hash, *cell, record)
            })
        };
        let value = old
            .as_ref()
            .filter(|_| absence.is_none())
            .and_then(|(_, record)| self.value(part, record, moment, Reading::Peek));
        let current = match (&old, value) {
            (Some((cell, record)), Some(value)) => Some(self.item(cell.slot, record, value, &tell)),
            _ => None,
        };
        let mut entry = Entry {
            items: self,
            tenant,
            part,
            key,
            hash,
            moment,
            held,
            current,
            old,
            absence,
            flushed_before,
            hindrance: None,
            written: 0,
            grows: false,
            asked: false,
        };
        let answer = decide(&mut entry);
        Attempt {
            answer,
            hindrance: entry.hindrance,
            written: entry.written,
            grows: entry.grows,
        }
    }
}

impl<'a> Entry<'a> {
    /// The item that is there, if any.
    pub fn current(&self) -> Option<&Item<'a>> {
        self.current.as_ref()
    }

    /// Why there is none, where there is none.
    pub fn absence(&self) -> Absence {
        self.absence.unwrap_or(Absence::Unknown)
    }

    /// Counts a use of the item, as a read would, whether or not it is there. If it is not, what is stored in its place is
    /// used already.
    pub fn note_use(&mut self) {
        self.part.followed.note(self.hash, ItemUse::Asked);
        match &mut self.old {
            Some((cell, _)) if self.current.is_some() => {
                cell.slot = self.items.note_use(self.part, *cell, self.moment);
            }
            _ => self.asked = true,
        }
    }

    /// Stores `new` in its place; returns its cas unique (0 unless `new.cas` says that it is told,
    /// kept or given).
    pub fn store(&mut self, new: &NewItem<'_>) -> u64 {
        self.try_store(new).unwrap_or_else(|hindrance| {
            self.hindrance = Some(hindrance);
            0
        })
    }

    /// Removes the item.
    pub fn remove(&mut self) {
        if let Some((cell, record)) = self.old.take() {
            self.part.followed.note(self.hash, ItemUse::Gone);
            self.items.unlink_chunks(&record);
            self.items.unlink(&mut self.held, cell, &record);
        }
        self.current = None;
    }

    fn try_store(&mut self, new: &NewItem<'_>) -> Result<u64, Hindrance> {
        let total = new.value.iter().map(|piece| piece.len()).sum();
        let mut fields = self.fields_of(new);
        if fields.record_len(total) as u64 > self.items.item_max {
            return Err(Hindrance::Refused(Refused::TooLarge));
        }
        let longest = fields.record_len(total) + size_of::<u64>();
        let slot = if longest <= self.items.whole_max() {
            self.write(&mut fields, new.value, total)?
        } else {
            self.write_large(&mut fields, new.value, total)?
        };
        if self.part.segments.flushed_before() != self.flushed_before {
            if fields.role == Role::Large {
                self.abandon(slot);
            }
            return Err(Hindrance::Flushed);
        }
        let slot = if new.cas == NewCas::Told {
            slot.with_told()
        } else {
            slot
        };
        let lives = fields.lives(self.stored_len(&fields, total));
        self.publish(slot, lives, new.cas);
        let bytes = fields.record_len(total) as u32;
        self.part.followed.note(self.hash, ItemUse::Stored(bytes));
        Ok(match new.cas {
            NewCas::Fresh => 0,
            _ => fields
                .cas
                .unwrap_or_else(|| self.items.implied_cas(slot.place())),
        })
    }

    /// Takes the chunks of a record that is not to be published out of the index.
    fn abandon(&self, slot: Slot) {
        let place = slot.place();
        if let Some(record) = self.items.record_at(place.block, place.at) {
            self.items.unlink_chunks(&record);
        }
    }

    fn fields_of(&self, new: &NewItem<'_>) -> Fields<'a> {
        let cas = match new.cas {
            NewCas::Fresh | NewCas::Told => None,
            NewCas::Keep => self.current.as_ref().map(Item::cas),
            NewCas::Is(cas) => Some(cas),
        };
        Fields {
            key: self.key,
            role: Role::Plain,
            marks: new.marks,
            expiry: new.expiry,
            flags: new.flags,
            cas,
        }
    }

    fn stored_len(&self, fields: &Fields<'_>, total: usize) -> usize {
        match fields.role {
            Role::Large => super::chunk_names::NAMES_BYTES,
            Role::Plain | Role::Chunk => total,
        }
    }

    /// Writes the item's record; `fields` gets a written cas unique where the implied one would not be
    /// above that of the item it replaces.
    fn write(
        &mut self,
        fields: &mut Fields<'_>,
        value: &[&[u8]],
        len: usize,
    ) -> Result<Slot, Hindrance> {
        let claim = self.claim(fields, fields.record_len(len))?;
        let place = Place::new(claim.block, claim.at, claim.generation);
        let implied = self.items.implied_cas(place);
        let above = self
            .last_cas()
            .filter(|last| fields.cas.is_none() && *last >= implied && *last != u64::MAX);
        let Some(last) = above else {
            return Ok(self.fill(claim, fields, value, len));
        };
        // Segments of several classes are open at once: this one is older than the last item's. What was
        // claimed becomes a dead record, so that whoever walks the segment finds its way.
        self.fill(claim, fields, value, len);
        fields.cas = Some(last + 1);
        let claim = self.claim(fields, fields.record_len(len))?;
        Ok(self.fill(claim, fields, value, len))
    }

    /// The cas unique of the item that is replaced.
    fn last_cas(&self) -> Option<u64> {
        let (cell, record) = self.old.as_ref()?;
        Some(
            record
                .fields
                .cas
                .unwrap_or_else(|| self.items.implied_cas(cell.slot.place())),
        )
    }

    fn claim(&mut self, fields: &Fields<'_>, len: usize) -> Result<Claim, Hindrance> {
        self.written += len as u64;
        let arena = &self.items.arena;
        let class = self.part.segments.class_of(
            self.tenant,
            arena.block_bytes(),
            fields.expiry,
            self.moment.now,
        );
        self.part
            .segments
            .claim(self.tenant, arena, class, len as u32, self.moment.now)
            .ok_or(Hindrance::NoRoom(1))
    }

    fn fill(&self, claim: Claim, fields: &Fields<'_>, value: &[&[u8]], len: usize) -> Slot {
        self.items
            .fill(claim, self.hash_of(fields), fields, value, len)
    }

    fn hash_of(&self, fields: &Fields<'_>) -> u64 {
        match fields.role {
            Role::Chunk => self.items.hash_of_chunk(fields.key),
            Role::Plain | Role::Large => self.hash,
        }
    }

    /// Writes the chunks, then the record that names them. Leaves no chunk behind if that fails.
    fn write_large(
        &mut self,
        fields: &mut Fields<'_>,
        value: &[&[u8]],
        total: usize,
    ) -> Result<Slot, Hindrance> {
        let names = self.items.new_names(total);
        let blocks = names.chunks.div_ceil(CHUNKS_PER_BLOCK) + 1;
        // The chunks are written under the item's stripe: others of that stripe wait for the copy.
        if !has_room(&self.items.arena, self.tenant, blocks) {
            return Err(Hindrance::NoRoom(blocks));
        }
        fields.role = Role::Large;
        let mut cursor = Pieces::new(value);
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

    fn write_chunk(&mut self, fields: &Fields<'_>, pieces: &[&[u8]]) -> Result<(), Hindrance> {
        let len = pieces.iter().map(|piece| piece.len()).sum();
        let claim = self.claim(fields, fields.record_len(len))?;
        let slot = self.fill(claim, fields, pieces, len);
        let table = self
            .items
            .chunk_table(self.moment.now)
            .ok_or(Hindrance::NoRoom(1))?;
        let hash = self.items.hash_of_chunk(fields.key);
        let lives = fields.lives(len);
        if self
            .items
            .link(&mut table.lock(hash), hash, slot, lives, self.moment.now)
        {
            self.items.grow_index(table, self.moment.now);
        }
        Ok(())
    }

    /// The new slot with what eviction knows of the key. A hot key stays hot when it is written; whether it was read since is
    /// another matter, unless it is the same value again.
    fn marked(&self, slot: Slot, cas: NewCas) -> Slot {
        let now = || self.part.segments.clock().now();
        match &self.old {
            _ if self.asked => slot.with_stamp(now()).with_fetched(true),
            Some((cell, _)) => {
                let fetched = cas == NewCas::Keep && cell.slot.fetched();
                let stamp = cell.slot.stamp().carried(now());
                slot.with_stamp(stamp).with_fetched(fetched)
            }
            None => slot,
        }
    }

    /// Makes the new record the item; the old one is gone with its chunks.
    fn publish(&mut self, slot: Slot, lives: Lives, cas: NewCas) {
        let slot = self.marked(slot, cas);
        match self.old.take() {
            Some((cell, record)) => {
                self.held.replace(cell, slot);
                self.items.unlink_chunks(&record);
                let (new, old) = (slot.place().block, cell.slot.place().block);
                self.items.arena.gain(new, lives);
                self.items.arena.lose(old, record.lives());
                if self.absence.is_some() {
                    self.part.tally.reclaim(1, cell.slot);
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
    /// Writes a record into its claim; returns the slot that will name it.
    pub(super) fn fill(
        &self,
        claim: Claim,
        hash: u64,
        fields: &Fields<'_>,
        value: &[&[u8]],
        len: usize,
    ) -> Slot {
        let block = self.arena.block(claim.block);
        let place = Place::new(claim.block, claim.at, claim.generation);
        let expiry = match fields.expiry {
            Expiry::At(second) => second.0,
            Expiry::Never => u32::MAX,
        };
        block.extend_expiry(expiry);
        self.arena
            .fill(claim, |range| fields.write(value, len, range));
        Slot::new(hash, place)
    }

    /// Enters a new slot into the index, and says whether the index should grow. Where it cannot, an
    /// item of the chain gives way that was never hit, if there is one.
    fn link(&self, held: &mut Held<'_>, hash: u64, slot: Slot, lives: Lives, now: Second) -> bool {
        self.arena.gain(slot.place().block, lives);
        if let Ok(grows) = held.insert(&self.arena, hash, slot, self, || self.index_block(now)) {
            return grows;
        }
        let is_unhit = |cell: &Cell<'_>| cell.slot.stamp() == Stamp::NEVER;
        let coldest = held.neighbours(hash).max_by_key(is_unhit);
        let Some(cell) = coldest else {
            return false;
        };
        held.replace(cell, slot);
        let place = cell.slot.place();
        if let Some(record) = self
            .block_of(cell.slot)
            .and_then(|_| self.record_at(place.block, place.at))
        {
            self.arena.lose(place.block, record.lives());
            self.count_eviction(cell.slot, &record);
        }
        false
    }

    fn grow_index(&self, table: &Table, now: Second) {
        // Without a block to be had the chains grow longer instead.
        let _ = table.split(&self.arena, self, || self.index_block(now));
    }

    pub(super) fn index_block(&self, now: Second) -> Option<BlockId> {
        self.arena.take(Claimant::None, 0, now)
    }

    /// Takes an item out of the index.
    pub(super) fn unlink<'t>(&self, held: &mut Held<'t>, cell: Cell<'t>, record: &Record<'_>) {
        held.remove(cell);
        self.arena.lose(cell.slot.place().block, record.lives());
    }

    fn count_eviction(&self, slot: Slot, record: &Record<'_>) {
        let owner = self.arena.block(slot.place().block).owner();
        if let Claimant::Tenant(tenant) = owner
            && let Some(tenant) = self.tenants.get(tenant)
        {
            let hash = self.hash(tenant.id, record.fields.key);
            self.evicted(tenant, hash, slot, record);
        }
    }

    /// Counts an eviction and tells who listens.
    pub(super) fn evicted(&self, tenant: &Tenant, hash: u64, slot: Slot, record: &Record<'_>) {
        if record.fields.role == Role::Chunk {
            return; // its item counts
        }
        let part = self.part(tenant);
        part.followed.note(hash, ItemUse::Evicted);
        part.tally.evictions.add(1);
        let unfetched = u64::from(!slot.fetched());
        part.tally.evicted_unfetched.add(unfetched);
        if part.listeners.listens() {
            let last_access = self.last_access(slot);
            part.listeners.tell(&Evicted::of(slot, record, last_access));
        }
    }
}

/// A value's pieces, cut anew.
struct Pieces<'a> {
    rest: Vec<&'a [u8]>,
}

impl<'a> Pieces<'a> {
    fn new(value: &[&'a [u8]]) -> Pieces<'a> {
        Pieces {
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
