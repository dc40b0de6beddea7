//! How this host stands with its peers, as programs outside get it.

use std::collections::BTreeMap;
use std::time::Duration;

use sublet_client::messages::{
    CertificateStatus, ChangeLifetime, FollowingFigures, LeaseDirection, LeaseList, LeaseStatus,
    LendPeer, LendPhase, LendStatus, PeerCounters, PeerGuard, PeerLink, PeerPages, PeerReport,
    VERSION,
};
use sublet_lend::control::{BlockCount, GrantLimit};
use sublet_lend::guard::GuardState;
use sublet_lend::ids::PeerId;
use sublet_lend::node::{LendingPhase, LendingStatus, LinkState, PeerStatus};
use sublet_lend::seal::{CipherReason, SEAL_TIME_MAX};
use sublet_types::{BLOCK_BYTES, Bytes, NodeName};

use super::control::{ControlMember, RefusalCounts, RefusedParty};
use super::lending::Lending;
use super::page_fetcher::{FetchFigures, GoneCause, GuardFigures};
use super::peer_event_reasons::{reason_of_limit, reason_of_shut};
use super::peer_events::ShownVersions;
use crate::config::Config;

/// When the figures are taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FiguresTime {
    /// Since the daemon's clock was started.
    pub(crate) now: Duration,
    /// In Unix seconds.
    pub(crate) now_unix: u64,
}

/// How the host stands with its peers. `overhead` is what borrowed memory costs here. `drain_lasts` is how long a drain
/// would hold.
pub(crate) fn lend_status(
    lending: &Lending,
    config: &Config,
    (overhead, drain_lasts): (Bytes, ChangeLifetime),
    time: FiguresTime,
) -> LendStatus {
    let status = lending.status();
    let (phase, until) = phase(status.phase);
    let (refusals, server) = (lending.tables().refusals(), lending.server_figures());
    let peers = PeerFigures::of(lending, &refusals, time);
    let cipher = lending.cipher();
    LendStatus {
        version: VERSION,
        phase,
        phase_millis: until.map(|until| millis_until(until, time.now)),
        drain_lasts: (phase == LendPhase::Draining).then_some(drain_lasts),
        lent: bytes(status.lent),
        lendable: bytes(status.lendable),
        lend_max: config.lend.max,
        borrowed: bytes(status.borrowed),
        wanted: bytes(status.wanted),
        borrow_max: config.borrow.max,
        borrow_overhead: overhead,
        cipher: cipher.cipher.to_string(),
        cipher_why: cipher_why(cipher.reason),
        certificates: certificates(lending, time),
        refused: refusals.causes().map(counted).collect(),
        strangers: status.strangers,
        events_dropped: status.events_dropped,
        page_connections_refused: server.connections_refused,
        page_connections_broken: server.connections_broken,
        following: following(lending, &status),
        peers: peers.all(&status.peers),
    }
}

fn following(lending: &Lending, status: &LendingStatus) -> Option<FollowingFigures> {
    let following = status.following.as_ref()?;
    let own = lending.tls().identity.node;
    Some(FollowingFigures {
        leads: following.leader.as_ref() == Some(&own),
        term: following.term.0,
        silent_millis: following.silent_for.map(|time| micros(time) / 1000),
        advice_followed: following.followed,
        advice_ignored: following.ignored,
        registered: lending.cluster().status().map(|it| it.is_registered),
    })
}

/// All leases between the host and its peers.
pub(crate) fn lease_list(lending: &Lending) -> LeaseList {
    let members = &lending.tables().members;
    let numbered = members.numbers().into_iter();
    let numbered = numbered.filter_map(|peer| Some((peer, members.name(peer)?)));
    let of_member = |(peer, name): (PeerId, NodeName)| {
        let all = lending.tables().leases_of(peer);
        let lent = all.lent.into_iter();
        let lent = lent.map(|row| (LeaseDirection::Lent, row));
        let borrowed = all.borrowed.into_iter();
        let borrowed = borrowed.map(|row| (LeaseDirection::Borrowed, row));
        let rows = lent.chain(borrowed);
        rows.map(|(direction, (lease, blocks))| LeaseStatus {
            peer: name.clone(),
            direction,
            lease: lease.0,
            blocks,
            bytes: bytes(blocks),
        })
        .collect::<Vec<_>>()
    };
    LeaseList {
        version: VERSION,
        leases: numbered.flat_map(of_member).collect(),
    }
}

/// What is looked up once for all peers.
struct PeerFigures<'l> {
    lending: &'l Lending,
    refusals: &'l RefusalCounts,
    fetched: BTreeMap<PeerId, FetchFigures>,
    guards: Vec<GuardFigures>,
    /// When each session began.
    opened: BTreeMap<PeerId, Duration>,
    time: FiguresTime,
}

