//! The borrower: a real store that keeps evicted pages at a lender, and the carrier of these pages.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use serde::Serialize;
use sublet_store::{
    AwayTicket, EvictAheadScope, FarAddress, GetOutcome, LeaseSlot, MappedMemory, OutboundPage,
    PageKey, PageSettings, SealTag, SendOutcome, Store, StoreSettings, UnwrittenPage, Worker,
};
use sublet_types::{
    Bytes, EvictionKind, GetMode, ObjectId, PageIndex, PoolFlags, PoolId, Second, TenantId,
    TenantSettings, Weight,
};

use super::far_link::FarLink;
use super::lending_store::LendingStore;
use crate::machine::tier::{PageStamp, PoolKind, TierPage};
use crate::machine::tier_store::StoreTierError;
use crate::rng::mixed;
use crate::stable_hash::StableHashMap;
use crate::traces::EXTENT_PAGES;
use crate::virtual_time::{VirtualDuration, VirtualInstant};

/// Bytes of a page: a stamp, and as much again.
pub(super) const PAGE: u64 = 2 * size_of::<PageStamp>() as u64;

/// Pages of a block, as on a real host.
pub(super) const BLOCK_PAGES: u64 = sublet_types::BLOCK_BYTES / sublet_types::PAGE_BYTES;

/// Bytes of a block.
pub(super) const BLOCK: u64 = BLOCK_PAGES * PAGE;

/// Blocks of the borrower's own memory. A store cannot do without.
pub(super) const HERE_BLOCKS: u64 = 1;

/// The index of items, and what the arena keeps back.
const UNOWNED_BLOCKS: u64 = 2;

/// Blocks of the borrower's own memory, and those that nobody has.
const OWN_BLOCKS: u64 = HERE_BLOCKS + UNOWNED_BLOCKS;

/// The most blocks that the records of one far block take. Stamps are so small that their records take more than they.
const RECORD_BLOCKS_MAX: u64 = 8;

/// Blocks that the outbox takes.
const OUTBOX_BLOCKS: u64 = 2;

const LEASE: LeaseSlot = LeaseSlot(0);

/// Pages of a message, as the daemon sends them.
const MESSAGE_PAGES: usize = 32;

/// Messages that wait for the lender's answer at once.
const MESSAGES_MAX: usize = 8;

/// How long pages wait for others, so that a message has many.
const GATHER_TIME: VirtualDuration = VirtualDuration::micros(200);

/// How often pages are evicted ahead and far blocks are made ready.
const LOOK_EVERY: VirtualDuration = VirtualDuration::micros(5_000);

/// How often the chores are done.
const CHORES_EVERY: VirtualDuration = VirtualDuration::secs(1);

/// Where a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PagePlace {
    /// In this host's store, or on its way to the lender.
    Here,
    /// At the lender.
    Away(AwayTicket),
    /// The store does not have it.
    Nowhere,
}

/// What crossed the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FarCounts {
    /// Pages that came back from the lender.
    pub fetched: u64,
    /// Pages that were sent to the lender.
    pub sent: u64,
    /// Pages that came back with other content than they had. Always zero.
    pub pages_wrong: u64,
}

/// A message that the lender has not answered yet.
struct SentMessage {
    answered_at: VirtualInstant,
    pages: Vec<(OutboundPage, SendOutcome)>,
}

/// The store of a host that borrows.
pub(super) struct BorrowingStore {
    store: Arc<Store>,
    worker: Worker,
    tenant: TenantId,
    pool: PoolId,
    pub(super) lender: LendingStore,
    /// How many blocks the borrower wants.
    wanted: u64,
    under_way: VecDeque<SentMessage>,
    /// From when on the next message may leave with fewer pages than it has room for.
    sends_at: VirtualInstant,
    looks_at: VirtualInstant,
    chores_at: VirtualInstant,
    /// The pages that were written, and how often.
    versions: StableHashMap<u64, u32>,
    pub(super) counts: FarCounts,
}

