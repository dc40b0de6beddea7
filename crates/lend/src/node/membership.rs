//! Members that come and go while the node runs.

use std::time::Duration;

use super::input::MembersChange;
use super::link::{LinkState, Membership, PeerLink};
use super::machine::LendingNode;
use super::settings::MemberSettings;
use crate::ids::{NodeName, PeerId};

/// The most names that have been members in one run. Each keeps its number, so that no number is higher.
pub const PEER_NUMBERS_MAX: usize = 1 << 15;

impl LendingNode {
    pub(super) fn change_members(&mut self, now: Duration, change: MembersChange) {
        for name in change.removed {
            self.remove_member(now, &name);
        }
        let is_member = |link: &&PeerLink| link.membership == Membership::Member;
        let mut members = self.links.iter().filter(is_member).count();
        let most = self.settings.topology.members_max();
        for member in change.added {
            let known = self.names.get(&member.name).copied();
            let counts =
                known.is_some_and(|peer| self.links[peer.slot()].membership == Membership::Member);
            let has_number = known.is_some() || self.links.len() < PEER_NUMBERS_MAX;
            if member.name == self.settings.node {
                continue;
            }
            if !has_number || (!counts && members == most) {
                self.members_refused += 1;
                continue;
            }
            members += usize::from(!counts);
            let peer = known.unwrap_or_else(|| self.number_for(&member));
            self.add_member(now, peer, &member);
        }
        self.find_leader(now);
    }

    fn add_member(&mut self, now: Duration, peer: PeerId, member: &MemberSettings) {
        let link = &mut self.links[peer.slot()];
        link.lend = member.lend;
        let was_former = link.membership == Membership::Former;
        link.membership = Membership::Member;
        if let (true, LinkState::Away { .. }) = (was_former, link.state) {
            link.failures = 0;
            link.state = LinkState::Away { retry_at: now };
        }
        self.wake(peer);
        self.note_in_ledger(peer, |ledger, name| ledger.add_member(now, name.clone()));
    }

    fn number_for(&mut self, member: &MemberSettings) -> PeerId {
        // The bound on numbers is that of their type.
        let peer = PeerId(self.links.len() as u16);
        self.links.push(PeerLink::new(&self.settings.node, member));
        self.loans.add_peer();
        self.borrows.add_peer();
        self.names.insert(member.name.clone(), peer);
        peer
    }

    /// A member goes. Its leases stay until it says that it goes, or its connection is lost for long.
    fn remove_member(&mut self, now: Duration, name: &NodeName) {
        let Some(&peer) = self.names.get(name) else {
            return;
        };
        let link = &mut self.links[peer.slot()];
        if link.membership == Membership::Member {
            link.membership = Membership::Former;
            link.former_since = Some(now);
        }
        if let Some(part) = &mut self.on_demand {
            part.search.wishes.remove(&peer);
        }
        self.note_in_ledger(peer, |ledger, name| ledger.remove_member(now, name));
    }
}
