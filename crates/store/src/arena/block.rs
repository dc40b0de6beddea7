//! What is known of each block.
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

/// A block's number: its place in the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BlockId(pub(crate) u32);

/// Generation bits that a hash slot keeps. Tests keep fewer, so that generations come round often.
pub(crate) const GENERATION_BITS: u32 = if cfg!(test) { 2 } else { 3 };

/// Heat up to which each hit is counted.
const HEAT_EXACT: u32 = 64;

/// Beyond, one hit in so many is, for all of them.
const HEAT_SAMPLE_ONE_IN: u32 = 8;

/// Whether and how a block may be read for its tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claimant {
    /// Nobody's, or the index's.
    None,
    /// This tenant's items.
    Tenant(TenantId),
    /// This tenant's pages, all of one kind.
    Pages(TenantId, PageKind),
}

/// What the pages of a block promise; kinds are never mixed in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageKind {
    /// They may go at any time.
    Ephemeral,
    /// They come back until they are flushed.
    Persistent,
}

impl PageKind {
    pub(crate) const ALL: [PageKind; 2] = [PageKind::Ephemeral, PageKind::Persistent];
}

/// In an owner: the block is nobody's any more. Below stays whose it was, for whom what lived in it is counted.
const NOBODYS_BIT: u32 = 8 << 16;

/// Nobody's since it was opened, or never opened.
const NOBODY: u32 = NOBODYS_BIT | u16::MAX as u32;

/// In an owner, above the tenant's number: which engine's block it is.
const EPHEMERAL_BIT: u32 = 1 << 16;
const PERSISTENT_BIT: u32 = 2 << 16;

/// In an owner: its pages are being got out of the block.
const LEAVING_BIT: u32 = 4 << 16;

impl Claimant {
    fn packed(self) -> u32 {
        match self {
            Claimant::None => NOBODY,
            Claimant::Tenant(tenant) => u32::from(tenant.0),
            Claimant::Pages(tenant, PageKind::Ephemeral) => u32::from(tenant.0) | EPHEMERAL_BIT,
            Claimant::Pages(tenant, PageKind::Persistent) => u32::from(tenant.0) | PERSISTENT_BIT,
        }
    }

    fn unpacked(packed: u32) -> Claimant {
        let tenant = TenantId(packed as u16);
        match packed & !0xffff & !LEAVING_BIT {
            _ if packed & NOBODYS_BIT != 0 => Claimant::None,
            0 => Claimant::Tenant(tenant),
            EPHEMERAL_BIT => Claimant::Pages(tenant, PageKind::Ephemeral),
            _ => Claimant::Pages(tenant, PageKind::Persistent),
        }
    }
}

/// What a live record adds to its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lives {
    /// Client items: none for a chunk of one.
    pub(crate) items: u32,
    pub(crate) bytes: u32,
}

impl Lives {
    /// So many pages.
    pub(super) fn pages(pages: u32) -> Lives {
        Lives {
            items: pages,
            bytes: 0,
        }
    }

    fn packed(self) -> u64 {
        u64::from(self.items) << 32 | u64::from(self.bytes)
    }

    fn unpacked(packed: u64) -> Lives {
        Lives {
            items: (packed >> 32) as u32,
            bytes: packed as u32,
        }
    }

    fn less(self, other: Lives) -> Option<Lives> {
        Some(Lives {
            items: self.items.checked_sub(other.items)?,
            bytes: self.bytes.checked_sub(other.bytes)?,
        })
    }
}

