//! What is known of each block.
//!
//! ```text
//!            take                 seal                  retire            (epoch past)
//!  Ready ───────────► Open ───────────────► Sealed ───────────────► Limbo ───────────► Ready
//!    ▲                                        │  drop: generation + 1    ▲
//!    │ populate                               └──────────────────────────┘
//!  Absent ◄─────────────────────────── give back (madvise) ───────────── Ready
//! ```

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

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
}

const NOBODY: u16 = u16::MAX;

/// What a live record adds to its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lives {
    /// Client items: none for a chunk of one.
    pub(crate) items: u32,
    pub(crate) bytes: u32,
}

/// One block's facts; all of them may be read at any time.
#[repr(align(64))]
#[derive(Debug, Default)]
pub(crate) struct Block {
    generation: AtomicU32,
    owner: AtomicU16,
    pub(crate) class: AtomicU8,
    /// Where the next record goes; final once sealed.
    pub(crate) filled: AtomicU32,
    pub(crate) live_items: AtomicU32,
    pub(crate) live_bytes: AtomicU32,
    /// Hits, halved once a minute: what releasing it would cost.
    pub(crate) heat: AtomicU32,
    /// Sequence of its opening: orders segments, and is the upper part of implied cas uniques.
    pub(crate) sequence: AtomicU64,
    /// The latest expiry of its items, `u32::MAX` if one never expires, 0 if it is empty.
    pub(crate) last_expiry: AtomicU32,
    /// The epoch after which nobody writes into it any more; `u64::MAX` while it is open.
    pub(super) closed: AtomicU64,
    opened: AtomicU32,
    last_hit: AtomicU32,
}

impl Block {
    pub(crate) fn nobodys() -> Block {
        Block {
            owner: AtomicU16::new(NOBODY),
            ..Block::default()
        }
    }

    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    pub(crate) fn owner(&self) -> Claimant {
        match self.owner.load(Ordering::Acquire) {
            NOBODY => Claimant::None,
            tenant => Claimant::Tenant(TenantId(tenant)),
        }
    }

    pub(crate) fn is_owned_by(&self, tenant: TenantId) -> bool {
        self.owner.load(Ordering::Acquire) == tenant.0
    }

    pub(crate) fn sequence(&self) -> u64 {
        self.sequence.load(Ordering::Relaxed)
    }

    /// A fresh start for a new owner. Only for blocks that nobody can reach.
    pub(crate) fn open(&self, owner: Claimant, sequence: u64, now: Second) {
        self.class.store(0, Ordering::Relaxed);
        self.filled.store(0, Ordering::Relaxed);
        self.live_items.store(0, Ordering::Relaxed);
        self.live_bytes.store(0, Ordering::Relaxed);
        self.heat.store(0, Ordering::Relaxed);
        self.sequence.store(sequence, Ordering::Relaxed);
        self.last_expiry.store(0, Ordering::Relaxed);
        self.closed.store(u64::MAX, Ordering::Relaxed);
        self.opened.store(now.0, Ordering::Relaxed);
        self.last_hit.store(0, Ordering::Relaxed);
        let owner = match owner {
            Claimant::None => NOBODY,
            Claimant::Tenant(tenant) => tenant.0,
        };
        self.owner.store(owner, Ordering::Release);
    }

    pub(crate) fn disown(&self) {
        self.owner.store(NOBODY, Ordering::Release);
    }

    /// Makes every slot that names this block stale; returns the items and bytes that were lost by it.
    pub(crate) fn drop_content(&self) -> (u32, u32) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        self.disown();
        (
            self.live_items.swap(0, Ordering::AcqRel),
            self.live_bytes.swap(0, Ordering::AcqRel),
        )
    }

    /// One more live record.
    pub(crate) fn gain(&self, Lives { items, bytes }: Lives) {
        self.live_items.fetch_add(items, Ordering::AcqRel);
        self.live_bytes.fetch_add(bytes, Ordering::AcqRel);
    }

    /// One live record fewer. The caller is pinned and saw the slot's generation hold.
    pub(crate) fn lose(&self, Lives { items, bytes }: Lives) {
        let fewer = |by: u32| move |n: u32| n.checked_sub(by);
        // A drop may have taken the count to zero in between; then there is nothing left to lose.
        let _ = self
            .live_items
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, fewer(items));
        let _ = self
            .live_bytes
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, fewer(bytes));
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
