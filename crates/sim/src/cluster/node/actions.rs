//! What a lending node wants done, carried out: connections and sessions here, the rest in the store.

use sublet_lend::control::{ControlMessage, Grant, encode_line};
use sublet_lend::ids::{ConnectionId, PeerId, SessionId};
use sublet_lend::lender::LoanLookup;
use sublet_lend::node::{BorrowEnd, LendingAction, LendingChange};

use super::cluster_node::ClusterNode;
use super::fetcher::FetchOutcome;
use super::state::PeerSession;
use crate::cluster::environment::{ClusterEvent, Environment};
use crate::cluster::network::CloseKind;
use crate::cluster::trace::TraceEvent;

impl ClusterNode {
    /// Tells the lending node all that happened, and carries out what it wants.
    pub(super) fn settle(&mut self, env: &mut Environment) {
        while let Some(input) = self.inputs.pop_front() {
            let lent_before = self.lending.loans().lent();
            self.lending.handle(self.state.clock.local(env.now), input);
            while let Some(action) = self.lending.poll_action() {
                self.perform(env, action);
            }
            if self.lending.loans().lent() != lent_before {
                let borrowers = self.borrowers.iter().copied();
                let finding = env.judges.owner.table(self.lending.loans(), borrowers);
                env.judge(self.state.node(), finding);
            }
        }
    }

    /// Carries out an action of the lending node.
    fn perform(&mut self, env: &mut Environment, action: LendingAction) {
        let run = self.state.run;
        match action {
            LendingAction::Connect { peer } => {
                let to = self.state.member(peer);
                self.asks(env, to);
                let wait = env.network.delay(run.node, to).times(2);
                env.after(wait, ClusterEvent::Dialed(run, to));
            }
            LendingAction::Send {
                connection,
                message,
            } => self.send(env, connection, &message),
            LendingAction::Close { connection } => {
                self.control.remove(&connection);
                env.close(run, connection, CloseKind::Graceful);
            }
            LendingAction::OpenSession {
                peer,
                connection,
                incarnation,
                ours,
                theirs,
                ..
            } => {
                let Some(link) = self.control.get(&connection) else {
                    return;
                };
                let session = PeerSession {
                    ours,
                    theirs,
                    incarnation,
                    peer_run: link.peer,
                };
                env.note(run.node, TraceEvent::SessionOpened(link.peer.node));
                self.state.sessions.insert(peer, session);
            }
            LendingAction::CloseSession { peer, ours } => self.close_session(env, peer, ours),
            LendingAction::Log(event) => count(env, event.change),
            LendingAction::LogStranger { .. } | LendingAction::Left => {}
            for_store => {
                if let LendingAction::OpenLease {
                    peer, lease, range, ..
                }
                | LendingAction::ExtendLease { peer, lease, range } = for_store
                {
                    self.judge_borrowed(env, peer, (lease, range.first()..range.end()));
                }
                let (state, lending) = (&mut self.state, &self.lending);
                let inputs = self.work.perform(state, env, lending, for_store);
                self.inputs.extend(inputs);
            }
        }
    }

    fn close_session(&mut self, env: &mut Environment, peer: PeerId, ours: SessionId) {
        let is_it = |session: &PeerSession| session.ours == ours;
        if self.state.sessions.get(&peer).is_some_and(is_it) {
            self.state.sessions.remove(&peer);
        }
        env.note(
            self.state.node(),
            TraceEvent::SessionClosed(self.state.member(peer)),
        );
        self.server.end_session(&self.state, env, ours);
        self.courier.disconnect(&mut self.state, env, peer);
        let outcome = FetchOutcome::NotAsked;
        let fetched = self.fetcher.disconnect(&self.state, env, peer, outcome);
        self.finish(env, fetched);
    }

    fn send(&mut self, env: &mut Environment, connection: ConnectionId, message: &ControlMessage) {
        let Some(link) = self.control.get(&connection) else {
            return;
        };
        let to = link.peer.node;
        env.note(self.state.node(), TraceEvent::Sent(message.kind(), to));
        match message {
            ControlMessage::Grant(grant) => {
                let peer = self.state.node().peer(to);
                self.judge_grant(env, peer, grant);
            }
            ControlMessage::Borrow(_) => self.asks(env, to),
            ControlMessage::Advise(_) if !self.sends_advice(env) => return,
            _ => {}
        }
        let mut line = Vec::with_capacity(128);
        encode_line(message, &mut line);
        env.send_lines(self.state.run, connection, line);
    }

    fn judge_grant(&mut self, env: &mut Environment, peer: PeerId, grant: &Grant) {
        env.tally.granted += u64::from(grant.count.get());
        let Some(session) = self.state.sessions.get(&peer) else {
            return;
        };
        self.borrowers.insert(peer);
        let loans = self.lending.loans();
        for index in grant.first..grant.first + grant.count.get() {
            if let LoanLookup::Lent(block) = loans.find(peer, session.ours, grant.lease, index) {
                let run = self.state.run;
                let finding = env.judges.owner.granted(run, grant.lease, index, block);
                env.judge(run.node, finding);
            }
        }
    }
}

fn count(env: &mut Environment, change: LendingChange) {
    match change {
        LendingChange::Unclaimed { blocks, .. } => env.tally.unclaimed += u64::from(blocks),
        LendingChange::BorrowEnded { reason, .. } if !matches!(reason, BorrowEnd::Lender(_)) => {
            env.tally.leases_lost += 1;
        }
        _ => {}
    }
}
