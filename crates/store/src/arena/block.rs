//! The record of each block.
//!
//! ```text
//!            take                 seal                  retire            (epoch past)
//!  Ready ───────────► Open ───────────────► Sealed ───────────────► Limbo ───────────► Ready
//!    ▲                                        │  drop: generation + 1    ▲
//!    │ populate                               └──────────────────────────┘
//!  Absent ◄─────────────────────────── give back (madvise) ───────────── Ready
//! ```

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use sublet_types::{Second, TenantId};

/// A block's number: its index in the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BlockId(pub(crate) u32);

/// Generation bits that a hash slot keeps. Tests keep fewer, so that generations wrap often.
pub(crate) const GENERATION_BITS: u32 = if cfg!(test) { 2 } else { 3 };

/// Heat up to which each hit is counted.
const HEAT_EXACT: u32 = 64;

/// Beyond that, one hit in this many is counted and stands for all of them.
const HEAT_SAMPLE_ONE_IN: u32 = 8;

/// The owner of a block, and the engine that uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockOwner {
    /// Nobody, or the index.
    None,
    /// This tenant's items.
    Items(TenantId),
    /// This tenant's pages, all of one kind.
    Pages(TenantId, PageKind),
    /// Another host.
    Lent,
}

/// What the pages of a block promise. A block never mixes kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageKind {
    /// The pages may go at any time.
    Ephemeral,
    /// The pages come back until they are flushed.
    Persistent,
}

impl PageKind {
    pub(crate) const ALL: [PageKind; 2] = [PageKind::Ephemeral, PageKind::Persistent];
}

/// A bit of the owner word: the block belongs to nobody any more. The bits below still name its former tenant, for whom
/// what lived in it is counted.
const NOBODYS_BIT: u32 = 8 << 16;

/// Nobody has owned it since it was opened, or it was never opened.
const NOBODY: u32 = NOBODYS_BIT | u16::MAX as u32;

/// A bit of the owner word, above the tenant's number: which engine's block it is.
const EPHEMERAL_BIT: u32 = 1 << 16;
const PERSISTENT_BIT: u32 = 2 << 16;

/// The block is lent to another host. No tenant has it.
const LENT: u32 = 16 << 16 | u16::MAX as u32;
const LENT_BIT: u32 = 16 << 16;

/// A bit of the owner word: pages are being moved out of the block.
const LEAVING_BIT: u32 = 4 << 16;

impl BlockOwner {
    fn packed(self) -> u32 {
        match self {
            BlockOwner::None => NOBODY,
            BlockOwner::Lent => LENT,
            BlockOwner::Items(tenant) => u32::from(tenant.0),
            BlockOwner::Pages(tenant, PageKind::Ephemeral) => u32::from(tenant.0) | EPHEMERAL_BIT,
            BlockOwner::Pages(tenant, PageKind::Persistent) => u32::from(tenant.0) | PERSISTENT_BIT,
        }
    }

    fn unpacked(packed: u32) -> BlockOwner {
        let tenant = TenantId(packed as u16);
        match packed & !0xffff & !LEAVING_BIT {
            _ if packed & NOBODYS_BIT != 0 => BlockOwner::None,
            LENT_BIT => BlockOwner::Lent,
            0 => BlockOwner::Items(tenant),
            EPHEMERAL_BIT => BlockOwner::Pages(tenant, PageKind::Ephemeral),
            _ => BlockOwner::Pages(tenant, PageKind::Persistent),
        }
    }
}

/// What a live record adds to its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LiveAmount {
    /// Client items. A chunk of an item counts as none.
    pub(crate) items: u32,
    pub(crate) bytes: u32,
}

impl LiveAmount {
    /// This many pages.
    pub(crate) fn pages(pages: u32) -> LiveAmount {
        LiveAmount {
            items: pages,
            bytes: 0,
        }
    }

    fn packed(self) -> u64 {
        u64::from(self.items) << 32 | u64::from(self.bytes)
    }

    fn unpacked(packed: u64) -> LiveAmount {
        LiveAmount {
            items: (packed >> 32) as u32,
            bytes: packed as u32,
        }
    }

    fn minus(self, other: LiveAmount) -> Option<LiveAmount> {
        Some(LiveAmount {
            items: self.items.checked_sub(other.items)?,
            bytes: self.bytes.checked_sub(other.bytes)?,
        })
    }
}

