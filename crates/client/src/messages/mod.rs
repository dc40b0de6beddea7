//! The JSON messages of the admin interface. `docs/admin.md` describes them. Amounts are bytes.

mod change_lifetime;
mod cluster;
mod disks;
mod events;
mod evictions;
mod lending;
mod rings;
mod saves;
mod what_if;

use serde::{Deserialize, Serialize};
use sublet_types::{Bytes, EvictionKind, ReleaseMode, TenantName, Weight};

pub use self::change_lifetime::ChangeLifetime;
pub use self::cluster::{
    ClusterAdvice, ClusterMode, ClusterNode, ClusterNodeState, ClusterPlan, ClusterStatus,
    ClusterView, CountAlarm, EtcdState, EtcdStatus, JoinCluster, LeaveCluster,
};
pub use self::disks::{
    AddDisk, AllowFolder, DiskClients, DiskFolders, DiskList, DiskState, DiskStatus,
    OpenDiskRequest, OrphanReason, OrphanedPages, RemoveDisk, RemovedDisk, ResizeDisk,
};
pub use self::events::{Event, EventActor, EventGap, EventList, EventObject, EventsQuery};
pub use self::evictions::{EvictedStatus, EvictionsStatus};
pub use self::lending::{
    CertificateStatus, DrainLending, FollowingFigures, LeaseDirection, LeaseList, LeaseStatus,
    LendPeer, LendPhase, LendStatus, PeerCounters, PeerGuard, PeerLink, PeerPages, PeerReport,
    ResumeLending,
};
pub use self::rings::RingStatus;
pub use self::saves::{
    CopyKind, CopyReport, CopyStatus, GrantSource, RestoreFile, SaveFile, SetFrozen,
};
pub use self::what_if::{WhatIf, WhatIfQuery, WhatIfTenant};

/// The version of these messages. Under one version, fields may be added. No field is removed or changes its meaning.
pub const VERSION: u32 = 1;

/// The most bytes that a request's body may have.
pub const REQUEST_BYTES_MAX: usize = 64 << 10;

/// The state of the whole daemon (`GET /v1/status`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// [`VERSION`].
    pub version: u32,
    /// The daemon's process.
    pub daemon: DaemonStatus,
    /// The host's memory, as last read.
    pub host: HostStatus,
    /// How large the arena may be, and why.
    pub headroom: HeadroomStatus,
    /// The arena.
    pub arena: ArenaStatus,
    /// What decides how much each tenant may hold.
    #[serde(default)]
    pub rule: Option<RuleStatus>,
    /// The tenants.
    pub tenants: Vec<TenantStatus>,
    /// The disks.
    #[serde(default)]
    pub disks: Vec<DiskStatus>,
    /// Swapped pages that no disk writes any more.
    #[serde(default)]
    pub left_behind: Vec<OrphanedPages>,
    /// How the host stands with its peers. Null if it has none.
    #[serde(default)]
    pub lending: Option<LendStatus>,
    /// Where live changes differ from the config.
    pub changed: Vec<ConfigDifference>,
    /// The save or restore that is under way.
    #[serde(default)]
    pub copying: Option<CopyStatus>,
}

/// The daemon's process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DaemonStatus {
    /// The release, as `sublet --version` prints it.
    pub release: String,
    /// The process id.
    pub pid: u32,
    /// Seconds since the start.
    pub uptime_secs: u64,
    /// How many threads serve clients.
    pub threads: usize,
    /// The config file, if there is one.
    pub config: Option<String>,
    /// The admin socket.
    pub admin: String,
    /// The memory that the kernel counts for the process (RSS).
    pub resident: Bytes,
    /// The part of `resident` that is not arena: program, threads, buffers, tables.
    pub overhead: Bytes,
    /// The part of `overhead` that the process shares with programs that it serves: page rings, and guests' memory over
    /// vhost-user.
    #[serde(default)]
    pub shared: Bytes,
    /// Whether the daemon is ending. It then brings its disks to their backings and accepts no changes.
    #[serde(default)]
    pub ending: bool,
}

/// The host's memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostStatus {
    /// All memory of the host.
    pub memory: Bytes,
    /// Memory that nobody uses.
    pub free: Bytes,
    /// Memory that programs could get, by the kernel's estimate.
    pub available: Bytes,
    /// Memory that the daemon counts as idle: free memory, and what the arena holds.
    pub idle: Bytes,
    /// Idle memory that the daemon leaves to the host.
    pub reserve: Bytes,
    /// The tightest cgroup limit on the daemon, if there is one.
    pub cgroup_limit: Option<Bytes>,
}

