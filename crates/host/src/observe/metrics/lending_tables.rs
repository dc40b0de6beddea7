//! The metrics of lending between hosts: of the host, of each peer, and of each guard.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use sublet_client::messages::{
    CertificateStatus, FollowingFigures, LendPeer, LendPhase, LendStatus, PeerGuard, PeerLink,
};

use super::definition::{BYTES, Labelled, MetricDefinition, SECONDS, counter, gauge};

const LENDING: &[MetricDefinition<LendStatus>] = &[
    gauge(
        "sublet_lending_lent",
        BYTES,
        "Memory that peers borrow here",
        |l| Some(l.lent.0 as f64),
    ),
    gauge(
        "sublet_lending_lendable",
        BYTES,
        "Memory that would be lent now beyond that",
        |l| Some(l.lendable.0 as f64),
    ),
    gauge(
        "sublet_lending_borrowed",
        BYTES,
        "Memory that is borrowed of peers",
        |l| Some(l.borrowed.0 as f64),
    ),
    gauge(
        "sublet_lending_wanted",
        BYTES,
        "Memory that the host would like to have of its peers in all",
        |l| Some(l.wanted.0 as f64),
    ),
    gauge(
        "sublet_lending_borrow_max",
        BYTES,
        "The most memory that is borrowed",
        |l| Some(l.borrow_max.0 as f64),
    ),
    gauge(
        "sublet_lending_borrow_overhead",
        BYTES,
        "Memory of this host that the rows of borrowed memory and the outbox take",
        |l| Some(l.borrow_overhead.0 as f64),
    ),
    gauge(
        "sublet_lending_draining",
        None,
        "1 while lending drains, 0 else",
        |l| Some(f64::from(u8::from(l.phase == LendPhase::Draining))),
    ),
    counter(
        "sublet_lending_strangers",
        None,
        "Connections of nodes of the cluster that no member is",
        |l| Some(l.strangers as f64),
    ),
    counter(
        "sublet_lending_events_dropped",
        None,
        "Events of lending that were dropped because too many waited",
        |l| Some(l.events_dropped as f64),
    ),
    counter(
        "sublet_lending_page_connections_refused",
        None,
        "Connections for pages that were refused",
        |l| Some(l.page_connections_refused as f64),
    ),
    counter(
        "sublet_lending_page_connections_broken",
        None,
        "Connections for pages that ended because the borrower broke the protocol",
        |l| Some(l.page_connections_broken as f64),
    ),
];

const FOLLOWING: &[MetricDefinition<FollowingFigures>] = &[
    gauge(
        "sublet_cluster_leads",
        None,
        "1 while this host leads its cluster, 0 else",
        |f| Some(f64::from(u8::from(f.leads))),
    ),
    gauge(
        "sublet_cluster_term",
        None,
        "The highest term of a leader that the host has heard of",
        |f| Some(f.term as f64),
    ),
    gauge(
        "sublet_cluster_leader_silence",
        SECONDS,
        "How long the leader has been silent",
        |f| f.silent_millis.map(|millis| millis as f64 / 1e3),
    ),
    gauge(
        "sublet_cluster_registered",
        None,
        "1 while the other hosts see this one through etcd, 0 else",
        |f| f.registered.map(|is| f64::from(u8::from(is))),
    ),
    counter(
        "sublet_cluster_advice_followed",
        None,
        "Pieces of advice that the host followed",
        |f| Some(f.advice_followed as f64),
    ),
    counter(
        "sublet_cluster_advice_ignored",
        None,
        "Messages that only a leader sends, of others or of an earlier term",
        |f| Some(f.advice_ignored as f64),
    ),
];

const CERTIFICATE: &[MetricDefinition<CertificateStatus>] = &[gauge(
    "sublet_lending_certificate_remaining",
    SECONDS,
    "Time until a certificate of the host or of its authorities ends; below 0 once it has ended",
    |c| Some(c.ends_in_secs as f64),
)];

