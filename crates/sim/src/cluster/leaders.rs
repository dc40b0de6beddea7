//! Who leads a simulated cluster, and what must hold of that: while there are faults, and when all has been quiet.

use sublet_lend::ids::NodeName;

use super::environment::ClusterEvent;
use super::ids::NodeNumber;
use super::judges::ElectionState;
use super::leadership::Leadership;
use super::verdict::{ClusterJudge, Finding};
use super::world::ClusterWorld;
use crate::virtual_time::VirtualDuration;

/// How often the judges look at who leads.
pub(super) const LOOK_EVERY: VirtualDuration = VirtualDuration::micros(500_000);

impl ClusterWorld {
    /// The node that leads, if it is not stopped.
    pub(super) fn leader(&self) -> Option<NodeNumber> {
        self.leaders().next()
    }

    fn leaders(&self) -> impl Iterator<Item = NodeNumber> {
        self.numbers().filter(|number| {
            let node = self.awake(*number);
            node.is_some_and(|node| node.lending.ledger().is_some())
        })
    }

    /// Lets the judge look at the election, and counts connections.
    pub(super) fn look_at_leaders(&mut self) {
        self.env.network.traffic.begin_sample(self.env.now);
        for number in self.numbers() {
            // Those of a node that is stopped, too: others send there until its silence is noticed.
            let node = self.running(number);
            let connections = node.map_or(0, |(node, _)| node.control_connections());
            self.env.network.traffic.sample(number, connections);
        }
        if let Some(etcd) = &self.env.etcd {
            let is_candidate =
                |number: &NodeNumber| self.awake(*number).is_some() && etcd.is_reached_by(*number);
            let state = ElectionState {
                leader: self.leader(),
                serving_since: etcd.serving_since(),
                candidate: self.numbers().find(is_candidate),
                elections: self.env.tally.elections,
            };
            let finding = self.env.judges.election.look(self.env.now, state);
            self.env.judge(state.candidate.unwrap_or_default(), finding);
        }
        self.env.after(LOOK_EVERY, ClusterEvent::LeadersLook);
    }

    /// Judges that exactly one leads and all know it, if somebody is to lead.
    pub(super) fn judge_followers(&mut self) {
        if !self.leading.leadership.has_leader() {
            return;
        }
        let leaders: Vec<NodeNumber> = self.leaders().collect();
        let &[leader] = &leaders[..] else {
            let what = format!("{} nodes lead after all has been quiet", leaders.len());
            let finding = Finding::of(ClusterJudge::Calm, what);
            return self.env.judge(NodeNumber::default(), Some(finding));
        };
        let name = leader.name();
        for number in self.numbers() {
            let finding = self.follower_finding(number, &name);
            self.env.judge(number, finding);
        }
    }

    fn follower_finding(&self, number: NodeNumber, leader: &NodeName) -> Option<Finding> {
        let node = self.awake(number)?;
        let following = node.lending.following()?;
        let follows = following.leader.as_ref() == Some(leader);
        (!follows).then(|| {
            let what = format!("it follows {:?}, and {leader} leads", following.leader);
            Finding::of(ClusterJudge::Calm, what)
        })
    }

    /// Whom a fault of the leader strikes: who leads, or whom settings name.
    pub(super) fn leader_to_strike(&self) -> Option<NodeNumber> {
        match self.leading.leadership {
            Leadership::Mesh | Leadership::Nobody => None,
            Leadership::Static => Some(self.leading.named),
            Leadership::Etcd => self.leader(),
        }
    }
}
