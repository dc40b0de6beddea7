//! The records of far blocks, and which blocks each lease has.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::Mutex;
use sublet_types::{Bytes, Second, TenantId};

use super::idle::{BlockLook, IdleCounts};
use crate::arena::{Block, BlockOwner, PageKind};
use crate::borrowing::{
    FarAddress, FarFrame, LEASES_MAX, LeaseFigures, LeaseSlot, OpenLeaseError, SEQUENCE_MAX,
};
use crate::frames::FAR_FRAME_BYTES;
use crate::tenants::Tenant;

/// Records of blocks that are made at once.
const CHUNK: u32 = 1024;

/// A far block's number: its index in the table of this host. It says nothing about the lender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FarBlockId(pub(crate) u32);

/// A block that a tenant took, and the number of that taking. A block may be taken again later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TakenBlock {
    pub(super) block: FarBlockId,
    order: u64,
}

/// What becomes of a dropped block when it is swept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum BlockFate {
    /// It takes pages again.
    Ready,
    /// Its lender gets it back.
    Returned,
    /// Its lender has it back already, or is gone.
    Gone,
}

/// One far block's record.
#[derive(Debug)]
pub(crate) struct FarBlock {
    /// Its tenant, its live pages and its heat, as for a block of the arena.
    pub(super) record: Block,
    lease: AtomicU32,
    /// Its index in the lease.
    index: AtomicU32,
    /// Where the list of its lease's blocks has it.
    at: AtomicU32,
    /// Writes into it so far. The number goes on when another lease gets the record.
    writes: AtomicU32,
    /// Writes into it that were not answered yet.
    pub(super) in_flight: AtomicU32,
    /// What becomes of it when it is swept ([`BlockFate`]). Of several, the last in order.
    fate: AtomicU32,
    last_look: BlockLook,
}

impl FarBlock {
    fn vacant() -> FarBlock {
        FarBlock {
            record: Block::unowned(),
            lease: AtomicU32::new(0),
            index: AtomicU32::new(0),
            at: AtomicU32::new(0),
            writes: AtomicU32::new(0),
            in_flight: AtomicU32::new(0),
            fate: AtomicU32::new(0),
            last_look: BlockLook::default(),
        }
    }

    /// The lease that has it.
    pub(super) fn lease(&self) -> LeaseSlot {
        LeaseSlot(self.lease.load(Ordering::Relaxed) as u16)
    }

    /// Its index in the lease.
    pub(super) fn index(&self) -> u32 {
        self.index.load(Ordering::Relaxed)
    }

    /// Returns whether it holds this tenant's pages and each of them is in the directory.
    pub(super) fn is_of(&self, tenant: TenantId) -> bool {
        self.record.is_of_pages(tenant, PageKind::Ephemeral)
    }

    /// The number of the next write. `None` if there is none left.
    pub(super) fn next_write(&self) -> Option<u32> {
        let more = |writes: u32| writes.checked_add(1);
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        let before = self.writes.fetch_update(set, fetch, more).ok()?;
        Some(before + 1)
    }

    /// Looks at it once per second, while a tenant has it. Returns whether it is idle.
    pub(super) fn look(&self) -> bool {
        let writes = self.writes.load(Ordering::Relaxed);
        self.last_look.look(writes, self.pages())
    }

    /// Returns whether it was idle at the last look and is so still.
    pub(super) fn is_idle(&self) -> bool {
        self.last_look.was_idle() && self.pages() == 0
    }

    /// The pages that it holds, or that are on their way into it. One that is both counts twice.
    fn pages(&self) -> u32 {
        self.in_flight.load(Ordering::Acquire) + self.record.live_items()
    }

    pub(super) fn raise_fate(&self, fate: BlockFate) {
        self.fate.fetch_max(fate as u32, Ordering::Relaxed);
    }

    fn fate(&self) -> BlockFate {
        const FATES: [BlockFate; 3] = [BlockFate::Ready, BlockFate::Returned, BlockFate::Gone];
        let fate = FATES[self.fate.load(Ordering::Relaxed) as usize];
        match self.writes.load(Ordering::Relaxed) {
            // No frame of it could be written again.
            SEQUENCE_MAX => fate.max(BlockFate::Returned),
            _ => fate,
        }
    }
}

/// All far blocks of this host.
pub(crate) struct FarBlocks {
    chunks: Box<[OnceLock<Box<[FarBlock]>>]>,
    most: u32,
    /// The binary logarithm of the frames per block.
    block_bits: u32,
    lists: Mutex<BlockLists>,
    /// Blocks of all leases.
    borrowed: AtomicU32,
    /// Those that no tenant uses and that are swept.
    ready: AtomicU32,
    /// Blocks of the arena that tenants may hold together.
    here: AtomicU32,
    /// Whether a tenant took one since the chores last looked.
    took_some: AtomicBool,
    /// Those that hold nothing.
    pub(super) idle: IdleCounts,
}