/// One block's record. Every field may be read at any time.
#[repr(align(64))]
#[derive(Debug, Default)]
pub(crate) struct Block {
    generation: AtomicU32,
    /// Its owner, and whether pages are being moved out of it. It is one word, so that no thread begins with another
    /// tenant's block.
    owner: AtomicU32,
    pub(crate) class: AtomicU8,
    /// Where the next record goes. It is final once the block is sealed.
    pub(crate) filled: AtomicU32,
    /// Items or pages in the upper half, and bytes of items in the lower half. Both change at once.
    live: AtomicU64,
    /// Hits, halved once per minute. They tell what a release of the block would cost.
    pub(crate) heat: AtomicU32,
    /// The number of its opening. It orders segments and is the upper part of implied cas uniques.
    pub(crate) sequence: AtomicU64,
    /// The latest expiry of its items. `u32::MAX` if one never expires, 0 if it is empty.
    pub(crate) last_expiry: AtomicU32,
    /// The epoch after which nobody writes into it any more; `u64::MAX` while it is open.
    pub(super) closed: AtomicU64,
    opened: AtomicU32,
    /// When it was opened, by the arena's clock.
    pub(crate) born: AtomicU64,
    last_hit: AtomicU32,
    /// Whether the frame table still names pages that were dropped with it.
    pub(crate) unswept: AtomicBool,
    /// The tenant of those pages.
    pub(crate) former: AtomicU16,
}

impl Block {
    pub(crate) fn unowned() -> Block {
        Block {
            owner: AtomicU32::new(NOBODY),
            ..Block::default()
        }
    }

    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    pub(crate) fn owner(&self) -> BlockOwner {
        BlockOwner::unpacked(self.owner.load(Ordering::Acquire))
    }

    /// Returns whether it holds this tenant's items.
    pub(crate) fn is_owned_by(&self, tenant: TenantId) -> bool {
        self.owner.load(Ordering::Acquire) == u32::from(tenant.0)
    }

    /// Returns whether it holds this tenant's pages of that kind and each of them is in the directory.
    pub(crate) fn is_of_pages(&self, tenant: TenantId, kind: PageKind) -> bool {
        let owner = BlockOwner::Pages(tenant, kind).packed();
        let is_own = self.owner.load(Ordering::Acquire) & !LEAVING_BIT == owner;
        is_own && !self.unswept.load(Ordering::Relaxed)
    }

    pub(crate) fn sequence(&self) -> u64 {
        self.sequence.load(Ordering::Relaxed)
    }

    /// Resets the record for a new owner. Only for blocks that nobody can reach.
    pub(crate) fn open(&self, owner: BlockOwner, sequence: u64, now: Second) {
        self.class.store(0, Ordering::Relaxed);
        self.filled.store(0, Ordering::Relaxed);
        self.live.store(0, Ordering::Relaxed);
        self.heat.store(0, Ordering::Relaxed);
        self.sequence.store(sequence, Ordering::Relaxed);
        self.last_expiry.store(0, Ordering::Relaxed);
        self.closed.store(u64::MAX, Ordering::Relaxed);
        self.opened.store(now.0, Ordering::Relaxed);
        self.last_hit.store(0, Ordering::Relaxed);
        // No thread empties or drops a block of pages before it is ready for them.
        let leaving = match owner {
            BlockOwner::Pages(..) => LEAVING_BIT,
            BlockOwner::Items(_) | BlockOwner::Lent | BlockOwner::None => 0,
        };
        self.owner
            .store(owner.packed() | leaving, Ordering::Release);
    }

    /// Its last tenant, for whom what lives in it is counted. It stays while a thread that saw it is pinned.
    pub(crate) fn account(&self) -> Option<TenantId> {
        let tenant = self.owner.load(Ordering::Relaxed) as u16;
        (tenant != u16::MAX).then_some(TenantId(tenant))
    }

    /// Returns whether what lives in it, or lived in it last, are pages.
    pub(super) fn has_pages(&self) -> bool {
        self.owner.load(Ordering::Relaxed) & (EPHEMERAL_BIT | PERSISTENT_BIT) != 0
    }

    /// Marks it as nobody's.
    pub(crate) fn disown(&self) {
        self.owner.fetch_or(NOBODYS_BIT, Ordering::AcqRel);
    }

