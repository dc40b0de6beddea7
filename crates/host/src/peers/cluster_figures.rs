//! How this host stands in its cluster, as programs outside get it.

use std::time::{Duration, Instant};

use sublet_client::messages::{
    ChangeLifetime, ClusterAdvice, ClusterMode, ClusterNode, ClusterNodeState, ClusterPlan,
    ClusterStatus, ClusterView, CountAlarm, EtcdState, EtcdStatus, VERSION,
};
use sublet_etcd::member::TTL_DEFAULT;
use sublet_lend::control::{ViewAdvice, ViewAlarm, ViewNode, ViewState};
use sublet_lend::leader::{self, ClusterNodeStatus, GivenAdvice, Ledger, PairMismatch};
use sublet_lend::node::{LEADER_SILENT_AFTER, LendingStatus, ToldView};
use sublet_policy::placement::PlacementChoice;
use sublet_tls::peer::NodeIdentity;
use sublet_types::{BLOCK_BYTES, Bytes, NodeName};

use super::cluster_peers::view_of_peers;
use super::lending::Lending;
use super::lending_figures::{FiguresTime, lend_phase};

/// etcd counts as failing for so long after a call failed.
const FAILING_FOR: Duration = Duration::from_secs(10);

/// How this host stands in its cluster. `leave_lasts` is how long a leave would hold.
pub(crate) fn cluster_status(
    lending: &Lending,
    leave_lasts: ChangeLifetime,
    arena: ArenaAmounts,
    time: FiguresTime,
) -> ClusterStatus {
    let status = lending.status();
    let NodeIdentity { cluster, node } = lending.tls().identity;
    let following = status.following.as_ref();
    let leader = following.and_then(|it| it.leader.clone());
    let phase = lend_phase(status.phase);
    let led = lending.tables().with_ledger(Ledger::term);
    let followed = following.map(|it| it.term);
    ClusterStatus {
        version: VERSION,
        leads_here: leader.as_ref() == Some(&node),
        how: lending.cluster().mode(),
        leave_lasts: (!lending.is_present()).then_some(leave_lasts),
        phase,
        term: led.or(followed).map_or(0, |term| term.0),
        leader_silent_millis: following.and_then(|it| it.silent_for).map(millis),
        advice_followed: following.map_or(0, |it| it.followed),
        advice_ignored: following.map_or(0, |it| it.ignored),
        etcd: etcd_status(lending),
        view: view(lending, &status, (&node, arena), time),
        leader,
        node,
        cluster,
    }
}

/// What the placement policy would advise now.
pub(crate) fn cluster_plan(lending: &Lending, time: FiguresTime) -> ClusterPlan {
    let tables = lending.tables();
    let planned = tables.with_ledger(|ledger| {
        let advice = ledger.plan(time.now);
        (ledger.placement().to_string(), advice)
    });
    let plan = |placement, advice, why_none| ClusterPlan {
        version: VERSION,
        placement,
        advice,
        why_none,
    };
    match planned {
        Some((placement, advice)) => {
            let why_none = advice
                .is_empty()
                .then(|| "nobody wants memory that anybody could lend".to_owned());
            let shown = advice.iter().map(|one| shown_advice(one, time.now));
            plan(placement, shown.collect(), why_none)
        }
        None => plan(String::new(), Vec::new(), Some(why_no_plan(lending))),
    }
}

/// How large the arena may be and how much of that is free.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArenaAmounts {
    pub(crate) total: Bytes,
    pub(crate) free: Bytes,
}

fn why_no_plan(lending: &Lending) -> String {
    let leader = lending.status().following.and_then(|it| it.leader);
    match (lending.cluster().mode(), leader) {
        (ClusterMode::Mesh | ClusterMode::NoLeader, _) => {
            "nobody leads, so that each borrower chooses; name a leader with `peers.leader`"
                .to_owned()
        }
        (_, Some(leader)) => format!("{leader} leads: ask there"),
        (_, None) => "nobody leads at present".to_owned(),
    }
}

fn etcd_status(lending: &Lending) -> Option<EtcdStatus> {
    let etcd = lending.cluster().config().etcd.as_ref()?;
    let registers = lending.cluster().status();
    let status = registers.clone().unwrap_or_default();
    // Calls that go on failing fail anew each few seconds.
    let recent = |(_, at): &(String, Instant)| at.elapsed() < FAILING_FOR;
    let failure = status.last_failure.filter(recent).map(|(why, _)| why);
    Some(EtcdStatus {
        endpoints: etcd.endpoints.iter().map(ToString::to_string).collect(),
        state: match (registers.is_some(), &failure) {
            (false, _) => EtcdState::Unregistered,
            (true, Some(_)) => EtcdState::Failing,
            (true, None) if status.is_registered => EtcdState::Connected,
            (true, None) => EtcdState::Registering,
        },
        why: failure.unwrap_or_default(),
        lease_ttl_secs: status.is_registered.then_some(TTL_DEFAULT.as_secs()),
    })
}

