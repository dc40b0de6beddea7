//! The messages about lending between hosts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sublet_types::{Bytes, NodeName};

use super::change_lifetime::ChangeLifetime;

/// How a host stands with its peers (`GET /v1/lend`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LendStatus {
    /// [`VERSION`](super::VERSION).
    pub version: u32,
    /// Whether the host lends.
    pub phase: LendPhase,
    /// How long the phase lasts, milliseconds. For a drain, until the daemon takes what is not back. Null if it has no
    /// end.
    pub phase_millis: Option<u64>,
    /// How long a drain lasts: over restarts, or until the daemon ends. Null while the host does not drain.
    #[serde(default)]
    pub drain_lasts: Option<ChangeLifetime>,
    /// Memory that peers borrow here.
    pub lent: Bytes,
    /// Memory that the host would lend now beyond that. Zero while `lend.max`, its phase or its own needs forbid it.
    pub lendable: Bytes,
    /// The most memory that peers may borrow here together. Null for what headroom leaves.
    pub lend_max: Option<Bytes>,
    /// Memory that the host borrows.
    pub borrowed: Bytes,
    /// Memory that the host would like to have of its peers in all.
    pub wanted: Bytes,
    /// The most memory that the host borrows.
    pub borrow_max: Bytes,
    /// Memory of this host that borrowed memory costs: its frame rows, and the outbox from the first lease on.
    pub borrow_overhead: Bytes,
    /// The cipher that seals pages before they leave.
    pub cipher: String,
    /// Why that cipher was chosen.
    pub cipher_why: String,
    /// The files that prove who the hosts are, and when each ends.
    pub certificates: Vec<CertificateStatus>,
    /// Control connections that were refused, by cause.
    pub refused: BTreeMap<String, u64>,
    /// Connections of nodes that no member is.
    pub strangers: u64,
    /// Events of lending that were dropped because too many waited.
    pub events_dropped: u64,
    /// Connections for pages that were refused.
    pub page_connections_refused: u64,
    /// Connections for pages that ended because the borrower broke the protocol.
    pub page_connections_broken: u64,
    /// How the host stands with its leader. Null if none is named and none is elected.
    #[serde(default)]
    pub following: Option<FollowingFigures>,
    /// Each member, in the order of the config.
    pub peers: Vec<LendPeer>,
}

/// How a host stands with its leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FollowingFigures {
    /// Whether this host leads.
    pub leads: bool,
    /// The highest term that it has heard of.
    pub term: u64,
    /// How long the leader has been silent, milliseconds. Null if nobody leads, or this host.
    pub silent_millis: Option<u64>,
    /// Pieces of advice that it followed.
    pub advice_followed: u64,
    /// Messages that only a leader sends, of others or of an earlier term.
    pub advice_ignored: u64,
    /// Whether the other hosts see it through etcd. Null without etcd.
    pub registered: Option<bool>,
}

/// Whether a host lends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LendPhase {
    /// It lends as its config says.
    Lending,
    /// It lends nothing until it is told to resume.
    Draining,
    /// It took everything back, and lends again later.
    Paused,
    /// It takes and returns everything, and then parts from all.
    Leaving,
    /// It has parted from all.
    Left,
}

impl LendPhase {
    /// As a word.
    pub fn name(self) -> &'static str {
        match self {
            LendPhase::Lending => "lending",
            LendPhase::Draining => "draining",
            LendPhase::Paused => "paused",
            LendPhase::Leaving => "leaving",
            LendPhase::Left => "left",
        }
    }
}

/// A certificate that lending needs, and its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateStatus {
    /// Whose it is: `certificate` for the host's own, `ca` for its authorities.
    pub kind: String,
    /// The file. Of several certificates in it, the one that ends first counts.
    pub file: String,
    /// The last second at which it is valid, in Unix time.
    pub ends_unix: u64,
    /// Seconds until then. Below zero once it has ended.
    pub ends_in_secs: i64,
}

/// How a host stands with one peer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LendPeer {
    /// The peer's name.
    pub name: NodeName,
    /// Where the config says that it listens.
    pub address: String,
    /// The control connection with it.
    pub link: PeerLink,
    /// Why there is none, if that is known; else empty.
    pub why: String,
    /// How long the connection has been up, seconds.
    pub up_secs: Option<u64>,
    /// When the host tries again, or lets the peer in again, milliseconds from now.
    pub retry_millis: Option<u64>,
    /// The version of the protocol that both speak.
    pub protocol: Option<u16>,
    /// The time of a ping to the peer and back, microseconds.
    pub round_trip_micros: Option<u64>,
    /// Memory that the peer borrows here.
    pub lent: Bytes,
    /// Memory that the host borrows of the peer.
    pub borrowed: Bytes,
    /// What the peer last said of itself.
    pub report: PeerReport,
    /// What both did with each other since the start.
    pub counters: PeerCounters,
    /// Pages that went to the peer and came of it since the start.
    pub pages: PeerPages,
    /// Connections with the peer that were refused, by cause.
    pub refused: BTreeMap<String, u64>,
    /// Whether the peer is asked in place of each backing.
    pub guards: Vec<PeerGuard>,
}

