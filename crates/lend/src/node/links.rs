//! Connections: hellos, losses, goodbyes, and who is shut out.

use std::time::Duration;

use super::action::LendingAction;
use super::event::{BorrowEnd, LendingChange, LinkLoss, LoanEnd};
use super::flood::SendRate;
use super::link::{LinkSession, LinkState, Membership, PairEnd, PeerIntent, ShutCause};
use super::machine::{LendingNode, STRANGERS_MAX};
use super::status::LendingPhase;
use crate::borrower::BorrowState;
use crate::control::{Bye, ByeReason, ControlHello, ControlMessage, Pong, Version};
use crate::ids::{ConnectionId, NodeName, PeerId, SessionId, SessionNonce};

/// How long a peer may take to begin.
pub(super) const HELLO_WITHIN: Duration = Duration::from_secs(5);

/// How long a node waits before it calls a peer again that said goodbye.
const GOODBYE_PAUSE: Duration = Duration::from_secs(5);

/// How long a pair without a common version waits before it tries again.
const INCOMPATIBLE_FOR: Duration = Duration::from_secs(60);

impl LendingNode {
    /// The peer whose present connection this is.
    pub(super) fn peer_on(&self, connection: ConnectionId) -> Option<PeerId> {
        let peer = self.connections.get(&connection).copied()?;
        (self.links[peer.slot()].connection() == Some(connection)).then_some(peer)
    }

    pub(super) fn connected(
        &mut self,
        now: Duration,
        connection: ConnectionId,
        opener: PairEnd,
        name: &NodeName,
        nonce: SessionNonce,
    ) {
        let peer = self.peer_named(name).filter(|peer| {
            let membership = self.links[peer.slot()].membership;
            membership == Membership::Member || self.has_business(*peer)
        });
        let Some(peer) = peer else {
            self.stranger(name);
            return self.actions.push(LendingAction::Close { connection });
        };
        let is_refused = match self.links[peer.slot()].state {
            LinkState::Denied => true,
            LinkState::Shut { until, .. } => now < until,
            _ => self.phase == LendingPhase::Left,
        };
        if is_refused {
            self.links[peer.slot()].counters.turned_away += 1;
            return self.actions.push(LendingAction::Close { connection });
        }
        if self.keeps_present(now, peer, opener) {
            return self.actions.push(LendingAction::Close { connection });
        }
        self.lose(now, peer, LinkLoss::Replaced);
        self.wake(peer);
        self.connections.insert(connection, peer);
        let ours = SessionId(self.next_session);
        self.next_session += 1;
        let link = &mut self.links[peer.slot()];
        link.state = LinkState::Greeting {
            connection,
            since: now,
        };
        link.session = LinkSession {
            ours,
            nonce: Some(nonce),
            opener: Some(opener),
            opened_at: now,
            used_at: now,
            ..LinkSession::default()
        };
        let hello = ControlHello {
            versions: self.settings.versions,
            cluster: self.settings.cluster.clone(),
            node: self.settings.node.clone(),
            incarnation: self.settings.incarnation,
            session: ours,
            nonce,
            addresses: self.settings.addresses.clone(),
        };
        self.send(now, peer, ControlMessage::Hello(Box::new(hello)));
    }

    fn stranger(&mut self, name: &NodeName) {
        self.strangers_seen += 1;
        if self.strangers.len() < STRANGERS_MAX && !self.strangers.contains(name) {
            self.strangers.push(name.clone());
            self.actions
                .push(LendingAction::LogStranger { name: name.clone() });
        }
    }

    pub(super) fn connect_failed(&mut self, now: Duration, peer: PeerId) {
        let link = &mut self.links[peer.slot()];
        if link.state == LinkState::Connecting {
            link.failed_dials = link.failed_dials.saturating_add(1);
            link.state = link.away(now);
            self.drawn_not_reached(now, peer);
        }
    }

    pub(super) fn connection_ended(&mut self, now: Duration, connection: ConnectionId) {
        if let Some(peer) = self.peer_on(connection) {
            self.lose(now, peer, LinkLoss::Ended);
        }
    }