impl<'l> PeerFigures<'l> {
    fn of(lending: &'l Lending, refusals: &'l RefusalCounts, time: FiguresTime) -> PeerFigures<'l> {
        let ledger = lending.far().ledger();
        PeerFigures {
            lending,
            refusals,
            fetched: ledger.figures(),
            guards: ledger.guards(),
            opened: lending.tables().sessions.opened(),
            time,
        }
    }

    fn all(&self, peers: &[PeerStatus]) -> Vec<LendPeer> {
        let members = &self.lending.tables().members;
        let known = peers
            .iter()
            .filter_map(|status| Some((members.get(status.peer)?, status)));
        known
            .map(|(member, status)| self.one(&member, status))
            .collect()
    }

    fn one(&self, member: &ControlMember, status: &PeerStatus) -> LendPeer {
        let peer = status.peer;
        let link = LinkView::of(status.link);
        let now = self.time.now;
        let opened = self.opened.get(&peer);
        let up = opened.map(|at| now.saturating_sub(*at));
        LendPeer {
            name: status.name.clone(),
            address: shown_address(member),
            link: link.link,
            why: link.why,
            up_secs: up.map(|up| up.as_secs()),
            retry_millis: link.retry_at.map(|at| millis_until(at, now)),
            protocol: link.protocol,
            round_trip_micros: status.round_trip.map(micros),
            lent: bytes(status.lent),
            borrowed: bytes(status.borrowed),
            report: PeerReport {
                lendable: report_bytes(status.report.lendable),
                wanted: report_bytes(status.report.wanted),
                lent: report_bytes(status.report.lent),
                borrowed: report_bytes(status.report.borrowed),
            },
            counters: counters(status),
            pages: self.pages(peer),
            refused: self.refused(&status.name),
            guards: merged_guards(self.guards.iter().filter(|guard| guard.lender == peer)),
        }
    }

    fn pages(&self, peer: PeerId) -> PeerPages {
        let (carried, served) = (self.lending.carried(peer), self.lending.served(peer));
        let fetched = self.fetched.get(&peer).copied().unwrap_or_default();
        let lost = GoneCause::ALL.into_iter().zip(fetched.gone);
        PeerPages {
            sent: carried.pages_taken,
            unsent: carried.pages_lost,
            fetched: fetched.pages + fetched.lost(),
            hits: fetched.pages,
            lost: lost.map(|(cause, n)| counted((cause.label(), n))).collect(),
            not_asked: fetched.not_asked,
            stored: served.written,
            served: served.read,
            absent: served.absent,
            requests_refused: served.requests_refused,
        }
    }

    fn refused(&self, name: &NodeName) -> BTreeMap<String, u64> {
        let is_it = |party: &RefusedParty| matches!(party, RefusedParty::Member(it) if it == name);
        let parties = self.refusals.parties();
        let of_it = parties.filter(|(party, ..)| is_it(party));
        of_it.map(|(_, cause, n)| counted((cause, n))).collect()
    }
}

/// What a link comes to.
struct LinkView {
    link: PeerLink,
    why: String,
    protocol: Option<u16>,
    retry_at: Option<Duration>,
}

impl LinkView {
    fn of(state: LinkState) -> LinkView {
        let plain = |link| LinkView {
            link,
            why: String::new(),
            protocol: None,
            retry_at: None,
        };
        match state {
            LinkState::Away { retry_at } => LinkView {
                retry_at: Some(retry_at),
                ..plain(PeerLink::Away)
            },
            LinkState::Connecting => plain(PeerLink::Connecting),
            LinkState::Greeting { .. } => plain(PeerLink::Greeting),
            LinkState::Up { version, .. } => LinkView {
                protocol: Some(version.0),
                ..plain(PeerLink::Up)
            },
            LinkState::Incompatible {
                ours,
                theirs,
                retry_at,
            } => LinkView {
                why: format!(
                    "this host speaks {}, and the peer speaks {}",
                    ShownVersions(ours),
                    ShownVersions(theirs)
                ),
                retry_at: Some(retry_at),
                ..plain(PeerLink::Incompatible)
            },
            LinkState::Shut { cause, until } => LinkView {
                why: reason_of_shut(cause).name().to_owned(),
                retry_at: Some(until),
                ..plain(PeerLink::Shut)
            },
            LinkState::Denied => LinkView {
                why: "its certificate is on the list peers.deny".to_owned(),
                ..plain(PeerLink::Denied)
            },
        }
    }
}

fn phase(phase: LendingPhase) -> (LendPhase, Option<Duration>) {
    match phase {
        LendingPhase::Lending => (LendPhase::Lending, None),
        LendingPhase::Draining { until } => (LendPhase::Draining, Some(until)),
        LendingPhase::Paused { until } => (LendPhase::Paused, Some(until)),
        LendingPhase::Leaving { until } => (LendPhase::Leaving, Some(until)),
        LendingPhase::Left => (LendPhase::Left, None),
    }
}

/// The same, without its end.
pub(super) fn lend_phase(of_node: LendingPhase) -> LendPhase {
    phase(of_node).0
}