/// The control connection with a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PeerLink {
    /// There is none.
    Away,
    /// The host tries to connect.
    Connecting,
    /// It is there, and the peer has said nothing yet.
    Greeting,
    /// Both understand each other.
    Up,
    /// There is no common version of the protocol.
    Incompatible,
    /// The peer misbehaved, and is shut out for a while.
    Shut,
    /// The peer's certificate is on the deny list.
    Denied,
}

impl PeerLink {
    /// As a word.
    pub fn name(self) -> &'static str {
        match self {
            PeerLink::Away => "away",
            PeerLink::Connecting => "connecting",
            PeerLink::Greeting => "greeting",
            PeerLink::Up => "up",
            PeerLink::Incompatible => "incompatible",
            PeerLink::Shut => "shut",
            PeerLink::Denied => "denied",
        }
    }
}

/// What a peer last said of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerReport {
    /// Memory that it would lend this host now.
    pub lendable: Bytes,
    /// Memory that it wants beyond what it has.
    pub wanted: Bytes,
    /// Memory that it has lent to all.
    pub lent: Bytes,
    /// Memory that it borrows of all.
    pub borrowed: Bytes,
}

/// What a host and a peer did with each other since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerCounters {
    /// Memory that the peer was granted.
    pub granted: Bytes,
    /// Memory that it returned.
    pub returned_by_peer: Bytes,
    /// Memory that was taken back from it.
    pub recalled: Bytes,
    /// Memory that it did not claim.
    pub unclaimed: Bytes,
    /// Memory of leases that ended at once: the peer was away for too long, began anew, said goodbye or was shut out.
    #[serde(default)]
    pub ended: Bytes,
    /// How often it was granted less than it asked for, by reason.
    pub short_grants: BTreeMap<String, u64>,
    /// Memory that it granted to this host.
    pub borrowed: Bytes,
    /// Memory that was returned to it.
    pub returned: Bytes,
    /// Memory that it took back.
    pub taken_by_peer: Bytes,
    /// Memory of its leases that ended at once: it was away for too long, began anew, said goodbye or was shut out.
    #[serde(default)]
    pub borrows_ended: Bytes,
    /// How often it granted less than it was asked for, by reason.
    pub short_grants_by_peer: BTreeMap<String, u64>,
    /// Sessions.
    pub sessions: u64,
    /// How often it was shut out.
    pub shuts: u64,
    /// Connections of it that were turned away because it was shut out or denied, or because the host had left.
    #[serde(default)]
    pub turned_away: u64,
}

/// Pages that went to a peer and came of it since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerPages {
    /// Pages that the peer took of this host.
    pub sent: u64,
    /// Pages on their way to the peer that it did not take, or of which that is not known.
    pub unsent: u64,
    /// Pages that this host asked the peer for.
    pub fetched: u64,
    /// Pages that came.
    pub hits: u64,
    /// Pages that did not come, by cause.
    pub lost: BTreeMap<String, u64>,
    /// Pages for which the peer was not asked, because it is too slow or away.
    pub not_asked: u64,
    /// Pages that the peer wrote here.
    pub stored: u64,
    /// Pages that the peer read here.
    pub served: u64,
    /// Pages that the peer asked for and that were not here.
    pub absent: u64,
    /// Requests of the peer for blocks that it was never lent.
    pub requests_refused: u64,
}

/// Whether a peer is asked for pages in place of their backing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerGuard {
    /// The backing: a disk's name, or `rings`.
    pub backing: String,
    /// Whether the peer is asked. If several threads ask, whether each does.
    pub open: bool,
    /// How long a request to the peer takes, microseconds.
    pub far_micros: u64,
    /// How long a read of the backing takes, microseconds.
    pub miss_micros: u64,
}

/// All leases of a host (`GET /v1/lend/leases`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseList {
    /// [`VERSION`](super::VERSION).
    pub version: u32,
    /// The leases: peer by peer, those that the peer has of this host first.
    pub leases: Vec<LeaseStatus>,
}

/// One lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseStatus {
    /// The peer.
    pub peer: NodeName,
    /// Who has it of whom.
    pub direction: LeaseDirection,
    /// The lender's number of the lease.
    pub lease: u32,
    /// Blocks of 2 MiB.
    pub blocks: u32,
    /// The same in bytes.
    pub bytes: Bytes,
}

/// Who has a lease of whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeaseDirection {
    /// The peer borrows of this host.
    Lent,
    /// This host borrows of the peer.
    Borrowed,
}

impl LeaseDirection {
    /// As a word.
    pub fn name(self) -> &'static str {
        match self {
            LeaseDirection::Lent => "lent",
            LeaseDirection::Borrowed => "borrowed",
        }
    }
}

/// Lend nothing, and take back what is lent (`POST /v1/lend/drain`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrainLending {
    /// How long borrowers may take to give it back, milliseconds. What is not back then is taken.
    pub within_millis: u64,
    /// How long the drain lasts if nobody ends it.
    pub lasts: ChangeLifetime,
}

/// Lend again (`POST /v1/lend/resume`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResumeLending {
    /// Whether the next start lends, too.
    pub lasts: ChangeLifetime,
}