    pub(super) fn garbled(&mut self, now: Duration, connection: ConnectionId) {
        if let Some(peer) = self.peer_on(connection) {
            self.shut(now, peer, ShutCause::Garbled);
        }
    }

    pub(super) fn count_line(&mut self, now: Duration, peer: PeerId) -> SendRate {
        let link = &mut self.links[peer.slot()];
        link.session.silence = Duration::ZERO;
        link.flood.count_line(now)
    }

    pub(super) fn received(&mut self, now: Duration, connection: ConnectionId, bytes: usize) {
        let Some(peer) = self.peer_on(connection) else {
            return;
        };
        let flood = &mut self.links[peer.slot()].flood;
        if flood.count_bytes(now, bytes) == SendRate::Flood {
            self.shut(now, peer, ShutCause::Flood);
        }
    }

    pub(super) fn message(&mut self, now: Duration, peer: PeerId, message: ControlMessage) {
        let is_up = self.links[peer.slot()].is_up();
        if !message.is_sign_of_life() {
            self.links[peer.slot()].session.used_at = now;
        }
        match message {
            ControlMessage::Hello(hello) if !is_up => self.hello(now, peer, &hello),
            ControlMessage::Bye(Bye { reason }) => self.bye(now, peer, reason),
            _ if !is_up => self.shut(now, peer, ShutCause::Protocol),
            ControlMessage::Hello(_) => self.shut(now, peer, ShutCause::Protocol),
            ControlMessage::Borrow(borrow) => self.borrow_asked(now, peer, borrow),
            ControlMessage::Grant(grant) => self.grant(now, peer, &grant),
            ControlMessage::Return(returned) => self.returned_by_peer(now, peer, &returned),
            ControlMessage::Recall(notice) => self.return_asked(peer, notice),
            ControlMessage::Recalled(recalled) => self.taken_by_lender(now, peer, recalled),
            ControlMessage::End(end) => self.ended_by_lender(peer, end),
            ControlMessage::Audit(audit) => self.audited(now, peer, audit),
            ControlMessage::Claim(claim) => self.claimed(now, peer, &claim),
            ControlMessage::Leave => self.peer_leaves(now, peer),
            ControlMessage::Ping(ping) => {
                self.send(now, peer, ControlMessage::Pong(Pong { tag: ping.tag }));
                self.held_by_peer(now, peer, &ping.held);
            }
            ControlMessage::Pong(pong) => self.pong(now, peer, pong),
            ControlMessage::Report(report) => {
                let session = &mut self.links[peer.slot()].session;
                session.report = report;
                session.report_at = Some(now);
            }
            ControlMessage::ClusterReport(report) => self.reported_by(now, peer, *report),
            ControlMessage::Members(update) => self.members_told(now, peer, &update),
            ControlMessage::Advise(advice) => self.advised_by(now, peer, &advice),
            ControlMessage::AskView(query) => self.view_asked(now, peer, &query),
            ControlMessage::View(part) => self.view_told(now, peer, *part),
        }
    }

    fn hello(&mut self, now: Duration, peer: PeerId, hello: &ControlHello) {
        if hello.cluster != self.settings.cluster {
            return self.shut(now, peer, ShutCause::Cluster);
        }
        if hello.node != self.links[peer.slot()].name {
            return self.shut(now, peer, ShutCause::Name);
        }
        let (ours, theirs) = (self.settings.versions, hello.versions);
        match ours.highest_shared(theirs) {
            Some(version) => self.open(now, peer, hello, version),
            None => {
                let logged = &mut self.links[peer.slot()].versions_logged;
                if logged.replace(theirs) != Some(theirs) {
                    self.log(peer, LendingChange::Incompatible { ours, theirs });
                }
                let retry_at = now + INCOMPATIBLE_FOR;
                self.part(
                    now,
                    peer,
                    ByeReason::Versions,
                    LinkState::Incompatible {
                        ours,
                        theirs,
                        retry_at,
                    },
                );
            }
        }
    }