impl BorrowingStore {
    /// A store that has borrowed this many blocks. With [`GetMode::Keeping`], a page that is read stays at the lender.
    ///
    /// # Errors
    ///
    /// There is no memory.
    pub(super) fn of(
        far_blocks: u64,
        mode: GetMode,
        seed: u64,
    ) -> Result<BorrowingStore, StoreTierError> {
        let capacity = (OWN_BLOCKS + 1 + OUTBOX_BLOCKS + far_blocks * RECORD_BLOCKS_MAX) * BLOCK;
        let memory = MappedMemory::reserve(capacity as usize, BLOCK as usize)?;
        let settings = StoreSettings {
            capacity: Bytes(capacity),
            limit: Bytes(OWN_BLOCKS * BLOCK),
            item_max: Bytes(BLOCK / 4),
            seed,
            evicts: true,
            pages: PageSettings {
                page_bytes: PAGE as usize,
                shards: 1,
                far_blocks: far_blocks as u32,
                ..PageSettings::default()
            },
        };
        let store = Store::over(Box::new(memory), BLOCK as usize, settings)
            .ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let tenant = store.add_tenant(TenantSettings {
            name: "guest".parse().expect("it is a name"),
            weight: Weight::default(),
            floor: None,
            ceiling: None,
        })?;
        store.set_eviction(tenant, EvictionKind::Lru, Second(0));
        let flags = PoolFlags {
            keeping: mode == GetMode::Keeping,
            ..PoolFlags::default()
        };
        let pool = store.create_pool(tenant, flags, None)?;
        let mut borrower = BorrowingStore {
            worker: store.worker()?,
            store,
            tenant,
            pool,
            lender: LendingStore::of(far_blocks)?,
            wanted: far_blocks,
            under_way: VecDeque::new(),
            sends_at: VirtualInstant::START,
            looks_at: VirtualInstant::START,
            chores_at: VirtualInstant::START,
            versions: StableHashMap::default(),
            counts: FarCounts::default(),
        };
        borrower.borrow(VirtualInstant::START);
        Ok(borrower)
    }

    /// Borrows what is wanted, as far as the lender has it.
    pub(super) fn borrow(&mut self, now: VirtualInstant) {
        let indices = self.lender.lend_up_to(self.wanted, now);
        if !indices.is_empty() {
            // Records of blocks that went are free again only when the blocks are swept.
            let added = self.store.add_to_lease(LEASE, 0, indices.clone());
            if added.is_err() {
                indices.for_each(|index| self.lender.end(index));
            }
            self.make_room_for_records();
        }
    }

    /// Lets the arena be larger by what the records of far blocks take, so that its own blocks stay as many as they are.
    fn make_room_for_records(&self) {
        let records = self.store.far_overhead();
        self.store.set_limit(Bytes(OWN_BLOCKS * BLOCK) + records);
    }

    /// Forgets what lay in blocks that the lender took back.
    pub(super) fn recall(&mut self, indices: &[u32]) {
        for index in indices {
            let block = *index..index + 1;
            self.store.recall(LEASE, std::slice::from_ref(&block));
        }
    }

    /// Looks for a page.
    pub(super) fn find(&mut self, page: u64, now: VirtualInstant) -> PagePlace {
        self.settle_until(now);
        let expected = self.bytes(page);
        let mut came = expected;
        let visit = |bytes: &[u8]| came.copy_from_slice(bytes);
        match self
            .worker
            .get_page(self.tenant, self.key(page), now.second(), visit)
        {
            GetOutcome::Hit => {
                self.counts.pages_wrong += u64::from(came != expected);
                PagePlace::Here
            }
            GetOutcome::Away(ticket) => PagePlace::Away(ticket),
            GetOutcome::Miss | GetOutcome::NoPool | GetOutcome::Failed => PagePlace::Nowhere,
        }
    }

    /// Ends a get by the bytes that the lender has. Returns whether the page is there.
    pub(super) fn arrive(&mut self, page: u64, ticket: &AwayTicket, now: VirtualInstant) -> bool {
        let mut bytes = [0; PAGE as usize];
        let read = |page: &[u8]| bytes.copy_from_slice(page);
        let is_there = self.lender.read(ticket.address, now, read);
        if !is_there || tag_of(ticket.address, ticket.seal.sequence, &bytes) != ticket.seal.tag {
            self.lose(page, ticket, now);
            return false;
        }
        self.counts.fetched += 1;
        let expected = self.bytes(page);
        self.counts.pages_wrong += u64::from(bytes != expected);
        let (tenant, key) = (self.tenant, self.key(page));
        let got = self
            .worker
            .arrived(tenant, key, ticket, &bytes, now.second(), |_| ());
        got == GetOutcome::Hit
    }

    /// Ends a get of a page that did not come.
    pub(super) fn lose(&self, page: u64, ticket: &AwayTicket, now: VirtualInstant) {
        let (tenant, key) = (self.tenant, self.key(page));
        self.worker.gone(tenant, key, ticket, now.second(), |_| ());
    }

    /// Returns whether a get would find a page.
    pub(super) fn has(&self, page: u64, now: VirtualInstant) -> bool {
        self.worker
            .has_page(self.tenant, self.key(page), now.second())
    }

