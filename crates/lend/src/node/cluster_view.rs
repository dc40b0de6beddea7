//! How the leader sees the cluster, for whoever asks on another node. Nothing is decided by it.

use std::time::Duration;

use super::link::Membership;
use super::machine::LendingNode;
use super::settings::MEMBERS_MAX;
use super::told_view::ToldView;
use crate::control::{
    BlockCount, ControlMessage, ListUpTo, ShortText, VIEW_ADVICE_MAX, VIEW_NODES_MAX, ViewAdvice,
    ViewAlarm, ViewNode, ViewPart, ViewQuery, ViewState,
};
use crate::ids::{NodeName, PeerId};
use crate::leader::{ClusterNodeState, ClusterNodeStatus, ClusterStatus, Ledger};

/// A question is asked anew if its answer is not whole after this time.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

impl LendingNode {
    /// The leader's last answer to [`super::LendingInput::AskView`].
    pub fn told_view(&self) -> Option<&ToldView> {
        self.on_demand.as_ref()?.told.told.as_ref()
    }

    pub(super) fn ask_view(&mut self, now: Duration) {
        let Some(part) = &mut self.on_demand else {
            return;
        };
        let Some(leader) = part.leader.peer else {
            return;
        };
        let waits = |(since, _): &(Duration, ToldView)| now < *since + ANSWER_WITHIN;
        if !self.links[leader.slot()].is_up() || part.told.asked.as_ref().is_some_and(waits) {
            return;
        }
        part.told.asked = Some((now, ToldView::default()));
        let query = Box::new(ViewQuery::default());
        self.send(now, leader, ControlMessage::AskView(query));
    }

    /// A node asks this one as its leader.
    pub(super) fn view_asked(&mut self, now: Duration, peer: PeerId, query: &ViewQuery) {
        let is_member = self.links[peer.slot()].membership == Membership::Member;
        let answer = self.ledger().filter(|_| is_member);
        match answer.map(|ledger| view_part(ledger, now, query.after.as_ref())) {
            Some(part) => self.send(now, peer, ControlMessage::View(Box::new(part))),
            None => self.links[peer.slot()].counters.lines_unknown += 1,
        }
    }

    /// The leader answers. What nobody asked for is ignored.
    pub(super) fn view_told(&mut self, now: Duration, peer: PeerId, told: ViewPart) {
        let Some(part) = &mut self.on_demand else {
            return;
        };
        let is_leader = part.leader.peer == Some(peer);
        let Some((since, mut view)) = part.told.asked.take().filter(|_| is_leader) else {
            part.ignored += 1;
            return;
        };
        if view.nodes.is_empty() {
            view.at = now;
        }
        view.term = told.term;
        view.nodes.extend(told.nodes.into_vec());
        let last = view.nodes.last().map(|node| node.name.clone());
        if told.more && last.is_some() && view.nodes.len() <= MEMBERS_MAX {
            part.told.asked = Some((since, view));
            let query = Box::new(ViewQuery { after: last });
            return self.send(now, peer, ControlMessage::AskView(query));
        }
        view.advice = told.advice.into_vec();
        view.alarms = told.alarms.into_vec();
        view.placement = told.placement.into();
        part.told.told = Some(view);
    }
}

/// The nodes after a name, as many as a part has. The last part has the rest of the view.
fn view_part(ledger: &Ledger, now: Duration, after: Option<&NodeName>) -> ViewPart {
    // One more than a part has, to know whether there are more.
    let nodes = ledger.nodes_after(now, after, VIEW_NODES_MAX + 1);
    let more = nodes.len() > VIEW_NODES_MAX;
    let part = ViewPart {
        term: ledger.term(),
        nodes: ListUpTo::first(nodes.iter().map(|node| view_node(node, now))),
        more,
        ..ViewPart::default()
    };
    match more {
        true => part,
        false => with_rest(part, &ledger.status(now), ledger, now),
    }
}

fn with_rest(part: ViewPart, status: &ClusterStatus, ledger: &Ledger, now: Duration) -> ViewPart {
    let latest = status.advice.len().saturating_sub(VIEW_ADVICE_MAX);
    let advice = status.advice[latest..].iter().map(|given| ViewAdvice {
        age_millis: millis_since(given.at, now),
        borrower: given.borrower.clone(),
        lender: given.lender.clone(),
        blocks: BlockCount::saturating(given.blocks),
        why: given.why,
        shortage: given.shortage,
    });
    let alarms = status.alarms.iter().map(|alarm| ViewAlarm {
        lender: alarm.lender.clone(),
        borrower: alarm.borrower.clone(),
        lent: BlockCount::saturating(alarm.lent),
        borrowed: BlockCount::saturating(alarm.borrowed),
        for_millis: millis_since(alarm.since, now),
    });
    ViewPart {
        advice: ListUpTo::first(advice),
        alarms: ListUpTo::first(alarms),
        placement: ShortText::or_nothing(ledger.placement().to_string()),
        ..part
    }
}

fn view_node(node: &ClusterNodeStatus, now: Duration) -> ViewNode {
    ViewNode {
        name: node.name.clone(),
        state: match node.state {
            ClusterNodeState::Expected => ViewState::Expected,
            ClusterNodeState::Active => ViewState::Active,
            ClusterNodeState::Leaving => ViewState::Leaving,
            ClusterNodeState::Away => ViewState::Away,
            ClusterNodeState::Gone => ViewState::Gone,
        },
        for_millis: millis_since(node.since, now),
        rack: node.rack.clone(),
        total: BlockCount::saturating(node.total),
        free: BlockCount::saturating(node.free),
        lendable: BlockCount::saturating(node.lendable),
        wanted: BlockCount::saturating(node.wanted),
        lent: BlockCount::saturating(node.lent),
        borrowed: BlockCount::saturating(node.borrowed),
    }
}

fn millis_since(since: Duration, now: Duration) -> u64 {
    u64::try_from(now.saturating_sub(since).as_millis()).unwrap_or(u64::MAX)
}