    fn open(&mut self, now: Duration, peer: PeerId, hello: &ControlHello, version: Version) {
        let link = &mut self.links[peer.slot()];
        let (Some(connection), Some(our_nonce)) = (link.connection(), link.session.nonce) else {
            return;
        };
        link.state = LinkState::Up {
            connection,
            version,
        };
        link.failures = 0;
        link.session.incarnation = Some(hello.incarnation);
        link.counters.sessions += 1;
        let ours = link.session.ours;
        self.log(peer, LendingChange::Connected { version });
        let ended = self.loans.begin_session(peer, hello.incarnation, ours);
        self.loans_ended(ended, LoanEnd::OtherIncarnation);
        for ended in self.borrows.begin_session(peer, hello.incarnation) {
            self.borrow_lost(peer, ended, BorrowEnd::OtherIncarnation);
        }
        self.actions.push(LendingAction::OpenSession {
            peer,
            connection,
            version,
            incarnation: hello.incarnation,
            ours,
            theirs: hello.session,
            our_nonce,
            their_nonce: hello.nonce,
        });
        if self.borrows.state(peer) == BorrowState::Open {
            self.actions.push(LendingAction::ResumeLeases { peer });
        }
        for audit in self.loans.audit_all(peer) {
            self.send(now, peer, ControlMessage::Audit(audit));
        }
        self.remind_of_notice(now, peer);
        if matches!(self.phase, LendingPhase::Leaving { .. }) {
            self.send(now, peer, ControlMessage::Leave);
        }
        // A leader gets another report, and its silence is noticed by that of its lists.
        if !self.is_followed(peer) || self.has_business(peer) {
            self.ping(now, peer);
            self.report(now, peer);
        }
        self.note_in_ledger(peer, |ledger, name| ledger.connected(name));
        self.leader_session(now, peer, hello.incarnation);
    }

    fn bye(&mut self, now: Duration, peer: PeerId, reason: ByeReason) {
        let link = &mut self.links[peer.slot()];
        let next = match reason {
            ByeReason::Leaving | ByeReason::Versions | ByeReason::Other => LinkState::Away {
                retry_at: now + GOODBYE_PAUSE,
            },
            ByeReason::Refused | ByeReason::Misbehaved => LinkState::Shut {
                cause: ShutCause::SaidBye,
                until: now + ShutCause::SaidBye.lasts(),
            },
        };
        let connection = link.connection();
        if reason == ByeReason::Leaving {
            self.note_in_ledger(peer, |ledger, name| ledger.remove_member(now, name));
        }
        self.end_leases(peer, LoanEnd::Bye, BorrowEnd::Bye);
        self.lose(now, peer, LinkLoss::Bye);
        self.links[peer.slot()].state = next;
        if let Some(connection) = connection {
            self.actions.push(LendingAction::Close { connection });
        }
    }

    /// Says goodbye to a peer, ends all leases with it, and goes to `next`.
    pub(super) fn part(&mut self, now: Duration, peer: PeerId, reason: ByeReason, next: LinkState) {
        let is_shut = matches!(next, LinkState::Shut { .. } | LinkState::Denied);
        let (loan_end, borrow_end) = if is_shut {
            (LoanEnd::Shut, BorrowEnd::Shut)
        } else {
            (LoanEnd::Bye, BorrowEnd::Bye)
        };
        self.end_leases(peer, loan_end, borrow_end);
        self.send(now, peer, ControlMessage::Bye(Bye { reason }));
        let link = &mut self.links[peer.slot()];
        let connection = link.connection();
        let session = (link.is_up(), link.session.ours);
        link.state = next;
        link.session = LinkSession::default();
        link.notice = None;
        if let (true, ours) = session {
            self.actions
                .push(LendingAction::CloseSession { peer, ours });
            self.note_in_ledger(peer, |ledger, name| ledger.disconnected(name));
        }
        if let Some(connection) = connection {
            self.connections.remove(&connection);
            self.actions.push(LendingAction::Close { connection });
        }
    }