    /// Puts a page that the guest evicts.
    pub(super) fn put(&mut self, page: u64, now: VirtualInstant) {
        let stamp = self.bytes(page);
        let fill = |bytes: &mut UnwrittenPage<'_>| bytes.copy_from_slice(&stamp);
        self.worker
            .put_page(self.tenant, self.key(page), now.second(), fill);
    }

    /// Forgets a page that the guest writes.
    pub(super) fn overwrite(&mut self, page: u64, now: VirtualInstant) {
        *self.versions.entry(page).or_default() += 1;
        self.worker
            .flush_page(self.tenant, self.key(page), now.second());
    }

    /// Does what is due, and sends what waits in the outbox.
    pub(super) fn carry(&mut self, link: &mut FarLink, now: VirtualInstant) {
        self.settle_until(now);
        if now >= self.looks_at {
            self.worker.evict_ahead(EvictAheadScope::All, now.second());
            self.looks_at = now + LOOK_EVERY;
        }
        if now >= self.chores_at {
            self.do_chores(now);
            self.chores_at = now + CHORES_EVERY;
        }
        while self.under_way.len() < MESSAGES_MAX && self.is_message_due(now) {
            let pages = self.take_message();
            if pages.is_empty() {
                break;
            }
            self.counts.sent += pages.len() as u64;
            let answered_at = link.send(now, pages.len() as u64);
            self.under_way.push_back(SentMessage { answered_at, pages });
            self.sends_at = now + GATHER_TIME;
        }
    }

    fn is_message_due(&self, now: VirtualInstant) -> bool {
        let unanswered: usize = self.under_way.iter().map(|sent| sent.pages.len()).sum();
        let outbound = self.store.lease_figures(LEASE).outbound as usize;
        now >= self.sends_at || outbound >= unanswered + MESSAGE_PAGES
    }

    fn do_chores(&mut self, now: VirtualInstant) {
        while self.worker.upkeep(now.second()) {}
        self.make_room_for_records();
        for (_, index) in self.store.take_returned() {
            self.lender.end(index);
        }
        self.borrow(now);
    }

    /// Takes a message of pages out of the outbox. The lender has them from now on, but nobody asks it before it has
    /// answered.
    fn take_message(&self) -> Vec<(OutboundPage, SendOutcome)> {
        let mut pages = Vec::new();
        self.worker
            .take_outbound(LEASE, MESSAGE_PAGES, |page, bytes| {
                let outcome = match self.lender.write(page.address, bytes) {
                    true => SendOutcome::Taken(tag_of(page.address, page.sequence, bytes)),
                    false => SendOutcome::Lost,
                };
                pages.push((page, outcome));
            });
        pages
    }

    /// Settles messages that were answered.
    fn settle_until(&mut self, now: VirtualInstant) {
        while self
            .under_way
            .front()
            .is_some_and(|sent| sent.answered_at <= now)
            && let Some(sent) = self.under_way.pop_front()
        {
            for (page, outcome) in sent.pages {
                self.worker.settle(page, outcome);
            }
        }
    }

    fn key(&self, page: u64) -> PageKey {
        PageKey {
            pool: self.pool,
            object: ObjectId(page / EXTENT_PAGES),
            index: PageIndex((page % EXTENT_PAGES) as u32),
        }
    }

    /// The content of a page: its stamp, twice.
    fn bytes(&self, page: u64) -> [u8; PAGE as usize] {
        let of = TierPage {
            tenant: self.tenant,
            pool: PoolKind::File,
            object: page / EXTENT_PAGES,
            index: (page % EXTENT_PAGES) as u32,
        };
        let stamp = PageStamp::of(of, self.versions.get(&page).copied().unwrap_or(0)).0;
        let mut bytes = [0; PAGE as usize];
        bytes[..stamp.len()].copy_from_slice(&stamp);
        bytes[stamp.len()..].copy_from_slice(&stamp);
        bytes
    }
}

/// A stand-in for the seal: it depends on the bytes, the address and the number of the write, as the seal's tag does.
fn tag_of(address: FarAddress, sequence: u32, bytes: &[u8]) -> SealTag {
    let place = u64::from(address.index) << 32 | u64::from(address.place);
    let mut tag = mixed(place).wrapping_add(mixed(u64::from(sequence) ^ 0x5ea1));
    for word in bytes.as_chunks().0 {
        tag = mixed(tag ^ u64::from_le_bytes(*word));
    }
    let both = u128::from(tag) << 64 | u128::from(mixed(tag ^ 1));
    SealTag(both.to_le_bytes())
}