    /// Makes every slot that names this block stale.
    pub(super) fn begin_generation(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// The number of live items, or pages.
    pub(crate) fn live_items(&self) -> u32 {
        (self.live.load(Ordering::Acquire) >> 32) as u32
    }

    /// Bytes of live items.
    pub(crate) fn live_bytes(&self) -> u32 {
        self.live.load(Ordering::Acquire) as u32
    }

    /// Counts nothing in it as live any more. Returns what was live.
    pub(crate) fn lose_all(&self) -> LiveAmount {
        LiveAmount::unpacked(self.live.swap(0, Ordering::AcqRel))
    }

    /// Counts more live records or pages.
    pub(crate) fn gain(&self, lives: LiveAmount) {
        self.live.fetch_add(lives.packed(), Ordering::AcqRel);
    }

    /// Counts fewer live records or pages. The caller is pinned and saw that they were there. Returns false if the
    /// whole block was counted out in between.
    pub(crate) fn lose(&self, lives: LiveAmount) -> bool {
        let fewer = |live: u64| Some(LiveAmount::unpacked(live).minus(lives)?.packed());
        self.live
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, fewer)
            .is_ok()
    }

    /// Returns whether items are still written into it.
    pub(crate) fn is_open(&self) -> bool {
        !self.has_pages() && self.closed.load(Ordering::Relaxed) == u64::MAX
    }

    /// Returns whether pages are being moved out of it, so that no new ones may come in.
    pub(crate) fn is_leaving(&self) -> bool {
        self.owner.load(Ordering::Relaxed) & LEAVING_BIT != 0
    }

    /// Begins to move a tenant's pages of a kind out of it. Returns whether it has such pages and no other thread does
    /// so already. The caller then gives the block up, or lets it stay.
    pub(crate) fn begin_leaving(&self, tenant: TenantId, kind: PageKind) -> bool {
        let owner = BlockOwner::Pages(tenant, kind).packed();
        let (acquired, failed) = (Ordering::AcqRel, Ordering::Relaxed);
        self.owner
            .compare_exchange(owner, owner | LEAVING_BIT, acquired, failed)
            .is_ok()
    }

    /// Begins to take it back from the host that has it. Returns whether it was lent and no other thread does so.
    pub(crate) fn begin_recall(&self) -> bool {
        let (acquired, failed) = (Ordering::AcqRel, Ordering::Relaxed);
        self.owner
            .compare_exchange(LENT, NOBODY, acquired, failed)
            .is_ok()
    }

    /// Lets it take pages again. Only for the thread that has opened it or began to move its pages out; until then no
    /// other thread uses it.
    pub(crate) fn cancel_leaving(&self) {
        self.owner.fetch_and(!LEAVING_BIT, Ordering::Release);
    }

    /// Records a hit. `random` differs from call to call. Racing hits may be lost, and of many only some are written.
    /// Heat is an estimate, and every reader reads this line.
    pub(crate) fn hit(&self, now: Second, random: u64) {
        let heat = self.heat.load(Ordering::Relaxed);
        if heat < HEAT_EXACT {
            self.heat.store(heat + 1, Ordering::Relaxed);
        } else if random.is_multiple_of(u64::from(HEAT_SAMPLE_ONE_IN)) {
            let more = heat.saturating_add(HEAT_SAMPLE_ONE_IN);
            self.heat.store(more, Ordering::Relaxed);
        }
        if self.last_hit.load(Ordering::Relaxed) != now.0 {
            self.last_hit.store(now.0, Ordering::Relaxed);
        }
    }

    /// Hits, with old ones halved repeatedly.
    pub(crate) fn heat(&self) -> u32 {
        self.heat.load(Ordering::Relaxed)
    }

    /// Halves past hits.
    pub(super) fn cool(&self) {
        self.heat.store(self.heat() / 2, Ordering::Relaxed);
    }

    /// When something in it was last hit. If nothing was, when it was opened.
    pub(crate) fn last_hit(&self) -> Second {
        Second(
            self.last_hit
                .load(Ordering::Relaxed)
                .max(self.opened.load(Ordering::Relaxed)),
        )
    }

    /// When it was opened.
    pub(crate) fn opened(&self) -> Second {
        Second(self.opened.load(Ordering::Relaxed))
    }

    /// Records that it has an item that expires at `expiry` (`u32::MAX`: never).
    pub(crate) fn extend_expiry(&self, expiry: u32) {
        if self.last_expiry.load(Ordering::Relaxed) < expiry {
            self.last_expiry.fetch_max(expiry, Ordering::Relaxed);
        }
    }

    /// Returns whether all of its items have expired.
    pub(crate) fn is_expired(&self, now: Second) -> bool {
        let last = self.last_expiry.load(Ordering::Relaxed);
        last != 0 && last != u32::MAX && last <= now.0
    }
}