/// How large the arena may be, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeadroomStatus {
    /// What keeps the arena from being larger: host, cgroup, ceiling, hold, floor, growing, braked.
    pub bound: String,
    /// The same in words for people.
    pub why: String,
    /// Ordered releases since the start. Each piece counts.
    pub releases_ordered: u64,
    /// Fast releases since the start.
    pub releases_fast: u64,
    /// Memory that all releases gave back.
    pub released: Bytes,
    /// Items that all releases lost.
    pub items_lost: u64,
    /// Pages that all releases lost.
    #[serde(default)]
    pub pages_lost: u64,
    /// Time that all releases took, microseconds.
    pub release_micros: u64,
    /// The last release.
    pub last_release: Option<LastRelease>,
}

/// A finished release.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LastRelease {
    /// How the release chose blocks.
    pub mode: ReleaseMode,
    /// Memory that the release gave back.
    pub released: Bytes,
    /// Time until the last madvise, microseconds.
    pub micros: u64,
}

/// The arena.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArenaStatus {
    /// How much the arena may hold.
    pub limit: Bytes,
    /// How much the arena holds: tenants' blocks, index and free list.
    pub held: Bytes,
    /// The part of `held` that is free.
    pub free: Bytes,
    /// The part of `held` that the hash index takes.
    pub index: Bytes,
    /// Bytes of live items and pages.
    pub used: Bytes,
    /// Live items.
    pub items: u64,
}

/// The policy in force.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RuleStatus {
    /// The policy's name.
    pub policy: String,
    /// How much the policy's targets leave over; 0 if it sets none.
    pub unassigned: Bytes,
    /// How much the policy would ask of other nodes (`two-level`).
    pub wanted: Bytes,
    /// By how much the sum of the tenants' floors exceeds what tenants may hold; 0 if every floor holds.
    #[serde(default)]
    pub floors_short: Bytes,
    /// Memory that went from one tenant to another since the start.
    #[serde(default)]
    pub moved: Bytes,
    /// The part of `moved` that came back within ten minutes.
    #[serde(default)]
    pub moves_undone: Bytes,
}

/// One tenant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TenantStatus {
    /// The tenant's name.
    pub name: TenantName,
    /// The tenant's share relative to the others'.
    pub weight: Weight,
    /// What the others never take from the tenant.
    pub floor: Option<Bytes>,
    /// The most that the tenant ever holds.
    pub ceiling: Option<Bytes>,
    /// Which of the tenant's pages goes when another needs the frame. Empty from a daemon that does not say.
    #[serde(default)]
    pub eviction: String,
    /// If `eviction` is `auto`, which eviction it comes to. Empty from a daemon that does not say.
    #[serde(default)]
    pub ruling_eviction: String,
    /// Whether the tenant's pages may lie in memory that the host borrows. Nothing from a daemon that does not say.
    #[serde(default)]
    pub borrow: Option<bool>,
    /// Where the tenant is served.
    pub listen: Vec<String>,
    /// Bytes of the blocks that the tenant owns.
    pub held: Bytes,
    /// Bytes of the tenant's live items and pages.
    pub used: Bytes,
    /// Live items.
    pub items: u64,
    /// Mortar's f. Above 1, the tenant holds more than its share.
    pub fairness: f64,
    /// The tenant's connections, including those of its rings.
    pub connections: u64,
    /// Whether the tenant refuses new pages.
    #[serde(default)]
    pub frozen: bool,
    /// What the tenant's rings did; nothing if it has none.
    #[serde(default)]
    pub ring: Option<RingStatus>,
    /// How much the policy allows the tenant to hold, if it says so.
    #[serde(default)]
    pub target: Option<Bytes>,
    /// The tenant's pages.
    #[serde(default)]
    pub pages: PagesStatus,
    /// Items evicted to make room.
    pub evictions: u64,
    /// What was evicted lately: how old it was, how often used, and whether it went too soon.
    #[serde(default)]
    pub evicted: EvictionsStatus,
    /// Expired items whose memory was taken back.
    pub reclaimed: u64,
    /// What the tenant's clients did since the start, by memcached's names (`cmd_get`, `get_hits`, …).
    pub counters: std::collections::BTreeMap<String, u64>,
}

impl TenantStatus {
    /// A counter by its name; 0 if the daemon does not know it.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }

    /// Hits per read, if there were reads.
    pub fn hit_rate(&self) -> Option<f64> {
        let of_rings = |outcome| {
            let ring = self.ring.as_ref();
            ring.map_or(0, |ring| ring.operation("get", outcome))
        };
        let hits = self.counter("get_hits") + of_rings("hit");
        let gets = hits + self.counter("get_misses") + of_rings("missed");
        (gets > 0).then(|| hits as f64 / gets as f64)
    }