const PEER: &[MetricDefinition<LendPeer>] = &[
    gauge(
        "sublet_peer_up",
        None,
        "1 while the host and the peer understand each other, 0 else",
        |p| Some(f64::from(u8::from(p.link == PeerLink::Up))),
    ),
    gauge(
        "sublet_peer_round_trip",
        SECONDS,
        "The time of a ping to the peer and back",
        |p| p.round_trip_micros.map(|micros| micros as f64 / 1e6),
    ),
    gauge(
        "sublet_peer_lent",
        BYTES,
        "Memory that the peer borrows here",
        |p| Some(p.lent.0 as f64),
    ),
    gauge(
        "sublet_peer_borrowed",
        BYTES,
        "Memory that is borrowed of the peer",
        |p| Some(p.borrowed.0 as f64),
    ),
    gauge(
        "sublet_peer_lendable",
        BYTES,
        "Memory that the peer would lend this host",
        |p| Some(p.report.lendable.0 as f64),
    ),
    gauge(
        "sublet_peer_wanted",
        BYTES,
        "Memory that the peer wants beyond what it has",
        |p| Some(p.report.wanted.0 as f64),
    ),
    counter(
        "sublet_peer_lend_granted",
        BYTES,
        "Memory that was lent to the peer",
        |p| Some(p.counters.granted.0 as f64),
    ),
    counter(
        "sublet_peer_lend_returned",
        BYTES,
        "Lent memory that the peer returned",
        |p| Some(p.counters.returned_by_peer.0 as f64),
    ),
    counter(
        "sublet_peer_lend_recalled",
        BYTES,
        "Lent memory that was taken back from the peer",
        |p| Some(p.counters.recalled.0 as f64),
    ),
    counter(
        "sublet_peer_lend_unclaimed",
        BYTES,
        "Lent memory that the peer did not claim",
        |p| Some(p.counters.unclaimed.0 as f64),
    ),
    counter(
        "sublet_peer_lend_ended",
        BYTES,
        "Lent memory of leases that ended at once: the peer was away, began anew, said goodbye or was shut out",
        |p| Some(p.counters.ended.0 as f64),
    ),
    counter(
        "sublet_peer_borrow_granted",
        BYTES,
        "Memory that the peer lent",
        |p| Some(p.counters.borrowed.0 as f64),
    ),
    counter(
        "sublet_peer_borrow_returned",
        BYTES,
        "Borrowed memory that was returned to the peer",
        |p| Some(p.counters.returned.0 as f64),
    ),
    counter(
        "sublet_peer_borrow_recalled",
        BYTES,
        "Borrowed memory that the peer took back",
        |p| Some(p.counters.taken_by_peer.0 as f64),
    ),
    counter(
        "sublet_peer_borrow_ended",
        BYTES,
        "Borrowed memory of leases that ended at once: the peer was away, began anew, said goodbye or was shut out",
        |p| Some(p.counters.borrows_ended.0 as f64),
    ),
    counter(
        "sublet_peer_sessions",
        None,
        "Sessions with the peer",
        |p| Some(p.counters.sessions as f64),
    ),
    counter(
        "sublet_peer_shuts",
        None,
        "How often the peer was shut out",
        |p| Some(p.counters.shuts as f64),
    ),
    counter(
        "sublet_peer_turned_away",
        None,
        "Connections of the peer that were turned away because it was shut out or denied",
        |p| Some(p.counters.turned_away as f64),
    ),
    counter(
        "sublet_peer_pages_sent",
        None,
        "Pages that the peer took of this host",
        |p| Some(p.pages.sent as f64),
    ),
    counter(
        "sublet_peer_pages_unsent",
        None,
        "Pages for the peer that it did not take, or of which that is not known",
        |p| Some(p.pages.unsent as f64),
    ),
    counter(
        "sublet_peer_pages_fetched",
        None,
        "Pages that the peer was asked for",
        |p| Some(p.pages.fetched as f64),
    ),
    counter(
        "sublet_peer_page_hits",
        None,
        "Pages that the peer was asked for and that came",
        |p| Some(p.pages.hits as f64),
    ),
    counter(
        "sublet_peer_pages_not_asked",
        None,
        "Pages for which the peer was not asked, because it is too slow or away",
        |p| Some(p.pages.not_asked as f64),
    ),
    counter(
        "sublet_peer_pages_stored",
        None,
        "Pages that the peer wrote here",
        |p| Some(p.pages.stored as f64),
    ),
    counter(
        "sublet_peer_pages_served",
        None,
        "Pages that the peer read here",
        |p| Some(p.pages.served as f64),
    ),
    counter(
        "sublet_peer_pages_absent",
        None,
        "Pages that the peer asked for and that were not here",
        |p| Some(p.pages.absent as f64),
    ),
    counter(
        "sublet_peer_requests_refused",
        None,
        "Requests of the peer for blocks that it was never lent",
        |p| Some(p.pages.requests_refused as f64),
    ),
];

