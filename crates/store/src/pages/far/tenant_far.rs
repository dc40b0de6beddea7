//! One tenant's far blocks: which it has, oldest first, and the one whose frames are being handed out.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::Mutex;
use sublet_types::{Second, TenantId};

use super::blocks::{FarBlockId, FarBlocks, TakenBlock};
use crate::lending::{Borrowing, FarFrame};

/// The most far frames that a shard gets at once.
const BATCH: u32 = 16;

/// A tenant's far blocks.
pub(crate) struct TenantFar {
    forbidden: AtomicBool,
    /// Blocks that it has. Those that were dropped do not count.
    held: AtomicU32,
    /// Whether it wanted a far frame since the chores last looked, and got none.
    wanting: AtomicBool,
    blocks: Mutex<HeldBlocks>,
}

struct HeldBlocks {
    /// Oldest first. Some may have been dropped since.
    taken: VecDeque<TakenBlock>,
    open: Option<OpenFarBlock>,
}

/// The block whose frames are being handed out.
struct OpenFarBlock {
    block: FarBlockId,
    /// The place of the next frame.
    next: u32,
}

impl TenantFar {
    /// A tenant without far blocks. Its list has room for those that are borrowed now.
    pub(crate) fn new(far: &FarBlocks) -> TenantFar {
        TenantFar {
            forbidden: AtomicBool::new(false),
            held: AtomicU32::new(0),
            wanting: AtomicBool::new(false),
            blocks: Mutex::new(HeldBlocks {
                taken: VecDeque::with_capacity(far.borrowed() as usize + 1),
                open: None,
            }),
        }
    }

    /// Sets whether its pages may go to lenders.
    pub(crate) fn set_borrowing(&self, borrowing: Borrowing) {
        let forbidden = borrowing == Borrowing::Forbidden;
        self.forbidden.store(forbidden, Ordering::Relaxed);
    }

    /// Returns whether its pages may go to lenders.
    pub(crate) fn may_borrow(&self) -> bool {
        !self.forbidden.load(Ordering::Relaxed)
    }

    /// The number of blocks that it has.
    pub(crate) fn held(&self) -> u32 {
        self.held.load(Ordering::Relaxed)
    }

    /// Returns whether some of its pages may be at lenders.
    #[inline]
    pub(crate) fn has_some(&self) -> bool {
        self.held() > 0
    }

    /// Returns whether it wanted a frame in vain since the last call.
    pub(super) fn was_wanting(&self) -> bool {
        self.wanting.swap(false, Ordering::Relaxed)
    }

    /// Some frames that were never handed out since their block was taken. Takes a block if it must and one is ready.
    pub(crate) fn some_frames(
        &self,
        far: &FarBlocks,
        tenant: TenantId,
        now: Second,
    ) -> impl Iterator<Item = FarFrame> + use<> {
        let (first, count) = self.hand_out(far, tenant, now).unwrap_or_else(|| {
            self.wanting.store(true, Ordering::Relaxed);
            (0, 0)
        });
        (first..first + count).rev().map(FarFrame)
    }

    /// The first frame that is handed out next, and how many.
    fn hand_out(&self, far: &FarBlocks, tenant: TenantId, now: Second) -> Option<(u32, u32)> {
        let mut blocks = self.blocks.lock();
        if blocks.open.is_none() {
            // A list without room would allocate. The chores make room.
            if blocks.taken.len() == blocks.taken.capacity() {
                return None;
            }
            let taken = far.take(tenant, now)?;
            self.held.fetch_add(1, Ordering::Relaxed);
            blocks.taken.push_back(taken);
            let block = taken.block;
            blocks.open = Some(OpenFarBlock { block, next: 0 });
        }
        let open = blocks.open.as_mut()?;
        let (per_block, place) = (far.per_block(), open.next);
        let count = BATCH.min(per_block - place);
        open.next += count;
        let first = open.block.0 * per_block + place;
        if open.next == per_block {
            blocks.open = None;
        }
        Some((first, count))
    }

    /// Makes room for as many blocks as may ever be held, so that no eviction allocates.
    pub(super) fn make_room(&self, far: &FarBlocks, tenant: TenantId) {
        let mut blocks = self.blocks.lock();
        blocks.taken.retain(|taken| far.is_held(tenant, *taken));
        let room = far.borrowed() as usize + 1;
        let more = room.saturating_sub(blocks.taken.len());
        blocks.taken.reserve(more);
    }

    /// The block that it has had longest.
    pub(super) fn oldest(&self, far: &FarBlocks, tenant: TenantId) -> Option<FarBlockId> {
        let mut blocks = self.blocks.lock();
        while let Some(taken) = blocks.taken.front().copied() {
            if far.is_held(tenant, taken) {
                return Some(taken.block);
            }
            blocks.taken.pop_front();
        }
        None
    }

    /// All blocks that it has, oldest first.
    pub(super) fn all(&self, far: &FarBlocks, tenant: TenantId) -> Vec<FarBlockId> {
        let blocks = self.blocks.lock();
        let held = blocks
            .taken
            .iter()
            .filter(|taken| far.is_held(tenant, **taken));
        held.map(|taken| taken.block).collect()
    }

    /// Records that a block was dropped.
    pub(super) fn lost(&self, block: FarBlockId) {
        let mut blocks = self.blocks.lock();
        self.held.fetch_sub(1, Ordering::Relaxed);
        if blocks.open.as_ref().is_some_and(|open| open.block == block) {
            blocks.open = None;
        }
    }
}