/// One block's facts; all of them may be read at any time.
#[repr(align(64))]
#[derive(Debug, Default)]
pub(crate) struct Block {
    generation: AtomicU32,
    /// Whose it is, and whether pages are being got out of it: one word, so that nobody begins with another's.
    owner: AtomicU32,
    pub(crate) class: AtomicU8,
    /// Where the next record goes; final once sealed.
    pub(crate) filled: AtomicU32,
    /// Items, or pages, in the upper half and bytes of items in the lower one: both change at once.
    live: AtomicU64,
    /// Hits, halved once a minute: what releasing it would cost.
    pub(crate) heat: AtomicU32,
    /// Sequence of its opening: orders segments, and is the upper part of implied cas uniques.
    pub(crate) sequence: AtomicU64,
    /// The latest expiry of its items, `u32::MAX` if one never expires, 0 if it is empty.
    pub(crate) last_expiry: AtomicU32,
    /// The epoch after which nobody writes into it any more; `u64::MAX` while it is open.
    pub(super) closed: AtomicU64,
    opened: AtomicU32,
    /// When it was opened by the arena's clock.
    pub(crate) born: AtomicU64,
    last_hit: AtomicU32,
    /// Whether the frame table still tells of pages that were dropped with it.
    pub(crate) unswept: AtomicBool,
    /// Whose pages those were.
    pub(crate) former: AtomicU16,
}

impl Block {
    pub(crate) fn nobodys() -> Block {
        Block {
            owner: AtomicU32::new(NOBODY),
            ..Block::default()
        }
    }

    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    pub(crate) fn owner(&self) -> Claimant {
        Claimant::unpacked(self.owner.load(Ordering::Acquire))
    }

    /// Whether it holds this tenant's items.
    pub(crate) fn is_owned_by(&self, tenant: TenantId) -> bool {
        self.owner.load(Ordering::Acquire) == u32::from(tenant.0)
    }

    /// Whether it holds this tenant's pages of that kind, and each of them is in the directory.
    pub(crate) fn is_of_pages(&self, tenant: TenantId, kind: PageKind) -> bool {
        let owner = Claimant::Pages(tenant, kind).packed();
        let is_own = self.owner.load(Ordering::Acquire) & !LEAVING_BIT == owner;
        is_own && !self.unswept.load(Ordering::Relaxed)
    }

    pub(crate) fn sequence(&self) -> u64 {
        self.sequence.load(Ordering::Relaxed)
    }

    /// A fresh start for a new owner. Only for blocks that nobody can reach.
    pub(crate) fn open(&self, owner: Claimant, sequence: u64, now: Second) {
        self.class.store(0, Ordering::Relaxed);
        self.filled.store(0, Ordering::Relaxed);
        self.live.store(0, Ordering::Relaxed);
        self.heat.store(0, Ordering::Relaxed);
        self.sequence.store(sequence, Ordering::Relaxed);
        self.last_expiry.store(0, Ordering::Relaxed);
        self.closed.store(u64::MAX, Ordering::Relaxed);
        self.opened.store(now.0, Ordering::Relaxed);
        self.last_hit.store(0, Ordering::Relaxed);
        // Nobody empties or drops a block of pages before it is ready for them.
        let leaving = match owner {
            Claimant::Pages(..) => LEAVING_BIT,
            Claimant::Tenant(_) | Claimant::None => 0,
        };
        self.owner
            .store(owner.packed() | leaving, Ordering::Release);
    }

    /// Whose it was last, for whom what lives in it is counted. Stays while somebody who saw it is pinned.
    pub(super) fn account(&self) -> Option<TenantId> {
        let tenant = self.owner.load(Ordering::Relaxed) as u16;
        (tenant != u16::MAX).then_some(TenantId(tenant))
    }

    /// Whether what lives, or lived last, in it are pages.
    pub(super) fn has_pages(&self) -> bool {
        self.owner.load(Ordering::Relaxed) & (EPHEMERAL_BIT | PERSISTENT_BIT) != 0
    }

    /// Is nobody's from now on.
    pub(super) fn disown(&self) {
        self.owner.fetch_or(NOBODYS_BIT, Ordering::AcqRel);
    }