struct BlockLists {
    leases: Box<[LeaseBlocks]>,
    /// Numbers without a lease.
    vacant: Vec<FarBlockId>,
    /// The first number that never had a lease.
    fresh: u32,
    /// Dropped blocks that wait to be swept.
    unswept: VecDeque<FarBlockId>,
    /// Blocks that their lenders get back.
    returned: Vec<(LeaseSlot, u32)>,
    /// How often a tenant took a block.
    taken: u64,
}

/// What one lease has.
#[derive(Default)]
struct LeaseBlocks {
    /// How far away its lender is. Blocks of near lenders are used first.
    distance: u32,
    /// Whether it has ended. It takes no pages then, and its number is free when its last block is swept.
    has_ended: bool,
    all: Vec<FarBlockId>,
    /// Those that no tenant uses.
    ready: Vec<FarBlockId>,
}

impl FarBlocks {
    /// A table for at most this many blocks. Their records are made when they are needed.
    pub(crate) fn new(most: u32, block_bits: u32) -> FarBlocks {
        FarBlocks {
            chunks: (0..most.div_ceil(CHUNK)).map(|_| OnceLock::new()).collect(),
            most,
            block_bits,
            lists: Mutex::new(BlockLists {
                leases: (0..LEASES_MAX).map(|_| LeaseBlocks::default()).collect(),
                vacant: Vec::new(),
                fresh: 0,
                unswept: VecDeque::new(),
                returned: Vec::new(),
                taken: 0,
            }),
            borrowed: AtomicU32::new(0),
            ready: AtomicU32::new(0),
            here: AtomicU32::new(0),
            took_some: AtomicBool::new(false),
            idle: IdleCounts::default(),
        }
    }

    /// Returns whether pages may go to lenders at all.
    #[inline]
    pub(crate) fn are_there(&self) -> bool {
        self.borrowed.load(Ordering::Relaxed) > 0
    }

    /// Blocks of all leases.
    pub(crate) fn borrowed(&self) -> u32 {
        self.borrowed.load(Ordering::Relaxed)
    }

    /// Blocks that no tenant uses.
    pub(crate) fn ready(&self) -> u32 {
        self.ready.load(Ordering::Relaxed)
    }

    /// Sets how many blocks of the arena tenants may hold together.
    pub(super) fn set_here(&self, blocks: u32) {
        self.here.store(blocks, Ordering::Relaxed);
    }

    /// The most blocks that a tenant may take. `u32::MAX` if it has no target.
    pub(super) fn most_of(&self, tenant: &Tenant) -> u32 {
        let here = self.here.load(Ordering::Relaxed);
        let allowed = tenant.far_blocks_allowed(here, self.borrowed());
        allowed.unwrap_or(u32::MAX)
    }

    /// Returns whether a tenant took a block since the last call.
    pub(super) fn take_activity(&self) -> bool {
        self.took_some.swap(false, Ordering::Relaxed)
    }

    /// A block's record.
    pub(super) fn get(&self, block: FarBlockId) -> &FarBlock {
        let chunk = self.chunks[(block.0 / CHUNK) as usize]
            .get_or_init(|| (0..CHUNK).map(|_| FarBlock::vacant()).collect());
        &chunk[(block.0 % CHUNK) as usize]
    }

    /// What this many blocks take here: each its record, and for each of its frames a record and a seal.
    pub(super) fn overhead_of(&self, blocks: u32) -> Bytes {
        let frames = u64::from(self.per_block()) * FAR_FRAME_BYTES;
        Bytes(u64::from(blocks) * (frames + size_of::<FarBlock>() as u64))
    }

    /// Calls `charge` with what all blocks take here. Meanwhile none is added, and none goes.
    pub(super) fn with_overhead(&self, charge: impl FnOnce(Bytes)) {
        let _lists = self.lists.lock();
        charge(self.overhead_of(self.borrowed()));
    }

    /// The block of a frame.
    pub(super) fn of(&self, frame: FarFrame) -> &FarBlock {
        self.get(self.number_of(frame))
    }

    /// The number of a frame's block.
    pub(super) fn number_of(&self, frame: FarFrame) -> FarBlockId {
        FarBlockId(frame.0 >> self.block_bits)
    }

    /// Frames per block.
    pub(super) fn per_block(&self) -> u32 {
        1 << self.block_bits
    }

    /// The numbers of a block's frames.
    pub(super) fn rows_of(&self, block: FarBlockId) -> Range<u32> {
        let first = block.0 << self.block_bits;
        first..first + self.per_block()
    }

