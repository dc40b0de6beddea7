//! Carries out on the store what the lending node wants, as the daemon's control thread does.

use std::collections::BTreeMap;
use std::ops::Range;

use sublet_lend::ids::{LeaseId, LentBlock, PeerId};
use sublet_lend::index_set::{IndexRange, IndexRanges, IndexSet};
use sublet_lend::node::{
    ChosenReturns, LendingAction, LendingInput, LendingNode, LoanShortfall, RecallReason,
    ReturnReason,
};
use sublet_store::{LeaseSlot, OpenLeaseError};

use super::memory::BLOCK;
use super::routes::LeaseRoute;
use super::state::NodeState;
use crate::cluster::environment::Environment;
use crate::cluster::mutation::Mutation;
use crate::cluster::seal::FakeKey;
use crate::cluster::trace::TraceEvent;

/// What the store does for the lending node.
pub(super) struct StoreWork {
    borrow_max: u32,
    returns: ChosenReturns,
}

impl StoreWork {
    /// The work of a node that borrows at most so many blocks.
    pub(super) fn new(borrow_max: u32) -> StoreWork {
        StoreWork {
            borrow_max,
            returns: ChosenReturns::default(),
        }
    }

    /// Carries an action out. Returns what the node is to be told. Actions on connections are not the store's.
    pub(super) fn perform(
        &mut self,
        state: &mut NodeState,
        env: &mut Environment,
        node: &LendingNode,
        action: LendingAction,
    ) -> Vec<LendingInput> {
        match action {
            LendingAction::LendBlocks { peer, blocks } => vec![lend(state, env, peer, blocks)],
            LendingAction::FreeBlocks { blocks, .. } => {
                env.note(state.node(), TraceEvent::Freed(blocks.len()));
                state.memory.worker.end_lent(&blocks);
                Vec::new()
            }
            LendingAction::TakeLent { blocks, reason } => {
                let before = taken_back(state, env, RecallReason::Host);
                state.memory.worker.take_back(blocks);
                let after = taken_back(state, env, reason);
                before.into_iter().chain(after).collect()
            }
            LendingAction::ReportHeats { peer } => {
                let blocks: Vec<LentBlock> = node.loans().blocks_of(peer).collect();
                let heats = state.memory.worker.lent_heats(&blocks);
                vec![LendingInput::Heats { peer, heats }]
            }
            LendingAction::OpenLease {
                peer, lease, range, ..
            } => open_lease(state, env, node, (peer, lease, range)),
            LendingAction::ExtendLease { peer, lease, range } => {
                extend_lease(state, env, node, (peer, lease, range))
            }
            LendingAction::ForgetBlocks {
                peer,
                lease,
                ranges,
            } => {
                forget(state, env, (peer, lease), &ranges);
                Vec::new()
            }
            LendingAction::EndLease { peer, lease } => {
                end_lease(state, env, peer, lease);
                Vec::new()
            }
            LendingAction::ChooseReturns {
                peer,
                blocks,
                reason,
                ..
            } => self.choose_returns(state, env, (peer, blocks, reason)),
            // The sessions say whether a lender is asked.
            LendingAction::ResumeLeases { .. } | LendingAction::SuspendLeases { .. } => Vec::new(),
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

    fn choose_returns(
        &mut self,
        state: &mut NodeState,
        env: &mut Environment,
        (peer, blocks, reason): (PeerId, u32, ReturnReason),
    ) -> Vec<LendingInput> {
        let mut unchosen = blocks;
        for slot in state.routes.of(peer) {
            unchosen -= state.memory.store.return_blocks_of(slot, unchosen);
        }
        self.returns.choose(peer, blocks - unchosen, reason);
        self.returned(state, env)
    }

    /// The borrowed blocks that the store gives back now.
    pub(super) fn returned(
        &mut self,
        state: &mut NodeState,
        env: &mut Environment,
    ) -> Vec<LendingInput> {
        let mut of_slots: BTreeMap<u16, IndexSet> = BTreeMap::new();
        for (slot, index) in state.memory.store.take_returned() {
            if let Ok(range) = IndexRange::new(index, 1) {
                of_slots.entry(slot.0).or_default().insert(range);
            }
        }
        let mut inputs = Vec::new();
        for (slot, indices) in of_slots {
            let Some(route) = state.routes.find(LeaseSlot(slot)) else {
                continue;
            };
            let (peer, lease, blocks) = (route.lender, route.lease, indices.count());
            env.note(
                state.node(),
                TraceEvent::Returned(state.member(peer), blocks),
            );
            let reason = self.returns.give_back(peer, blocks);
            let messages = indices.messages().into_iter();
            inputs.extend(messages.map(|ranges| LendingInput::BlocksReturned {
                peer,
                lease,
                ranges,
                reason,
            }));
        }
        inputs
    }

    /// What the node wants in all, if it wishes for so many blocks and the store has records for them. Blocks that hold
    /// nothing go back if it wants fewer than it has.
    pub(super) fn measure_wanted(
        &mut self,
        state: &mut NodeState,
        env: &mut Environment,
        node: &LendingNode,
        wish: u32,
    ) -> Vec<LendingInput> {
        let in_store = state.memory.store.figures().far.borrowed.0 / BLOCK;
        let in_store = u32::try_from(in_store).unwrap_or(u32::MAX);
        let vacant = self.borrow_max.saturating_sub(in_store);
        let borrowed = node.borrows().borrowed();
        let blocks = wish.min(self.borrow_max.min(borrowed + vacant));
        if !env.leaves_out(Mutation::IdleKept) {
            let unwanted = borrowed.saturating_sub(blocks);
            state.memory.store.give_back_idle(unwanted);
        }
        let mut inputs = self.returned(state, env);
        inputs.push(LendingInput::Wanted { blocks });
        inputs
    }
}

/// The lent blocks that the store took back since the last call.
pub(super) fn taken_back(
    state: &NodeState,
    env: &mut Environment,
    reason: RecallReason,
) -> Option<LendingInput> {
    let blocks: Vec<LentBlock> = state.memory.store.drain_taken_back();
    if blocks.is_empty() || env.leaves_out(Mutation::TakenNotNoted) {
        return None;
    }
    env.tally.taken += blocks.len() as u64;
    env.note(state.node(), TraceEvent::Taken(blocks.len()));
    Some(LendingInput::BlocksTaken { blocks, reason })
}

fn lend(state: &NodeState, env: &mut Environment, peer: PeerId, blocks: u32) -> LendingInput {
    let now = state.second(env.now);
    // The daemon sets blocks aside for so long, and no longer.
    let turn = 1 + env.luck.below(2 * u64::from(blocks).max(1)) as u32;
    let most = blocks.min(turn);
    let lent = (0..most).map_while(|_| state.memory.worker.lend(now));
    let lent: Vec<LentBlock> = lent.collect();
    env.note(
        state.node(),
        TraceEvent::Lent(state.member(peer), lent.len()),
    );
    let shortfall = match lent.len() as u32 == most {
        true => LoanShortfall::TurnOver,
        false => LoanShortfall::NoMemory,
    };
    LendingInput::BlocksLent {
        peer,
        blocks: lent,
        shortfall,
    }
}

fn open_lease(
    state: &mut NodeState,
    env: &mut Environment,
    node: &LendingNode,
    (peer, lease, range): (PeerId, LeaseId, IndexRange),
) -> Vec<LendingInput> {
    let slot = match state.sessions.contains_key(&peer) {
        true => add_to_vacant(state, peer, range),
        false => None,
    };
    let Some(slot) = slot else {
        return decline(node, (peer, lease, range));
    };
    let key = FakeKey(env.luck.bits());
    let route = LeaseRoute::new(peer, lease, key);
    state.routes.set(slot, route);
    state.memory.follow_records();
    env.note(
        state.node(),
        TraceEvent::Borrowed(state.member(peer), lease, range.count()),
    );
    Vec::new()
}

/// Opens a lease in the store under the first number that is free there, too.
fn add_to_vacant(state: &NodeState, peer: PeerId, range: IndexRange) -> Option<LeaseSlot> {
    for slot in state.routes.vacant() {
        let indices = range.first()..range.end();
        match state
            .memory
            .store
            .add_to_lease(slot, peer.0.into(), indices)
        {
            Ok(()) => return Some(slot),
            Err(OpenLeaseError::InUse) => {}
            Err(OpenLeaseError::Full | OpenLeaseError::NoSuchSlot) => return None,
        }
    }
    None
}

fn extend_lease(
    state: &NodeState,
    env: &mut Environment,
    node: &LendingNode,
    (peer, lease, range): (PeerId, LeaseId, IndexRange),
) -> Vec<LendingInput> {
    let indices = range.first()..range.end();
    let store = &state.memory.store;
    let slot = state.routes.slot_of(peer, lease);
    match slot.map(|slot| store.add_to_lease(slot, peer.0.into(), indices)) {
        Some(Ok(())) => {
            state.memory.follow_records();
            env.note(
                state.node(),
                TraceEvent::Borrowed(state.member(peer), lease, range.count()),
            );
            Vec::new()
        }
        _ => decline(node, (peer, lease, range)),
    }
}

/// Gives blocks back that the store has no room for. The node wants no more until the next measurement.
fn decline(
    node: &LendingNode,
    (peer, lease, range): (PeerId, LeaseId, IndexRange),
) -> Vec<LendingInput> {
    let ranges = IndexRanges::try_from(vec![range]).expect("one range is in order");
    let borrowed = node.borrows().borrowed();
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

fn forget(
    state: &NodeState,
    env: &mut Environment,
    (peer, lease): (PeerId, LeaseId),
    ranges: &IndexRanges,
) {
    env.note(
        state.node(),
        TraceEvent::Forgotten(state.member(peer), lease, ranges.count()),
    );
    if env.leaves_out(Mutation::RecalledKept) {
        return;
    }
    if let Some(slot) = state.routes.slot_of(peer, lease) {
        let ranges = ranges.as_slice().iter();
        let indices: Vec<Range<u32>> = ranges.map(|range| range.first()..range.end()).collect();
        state.memory.store.recall(slot, &indices);
    }
}

fn end_lease(state: &mut NodeState, env: &mut Environment, peer: PeerId, lease: LeaseId) {
    env.note(
        state.node(),
        TraceEvent::LeaseEnded(state.member(peer), lease),
    );
    if let Some(slot) = state.routes.slot_of(peer, lease) {
        state.memory.store.end_lease(slot);
        if let Some(route) = state.routes.remove(slot) {
            env.judges.seal.forget(route.key);
        }
    }
}
