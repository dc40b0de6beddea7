//! The node and its leader: what etcd tells it, whose advice it hears, and what the judge is to know of both.

use std::time::Duration;

use sublet_etcd::member::StoreAnswer;
use sublet_lend::control::{BlockCount, BorrowAdvice, ControlMessage, Grant};
use sublet_lend::ids::{ConnectionId, LeaseId, PeerId, Term};
use sublet_lend::node::{LendingInput, MembersChange};

use super::cluster_node::ClusterNode;
use super::etcd_member::LeaderTold;
use super::leader_watch::{BorrowerWish, LeaderIntent};
use crate::cluster::environment::Environment;
use crate::cluster::ids::NodeNumber;
use crate::cluster::mutation::Mutation;
use crate::cluster::trace::TraceEvent;

/// A lease that no lender makes.
const INVENTED_LEASE: LeaseId = LeaseId(u32::MAX);

impl ClusterNode {
    /// Forgets the members until etcd names them. Each keeps its number.
    pub(super) fn begin_with_etcd(&mut self, nodes: u16) {
        if self.leading.member.is_some() {
            let own = self.state.node();
            let others = (0..nodes).map(NodeNumber).filter(|other| *other != own);
            let removed = others.map(NodeNumber::name).collect();
            let added = Vec::new();
            let change = MembersChange { added, removed };
            self.inputs.push_back(LendingInput::Members(change));
        }
    }

    /// Looks at the time, asks etcd what is to be asked, and hears what it told.
    pub(super) fn follow_etcd(&mut self, env: &mut Environment) {
        let now = self.state.clock.local(env.now);
        let Some(member) = &mut self.leading.member else {
            return;
        };
        member.tick(now);
        if env.leaves_out(Mutation::SilentLeaderAwaited) {
            member.await_leader();
        }
        while let Some(request) = member.next_request(now) {
            env.ask_etcd(self.state.run, request);
        }
        let inputs = member.inputs();
        let told = member.told().clone();
        for input in inputs {
            if matches!(input, LendingInput::Leader { .. }) {
                self.told_who_leads(env, &told);
            }
            self.inputs.push_back(input);
        }
        if env.leaves_out(Mutation::SilentLeaderAwaited) {
            self.name_again(&told);
        }
    }

    fn told_who_leads(&mut self, env: &mut Environment, told: &LeaderTold) {
        let own = self.state.node();
        let leader = told.leader.as_ref().and_then(NodeNumber::named);
        env.note(own, TraceEvent::Told(leader, told.term));
        if let Some(watch) = &mut self.leading.watch {
            watch.told(self.state.clock.local(env.now), leader, told.term);
        }
        if leader == Some(own) {
            env.tally.elections += 1;
            let before = env.last_leader.replace(own);
            self.leading.predecessor = before.filter(|before| *before != own);
        }
    }

    /// Names the leader anew, so that its silence begins again.
    fn name_again(&mut self, told: &LeaderTold) {
        let LeaderTold { leader, term } = told.clone();
        let is_other = leader
            .as_ref()
            .is_some_and(|leader| *leader != self.state.node().name());
        if is_other {
            let nobody = LendingInput::Leader { leader: None, term };
            self.inputs.push_back(nobody);
            self.inputs.push_back(LendingInput::Leader { leader, term });
        }
    }

    /// etcd answers, or tells what has changed.
    pub(in crate::cluster) fn etcd_answered(&mut self, env: &mut Environment, answer: StoreAnswer) {
        let now = self.state.clock.local(env.now);
        if let Some(member) = &mut self.leading.member {
            member.apply(now, answer);
            self.follow_etcd(env);
            self.settle(env);
        }
    }

    /// Tells the lending node what a peer said, and lets the judge see whether it obeys.
    pub(super) fn hear(
        &mut self,
        env: &mut Environment,
        (connection, from): (ConnectionId, NodeNumber),
        message: ControlMessage,
    ) {
        let now = self.state.clock.local(env.now);
        if let ControlMessage::ClusterReport(_) = message
            && self.leading.predecessor == Some(from)
        {
            self.leading.predecessor = None;
        }
        let term = match &message {
            ControlMessage::Advise(advice) => advice.term,
            ControlMessage::Members(update) => update.term,
            _ => return self.tell(env, LendingInput::message(connection, message)),
        };
        if let Some(watch) = &mut self.leading.watch {
            watch.heard(now, from, term);
        }
        let (before, silence) = (self.followed(), self.leaders_silence());
        let advice = match &message {
            ControlMessage::Advise(advice) => Some(advice.clone()),
            _ => None,
        };
        let message = self.with_any_term(env, from, message);
        self.tell(env, LendingInput::message(connection, message));
        let has_followed = self.followed() != before;
        env.tally.followed += u64::from(has_followed);
        let is_heard = self
            .leaders_silence()
            .zip(silence)
            .is_some_and(|(now, then)| now < then);
        if has_followed || is_heard {
            let watch = self.leading.watch.as_ref();
            let finding = watch.and_then(|watch| watch.obeyed(from, term));
            env.judge(self.state.node(), finding);
        }
        self.tell_leader_again(env);
        if let Some(advice) = advice.filter(|_| env.leaves_out(Mutation::AdviceGrants)) {
            self.take_for_grant(env, &advice);
        }
    }