    /// Where a frame's page is at its lender.
    pub(super) fn address(&self, frame: FarFrame) -> FarAddress {
        let block = self.of(frame);
        FarAddress {
            lease: block.lease(),
            index: block.index(),
            place: (frame.0 & (self.per_block() - 1)) as u16,
        }
    }

    /// Adds blocks to a lease, or opens it with them. Their indices follow one another.
    pub(super) fn add(
        &self,
        lease: LeaseSlot,
        distance: u32,
        indices: Range<u32>,
    ) -> Result<(), OpenLeaseError> {
        let mut guard = self.lists.lock();
        let lists = &mut *guard;
        let of_lease = lists
            .leases
            .get_mut(usize::from(lease.0))
            .ok_or(OpenLeaseError::NoSuchSlot)?;
        if of_lease.has_ended {
            return Err(OpenLeaseError::InUse);
        }
        let unused = self.most - lists.fresh + lists.vacant.len() as u32;
        if indices.len() as u64 > u64::from(unused) {
            return Err(OpenLeaseError::Full);
        }
        of_lease.distance = distance;
        let added = indices.len() as u32;
        for index in indices.rev() {
            let block = lists.vacant.pop().unwrap_or_else(|| {
                lists.fresh += 1;
                FarBlockId(lists.fresh - 1)
            });
            let record = self.get(block);
            record.lease.store(lease.0.into(), Ordering::Relaxed);
            record.index.store(index, Ordering::Relaxed);
            if record.writes.load(Ordering::Relaxed) == SEQUENCE_MAX {
                record.writes.store(0, Ordering::Relaxed);
            }
            record
                .fate
                .store(BlockFate::Ready as u32, Ordering::Relaxed);
            record
                .at
                .store(of_lease.all.len() as u32, Ordering::Relaxed);
            of_lease.all.push(block);
            of_lease.ready.push(block);
        }
        self.borrowed.fetch_add(added, Ordering::Relaxed);
        self.ready.fetch_add(added, Ordering::Relaxed);
        Ok(())
    }

    /// Opens a ready block of the nearest lender for a tenant's pages.
    pub(super) fn take(&self, tenant: TenantId, now: Second) -> Option<TakenBlock> {
        if self.ready() == 0 {
            return None;
        }
        let mut lists = self.lists.lock();
        let has_some = |lease: &&mut LeaseBlocks| !lease.has_ended && !lease.ready.is_empty();
        let with_some = lists.leases.iter_mut().filter(has_some);
        let block = with_some.min_by_key(|lease| lease.distance)?.ready.pop()?;
        lists.taken += 1;
        self.ready.fetch_sub(1, Ordering::Relaxed);
        self.idle.fewer_ready(self.ready());
        let (far, order) = (self.get(block), lists.taken);
        far.last_look.begin_use(far.writes.load(Ordering::Relaxed));
        let record = &far.record;
        record.open(BlockOwner::Pages(tenant, PageKind::Ephemeral), order, now);
        record.cancel_leaving();
        self.took_some.store(true, Ordering::Relaxed);
        Some(TakenBlock { block, order })
    }

    /// Records a look at all blocks, which found so many idle that tenants have.
    pub(super) fn look(&self, idle_held: u32) {
        let _lists = self.lists.lock();
        self.idle.look(self.ready(), idle_held);
    }

    /// Returns whether a tenant still has a block that it took.
    pub(super) fn is_held(&self, tenant: TenantId, taken: TakenBlock) -> bool {
        let far = self.get(taken.block);
        far.is_of(tenant) && far.record.sequence() == taken.order
    }

    /// Claims a tenant's block to drop it. Returns whether no other thread did, and its pages count as gone then. The
    /// caller [lists](FarBlocks::list_unswept) it for sweeping, once its tenant hands out no more of its frames.
    pub(super) fn drop_of(&self, tenant: TenantId, block: FarBlockId, fate: BlockFate) -> bool {
        let far = self.get(block);
        far.raise_fate(fate);
        if !far.record.begin_leaving(tenant, PageKind::Ephemeral) {
            return false;
        }
        far.record.former.store(tenant.0, Ordering::Relaxed);
        far.record.unswept.store(true, Ordering::Release);
        true
    }

    /// Lets a dropped block be swept. Its tenant hands out no more of its frames.
    pub(super) fn list_unswept(&self, block: FarBlockId) {
        self.lists.lock().unswept.push_back(block);
    }

    /// Lets a lease take no more pages.
    pub(super) fn end(&self, lease: LeaseSlot) {
        if let Some(lease) = self.lists.lock().leases.get_mut(usize::from(lease.0)) {
            lease.has_ended = !lease.all.is_empty();
        }
    }

