//! The state machine of one node: where inputs go, and what all parts share.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::action::{ActionQueue, FreeReason, LendingAction};
use super::event::{BorrowEnd, LendingChange, LendingEvent, LoanEnd};
use super::flood::SendRate;
use super::input::LendingInput;
use super::link::{Membership, PairEnd, PeerIntent, PeerLink, ShutCause};
use super::on_demand::{ArenaBlocks, OnDemand};
use super::roles::{RoleGate, RoleInputs};
use super::settings::{NodeSettings, NodeSettingsError, Presence, Topology};
use super::status::{FollowingStatus, LendingPhase, LendingStatus, PeerStatus};
use sublet_policy::placement::PlacementChoice;

use crate::borrower::BorrowTable;
use crate::control::ControlLine;
use crate::ids::{ConnectionId, LentBlock, NodeName, PeerId};
use crate::lender::{EndedLease, LoanTable};

/// How often a node wants [`LendingInput::Tick`].
pub const TICK_EVERY: Duration = Duration::from_millis(100);

/// A longer gap between ticks means that this node slept. It does not hold that against its peers.
const TICK_GAP_MAX: Duration = Duration::from_millis(300);

/// The most names of strangers that are remembered, so that each is logged once.
pub(super) const STRANGERS_MAX: usize = 64;

/// One node among its peers.
#[derive(Debug)]
pub struct LendingNode {
    pub(super) settings: NodeSettings,
    pub(super) links: Vec<PeerLink>,
    /// The number of each name that is or was a member.
    pub(super) names: BTreeMap<NodeName, PeerId>,
    /// Whose connection each is.
    pub(super) connections: BTreeMap<ConnectionId, PeerId>,
    /// The peers that each tick looks after: all in a full mesh, else those with which something is going on.
    pub(super) awake: BTreeSet<PeerId>,
    pub(super) on_demand: Option<Box<OnDemand>>,
    pub(super) members_refused: u64,
    /// The blocks that the store sets aside for borrowers now.
    pub(super) set_aside: u32,
    pub(super) loans: LoanTable,
    pub(super) borrows: BorrowTable,
    pub(super) roles: RoleGate,
    pub(super) phase: LendingPhase,
    pub(super) lendable: u32,
    pub(super) wanted: u32,
    /// When the store was last asked to take lent blocks back for want of memory.
    pub(super) take_asked_at: Option<Duration>,
    pub(super) ticked_at: Duration,
    pub(super) next_session: u64,
    pub(super) next_tag: u64,
    pub(super) strangers: Vec<NodeName>,
    pub(super) strangers_seen: u64,
    pub(super) actions: ActionQueue,
}

impl LendingNode {
    /// A node without a connection. The error names the member that is wrong.
    pub fn new(now: Duration, settings: NodeSettings) -> Result<LendingNode, NodeSettingsError> {
        settings.check()?;
        let links = settings
            .members
            .iter()
            .map(|member| PeerLink::new(&settings.node, member));
        let links: Vec<PeerLink> = links.collect();
        let phase = match (settings.presence, settings.drain) {
            (Presence::Away, _) => LendingPhase::Left,
            (Presence::Here, Some(within)) => LendingPhase::Draining {
                until: now + within,
            },
            (Presence::Here, None) => LendingPhase::Lending,
        };
        // The settings bound the number of members.
        let numbers = || (0..links.len() as u16).map(PeerId);
        let named = links.iter().map(|link| link.name.clone()).zip(numbers());
        let (on_demand, awake) = match &settings.topology {
            Topology::FullMesh => (None, numbers().collect()),
            Topology::OnDemand(on_demand) => {
                let part = OnDemand::new(now, on_demand.clone());
                (Some(Box::new(part)), BTreeSet::new())
            }
        };
        let mut node = LendingNode {
            names: named.collect(),
            connections: BTreeMap::new(),
            awake,
            on_demand,
            members_refused: 0,
            set_aside: 0,
            links,
            loans: LoanTable::new(settings.members.len()),
            borrows: BorrowTable::new(settings.members.len()),
            roles: RoleGate::default(),
            phase,
            lendable: 0,
            wanted: 0,
            take_asked_at: None,
            ticked_at: now,
            next_session: 1,
            next_tag: 1,
            strangers: Vec::new(),
            strangers_seen: 0,
            actions: ActionQueue::default(),
            settings,
        };
        node.find_leader(now);
        Ok(node)
    }