    /// Makes every slot that names this block stale.
    pub(super) fn begin_generation(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Live items, or pages.
    pub(crate) fn live_items(&self) -> u32 {
        (self.live.load(Ordering::Acquire) >> 32) as u32
    }

    /// Bytes of live items.
    pub(crate) fn live_bytes(&self) -> u32 {
        self.live.load(Ordering::Acquire) as u32
    }

    /// Counts nothing in it as live any more. Says what was.
    pub(super) fn lose_all(&self) -> Lives {
        Lives::unpacked(self.live.swap(0, Ordering::AcqRel))
    }

    /// More live records, or pages.
    pub(super) fn gain(&self, lives: Lives) {
        self.live.fetch_add(lives.packed(), Ordering::AcqRel);
    }

    /// Fewer live records, or pages. The caller is pinned and saw that they were there. Says no where they were counted out
    /// with the whole block in between.
    pub(super) fn lose(&self, lives: Lives) -> bool {
        let fewer = |live: u64| Some(Lives::unpacked(live).less(lives)?.packed());
        self.live
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, fewer)
            .is_ok()
    }

    /// Whether items are still written into it.
    pub(crate) fn is_open(&self) -> bool {
        !self.has_pages() && self.closed.load(Ordering::Relaxed) == u64::MAX
    }

    /// Whether its pages are being got out of it, so that nothing new may come in.
    pub(crate) fn is_leaving(&self) -> bool {
        self.owner.load(Ordering::Relaxed) & LEAVING_BIT != 0
    }

    /// Begins to get a tenant's pages of a kind out of it. Says whether it has such, and nobody else does so already: then
    /// it is the caller's to give up, or to have it stay.
    pub(crate) fn begin_leaving(&self, tenant: TenantId, kind: PageKind) -> bool {
        let owner = Claimant::Pages(tenant, kind).packed();
        let (acquired, failed) = (Ordering::AcqRel, Ordering::Relaxed);
        self.owner
            .compare_exchange(owner, owner | LEAVING_BIT, acquired, failed)
            .is_ok()
    }

    /// Takes pages again. For whoever has opened it, or began to get its pages out: until then it is nobody else's.
    pub(crate) fn stay(&self) {
        self.owner.fetch_and(!LEAVING_BIT, Ordering::Release);
    }

    /// Notes a hit; `luck` differs from call to call. Racing hits may be lost, and of many only some are
    /// written down: heat is an estimate, and every reader reads this line.
    pub(crate) fn hit(&self, now: Second, luck: u64) {
        let heat = self.heat.load(Ordering::Relaxed);
        if heat < HEAT_EXACT {
            self.heat.store(heat + 1, Ordering::Relaxed);
        } else if luck.is_multiple_of(u64::from(HEAT_SAMPLE_ONE_IN)) {
            let more = heat.saturating_add(HEAT_SAMPLE_ONE_IN);
            self.heat.store(more, Ordering::Relaxed);
        }
        if self.last_hit.load(Ordering::Relaxed) != now.0 {
            self.last_hit.store(now.0, Ordering::Relaxed);
        }
    }

    /// Hits, those that are long past halved again and again.
    pub(crate) fn heat(&self) -> u32 {
        self.heat.load(Ordering::Relaxed)
    }

    /// Lets past hits count half.
    pub(super) fn cool(&self) {
        self.heat.store(self.heat() / 2, Ordering::Relaxed);
    }

    /// When something in it was last hit, or else when it was opened.
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

    /// Hears of an item that expires at `expiry` (`u32::MAX`: never).
    pub(crate) fn extend_expiry(&self, expiry: u32) {
        if self.last_expiry.load(Ordering::Relaxed) < expiry {
            self.last_expiry.fetch_max(expiry, Ordering::Relaxed);
        }
    }

    /// Whether all of its items have expired.
    pub(crate) fn is_expired(&self, now: Second) -> bool {
        let last = self.last_expiry.load(Ordering::Relaxed);
        last != 0 && last != u32::MAX && last <= now.0
    }
}