/// The ledger, of this host or of its leader. What it knows of its own peers, if nobody does.
fn view(
    lending: &Lending,
    status: &LendingStatus,
    own: (&NodeName, ArenaAmounts),
    time: FiguresTime,
) -> Option<ClusterView> {
    let of_ledger = lending
        .tables()
        .with_ledger(|ledger| view_of(&ledger.status(time.now), ledger.placement(), time.now));
    let is_led = matches!(
        lending.cluster().mode(),
        ClusterMode::NamedLeader | ClusterMode::Etcd
    );
    of_ledger.or_else(|| match is_led {
        true => lending.ask_view().map(|told| {
            let view = view_told(told, time.now);
            without_silent_leader(view, status)
        }),
        false => Some(view_of_peers(status, own, time.now)),
    })
}

/// What a leader told that has been silent since. It cannot tell of its own end.
fn without_silent_leader(mut view: ClusterView, status: &LendingStatus) -> ClusterView {
    let Some(following) = &status.following else {
        return view;
    };
    let silent_for = following.silent_for.unwrap_or_default();
    let leader = view
        .nodes
        .iter_mut()
        .find(|node| following.leader.as_ref() == Some(&node.name));
    if let Some(leader) = leader
        && silent_for >= LEADER_SILENT_AFTER
    {
        leader.state = ClusterNodeState::Away;
        leader.since_secs = silent_for.as_secs();
    }
    view
}

/// What the leader told.
fn view_told(told: ToldView, now: Duration) -> ClusterView {
    let age = millis(now.saturating_sub(told.at));
    let node = |node: ViewNode| ClusterNode {
        name: node.name,
        state: match node.state {
            ViewState::Expected => ClusterNodeState::Expected,
            ViewState::Active => ClusterNodeState::Active,
            ViewState::Leaving => ClusterNodeState::Leaving,
            ViewState::Away => ClusterNodeState::Away,
            ViewState::Gone => ClusterNodeState::Gone,
        },
        since_secs: node.for_millis.saturating_add(age) / 1000,
        rack: node.rack.map(|rack| rack.0.to_string()),
        total: bytes(node.total.get()),
        free: bytes(node.free.get()),
        lendable: bytes(node.lendable.get()),
        lent: bytes(node.lent.get()),
        borrowed: bytes(node.borrowed.get()),
        wanted: bytes(node.wanted.get()),
    };
    let advice = |advice: ViewAdvice| ClusterAdvice {
        age_millis: advice.age_millis.saturating_add(age),
        borrower: advice.borrower,
        lender: advice.lender,
        bytes: bytes(advice.blocks.get()),
        why: advice.why.to_string(),
        shortage: advice.shortage.map(|shortage| shortage.to_string()),
    };
    let alarm = |alarm: ViewAlarm| CountAlarm {
        lender: alarm.lender,
        borrower: alarm.borrower,
        lent: bytes(alarm.lent.get()),
        borrowed: bytes(alarm.borrowed.get()),
        since_secs: alarm.for_millis.saturating_add(age) / 1000,
    };
    ClusterView {
        as_of_millis: age,
        whole: true,
        nodes: told.nodes.into_iter().map(node).collect(),
        advice: told.advice.into_iter().map(advice).collect(),
        alarms: told.alarms.into_iter().map(alarm).collect(),
        placement: told.placement,
    }
}

/// What a leader's ledger says.
fn view_of(
    status: &leader::ClusterStatus,
    placement: &PlacementChoice,
    now: Duration,
) -> ClusterView {
    let node = |node: &ClusterNodeStatus| shown_node(node, now);
    let advice = |advice: &GivenAdvice| shown_advice(advice, now);
    let alarm = |alarm: &PairMismatch| CountAlarm {
        lender: alarm.lender.clone(),
        borrower: alarm.borrower.clone(),
        lent: bytes(alarm.lent),
        borrowed: bytes(alarm.borrowed),
        since_secs: now.saturating_sub(alarm.since).as_secs(),
    };
    ClusterView {
        as_of_millis: 0,
        whole: true,
        nodes: status.nodes.iter().map(node).collect(),
        advice: status.advice.iter().map(advice).collect(),
        alarms: status.alarms.iter().map(alarm).collect(),
        placement: placement.to_string(),
    }
}

fn shown_node(node: &ClusterNodeStatus, now: Duration) -> ClusterNode {
    use leader::ClusterNodeState as State;
    ClusterNode {
        name: node.name.clone(),
        state: match node.state {
            State::Expected => ClusterNodeState::Expected,
            State::Active => ClusterNodeState::Active,
            State::Leaving => ClusterNodeState::Leaving,
            State::Away => ClusterNodeState::Away,
            State::Gone => ClusterNodeState::Gone,
        },
        since_secs: now.saturating_sub(node.since).as_secs(),
        rack: node.rack.as_ref().map(|rack| rack.0.to_string()),
        total: bytes(node.total),
        free: bytes(node.free),
        lendable: bytes(node.lendable),
        lent: bytes(node.lent),
        borrowed: bytes(node.borrowed),
        wanted: bytes(node.wanted),
    }
}

fn shown_advice(advice: &GivenAdvice, now: Duration) -> ClusterAdvice {
    ClusterAdvice {
        age_millis: millis(now.saturating_sub(advice.at)),
        borrower: advice.borrower.clone(),
        lender: advice.lender.clone(),
        bytes: bytes(advice.blocks),
        why: advice.why.to_string(),
        shortage: advice.shortage.map(|shortage| shortage.to_string()),
    }
}

pub(super) fn bytes(blocks: u32) -> Bytes {
    Bytes(u64::from(blocks) * BLOCK_BYTES)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