    /// Ends all leases of both directions at once.
    fn end_leases(&mut self, peer: PeerId, loan_end: LoanEnd, borrow_end: BorrowEnd) {
        let ended = self.loans.end_peer(peer);
        self.loans_ended(ended, loan_end);
        for ended in self.borrows.end_lender(peer) {
            self.borrow_lost(peer, ended, borrow_end);
        }
        self.links[peer.slot()].notice = None;
    }

    /// Shuts a peer out for a while. Each cause is logged once.
    pub(super) fn shut(&mut self, now: Duration, peer: PeerId, cause: ShutCause) {
        let link = &mut self.links[peer.slot()];
        link.counters.shuts += 1;
        if link.causes_logged.insert(cause) {
            self.log(peer, LendingChange::Shut { cause });
        }
        let reason = match cause {
            ShutCause::Cluster | ShutCause::Name => ByeReason::Refused,
            _ => ByeReason::Misbehaved,
        };
        self.part(
            now,
            peer,
            reason,
            LinkState::Shut {
                cause,
                until: now + cause.lasts(),
            },
        );
    }

    pub(super) fn distrust(&mut self, now: Duration, peer: PeerId) {
        if self.links[peer.slot()].state != LinkState::Denied {
            self.shut(now, peer, ShutCause::Distrust);
        }
    }

    pub(super) fn deny(&mut self, now: Duration, peer: PeerId) {
        if self.links[peer.slot()].state != LinkState::Denied {
            self.log(peer, LendingChange::Denied);
            self.part(now, peer, ByeReason::Refused, LinkState::Denied);
        }
    }

    pub(super) fn allow(&mut self, now: Duration, peer: PeerId) {
        let link = &mut self.links[peer.slot()];
        if link.state == LinkState::Denied {
            link.state = LinkState::Away { retry_at: now };
            self.wake(peer);
        }
    }

    /// Records that a connection is lost. Leases of both directions stay for a while.
    pub(super) fn lose(&mut self, now: Duration, peer: PeerId, reason: LinkLoss) {
        let link = &mut self.links[peer.slot()];
        let Some(connection) = link.connection() else {
            return;
        };
        self.connections.remove(&connection);
        let was_up = link.is_up();
        let ours = link.session.ours;
        link.state = link.away(now);
        link.session = LinkSession::default();
        if reason != LinkLoss::Ended && reason != LinkLoss::Bye {
            self.actions.push(LendingAction::Close { connection });
        }
        let link = &mut self.links[peer.slot()];
        if !was_up {
            link.failed_dials = link.failed_dials.saturating_add(1);
            return;
        }
        (link.lost_at, link.failed_dials) = (Some(now), 0);
        self.log(peer, LendingChange::Lost { reason });
        self.actions
            .push(LendingAction::CloseSession { peer, ours });
        self.note_in_ledger(peer, |ledger, name| ledger.disconnected(name));
        self.loans.lose_session(peer, now);
        self.borrows.lose_session(peer, now);
        if matches!(self.borrows.state(peer), BorrowState::Suspect { .. }) {
            self.actions.push(LendingAction::SuspendLeases { peer });
        }
    }

    fn peer_leaves(&mut self, now: Duration, peer: PeerId) {
        if self.links[peer.slot()].session.intent == PeerIntent::Leaves {
            return;
        }
        self.links[peer.slot()].session.intent = PeerIntent::Leaves;
        self.log(peer, LendingChange::Leaving);
        self.note_in_ledger(peer, |ledger, name| ledger.leaves(now, name));
        self.return_all(now, peer);
    }

    /// Sends a message to a peer that has a connection. A connection without room is closed.
    pub(super) fn send(&mut self, now: Duration, peer: PeerId, message: ControlMessage) {
        let link = &mut self.links[peer.slot()];
        let Some(connection) = link.connection() else {
            return;
        };
        link.session.quiet = Duration::ZERO;
        if !message.is_sign_of_life() {
            link.session.used_at = now;
        }
        if !self.actions.push_send(connection, message) {
            self.lose(now, peer, LinkLoss::SendsFull);
        }
    }
}