const GUARD: &[MetricDefinition<GuardOfPeer>] = &[
    gauge(
        "sublet_peer_guard_open",
        None,
        "1 while the peer is asked in place of the backing, 0 while it is too slow",
        |g| Some(f64::from(u8::from(g.guard.open))),
    ),
    gauge(
        "sublet_peer_guard_far",
        SECONDS,
        "How long a request to the peer takes",
        |g| Some(g.guard.far_micros as f64 / 1e6),
    ),
    gauge(
        "sublet_peer_guard_miss",
        SECONDS,
        "How long a read of the backing takes",
        |g| Some(g.guard.miss_micros as f64 / 1e6),
    ),
];

/// Writes all metrics of lending.
pub(super) fn encode_lending(
    encoder: &mut DescriptorEncoder<'_>,
    status: &LendStatus,
) -> fmt::Result {
    for figure in LENDING {
        figure.encode(encoder, status)?;
    }
    if let Some(following) = &status.following {
        for figure in FOLLOWING {
            figure.encode(encoder, following)?;
        }
    }
    for figure in CERTIFICATE {
        figure.encode_each(encoder, &status.certificates)?;
    }
    for figure in PEER {
        figure.encode_each(encoder, &status.peers)?;
    }
    let guards: Vec<GuardOfPeer> = status.peers.iter().flat_map(GuardOfPeer::of).collect();
    for figure in GUARD {
        figure.encode_each(encoder, &guards)?;
    }
    encode_causes(
        encoder,
        (
            "sublet_lending_refused",
            "Control connections that were refused, by cause",
        ),
        &[CausesOfPeer {
            peer: None,
            causes: &status.refused,
        }],
    )?;
    let of_peers = |causes: for<'p> fn(&'p LendPeer) -> &'p BTreeMap<String, u64>| {
        let peers = status.peers.iter();
        peers
            .map(|peer| CausesOfPeer {
                peer: Some(peer.name.as_str()),
                causes: causes(peer),
            })
            .collect::<Vec<_>>()
    };
    let lost = "Pages that the peer was asked for and that did not come, by cause";
    let lost = ("sublet_peer_pages_lost", lost);
    encode_causes(encoder, lost, &of_peers(|peer| &peer.pages.lost))?;
    let refused = "Connections with the peer that were refused, by cause";
    let refused = ("sublet_peer_refused", refused);
    encode_causes(encoder, refused, &of_peers(|peer| &peer.refused))
}

impl Labelled for CertificateStatus {
    fn labels(&self) -> Vec<(&'static str, &str)> {
        vec![("kind", self.kind.as_str())]
    }
}

impl Labelled for LendPeer {
    fn labels(&self) -> Vec<(&'static str, &str)> {
        vec![("peer", self.name.as_str())]
    }
}

/// A guard and its peer.
struct GuardOfPeer {
    peer: String,
    guard: PeerGuard,
}

impl GuardOfPeer {
    fn of(peer: &LendPeer) -> impl Iterator<Item = GuardOfPeer> {
        let guards = peer.guards.iter();
        guards.map(|guard| GuardOfPeer {
            peer: peer.name.to_string(),
            guard: guard.clone(),
        })
    }
}

impl Labelled for GuardOfPeer {
    fn labels(&self) -> Vec<(&'static str, &str)> {
        vec![("peer", &self.peer), ("backing", &self.guard.backing)]
    }
}

/// Counts by cause, of one peer or of the host.
struct CausesOfPeer<'p> {
    peer: Option<&'p str>,
    causes: &'p BTreeMap<String, u64>,
}

/// Writes a counter by cause, if there is a cause.
fn encode_causes(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    all: &[CausesOfPeer<'_>],
) -> fmt::Result {
    if all.iter().all(|one| one.causes.is_empty()) {
        return Ok(());
    }
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for CausesOfPeer { peer, causes } in all {
        for (cause, count) in *causes {
            let mut labels: Vec<(&str, &str)> = Vec::new();
            labels.extend(peer.map(|peer| ("peer", peer)));
            labels.push(("cause", cause));
            ConstCounter::new(*count).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}
