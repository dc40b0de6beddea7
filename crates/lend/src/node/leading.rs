//! The node as a leader: it keeps the ledger, and sends what that says.

use std::time::Duration;

use super::link::{Membership, PeerLink};
use super::machine::LendingNode;
use super::settings::LeaderNaming;
use crate::control::{ClusterReport, ControlMessage};
use crate::ids::{NodeName, PeerId, Term};
use crate::leader::{Ledger, LedgerAction, LedgerSettings};

/// The most messages of the ledger that are sent at one tick. The rest waits for the next one.
const SENDS_EACH_TICK: usize = 4096;

/// How often this node reports to its own ledger.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// An elected leader to which no other member reports for so long lets others lead.
pub const LEADS_UNHEARD_MAX: Duration = Duration::from_secs(15);

/// For so long it does.
pub const STANDS_DOWN_FOR: Duration = Duration::from_secs(60);

impl LendingNode {
    /// Begins to lead, and knows nothing yet but who was a member in this run of the node.
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
        for link in &self.links {
            if let (Membership::Former, Some(since)) = (link.membership, link.former_since) {
                ledger.add_former(since, link.name.clone());
            }
        }
        let connected = self.links.iter().filter(|link| link.is_up());
        connected.for_each(|link| ledger.connected(&link.name));
        part.ledger = Some(ledger);
        part.reported_at = None;
        part.unheard_for = Duration::ZERO;
    }

    /// Returns whether this node may lead. It may not for a while after it led and no member reported to it: the others
    /// may not be able to reach it, and know nothing of that in an election. The host keeps it out of elections meanwhile.
    pub fn may_lead(&self) -> bool {
        let part = self.on_demand.as_ref();
        part.is_none_or(|part| self.ticked_at >= part.stands_down_until)
    }

    /// Lets others lead if nobody reports to this node, though there are others.
    pub(super) fn tick_unheard(&mut self, now: Duration, passed: Duration) {
        let is_member = |link: &PeerLink| link.membership == Membership::Member;
        let has_others = self.links.iter().any(is_member);
        let Some(part) = &mut self.on_demand else {
            return;
        };
        let is_elected = part.settings.leader == LeaderNaming::Elected;
        if part.ledger.is_none() || !is_elected || !has_others {
            part.unheard_for = Duration::ZERO;
            return;
        }
        part.unheard_for += passed;
        if part.unheard_for >= LEADS_UNHEARD_MAX {
            part.unheard_for = Duration::ZERO;
            part.stands_down_until = now + STANDS_DOWN_FOR;
        }
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
            if let Some(part) = &mut self.on_demand {
                part.unheard_for = Duration::ZERO;
            }
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
