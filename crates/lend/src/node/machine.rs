//! The state machine of one node: where inputs go, and what all parts share.

use std::time::Duration;

use super::action::{ActionQueue, FreeReason, LendingAction};
use super::event::{BorrowEnd, LendingChange, LendingEvent, LoanEnd};
use super::flood::SendRate;
use super::input::LendingInput;
use super::link::{PeerLink, ShutCause};
use super::roles::{RoleGate, RoleInputs};
use super::settings::{NodeSettings, NodeSettingsError};
use super::status::{LendingPhase, LendingStatus, PeerStatus};
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
            .map(|member| PeerLink::new(&settings.node, member))
            .collect();
        let phase = settings.drain.map(|within| LendingPhase::Draining {
            until: now + within,
        });
        Ok(LendingNode {
            links,
            loans: LoanTable::new(settings.members.len()),
            borrows: BorrowTable::new(settings.members.len()),
            roles: RoleGate::default(),
            phase: phase.unwrap_or(LendingPhase::Lending),
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
        })
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
            } => self.connected(now, connection, &name, nonce),
            LendingInput::ConnectFailed { peer } if self.is_member(peer) => {
                self.connect_failed(now, peer)
            }
            LendingInput::Heard { connection, line } => self.line(now, connection, line),
            LendingInput::Received { connection, bytes } => self.received(now, connection, bytes),
            LendingInput::Garbled { connection } => self.garbled(now, connection),
            LendingInput::Ended { connection } => self.connection_ended(now, connection),
            LendingInput::Lendable { blocks } => self.lendable = blocks,
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
        let found = self.links.iter().position(|link| link.name == *name)?;
        // The settings bound the number of members.
        Some(PeerId(found as u16))
    }

    /// How the node stands with its peers.
    pub fn status(&self) -> LendingStatus {
        let peers = self.peers().map(|peer| self.peer_status(peer)).collect();
        LendingStatus {
            phase: self.phase,
            lent: self.loans.lent(),
            borrowed: self.borrows.borrowed(),
            wanted: self.wanted,
            lendable: self.lendable_now(),
            strangers: self.strangers_seen,
            events_dropped: self.actions.events_dropped,
            peers,
        }
    }

    fn peer_status(&self, peer: PeerId) -> PeerStatus {
        let link = &self.links[peer.slot()];
        PeerStatus {
            name: link.name.clone(),
            link: link.state,
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
        for peer in self.peers() {
            self.tick_link(now, passed, peer);
        }
        self.expire(now);
        self.tick_notices(now);
        self.tick_phase(now);
    }

    /// What follows from any input: the roles, own loans that are wanted back, and requests to others.
    fn settle(&mut self, now: Duration) {
        let borrowed = self.borrows.borrowed();
        let inputs = RoleInputs {
            lent: self.loans.lent().saturating_add(self.set_aside()),
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