    /// Takes in what happened. What it wants done is in [`LendingNode::poll_action`] afterwards. Inputs about peers that
    /// are no members are ignored.
    pub fn handle(&mut self, now: Duration, input: LendingInput) {
        match input {
            LendingInput::Tick => self.tick(now),
            LendingInput::Connected {
                connection,
                name,
                nonce,
            } => self.connected(now, connection, PairEnd::Us, &name, nonce),
            LendingInput::Accepted {
                connection,
                name,
                nonce,
            } => self.connected(now, connection, PairEnd::Them, &name, nonce),
            LendingInput::ConnectFailed { peer } if self.is_member(peer) => {
                self.connect_failed(now, peer)
            }
            LendingInput::Heard { connection, line } => self.line(now, connection, line),
            LendingInput::Received { connection, bytes } => self.received(now, connection, bytes),
            LendingInput::Garbled { connection } => self.garbled(now, connection),
            LendingInput::Ended { connection } => self.connection_ended(now, connection),
            LendingInput::Lendable { blocks } => self.lendable = blocks,
            LendingInput::Arena { total, free } => self.arena(ArenaBlocks { total, free }),
            LendingInput::Members(change) => self.change_members(now, change),
            LendingInput::Leader { leader, term } => self.leader_named(now, leader, term),
            LendingInput::Placement(placement) => self.place_by(placement),
            LendingInput::Wanted { blocks } => self.wanted = blocks.min(self.settings.borrow_max),
            LendingInput::BlocksLent {
                peer,
                blocks,
                shortfall,
            } if self.is_member(peer) => self.blocks_lent(now, peer, blocks, shortfall),
            LendingInput::BlocksTaken { blocks, reason } => self.blocks_taken(now, &blocks, reason),

            LendingInput::Heats { peer, heats } if self.is_member(peer) => {
                self.heats(now, peer, &heats)
            }
            LendingInput::BlocksReturned {
                peer,
                lease,
                ranges,
                reason,
            } if self.is_member(peer) => {
                self.blocks_returned(now, peer, lease, (&ranges, reason));
            }
            LendingInput::Drain { within } => self.drain(now, within),
            LendingInput::Resume => self.resume(),
            LendingInput::RecallNow => self.recall_now(now),
            LendingInput::Recall { blocks, within } => self.recall(now, blocks, within),
            LendingInput::Deny { peer } if self.is_member(peer) => self.deny(now, peer),
            LendingInput::Allow { peer } if self.is_member(peer) => self.allow(now, peer),
            LendingInput::Distrust { peer } if self.is_member(peer) => self.distrust(now, peer),
            LendingInput::Leave { within } => self.leave(now, within),
            LendingInput::Join => self.join(now),
            LendingInput::AskView => self.ask_view(now),
            LendingInput::TermsBeginAnew => self.forget_terms(now),
            _ => {}
        }
        self.settle(now);
    }

    /// Takes the next action. Actions count in this order.
    pub fn poll_action(&mut self) -> Option<LendingAction> {
        self.actions.pop()
    }

    /// The table of loans, for data connections.
    pub fn loans(&self) -> &LoanTable {
        &self.loans
    }

    /// The table of borrowed leases.
    pub fn borrows(&self) -> &BorrowTable {
        &self.borrows
    }

    /// The time of the last ping to a peer and its answer. `None` before the first answer of a session.
    pub fn round_trip(&self, peer: PeerId) -> Option<Duration> {
        self.links.get(peer.slot())?.session.round_trip
    }

    /// The peer of a name.
    pub fn peer_named(&self, name: &NodeName) -> Option<PeerId> {
        self.names.get(name).copied()
    }

    /// The name of a peer. `None` if there is none of this number.
    pub fn peer_name(&self, peer: PeerId) -> Option<&NodeName> {
        self.links.get(peer.slot()).map(|link| &link.name)
    }

    /// Whether the node lends, and whether it takes part in its cluster.
    pub fn phase(&self) -> LendingPhase {
        self.phase
    }

    /// How the node stands with its peers.
    pub fn status(&self) -> LendingStatus {
        let is_shown = |peer: &PeerId| {
            let link = &self.links[peer.slot()];
            link.membership == Membership::Member || self.has_business(*peer) || link.is_up()
        };
        let peers = self.peers().filter(is_shown);
        let peers = peers.map(|peer| self.peer_status(peer)).collect();
        LendingStatus {
            phase: self.phase,
            lent: self.loans.lent(),
            borrowed: self.borrows.borrowed(),
            wanted: self.wanted,
            lendable: self.lendable_now(),
            strangers: self.strangers_seen,
            events_dropped: self.actions.events_dropped,
            members_refused: self.members_refused,
            following: self.following(),
            peers,
        }
    }

