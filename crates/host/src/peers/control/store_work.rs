//! What a node wants done, carried out on the store.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::SecureRandom;
use sublet_frontends::tenancy::Clock;
use sublet_lend::guard::{GuardState, is_much_quicker};
use sublet_lend::ids::{LeaseId, LentBlock, PeerId};
use sublet_lend::index_set::{IndexRange, IndexRanges, IndexSet};
use sublet_lend::node::{ChosenReturns, LendingAction, LendingInput, RecallReason, ReturnReason};
use sublet_lend::seal::{Cipher, LeaseKey};
use sublet_lend::wanted::{ArenaGrowth, BorrowedBlocks, WantedMeter};
use sublet_store::{
    Borrowing, LeaseSlot, OpenLeaseError, PageTally, Store, StoreFigures, TenantFigures, Worker,
};
use sublet_types::{BLOCK_BYTES, Bytes, Pages};
use zeroize::Zeroizing;

use super::grant_turn::set_aside;
use super::peer_tables::PeerTables;
use crate::peers::lease_routes::LeaseRoute;
use crate::peers::page_fetcher::GuardFigures;
use crate::peers::ticket_check::TicketCheck;

/// The number of blocks by which the size of their records is judged.
const RECORDS_SAMPLE: u32 = 1024;

/// The records of borrowed blocks and the outbox may take one part in so many of what the arena may hold.
const OVERHEAD_ONE_IN: u64 = 2;

/// The same for the records alone, while no lender is [much quicker](is_much_quicker) than a backing. What a page from
/// there saves is little then, and the records take memory from pages here.
const RECORDS_ONE_IN_UNPROVEN: u64 = 64;

/// Returns whether a tenant's evictions count as a want of memory.
pub(super) type TenantBorrowing = Box<dyn Fn(&TenantFigures) -> Borrowing + Send>;

/// What the store does for the node, with the thread's own handle on it.
pub(super) struct StoreWork {
    pub(super) worker: Worker,
    pub(super) clock: Clock,
    pub(super) tables: Arc<PeerTables>,
    pub(super) random: &'static dyn SecureRandom,
    pub(super) cipher: Cipher,
    pub(super) borrow_max: u32,
    pub(super) borrowing: TenantBorrowing,
    meter: WantedMeter,
    returns: ChosenReturns,
}

