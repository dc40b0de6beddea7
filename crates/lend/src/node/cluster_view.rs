//! How the leader sees the cluster, for whoever asks on another node. Nothing is decided by it.

use std::time::Duration;

use super::flood::SendRate;
use super::link::Membership;
use super::machine::LendingNode;
use super::membership::PEER_NUMBERS_MAX;
use super::told_view::{AskedView, ToldView};
use crate::control::{
    BlockCount, ControlMessage, ListUpTo, ShortText, VIEW_ADVICE_MAX, VIEW_NODES_MAX, ViewAdvice,
    ViewAlarm, ViewNode, ViewPart, ViewQuery, ViewState,
};
use crate::ids::PeerId;
use crate::leader::{ClusterNodeState, ClusterNodeStatus, Ledger};

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
        let waits = |asked: &AskedView| now < asked.since + ANSWER_WITHIN;
        if !self.links[leader.slot()].is_up() || part.told.asked.as_ref().is_some_and(waits) {
            return;
        }
        let tag = self.next_tag;
        self.next_tag += 1;
        part.told.asked = Some(AskedView {
            tag,
            since: now,
            view: ToldView::default(),
        });
        let query = Box::new(ViewQuery { tag, after: None });
        self.send(now, leader, ControlMessage::AskView(query));
    }

    /// A node asks this one as its leader. What it asks beyond its bound is not answered.
    pub(super) fn view_asked(&mut self, now: Duration, peer: PeerId, query: &ViewQuery) {
        let link = &mut self.links[peer.slot()];
        let is_member = link.membership == Membership::Member;
        let rate = link.flood.count_question(now);
        let ledger = self
            .ledger()
            .filter(|_| is_member && rate == SendRate::Fair);
        match ledger.map(|ledger| view_part(ledger, now, query)) {
            Some(part) => self.send(now, peer, ControlMessage::View(Box::new(part))),
            None => self.links[peer.slot()].counters.lines_unknown += 1,
        }
    }

    /// The leader answers. What nobody asked for is ignored. A part that brings the answer no further ends the question.
    pub(super) fn view_told(&mut self, now: Duration, peer: PeerId, told: ViewPart) {
        let Some(part) = &mut self.on_demand else {
            return;
        };
        let is_answer =
            |asked: &mut AskedView| part.leader.peer == Some(peer) && asked.tag == told.tag;
        let Some(mut asked) = part.told.asked.take_if(is_answer) else {
            part.ignored += 1;
            return;
        };
        if asked.view.nodes.is_empty() {
            asked.view.at = now;
        }
        asked.view.term = told.term;
        let before = asked.last_name();
        asked.view.nodes.extend(told.nodes.into_vec());
        let last = asked.last_name();
        if told.more {
            if last <= before || asked.view.nodes.len() > PEER_NUMBERS_MAX {
                part.ignored += 1;
                return;
            }
            let tag = asked.tag;
            // A whole answer may take long. Each part has its own time.
            asked.since = now;
            part.told.asked = Some(asked);
            let query = Box::new(ViewQuery { tag, after: last });
            return self.send(now, peer, ControlMessage::AskView(query));
        }
        let mut view = asked.view;
        view.advice = told.advice.into_vec();
        view.alarms = told.alarms.into_vec();
        view.placement = told.placement.into();
        part.told.told = Some(view);
    }
}

/// The nodes after a name, as many as a part has. The last part has the rest of the view.
fn view_part(ledger: &Ledger, now: Duration, query: &ViewQuery) -> ViewPart {
    let mut nodes = ledger.nodes_after(now, query.after.as_ref());
    let shown: Vec<ClusterNodeStatus> = nodes.by_ref().take(VIEW_NODES_MAX).collect();
    let part = ViewPart {
        tag: query.tag,
        term: ledger.term(),
        nodes: ListUpTo::first(shown.iter().map(|node| view_node(node, now))),
        more: nodes.next().is_some(),
        ..ViewPart::default()
    };
    match part.more {
        true => part,
        false => with_rest(part, ledger, now),
    }
}

fn with_rest(part: ViewPart, ledger: &Ledger, now: Duration) -> ViewPart {
    let given = ledger.given_advice();
    let earlier = given.len().saturating_sub(VIEW_ADVICE_MAX);
    let advice = given.skip(earlier).map(|given| ViewAdvice {
        age_millis: millis_since(given.at, now),
        borrower: given.borrower.clone(),
        lender: given.lender.clone(),
        blocks: BlockCount::saturating(given.blocks),
        why: given.why,
        shortage: given.shortage,
    });
    let alarms = ledger.alarms(now).map(|alarm| ViewAlarm {
        lender: alarm.lender,
        borrower: alarm.borrower,
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