    /// Requests that read, store, delete or touch, plus pages that the rings put, get and flush.
    pub fn operations(&self) -> u64 {
        const COUNTED: [&str; 9] = [
            "cmd_get",
            "cmd_set",
            "cmd_touch",
            "delete_hits",
            "delete_misses",
            "incr_hits",
            "incr_misses",
            "decr_hits",
            "decr_misses",
        ];
        let items: u64 = COUNTED.iter().map(|name| self.counter(name)).sum();
        let pages = self.ring.as_ref().map_or(0, |ring| {
            let verbs = ["put", "get", "flush_page"];
            verbs.iter().map(|verb| ring.requests(verb)).sum()
        });
        items + pages
    }
}

/// A key whose live value differs from the config.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConfigDifference {
    /// The key, such as `tenants.web.weight`.
    pub key: String,
    /// The value in the config.
    pub config: String,
    /// The value in force.
    pub now: String,
    /// Whether the value in force survives a restart.
    pub kept: bool,
}

/// All tenants (`GET /v1/tenants`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TenantList {
    /// [`VERSION`].
    pub version: u32,
    /// The tenants.
    pub tenants: Vec<TenantStatus>,
}

/// A new tenant (`POST /v1/tenants`): memory for disks to come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddTenant {
    /// The tenant's name.
    pub name: TenantName,
    /// The tenant's share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<Weight>,
    /// What the others never take from the tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<Limit>,
    /// The most that the tenant ever holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<Limit>,
    /// Which of the tenant's pages goes when another needs the frame. Items have an order of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eviction: Option<EvictionKind>,
    /// Whether the tenant's pages may lie in memory that the host borrows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub borrow: Option<bool>,
    /// Whether the tenant survives a restart.
    #[serde(default)]
    pub lasts: ChangeLifetime,
}

/// How a tenant is removed (the query of `DELETE /v1/tenants/NAME`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoveTenant {
    /// Whether the tenant stays removed after a restart.
    #[serde(default)]
    pub lasts: ChangeLifetime,
}

/// A change of a tenant (`PATCH /v1/tenants/NAME`). What is left out does not change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangeTenant {
    /// The tenant's share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<Weight>,
    /// What the others never take from the tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<Limit>,
    /// The most that the tenant ever holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<Limit>,
    /// Which of the tenant's pages goes when another needs the frame. Items have an order of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eviction: Option<EvictionKind>,
    /// Whether the tenant's pages may lie in memory that the host borrows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub borrow: Option<bool>,
    /// Whether the change survives a restart.
    #[serde(default)]
    pub lasts: ChangeLifetime,
}

/// A floor or a ceiling: an amount, or `"none"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// There is no limit.
    None,
    /// The limit is this amount.
    Of(Bytes),
}

impl Limit {
    /// The amount, if there is a limit.
    pub fn amount(self) -> Option<Bytes> {
        match self {
            Limit::None => None,
            Limit::Of(amount) => Some(amount),
        }
    }
}

impl std::str::FromStr for Limit {
    type Err = sublet_types::ParseBytesError;

    fn from_str(text: &str) -> Result<Limit, Self::Err> {
        match text {
            "none" => Ok(Limit::None),
            amount => amount.parse().map(Limit::Of),
        }
    }
}

impl Serialize for Limit {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Limit::None => serializer.serialize_str("none"),
            Limit::Of(amount) => amount.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Limit, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum NumberOrText {
            Number(u64),
            Text(String),
        }
        match NumberOrText::deserialize(deserializer)? {
            NumberOrText::Number(bytes) => Ok(Limit::Of(Bytes(bytes))),
            NumberOrText::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

/// A release by hand (`POST /v1/release`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseRequest {
    /// How much to release.
    pub amount: Bytes,
    /// How to choose blocks. If it is left out, the threshold decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<ReleaseMode>,
    /// Release from this tenant only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantName>,
    /// How long the arena does not grow again, milliseconds.
    #[serde(default)]
    pub hold_millis: u64,
}

/// The result of a release.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReleaseReport {
    /// [`VERSION`].
    pub version: u32,
    /// How the release chose blocks.
    pub mode: ReleaseMode,
    /// Bytes that left the process.
    pub released: Bytes,
    /// Time from the request to the last madvise, microseconds.
    pub micros: u64,
    /// Items that were lost before they expired.
    pub items_lost: u64,
    /// Pages that were lost.
    #[serde(default)]
    pub pages_lost: u64,
    /// Bytes of the lost items and pages.
    pub bytes_lost: Bytes,
    /// Bytes that were copied together to survive.
    pub bytes_kept: Bytes,
    /// How much the arena holds now.
    pub held: Bytes,
}