    /// For how long the lending node has not heard what only a leader says. It begins anew with what the node obeys.
    fn leaders_silence(&self) -> Option<Duration> {
        self.lending.following()?.silent_for
    }

    /// If the run leaves out that terms count: who spoke last does not stay the leader.
    fn tell_leader_again(&mut self, env: &mut Environment) {
        let following = self.lending.following();
        if env.leaves_out(Mutation::LowerTermObeyed)
            && let (Some(member), Some(following)) = (&self.leading.member, following)
        {
            let (leader, term) = (member.told().leader.clone(), following.term);
            self.tell(env, LendingInput::Leader { leader, term });
        }
    }

    fn followed(&self) -> u64 {
        let following = self.lending.following();
        following.map_or(0, |following| following.followed)
    }

    /// If the run leaves that rule out: a leader counts whatever its term.
    fn with_any_term(
        &mut self,
        env: &mut Environment,
        from: NodeNumber,
        message: ControlMessage,
    ) -> ControlMessage {
        if !env.leaves_out(Mutation::LowerTermObeyed) {
            return message;
        }
        let Some(following) = self.lending.following() else {
            return message;
        };
        let (leader, highest) = (Some(from.name()), following.term);
        let named = LendingInput::Leader {
            leader,
            term: highest,
        };
        self.tell(env, named);
        match message {
            ControlMessage::Advise(mut advice) => {
                advice.term = highest;
                ControlMessage::Advise(advice)
            }
            ControlMessage::Members(mut update) => {
                update.term = highest;
                ControlMessage::Members(update)
            }
            other => other,
        }
    }

    /// If the run leaves that rule out: advice is as good as a grant of the lender.
    fn take_for_grant(&mut self, env: &mut Environment, advice: &BorrowAdvice) {
        let lender = NodeNumber::named(&advice.lender);
        let mut links = self.control.iter();
        let link = links.find(|(_, link)| Some(link.peer.node) == lender);
        let Some(connection) = link.map(|(connection, _)| *connection) else {
            return;
        };
        let grant = ControlMessage::Grant(Grant {
            lease: INVENTED_LEASE,
            first: 0,
            count: BlockCount::saturating(1),
            limit: None,
        });
        self.tell(env, LendingInput::message(connection, grant));
    }

    /// Returns whether advice of this node goes out. The judge is told that it does.
    pub(super) fn sends_advice(&mut self, env: &mut Environment) -> bool {
        let waits = self.leading.predecessor.is_some();
        if waits && env.leaves_out(Mutation::PredecessorAwaited) {
            return false;
        }
        env.tally.advised += 1;
        if let Some(watch) = &mut self.leading.watch {
            watch.advised(self.state.clock.local(env.now));
        }
        true
    }

    /// The node asks a member, or calls one to do so. Its leader is none of those.
    pub(super) fn asks(&mut self, env: &Environment, peer: NodeNumber) {
        let following = self.lending.following();
        let leader = following.and_then(|following| following.leader);
        if let Some(watch) = &mut self.leading.watch
            && leader != Some(peer.name())
        {
            watch.asked(self.state.clock.local(env.now));
        }
    }

    /// Lets the judge look at the node as a borrower, and once a second as a leader.
    pub(super) fn watch_leader(&mut self, env: &mut Environment) {
        let now = self.state.clock.local(env.now);
        let (Some(following), Some(watch)) = (self.lending.following(), &mut self.leading.watch)
        else {
            return;
        };
        env.tally.drawn += following.drawn - watch.drawn();
        let wish = match self.lending.seeks_lenders() && self.lending.ledger().is_none() {
            true => BorrowerWish::Seeks,
            false => BorrowerWish::Rests,
        };
        let finding = watch.look(now, &following, wish);
        env.judge(self.state.node(), finding);
        if now >= self.leading.planned_at + Duration::from_secs(1) {
            self.leading.planned_at = now;
            self.watch_advice(env, now);
        }
    }

    fn watch_advice(&mut self, env: &mut Environment, now: Duration) {
        let Some(ledger) = self.lending.ledger() else {
            return;
        };
        let own = self.state.node();
        let is_connected = |borrower: NodeNumber| {
            let is_other = borrower != own;
            is_other && self.state.sessions.contains_key(&own.peer(borrower))
        };
        let plan = ledger.plan(now);
        let mut borrowers = plan
            .iter()
            .filter_map(|one| NodeNumber::named(&one.borrower));
        let intent = match borrowers.any(is_connected) {
            true => LeaderIntent::Advises,
            false => LeaderIntent::Rests,
        };
        let term: Term = ledger.term();
        let watch = self.leading.watch.as_mut();
        let finding = watch.and_then(|watch| watch.look_at_advice(now, term, intent));
        env.judge(own, finding);
    }

    /// The session with a lender says which run of it granted what this node opens.
    pub(super) fn judge_borrowed(
        &mut self,
        env: &mut Environment,
        peer: PeerId,
        (lease, indices): (LeaseId, std::ops::Range<u32>),
    ) {
        let Some(session) = self.state.sessions.get(&peer) else {
            return;
        };
        let finding = env.judges.owner.borrowed(session.peer_run, lease, indices);
        env.judge(self.state.node(), finding);
    }
}