    /// Takes blocks that no tenant uses, so that none uses them again: at most so many, and only those that are asked
    /// for. Those of far lenders go first. The caller [vacates](FarBlocks::vacate) each.
    pub(super) fn withdraw_ready(
        &self,
        most: u32,
        which: impl Fn(LeaseSlot, u32) -> bool,
    ) -> Vec<FarBlockId> {
        let mut guard = self.lists.lock();
        let lists = &mut *guard;
        let mut order: Vec<usize> = (0..lists.leases.len()).collect();
        order.retain(|lease| !lists.leases[*lease].ready.is_empty());
        order.sort_by_key(|lease| std::cmp::Reverse(lists.leases[*lease].distance));
        let mut withdrawn = Vec::new();
        for number in order {
            let lease = LeaseSlot(number as u16);
            lists.leases[number].ready.retain(|block| {
                let is_room = withdrawn.len() < most as usize;
                let goes = is_room && which(lease, self.get(*block).index());
                if goes {
                    withdrawn.push(*block);
                }
                !goes
            });
        }
        self.ready
            .fetch_sub(withdrawn.len() as u32, Ordering::Relaxed);
        self.idle.fewer_ready(self.ready());
        withdrawn
    }

    /// Takes a block from its lease that no tenant uses and that is in no list of ready or dropped ones.
    pub(super) fn vacate(&self, block: FarBlockId, fate: BlockFate) {
        let mut guard = self.lists.lock();
        let lists = &mut *guard;
        let far = self.get(block);
        let (lease, index) = (far.lease(), far.index());
        let of_lease = &mut lists.leases[usize::from(lease.0)];
        let at = far.at.load(Ordering::Relaxed);
        of_lease.all.swap_remove(at as usize);
        if let Some(moved) = of_lease.all.get(at as usize) {
            self.get(*moved).at.store(at, Ordering::Relaxed);
        }
        of_lease.has_ended &= !of_lease.all.is_empty();
        if fate == BlockFate::Returned {
            lists.returned.push((lease, index));
        }
        lists.vacant.push(block);
        self.borrowed.fetch_sub(1, Ordering::Relaxed);
    }

    /// All blocks of a lease.
    pub(super) fn of_lease(&self, lease: LeaseSlot) -> Vec<FarBlockId> {
        let lists = self.lists.lock();
        let all = lists.leases.get(usize::from(lease.0));
        all.map_or_else(Vec::new, |lease| lease.all.clone())
    }

    /// The dropped block that has waited longest to be swept.
    pub(super) fn next_unswept(&self) -> Option<FarBlockId> {
        self.lists.lock().unswept.pop_front()
    }

    /// Lets a dropped block wait longer.
    pub(super) fn postpone(&self, block: FarBlockId) {
        self.lists.lock().unswept.push_back(block);
    }

    /// The number of dropped blocks that wait to be swept.
    pub(super) fn unswept(&self) -> usize {
        self.lists.lock().unswept.len()
    }

    /// Ends the sweep of a block: nothing leads to its frames any more. Returns what becomes of it. If it is not
    /// [`BlockFate::Ready`], the caller [vacates](FarBlocks::vacate) it.
    pub(super) fn end_sweep(&self, block: FarBlockId) -> BlockFate {
        let far = self.get(block);
        let mut lists = self.lists.lock();
        far.record.disown();
        far.record.unswept.store(false, Ordering::Release);
        let fate = far.fate();
        if fate == BlockFate::Ready {
            lists.leases[usize::from(far.lease().0)].ready.push(block);
            self.ready.fetch_add(1, Ordering::Relaxed);
        }
        fate
    }

    /// Blocks that their lenders get back, which no request names any more.
    pub(super) fn take_returned(&self) -> Vec<(LeaseSlot, u32)> {
        std::mem::take(&mut self.lists.lock().returned)
    }

    /// The blocks that a lease has, and how many of them are ready.
    pub(super) fn figures(&self, lease: LeaseSlot) -> LeaseFigures {
        let lists = self.lists.lock();
        let of_lease = lists.leases.get(usize::from(lease.0));
        of_lease.map_or_else(LeaseFigures::default, |lease| LeaseFigures {
            blocks: lease.all.len() as u32,
            ready: lease.ready.len() as u32,
            ..LeaseFigures::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise another tenant could take the block while the first one still hands out its frames.
    #[test]
    fn a_dropped_block_is_swept_only_when_its_tenant_hands_out_no_more_of_it() {
        let (far, tenant) = (FarBlocks::new(4, 4), TenantId(1));
        far.add(LeaseSlot(0), 0, 0..1).expect("there is room");
        let taken = far.take(tenant, Second(0)).expect("one is ready");
        assert!(far.drop_of(tenant, taken.block, BlockFate::Ready));
        assert_eq!(far.next_unswept(), None);
        far.list_unswept(taken.block);
        assert_eq!(far.next_unswept(), Some(taken.block));
    }
}
