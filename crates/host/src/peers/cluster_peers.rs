//! What a host knows of its cluster where nobody leads: itself, and its own connections.

use std::time::Duration;

use sublet_client::messages::{ClusterNode, ClusterNodeState, ClusterView, LendPhase};
use sublet_lend::leader::{EXPECTED_FOR, GONE_AFTER, GONE_SHOWN_FOR};
use sublet_lend::node::{LendingStatus, LinkState, PeerStatus};
use sublet_types::{Bytes, NodeName};

use super::cluster_figures::{ArenaAmounts, bytes};
use super::lending_figures::lend_phase;

/// Whether somebody tries to connect with a peer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PeerContact {
    /// A peer that is well would answer.
    Sought,
    /// There is no reason to.
    LetBe,
}

/// How a node stands, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NodePresence {
    state: ClusterNodeState,
    lasts: Duration,
}

/// The host itself and its peers. Those that are gone for more than a day are left out.
pub(super) fn view_of_peers(
    status: &LendingStatus,
    (name, arena): (&NodeName, ArenaAmounts),
    now: Duration,
) -> ClusterView {
    let own = ClusterNode {
        name: name.clone(),
        state: match lend_phase(status.phase) {
            LendPhase::Leaving => ClusterNodeState::Leaving,
            LendPhase::Left => ClusterNodeState::Gone,
            LendPhase::Lending | LendPhase::Draining | LendPhase::Paused => {
                ClusterNodeState::Active
            }
        },
        since_secs: 0,
        rack: None,
        total: arena.total,
        free: arena.free,
        lendable: bytes(status.lendable),
        lent: bytes(status.lent),
        borrowed: bytes(status.borrowed),
        wanted: bytes(status.wanted.saturating_sub(status.borrowed)),
    };
    let is_connected_with_each = status.following.is_none();
    let shown = |peer: &PeerStatus| {
        let contact = match is_connected_with_each || peer.failed_dials > 0 {
            true => PeerContact::Sought,
            false => PeerContact::LetBe,
        };
        shown_peer(peer, presence(peer, contact, now))
    };
    let peers = status.peers.iter().filter_map(shown);
    let mut nodes: Vec<ClusterNode> = peers.chain([own]).collect();
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    ClusterView {
        as_of_millis: 0,
        whole: false,
        nodes,
        advice: Vec::new(),
        alarms: Vec::new(),
        placement: "each borrower chooses".to_owned(),
    }
}

fn shown_peer(peer: &PeerStatus, presence: NodePresence) -> Option<ClusterNode> {
    let NodePresence { state, lasts } = presence;
    if state == ClusterNodeState::Gone && lasts >= GONE_SHOWN_FOR {
        return None;
    }
    let report = &peer.report;
    Some(ClusterNode {
        name: peer.name.clone(),
        state,
        since_secs: lasts.as_secs(),
        rack: None,
        total: Bytes::ZERO,
        free: Bytes::ZERO,
        lendable: bytes(report.lendable.get()),
        lent: bytes(report.lent.get()),
        borrowed: bytes(report.borrowed.get()),
        wanted: bytes(report.wanted.get()),
    })
}

/// A peer that does not answer is away, and gone after a while. One that nobody tries to reach may be well.
fn presence(peer: &PeerStatus, contact: PeerContact, now: Duration) -> NodePresence {
    let lasts = now.saturating_sub(peer.lost_at.unwrap_or_default());
    let starts = peer.lost_at.is_none() && lasts < EXPECTED_FOR;
    let (state, lasts) = match (peer.link, peer.leaves) {
        (LinkState::Up { .. }, true) => (ClusterNodeState::Leaving, Duration::ZERO),
        (LinkState::Up { .. }, false) => (ClusterNodeState::Active, Duration::ZERO),
        _ if starts || contact == PeerContact::LetBe => (ClusterNodeState::Expected, lasts),
        _ if lasts < GONE_AFTER => (ClusterNodeState::Away, lasts),
        _ => (ClusterNodeState::Gone, lasts - GONE_AFTER),
    };
    NodePresence { state, lasts }
}