/// Why a cipher was chosen, in words.
fn cipher_why(reason: CipherReason) -> String {
    let limit = SEAL_TIME_MAX.as_micros();
    match reason {
        CipherReason::Configured => "borrow.cipher says so".to_owned(),
        CipherReason::AegisIsQuick(time) => {
            format!("it seals a page in {:.2} µs", time.as_nanos() as f64 / 1e3)
        }
        CipherReason::AegisIsSlow(time) => format!(
            "AEGIS-128X2 takes {:.0} µs for a page, more than {limit} µs: the CPU has no AES instructions",
            time.as_nanos() as f64 / 1e3
        ),
        CipherReason::AegisIsBroken => "AEGIS-128X2 fails its self-test".to_owned(),
        CipherReason::AegisIsRefused => "AEGIS-128X2 is refused for a test".to_owned(),
    }
}

fn certificates(lending: &Lending, time: FiguresTime) -> Vec<CertificateStatus> {
    let ends = lending.certificate_ends().into_iter();
    ends.map(|end| CertificateStatus {
        kind: end.kind.label().to_owned(),
        ends_in_secs: end.ends_in(time.now_unix),
        ends_unix: end.ends_unix,
        file: end.file.display().to_string(),
    })
    .collect()
}

fn counters(status: &PeerStatus) -> PeerCounters {
    let counters = &status.counters;
    let limits = |all: &BTreeMap<GrantLimit, u64>| {
        let named = all.iter();
        named
            .map(|(limit, n)| counted((reason_of_limit(*limit).name(), *n)))
            .collect()
    };
    PeerCounters {
        granted: many_bytes(counters.granted),
        returned_by_peer: many_bytes(counters.returned_by_peer),
        recalled: many_bytes(counters.recalled),
        unclaimed: many_bytes(counters.unclaimed),
        ended: many_bytes(counters.ended),
        short_grants: limits(&counters.refusals),
        borrowed: many_bytes(counters.borrowed),
        returned: many_bytes(counters.returned),
        taken_by_peer: many_bytes(counters.taken_by_peer),
        borrows_ended: many_bytes(counters.borrows_ended),
        short_grants_by_peer: limits(&counters.refused_by_peer),
        sessions: counters.sessions,
        shuts: counters.shuts,
        turned_away: counters.turned_away,
    }
}

/// One guard a backing: that of the thread that has it shut, or finds the lender slowest.
fn merged_guards<'g>(guards: impl Iterator<Item = &'g GuardFigures>) -> Vec<PeerGuard> {
    let mut merged: BTreeMap<&str, PeerGuard> = BTreeMap::new();
    for guard in guards {
        let of_thread = PeerGuard {
            backing: guard.backing.to_string(),
            open: guard.state == GuardState::Open,
            far_micros: micros(guard.far),
            miss_micros: micros(guard.miss),
        };
        let worse = |guard: &PeerGuard| (!guard.open, guard.far_micros);
        let kept = merged.entry(&guard.backing);
        let kept = kept.or_insert_with(|| of_thread.clone());
        if worse(&of_thread) > worse(kept) {
            *kept = of_thread;
        }
    }
    merged.into_values().collect()
}

fn shown_address(member: &ControlMember) -> String {
    match member.host.contains(':') {
        true => format!("tcp:[{}]:{}", member.host, member.port),
        false => format!("tcp:{}:{}", member.host, member.port),
    }
}

fn counted((cause, count): (&'static str, u64)) -> (String, u64) {
    (cause.to_owned(), count)
}

fn bytes(blocks: u32) -> Bytes {
    many_bytes(blocks.into())
}

fn many_bytes(blocks: u64) -> Bytes {
    Bytes(blocks.saturating_mul(BLOCK_BYTES))
}

fn report_bytes(blocks: BlockCount) -> Bytes {
    bytes(blocks.get())
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn millis_until(until: Duration, now: Duration) -> u64 {
    u64::try_from(until.saturating_sub(now).as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(backing: &str, state: GuardState, far_micros: u64) -> GuardFigures {
        GuardFigures {
            lender: PeerId(0),
            backing: backing.into(),
            state,
            far: Duration::from_micros(far_micros),
            miss: Duration::from_micros(1000),
        }
    }

    #[test]
    fn of_several_threads_the_guard_is_shown_that_is_shut_or_slowest() {
        let guards = [
            guard("db", GuardState::Open, 50),
            guard("db", GuardState::Open, 90),
            guard("rings", GuardState::Open, 900),
            guard("rings", GuardState::Shut, 700),
            guard("rings", GuardState::Shut, 600),
        ];
        let shown = merged_guards(guards.iter());
        let shown: Vec<_> = shown
            .iter()
            .map(|guard| (&*guard.backing, guard.open, guard.far_micros))
            .collect();
        assert_eq!(shown, [("db", true, 90), ("rings", false, 700)]);
    }

    #[test]
    fn an_address_can_be_put_into_a_config() {
        let member = |host: &str| ControlMember {
            name: "b".parse().expect("a name"),
            host: host.to_owned(),
            port: 7171,
            lend: sublet_lend::node::LendTo::Allowed,
        };
        assert_eq!(shown_address(&member("::1")), "tcp:[::1]:7171");
        assert_eq!(shown_address(&member("b.lan")), "tcp:b.lan:7171");
    }
}
