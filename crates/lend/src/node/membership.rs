//! Members that come and go while the node runs.

use std::time::Duration;

use super::input::MembersChange;
use super::link::{LinkState, Membership, PeerLink};
use super::machine::LendingNode;
use super::settings::MemberSettings;
use crate::ids::{NodeName, PeerId};

/// The most names that have been members in one run. Each keeps its number.
const NUMBERS_MAX: usize = 1 << 15;

impl LendingNode {
    pub(super) fn change_members(&mut self, now: Duration, change: MembersChange) {
        for name in change.removed {
            self.remove_member(now, &name);
        }
        for member in change.added {
            self.add_member(now, &member);
        }
        self.find_leader(now);
    }

    fn add_member(&mut self, now: Duration, member: &MemberSettings) {
        if member.name == self.settings.node {
            return;
        }
        let peer = match self.names.get(&member.name) {
            Some(&peer) => peer,
            None if self.links.len() == NUMBERS_MAX => {
                self.members_refused += 1;
                return;
            }
            None => self.number_for(member),
        };
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
        self.links[peer.slot()].membership = Membership::Former;
        if let Some(part) = &mut self.on_demand {
            part.search.wishes.remove(&peer);
        }
        self.note_in_ledger(peer, |ledger, name| ledger.remove_member(now, name));
    }
}
