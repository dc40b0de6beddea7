//! The node as a leader: it keeps the ledger, and sends what that says.

use std::time::Duration;

use super::link::Membership;
use super::machine::LendingNode;
use crate::control::{ClusterReport, ControlMessage};
use crate::ids::{NodeName, PeerId, Term};
use crate::leader::{Ledger, LedgerAction, LedgerSettings};

/// The most messages of the ledger that are sent at one tick. The rest waits for the next one.
const SENDS_EACH_TICK: usize = 4096;

/// How often this node reports to its own ledger.
const REPORT_EVERY: Duration = Duration::from_secs(1);

impl LendingNode {
    /// Begins to lead, and knows nothing yet.
    pub(super) fn begin_to_lead(&mut self, now: Duration, term: Term) {
        let members = self
            .links
            .iter()
            .filter(|link| link.membership == Membership::Member)
            .map(|link| link.name.clone());
        let members: Vec<NodeName> = members.chain([self.settings.node.clone()]).collect();
        let Some(part) = &mut self.on_demand else {
            return;
        };
        let settings = LedgerSettings {
            term,
            placement: part.settings.placement.clone(),
            seed: part.draws.bits(),
        };
        let mut ledger = Ledger::new(now, settings, members);
        let connected = self.links.iter().filter(|link| link.is_up());
        connected.for_each(|link| ledger.connected(&link.name));
        part.ledger = Some(ledger);
        part.reported_at = None;
    }

    /// The ledger, while this node leads.
    pub fn ledger(&self) -> Option<&Ledger> {
        self.on_demand.as_ref()?.ledger.as_ref()
    }

    /// Lets the ledger know something, if there is one.
    pub(super) fn note_in_ledger(
        &mut self,
        peer: PeerId,
        note: impl FnOnce(&mut Ledger, &NodeName),
    ) {
        let name = &self.links[peer.slot()].name;
        let part = self.on_demand.as_mut();
        if let Some(ledger) = part.and_then(|part| part.ledger.as_mut()) {
            note(ledger, name);
        }
    }

    /// A node reports to this one as its leader.
    pub(super) fn reported_by(&mut self, now: Duration, peer: PeerId, report: ClusterReport) {
        let is_member = self.links[peer.slot()].membership == Membership::Member;
        if is_member && self.ledger().is_some() {
            self.note_in_ledger(peer, |ledger, name| ledger.report(now, name, report));
        } else if let Some(part) = &mut self.on_demand {
            part.ignored += 1;
        } else {
            self.links[peer.slot()].counters.lines_unknown += 1;
        }
    }

    /// Reports to the own ledger, lets it advise, and sends what it says.
    pub(super) fn tick_ledger(&mut self, now: Duration) {
        let Some(part) = &mut self.on_demand else {
            return;
        };
        let is_due = part.reported_at.is_none_or(|at| now >= at + REPORT_EVERY);
        let Some(mut ledger) = part.ledger.take() else {
            return;
        };
        if is_due {
            part.reported_at = Some(now);
            let report = self.cluster_report();
            ledger.report(now, &self.settings.node, report);
        }
        if self.phase.goes() {
            ledger.leaves(now, &self.settings.node);
        }
        ledger.tick(now);
        for _ in 0..SENDS_EACH_TICK {
            let Some(action) = ledger.poll_action() else {
                break;
            };
            self.carry_out(now, action);
        }
        if let Some(part) = &mut self.on_demand {
            part.ledger = Some(ledger);
        }
    }

    fn carry_out(&mut self, now: Duration, action: LedgerAction) {
        match action {
            LedgerAction::Advise(advice) if advice.borrower == self.settings.node => {
                self.advised(now, &advice);
            }
            LedgerAction::Advise(advice) => {
                let to = advice.borrower.clone();
                self.send_to_follower(now, &to, ControlMessage::Advise(Box::new(advice)));
            }
            LedgerAction::TellMembers { to, update } => {
                self.send_to_follower(now, &to, ControlMessage::Members(Box::new(update)));
            }
        }
    }

    fn send_to_follower(&mut self, now: Duration, to: &NodeName, message: ControlMessage) {
        let peer = self.names.get(to).copied();
        if let Some(peer) = peer.filter(|peer| self.links[peer.slot()].is_up()) {
            self.send(now, peer, message);
        }
    }
}