/// The settings in force (`GET /v1/settings`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// [`VERSION`].
    pub version: u32,
    /// Every key with its value, as in a config file.
    pub settings: std::collections::BTreeMap<String, String>,
}

/// Whether the daemon is well (`GET /v1/health`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Health {
    /// [`VERSION`].
    pub version: u32,
    /// Always true in an answer.
    pub serving: bool,
    /// Seconds since the start.
    pub uptime_secs: u64,
}

/// Why the daemon did nothing. This is the body of every answer that is not 2xx.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Refusal {
    /// What is wrong.
    pub error: String,
    /// What to do.
    pub hint: String,
}

/// All policies (`GET /v1/policies`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Policies {
    /// [`VERSION`].
    pub version: u32,
    /// The name of the policy in force.
    pub current: String,
    /// All policies, the simplest first.
    pub policies: Vec<PolicyStatus>,
}

/// A policy of the Memory Manager.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyStatus {
    /// The policy's name.
    pub name: String,
    /// What the policy does, in one line.
    pub summary: String,
    /// The paper that the policy comes from.
    pub paper: String,
    /// The policy's knobs, with the values in force. A policy that is not in force shows its defaults.
    pub knobs: Vec<PolicyKnob>,
}

/// A knob of a policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyKnob {
    /// The knob's name.
    pub name: String,
    /// The unit: `%`, `pages`, `s`, `parts`.
    pub unit: String,
    /// The value.
    pub value: f64,
    /// The default value.
    pub default: f64,
    /// The least value allowed.
    pub least: f64,
    /// The largest value allowed.
    pub most: f64,
    /// What the knob does.
    pub help: String,
    /// Why the default is what it is.
    pub why: String,
}

/// A change of policy (`POST /v1/policy`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangePolicy {
    /// The policy's name.
    pub name: String,
    /// The knobs to set, as `knob=value`.
    #[serde(default)]
    pub knobs: Vec<String>,
    /// How long the change holds.
    #[serde(default)]
    pub lasts: ChangeLifetime,
}

/// Why a tenant may hold what it may (`GET /v1/policy/explain?tenant=NAME&until=UNIX`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyExplanation {
    /// [`VERSION`].
    pub version: u32,
    /// Since when the daemon has forgotten nothing, in Unix seconds. Nothing from a daemon that does not say.
    #[serde(default)]
    pub since: Option<u64>,
    /// What happened to the tenant until then, the latest first.
    pub decisions: Vec<PolicyDecision>,
}

/// A decision of the Memory Manager about one tenant, or a loss of memory without a decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyDecision {
    /// The time, in Unix seconds.
    pub at: u64,
    /// The policy that decided.
    pub policy: String,
    /// What the tenant might hold before. Nothing if no target bound it.
    pub before: Option<Bytes>,
    /// What the tenant may hold from then on.
    pub after: Option<Bytes>,
    /// What the tenant held before a loss. Nothing if its target changed instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_before: Option<Bytes>,
    /// What the tenant held after the loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_after: Option<Bytes>,
    /// Where the lost memory went, or where the granted memory came from. The parts add up to the whole, the largest
    /// first.
    #[serde(default)]
    pub moves: Vec<MemoryMove>,
    /// What happened and why, as a sentence.
    pub why: String,
}

/// A part of what a tenant lost or got.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryMove {
    /// Who has the memory, or had it: `tenant`, `free` (nobody), `host`, or `others` (tenants of whom each has less of
    /// it).
    pub place: String,
    /// The tenant, if `place` is `tenant`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantName>,
    /// How much memory it is.
    pub amount: Bytes,
}

/// A tenant's pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PagesStatus {
    /// Pools, including handles on shared ones.
    pub pools: u64,
    /// Pages in memory.
    pub used: u64,
    /// Persistent pages on disk only.
    pub on_disk: u64,
    /// Pages whose words are all equal. They take no frame.
    #[serde(default)]
    pub same_filled: u64,
    /// Frames without a page.
    pub free: u64,
    /// Puts.
    pub puts: u64,
    /// Puts that found a free frame or replaced their page.
    pub puts_succeeded: u64,
    /// Puts that were refused.
    pub puts_refused: u64,
    /// Gets.
    pub gets: u64,
    /// Gets that hit.
    pub hits: u64,
    /// Pages flushed.
    pub flushes: u64,
    /// Ephemeral pages that were evicted for others.
    pub evictions: u64,
    /// Persistent pages written to disk.
    pub spilled: u64,
}