impl StoreWork {
    pub(super) fn new(
        (worker, clock): (Worker, Clock),
        tables: Arc<PeerTables>,
        (random, cipher): (&'static dyn SecureRandom, Cipher),
        borrow_max: u32,
        borrowing: TenantBorrowing,
    ) -> StoreWork {
        StoreWork {
            worker,
            clock,
            tables,
            random,
            cipher,
            borrow_max,
            borrowing,
            meter: WantedMeter::default(),
            returns: ChosenReturns::default(),
        }
    }

    fn store(&self) -> &Store {
        self.worker.store()
    }

    /// Carries an action out. Returns what the node is to be told. Actions on connections are not the store's, and
    /// nothing happens.
    pub(super) fn perform(&mut self, action: LendingAction) -> Vec<LendingInput> {
        match action {
            LendingAction::LendBlocks { peer, blocks } => vec![self.lend(peer, blocks)],
            LendingAction::FreeBlocks { blocks, .. } => {
                self.worker.end_lent(&blocks);
                Vec::new()
            }
            LendingAction::TakeLent { blocks, reason } => self.take_lent(blocks, reason),
            LendingAction::ReportHeats { peer } => {
                let node = self.tables.node.read();
                let blocks: Vec<LentBlock> = node.loans().blocks_of(peer).collect();
                drop(node);
                let heats = self.worker.lent_heats(&blocks);
                vec![LendingInput::Heats { peer, heats }]
            }
            LendingAction::OpenLease {
                peer, lease, range, ..
            } => self.open_lease(peer, lease, range),
            LendingAction::ExtendLease { peer, lease, range } => {
                self.extend_lease(peer, lease, range)
            }
            LendingAction::ForgetBlocks {
                peer,
                lease,
                ranges,
            } => {
                self.forget(peer, lease, &ranges);
                Vec::new()
            }
            LendingAction::ResumeLeases { peer } => {
                if let Some(session) = self.tables.sessions.of_peer(peer) {
                    self.tables.far.routes().follow(session.as_lender());
                }
                Vec::new()
            }
            LendingAction::EndLease { peer, lease } => {
                self.end_lease(peer, lease);
                Vec::new()
            }
            LendingAction::ChooseReturns {
                peer,
                blocks,
                reason,
                ..
            } => self.choose_returns(peer, blocks, reason),
            // Its session was closed, which suspends its leases.
            LendingAction::SuspendLeases { .. } => Vec::new(),
            LendingAction::Connect { .. }
            | LendingAction::Send { .. }
            | LendingAction::Close { .. }
            | LendingAction::OpenSession { .. }
            | LendingAction::CloseSession { .. }
            | LendingAction::Log(_)
            | LendingAction::LogStranger { .. }
            | LendingAction::Left => Vec::new(),
        }
    }

    fn lend(&self, peer: PeerId, blocks: u32) -> LendingInput {
        let (now, began) = (self.clock.now(), self.clock.moment());
        let passed = || Duration::from_nanos(self.clock.moment().0.saturating_sub(began.0));
        let (blocks, shortfall) = set_aside(blocks, passed, || self.worker.lend(now));
        LendingInput::BlocksLent {
            peer,
            blocks,
            shortfall,
        }
    }

    fn take_lent(&self, blocks: u32, reason: RecallReason) -> Vec<LendingInput> {
        let before = self.taken_back(RecallReason::Host);
        self.worker.take_back(blocks);
        before.into_iter().chain(self.taken_back(reason)).collect()
    }

    /// The lent blocks that the store took back since the last call.
    pub(super) fn taken_back(&self, reason: RecallReason) -> Option<LendingInput> {
        let blocks: Vec<LentBlock> = self.store().drain_taken_back();
        (!blocks.is_empty()).then_some(LendingInput::BlocksTaken { blocks, reason })
    }

    fn open_lease(&mut self, peer: PeerId, lease: LeaseId, range: IndexRange) -> Vec<LendingInput> {
        let Some(session) = self.tables.sessions.of_peer(peer) else {
            return self.decline(peer, lease, range);
        };
        let mut secret = Zeroizing::new([0u8; 32]);
        if self.random.fill(&mut secret[..]).is_err() {
            return self.decline(peer, lease, range);
        }
        let Some(slot) = self.add_to_vacant(peer, range) else {
            return self.decline(peer, lease, range);
        };
        if let Some(round_trip) = self.round_trip(peer) {
            session.as_lender().set_round_trip(round_trip);
        }
        let route = LeaseRoute {
            session: Arc::clone(session.as_lender()),
            lease,
            key: Arc::new(LeaseKey::new(self.cipher, &secret)),
            lost_writes: Arc::default(),
            tickets: TicketCheck::new(Arc::clone(self.worker.store())),
        };
        self.tables.far.routes().set(slot, route);
        Vec::new()
    }

    /// Opens a lease in the store under the first number that is free there, too.
    fn add_to_vacant(&self, peer: PeerId, range: IndexRange) -> Option<LeaseSlot> {
        let distance = self.distance(peer);
        for slot in self.tables.far.routes().vacant() {
            let indices = range.first()..range.end();
            match self.store().add_to_lease(slot, distance, indices) {
                Ok(()) => return Some(slot),
                Err(OpenLeaseError::InUse) => {}
                Err(OpenLeaseError::Full | OpenLeaseError::NoSuchSlot) => return None,
            }
        }
        None
    }

    /// The time of a ping and its answer, if there was one.
    fn round_trip(&self, peer: PeerId) -> Option<Duration> {
        self.tables.node.read().round_trip(peer)
    }

    /// How far away a lender is: its round trip in microseconds.
    fn distance(&self, peer: PeerId) -> u32 {
        let micros = self.round_trip(peer).map(|time| time.as_micros());
        micros.map_or(u32::MAX, |micros| u32::try_from(micros).unwrap_or(u32::MAX))
    }

    fn extend_lease(
        &mut self,
        peer: PeerId,
        lease: LeaseId,
        range: IndexRange,
    ) -> Vec<LendingInput> {
        let indices = range.first()..range.end();
        let distance = self.distance(peer);
        let slot = self.tables.far.routes().slot_of(peer, lease);
        let added = slot.map(|slot| self.store().add_to_lease(slot, distance, indices));
        match added {
            Some(Ok(())) => Vec::new(),
            _ => self.decline(peer, lease, range),
        }
    }

    /// Gives blocks back that the store has no room for. The node wants no more until the next measurement.
    fn decline(&self, peer: PeerId, lease: LeaseId, range: IndexRange) -> Vec<LendingInput> {
        let ranges = IndexRanges::try_from(vec![range]).expect("one range is in order");
        let borrowed = self.tables.node.read().borrows().borrowed();
        vec![
            LendingInput::Wanted {
                blocks: borrowed.saturating_sub(range.count()),
            },
            LendingInput::BlocksReturned {
                peer,
                lease,
                ranges,
                reason: ReturnReason::NoRoom,
            },
        ]
    }

    fn forget(&self, peer: PeerId, lease: LeaseId, ranges: &IndexRanges) {
        if let Some(slot) = self.tables.far.routes().slot_of(peer, lease) {
            let ranges = ranges.as_slice().iter();
            let indices: Vec<Range<u32>> = ranges.map(|range| range.first()..range.end()).collect();
            self.store().recall(slot, &indices);
        }
    }

    fn end_lease(&self, peer: PeerId, lease: LeaseId) {
        if let Some(slot) = self.tables.far.routes().slot_of(peer, lease) {
            self.store().end_lease(slot);
            self.tables.far.routes().remove(slot);
        }
    }

    fn choose_returns(
        &mut self,
        peer: PeerId,
        blocks: u32,
        reason: ReturnReason,
    ) -> Vec<LendingInput> {
        let routes = self.tables.far.routes().all();
        let mut unchosen = blocks;
        for (slot, route) in routes {
            if route.session.lender() == peer {
                unchosen -= self.store().return_blocks_of(slot, unchosen);
            }
        }
        self.returns.choose(peer, blocks - unchosen, reason);
        self.returned()
    }

    /// The borrowed blocks that the store gives back now.
    pub(super) fn returned(&mut self) -> Vec<LendingInput> {
        let mut of_slots: BTreeMap<u16, IndexSet> = BTreeMap::new();
        for (slot, index) in self.store().take_returned() {
            let range = IndexRange::new(index, 1).expect("an index of a lease has one after it");
            of_slots.entry(slot.0).or_default().insert(range);
        }
        let mut inputs = Vec::new();
        for (slot, indices) in of_slots {
            let Some(route) = self.tables.far.routes().find(LeaseSlot(slot)) else {
                continue;
            };
            let peer = route.session.lender();
            let reason = self.returns.give_back(peer, indices.count());
            inputs.extend(indices.messages().into_iter().map(|ranges| {
                LendingInput::BlocksReturned {
                    peer,
                    lease: route.lease,
                    ranges,
                    reason,
                }
            }));
        }
        inputs
    }

    /// What the node can lend now.
    pub(super) fn lendable(&self) -> LendingInput {
        LendingInput::Lendable {
            blocks: self.store().lendable(),
        }
    }

    /// How large the arena may be and how much of that is free, for the leader.
    pub(super) fn arena(&self) -> LendingInput {
        let figures = self.store().figures();
        LendingInput::Arena {
            total: blocks_of(figures.limit),
            free: blocks_of(figures.vacant()),
        }
    }

    /// What the node wants now, from what its tenants evicted. Blocks that hold nothing go back if it wants fewer than
    /// it has. It is to be called each second.
    pub(super) fn measure_wanted(&mut self, now: Duration) -> Vec<LendingInput> {
        let tenants = self.store().tenants();
        let may_borrow = |tenant: &&TenantFigures| (self.borrowing)(tenant) == Borrowing::Allowed;
        let evicted = tenants.iter().filter(may_borrow);
        let evicted = evicted.map(|tenant| sendable(&tenant.pages.tally)).sum();
        let figures = self.store().figures();
        self.meter.record(now, evicted, growth(&figures));
        let borrowed = BorrowedBlocks {
            all: self.tables.node.read().borrows().borrowed(),
            idle: self.store().idle_borrowed(),
        };
        let most = self.borrow_max.min(borrowed.all + self.blocks_with_room());
        let blocks = match self.tables.far.wish().get() {
            // It may give back what it does not need, but gets no more.
            Some(Pages(0)) => self.meter.wanted(now, borrowed, most.min(borrowed.all)),
            Some(asked) => asked_blocks(borrowed.all, asked).min(most),
            None => self.meter.wanted(now, borrowed, most),
        };
        let unwanted = borrowed.all.saturating_sub(blocks);
        self.store().give_back_idle(unwanted);
        let mut inputs = self.returned();
        inputs.push(LendingInput::Wanted { blocks });
        inputs
    }

    /// How many further blocks have a record, and room for it in the arena.
    fn blocks_with_room(&self) -> u32 {
        let store = self.store();
        let borrowed = store.figures().far.borrowed;
        let of_many = store.far_overhead_of(RECORDS_SAMPLE).0.max(1);
        let part = |one_in: u64| Bytes(store.limit().0 / one_in);
        let guards = self.tables.far.ledger().guards();
        let room = part(OVERHEAD_ONE_IN) - store.far_overhead();
        let room = match guards.iter().any(is_worth_much) {
            true => room,
            false => room.min(part(RECORDS_ONE_IN_UNPROVEN) - records(borrowed, of_many)),
        };
        let blocks = u128::from(room.0) * u128::from(RECORDS_SAMPLE) / u128::from(of_many);
        let vacant = vacant_records(self.borrow_max, borrowed);
        u32::try_from(blocks.min(u128::from(vacant))).expect("no more than a number of blocks")
    }
}

/// What the records of borrowed blocks take, of which [`RECORDS_SAMPLE`] take `of_many` bytes.
fn records(borrowed: Bytes, of_many: u64) -> Bytes {
    let bytes = u128::from(borrowed.blocks()) * u128::from(of_many) / u128::from(RECORDS_SAMPLE);
    Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
}

/// Returns whether a lender is asked, and is much quicker than its backing.
fn is_worth_much(guard: &GuardFigures) -> bool {
    guard.state == GuardState::Open && is_much_quicker(guard.far, guard.miss)
}

/// Pages that were evicted and would have gone to a lender with room.
fn sendable(tally: &PageTally) -> u64 {
    tally.evictions.saturating_sub(tally.unsendable)
}

/// The records of far blocks that no block has. The store has `borrow_max` of them. It counts a block as borrowed until
/// it is swept, even if its lease has ended.
fn vacant_records(borrow_max: u32, borrowed_in_store: Bytes) -> u32 {
    borrow_max.saturating_sub(blocks_of(borrowed_in_store))
}

/// The blocks that a policy wants in all: those that it has, and those that it asks beyond.
fn asked_blocks(borrowed: u32, asked: Pages) -> u32 {
    let more = asked.bytes().0.div_ceil(BLOCK_BYTES);
    borrowed.saturating_add(u32::try_from(more).unwrap_or(u32::MAX))
}

/// An amount in whole blocks.
fn blocks_of(bytes: Bytes) -> u32 {
    u32::try_from(bytes.blocks()).unwrap_or(u32::MAX)
}

/// Returns whether the arena may grow by a block. The records of borrowed blocks count against its limit.
fn growth(figures: &StoreFigures) -> ArenaGrowth {
    let room = figures.limit - figures.held - figures.far.overhead;
    match room >= Bytes(BLOCK_BYTES) {
        true => ArenaGrowth::Possible,
        false => ArenaGrowth::Exhausted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_ended_leases_take_records_until_they_are_swept() {
        assert_eq!(vacant_records(128, Bytes::ZERO), 128);
        assert_eq!(vacant_records(128, Bytes::mib(2 * 100)), 28);
        assert_eq!(vacant_records(128, Bytes::mib(2 * 128)), 0);
        assert_eq!(vacant_records(64, Bytes::mib(2 * 128)), 0);
    }

    #[test]
    fn records_take_as_much_as_their_blocks_say() {
        let many = Bytes(BLOCK_BYTES * u64::from(RECORDS_SAMPLE));
        assert_eq!(records(Bytes::ZERO, 5000), Bytes::ZERO);
        assert_eq!(records(many, 5000), Bytes(5000));
        assert_eq!(records(many * 3, 5000), Bytes(15_000));
    }
}