#[cfg(test)]
mod tests {
    use sublet_lend::control::{LendReport, Version};
    use sublet_lend::ids::{ConnectionId, PeerId};
    use sublet_lend::node::{FollowingStatus, LendingPhase, PeerCounters};

    use super::*;

    const LOST_AT: Duration = Duration::from_secs(100);

    fn away(failed_dials: u32) -> PeerStatus {
        PeerStatus {
            peer: PeerId(0),
            name: "b".parse().expect("a name"),
            link: LinkState::Away { retry_at: LOST_AT },
            lost_at: Some(LOST_AT),
            failed_dials,
            leaves: false,
            incarnation: None,
            round_trip: None,
            lent: 0,
            borrowed: 0,
            report: LendReport::default(),
            counters: PeerCounters::default(),
        }
    }

    fn status(peer: PeerStatus, following: Option<FollowingStatus>) -> LendingStatus {
        LendingStatus {
            phase: LendingPhase::Lending,
            lent: 0,
            borrowed: 0,
            wanted: 0,
            lendable: 0,
            strangers: 0,
            events_dropped: 0,
            members_refused: 0,
            following,
            peers: vec![peer],
        }
    }

    /// Of `b`, at a time: its state and since when, if it is shown.
    fn shown(status: LendingStatus, now: Duration) -> Option<(ClusterNodeState, u64)> {
        let arena = ArenaAmounts {
            total: Bytes(1 << 30),
            free: Bytes::ZERO,
        };
        let own = "a".parse().expect("a name");
        let view = view_of_peers(&status, (&own, arena), now);
        assert_eq!(view.nodes[0].name, own);
        let b = view.nodes.get(1);
        b.map(|node| (node.state, node.since_secs))
    }

    #[test]
    fn a_peer_that_died_is_gone_after_a_while_and_left_out_after_a_day() {
        for (failed_dials, following) in [(0, None), (3, Some(FollowingStatus::default()))] {
            let after = |lasts| {
                shown(
                    status(away(failed_dials), following.clone()),
                    LOST_AT + lasts,
                )
            };
            let second = Duration::from_secs(1);
            let (most, day) = (GONE_AFTER.as_secs(), GONE_SHOWN_FOR.as_secs());
            let just_away = Some((ClusterNodeState::Away, most - 1));
            assert_eq!(after(GONE_AFTER - second), just_away);
            assert_eq!(after(GONE_AFTER), Some((ClusterNodeState::Gone, 0)));
            let last = GONE_AFTER + GONE_SHOWN_FOR;
            let still_gone = Some((ClusterNodeState::Gone, day - 1));
            assert_eq!(after(last - second), still_gone);
            assert_eq!(after(last), None);
        }
    }

    #[test]
    fn one_that_nobody_tried_to_reach_is_expected() {
        let late = 2 * GONE_SHOWN_FOR;
        let expected = |lasts: Duration| Some((ClusterNodeState::Expected, lasts.as_secs()));
        let idle = status(away(0), Some(FollowingStatus::default()));
        assert_eq!(shown(idle, LOST_AT + late), expected(late));
        let mut never_seen = away(5);
        never_seen.lost_at = None;
        let starts = EXPECTED_FOR - Duration::from_secs(1);
        let of = |now| shown(status(never_seen.clone(), None), now);
        assert_eq!(of(starts), expected(starts));
        let away = Some((ClusterNodeState::Away, EXPECTED_FOR.as_secs()));
        assert_eq!(of(EXPECTED_FOR), away);
    }

    #[test]
    fn one_that_is_connected_takes_part_until_it_leaves() {
        let mut up = away(3);
        up.link = LinkState::Up {
            connection: ConnectionId(1),
            version: Version(1),
        };
        let late = LOST_AT + 2 * GONE_AFTER;
        let active = Some((ClusterNodeState::Active, 0));
        assert_eq!(shown(status(up.clone(), None), late), active);
        up.leaves = true;
        let leaving = Some((ClusterNodeState::Leaving, 0));
        assert_eq!(shown(status(up, None), late), leaving);
    }
}