    /// The leader that the node follows. `None` if it has a connection with each member.
    pub fn following(&self) -> Option<FollowingStatus> {
        let part = self.on_demand.as_ref()?;
        let silence = self.ticked_at.saturating_sub(part.leader.heard_at);
        let follows = part.ledger.is_none() && part.leader.name.is_some();
        Some(FollowingStatus {
            leader: part.leader.name.clone(),
            term: part.leader.term(),
            silent_for: follows.then_some(silence),
            absent: part.view.absent(),
            drawn: part.search.draws_made,
            followed: part.followed,
            ignored: part.ignored,
        })
    }

    fn arena(&mut self, arena: ArenaBlocks) {
        if let Some(part) = &mut self.on_demand {
            part.arena = arena;
        }
    }

    fn place_by(&mut self, placement: PlacementChoice) {
        if let Some(part) = &mut self.on_demand {
            if let Some(ledger) = &mut part.ledger {
                ledger.place_by(placement.clone());
            }
            part.settings.placement = placement;
        }
    }

    fn peer_status(&self, peer: PeerId) -> PeerStatus {
        let link = &self.links[peer.slot()];
        PeerStatus {
            peer,
            name: link.name.clone(),
            link: link.state,
            lost_at: link.lost_at,
            failed_dials: link.failed_dials,
            leaves: link.session.intent == PeerIntent::Leaves,
            incarnation: link.session.incarnation,
            round_trip: link.session.round_trip,
            lent: self.loans.lent_to(peer),
            borrowed: self.borrows.borrowed_of(peer),
            report: link.session.report,
            counters: link.counters.clone(),
        }
    }

    fn tick(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.ticked_at).min(TICK_GAP_MAX);
        self.ticked_at = now;
        for peer in self.awake_peers() {
            self.tick_link(now, passed, peer);
        }
        self.expire(now);
        self.tick_notices(now);
        self.tick_phase(now);
        self.tick_ledger(now);
        self.tick_unheard(now, passed);
        self.tick_search(now);
        self.let_rest();
    }

    /// The peers that a tick looks after.
    pub(super) fn awake_peers(&self) -> Vec<PeerId> {
        self.awake.iter().copied().collect()
    }

    /// What follows from any input: the roles, own loans that are wanted back, and requests to others.
    fn settle(&mut self, now: Duration) {
        let borrowed = self.borrows.borrowed();
        let inputs = RoleInputs {
            lent: self.loans.lent().saturating_add(self.set_aside),
            borrowed: borrowed.saturating_add(self.borrows.asked()),
            wanted: self.wanted.saturating_sub(borrowed),
        };
        self.roles.record(now, inputs);
        self.take_back_for_want(now, inputs.wanted);
        self.ask_lenders(now);
    }

    fn expire(&mut self, now: Duration) {
        let ended = self.loans.expire(now);
        self.loans_ended(ended, LoanEnd::Away);
        for (peer, ended) in self.borrows.expire(now) {
            self.borrow_lost(peer, ended, BorrowEnd::Away);
        }
    }

    /// Frees the blocks of leases that ended, and logs each.
    pub(super) fn loans_ended(&mut self, ended: Vec<EndedLease>, reason: LoanEnd) {
        for EndedLease {
            peer,
            lease,
            blocks,
        } in ended
        {
            let change = LendingChange::LoanEnded {
                lease,
                blocks: blocks.len() as u32,
                reason,
            };
            self.links[peer.slot()].counters.ended += blocks.len() as u64;
            self.log(peer, change);
            self.free(blocks, FreeReason::LeaseEnded);
        }
    }

    /// Lets the store have blocks back that are in no lease any more.
    pub(super) fn free(&mut self, blocks: Vec<LentBlock>, reason: FreeReason) {
        if !blocks.is_empty() {
            self.actions
                .push(LendingAction::FreeBlocks { blocks, reason });
        }
    }

    /// Reports a change for the log.
    pub(super) fn log(&mut self, peer: PeerId, change: LendingChange) {
        self.actions.push_event(LendingEvent { peer, change });
    }

    /// All peers.
    pub(super) fn peers(&self) -> impl Iterator<Item = PeerId> + use<> {
        // The settings bound the number of members.
        (0..self.links.len() as u16).map(PeerId)
    }

    fn is_member(&self, peer: PeerId) -> bool {
        peer.slot() < self.links.len()
    }

    /// A line of a connection. The connection may be an old one: then it is ignored.
    fn line(&mut self, now: Duration, connection: ConnectionId, line: ControlLine) {
        let Some(peer) = self.peer_on(connection) else {
            return;
        };
        if self.count_line(now, peer) == SendRate::Flood {
            return self.shut(now, peer, ShutCause::Flood);
        }
        match line {
            ControlLine::UnknownKind => self.links[peer.slot()].counters.lines_unknown += 1,
            ControlLine::Message(message) => self.message(now, peer, message),
        }
    }
}
