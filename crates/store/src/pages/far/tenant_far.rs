//! One tenant's far blocks: which it has, oldest first, and the one whose frames are being handed out.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use sublet_types::{Second, TenantId};

use super::blocks::{FarBlockId, FarBlocks, TakenBlock};
use crate::borrowing::{Borrowing, FarFrame};
use crate::tenants::Tenant;

/// The most far frames that a shard gets at once.
const BATCH_MAX: u32 = 16;

/// A block's frames go to shards in at least this many batches.
const BATCHES_MIN: u32 = 4;

/// A tenant's far blocks.
pub(crate) struct TenantFar {
    forbidden: AtomicBool,
    /// Whether it wanted a far frame since the chores last looked and got none, or will soon.
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
            wanting: AtomicBool::new(false),
            blocks: Mutex::new(HeldBlocks {
                taken: VecDeque::with_capacity(far.borrowed() as usize + 1),
                open: None,
            }),
        }
    }

    /// Sets whether its pages may go to lenders. If they may not, it takes no block after this.
    pub(crate) fn set_borrowing(&self, borrowing: Borrowing) {
        let forbidden = borrowing == Borrowing::Forbidden;
        let _none_is_taken = self.blocks.lock();
        self.forbidden.store(forbidden, Ordering::Relaxed);
    }

    /// Returns whether its pages may go to lenders.
    pub(crate) fn may_borrow(&self) -> bool {
        !self.forbidden.load(Ordering::Relaxed)
    }

    /// Returns whether it wanted a frame in vain since the last call, or will soon.
    pub(super) fn take_want(&self) -> bool {
        self.wanting.swap(false, Ordering::Relaxed)
    }

    /// Some frames that were never handed out since their block was taken. Takes a block if it must and one is ready.
    pub(crate) fn some_frames(
        &self,
        far: &FarBlocks,
        tenant: &Tenant,
        now: Second,
    ) -> impl Iterator<Item = FarFrame> + use<> {
        let (first, count) = self.hand_out(far, tenant, now).unwrap_or_else(|| {
            self.wanting.store(true, Ordering::Relaxed);
            (0, 0)
        });
        (first..first + count).rev().map(FarFrame)
    }

    /// The first frame that is handed out next, and how many.
    fn hand_out(&self, far: &FarBlocks, tenant: &Tenant, now: Second) -> Option<(u32, u32)> {
        let mut blocks = self.blocks.lock();
        if !self.may_borrow() {
            return None;
        }
        if blocks.open.is_none() {
            // A list without room would allocate. The chores make room.
            let is_full = blocks.taken.len() == blocks.taken.capacity();
            let (held, most) = (tenant.far_held(), far.most_of(tenant));
            if is_full || held >= most {
                return None;
            }
            let taken = far.take(tenant.id, now)?;
            tenant.gained_far_block();
            if held > 0 && held + 1 == most {
                // This is the last one that it may have. The chores make room before it is full.
                self.wanting.store(true, Ordering::Relaxed);
            }
            blocks.taken.push_back(taken);
            let block = taken.block;
            blocks.open = Some(OpenFarBlock { block, next: 0 });
        }
        let open = blocks.open.as_mut()?;
        let (per_block, place) = (far.per_block(), open.next);
        let batch = BATCH_MAX.min(per_block / BATCHES_MIN);
        let count = batch.min(per_block - place);
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
    pub(super) fn lost(&self, tenant: &Tenant, block: FarBlockId) {
        let mut blocks = self.blocks.lock();
        tenant.lost_far_block();
        if blocks.open.as_ref().is_some_and(|open| open.block == block) {
            blocks.open = None;
        }
    }
}
