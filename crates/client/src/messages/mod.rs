//! What is said on the admin interface, in JSON. `docs/admin.md` describes it; amounts are bytes.

mod disks;
mod events;
mod leavers;
mod rings;
mod saves;
mod what_if;

use serde::{Deserialize, Serialize};
use sublet_types::{Bytes, EvictionKind, ReleaseMode, TenantName, Weight};

pub use self::disks::{
    AddDisk, AllowFolder, Deserted, DiskClients, DiskFolders, DiskState, DiskStatus, Disks,
    LeftBehind, OpenDisk, RemoveDisk, RemovedDisk, ResizeDisk,
};
pub use self::events::{AskEvents, Event, EventActor, EventGap, EventObject, Events};
pub use self::leavers::{EvictedStatus, LeaversStatus};
pub use self::rings::RingStatus;
pub use self::saves::{CopyReport, CopyStatus, Copying, Freeze, Grants, RestoreFile, SaveFile};
pub use self::what_if::{AskWhatIf, WhatIf, WhatIfTenant};

/// The version of these messages. A field may be added under the same version; none is removed or
/// changes its meaning.
pub const VERSION: u32 = 1;

/// The most bytes that a request's body may have.
pub const REQUEST_BYTES_MAX: usize = 64 << 10;

/// The whole daemon, now (`GET /v1/status`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// [`VERSION`].
    pub version: u32,
    /// The process.
    pub daemon: DaemonStatus,
    /// The host's memory, as last seen.
    pub host: HostStatus,
    /// How large the arena may be and why.
    pub headroom: HeadroomStatus,
    /// The arena.
    pub arena: ArenaStatus,
    /// Who decides how much each tenant may hold.
    #[serde(default)]
    pub rule: Option<RuleStatus>,
    /// Who is served.
    pub tenants: Vec<TenantStatus>,
    /// The disks.
    #[serde(default)]
    pub disks: Vec<DiskStatus>,
    /// What was swapped and no disk writes any more.
    #[serde(default)]
    pub left_behind: Vec<LeftBehind>,
    /// Where live changes stand over the config.
    pub changed: Vec<Difference>,
    /// A tenant that is being saved or restored.
    #[serde(default)]
    pub copying: Option<CopyStatus>,
}

/// The process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DaemonStatus {
    /// Its release, as `sublet --version` prints it.
    pub release: String,
    /// Its process id.
    pub pid: u32,
    /// Seconds since its start.
    pub uptime_secs: u64,
    /// Threads that serve clients.
    pub threads: usize,
    /// Its config file, if it has one.
    pub config: Option<String>,
    /// Its admin socket.
    pub admin: String,
    /// What the kernel says it has in memory (RSS).
    pub resident: Bytes,
    /// Of that, what is not arena: program, threads, buffers, tables.
    pub overhead: Bytes,
    /// Of that, what it shares with the programs whose memory it serves: page rings, and guests' memory over vhost-user.
    #[serde(default)]
    pub shared: Bytes,
    /// Whether it ends: its disks are brought to their backings, and nothing is changed any more.
    #[serde(default)]
    pub ending: bool,
}

/// The host's memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostStatus {
    /// All of it.
    pub memory: Bytes,
    /// In nobody's use.
    pub free: Bytes,
    /// What the kernel thinks programs could get.
    pub available: Bytes,
    /// What the daemon counts as idle: free, and what the arena holds.
    pub idle: Bytes,
    /// Idle memory that is left to the host.
    pub reserve: Bytes,
    /// The tightest cgroup limit on the daemon, if there is one.
    pub cgroup_limit: Option<Bytes>,
}

/// How large the arena may be and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeadroomStatus {
    /// What keeps the arena from being larger: host, cgroup, ceiling, hold, floor, growing, braked.
    pub bound: String,
    /// The same for people.
    pub why: String,
    /// Ordered releases since the start, each piece counted.
    pub releases_ordered: u64,
    /// Fast releases since the start.
    pub releases_fast: u64,
    /// What they gave back.
    pub released: Bytes,
    /// Items that they lost.
    pub items_lost: u64,
    /// Pages that they lost.
    #[serde(default)]
    pub pages_lost: u64,
    /// Time that they took, microseconds.
    pub release_micros: u64,
    /// The last one.
    pub last_release: Option<LastRelease>,
}

/// A release that is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LastRelease {
    /// How blocks were chosen.
    pub mode: ReleaseMode,
    /// What it gave back.
    pub released: Bytes,
    /// How long it took to the last madvise, microseconds.
    pub micros: u64,
}

/// The arena.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArenaStatus {
    /// What it may hold.
    pub limit: Bytes,
    /// What it holds: tenants' blocks, index and free list.
    pub held: Bytes,
    /// Of that, free.
    pub free: Bytes,
    /// Of that, the hash index.
    pub index: Bytes,
    /// Live items and pages.
    pub used: Bytes,
    /// Live items.
    pub items: u64,
}

/// The policy in force.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RuleStatus {
    /// Its name.
    pub policy: String,
    /// What its targets leave over; 0 where it sets none.
    pub unassigned: Bytes,
    /// What it would ask of other nodes (`two-level`).
    pub wanted: Bytes,
    /// By how much the tenants' floors are more together than tenants may hold; 0 where every floor holds.
    #[serde(default)]
    pub floors_short: Bytes,
    /// What went from one tenant to another since the start.
    #[serde(default)]
    pub moved: Bytes,
    /// Of that, what came back within ten minutes.
    #[serde(default)]
    pub moves_undone: Bytes,
}

/// One tenant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TenantStatus {
    /// Its name.
    pub name: TenantName,
    /// Its share relative to the others'.
    pub weight: Weight,
    /// What the others never take from it.
    pub floor: Option<Bytes>,
    /// What it never holds more than.
    pub ceiling: Option<Bytes>,
    /// Which of its pages goes when another needs the frame; empty from a daemon that does not say.
    #[serde(default)]
    pub eviction: String,
    /// The same, where `eviction` is `auto`: which one that comes to; empty from a daemon that does not say.
    #[serde(default)]
    pub ruling_eviction: String,
    /// Where it is served.
    pub listen: Vec<String>,
    /// Blocks it owns.
    pub held: Bytes,
    /// Its live items and pages.
    pub used: Bytes,
    /// Live items.
    pub items: u64,
    /// Mortar's f: above 1 it holds more than its share.
    pub fairness: f64,
    /// Its connections, those of its rings among them.
    pub connections: u64,
    /// Whether its new pages are refused.
    #[serde(default)]
    pub frozen: bool,
    /// What its rings did; nothing where it has none.
    #[serde(default)]
    pub ring: Option<RingStatus>,
    /// What the policy allows it to hold, if it says so.
    #[serde(default)]
    pub target: Option<Bytes>,
    /// Its pages.
    #[serde(default)]
    pub pages: PagesStatus,
    /// Items evicted to make room.
    pub evictions: u64,
    /// Who was evicted of late: how old, how often used, and whether too soon.
    #[serde(default)]
    pub evicted: LeaversStatus,
    /// Expired items whose memory was taken back.
    pub reclaimed: u64,
    /// What its clients did, by memcached's names (`cmd_get`, `get_hits`, …), since the start.
    pub counters: std::collections::BTreeMap<String, u64>,
}

impl TenantStatus {
    /// A counter by its name; 0 where a daemon does not know it.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }

    /// Hits a read, where there were reads.
    pub fn hit_rate(&self) -> Option<f64> {
        let of_rings = |outcome| {
            let ring = self.ring.as_ref();
            ring.map_or(0, |ring| ring.operation("get", outcome))
        };
        let hits = self.counter("get_hits") + of_rings("hit");
        let gets = hits + self.counter("get_misses") + of_rings("missed");
        (gets > 0).then(|| hits as f64 / gets as f64)
    }

    /// Requests that read, store, delete or touch, and pages that its rings put, get and flush.
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
            verbs.iter().map(|verb| ring.asked(verb)).sum()
        });
        items + pages
    }
}

/// Where a live change stands over the config.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// The key, such as `tenants.web.weight`.
    pub key: String,
    /// What the config says.
    pub config: String,
    /// What holds.
    pub now: String,
    /// Whether it holds after a restart.
    pub kept: bool,
}

/// All tenants (`GET /v1/tenants`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tenants {
    /// [`VERSION`].
    pub version: u32,
    /// Who is served.
    pub tenants: Vec<TenantStatus>,
}

/// A new tenant (`POST /v1/tenants`): memory for disks to come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddTenant {
    /// Its name.
    pub name: TenantName,
    /// Its share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<Weight>,
    /// What the others never take from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<Limit>,
    /// What it never holds more than.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<Limit>,
    /// Which of its pages goes when another needs the frame; its items have an order of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eviction: Option<EvictionKind>,
    /// Whether it ends with the daemon.
    #[serde(default)]
    pub lasts: Lasts,
}

/// How a tenant is removed (the query of `DELETE /v1/tenants/NAME`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoveTenant {
    /// Whether it stays removed after a restart.
    #[serde(default)]
    pub lasts: Lasts,
}

/// A change of a tenant (`PATCH /v1/tenants/NAME`). What is left out stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangeTenant {
    /// Its share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<Weight>,
    /// What the others never take from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<Limit>,
    /// What it never holds more than.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<Limit>,
    /// Which of its pages goes when another needs the frame; its items have an order of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eviction: Option<EvictionKind>,
    /// Whether it ends with the daemon.
    #[serde(default)]
    pub lasts: Lasts,
}

/// How long a change holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lasts {
    /// It is written down and holds after a restart.
    #[default]
    Always,
    /// Until the daemon ends.
    UntilRestart,
}

/// A floor or a ceiling: an amount, or `"none"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// There is none.
    None,
    /// This much.
    Of(Bytes),
}

impl Limit {
    /// As an option.
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
        enum Said {
            Number(u64),
            Text(String),
        }
        match Said::deserialize(deserializer)? {
            Said::Number(bytes) => Ok(Limit::Of(Bytes(bytes))),
            Said::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

/// A release by hand (`POST /v1/release`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseRequest {
    /// How much.
    pub amount: Bytes,
    /// How blocks are chosen; the threshold decides if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<ReleaseMode>,
    /// From this tenant only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantName>,
    /// How long the arena does not grow back, milliseconds.
    #[serde(default)]
    pub hold_millis: u64,
}

/// What a release did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReleaseReport {
    /// [`VERSION`].
    pub version: u32,
    /// How blocks were chosen.
    pub mode: ReleaseMode,
    /// Bytes that left the process.
    pub released: Bytes,
    /// From the request to the last madvise, microseconds.
    pub micros: u64,
    /// Items lost that had not expired.
    pub items_lost: u64,
    /// Pages lost.
    #[serde(default)]
    pub pages_lost: u64,
    /// Bytes of both.
    pub bytes_lost: Bytes,
    /// Bytes copied together to survive.
    pub bytes_kept: Bytes,
    /// What the arena holds now.
    pub held: Bytes,
}

/// One setting in force (`GET /v1/settings`).
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
    /// Always true where there is an answer.
    pub serving: bool,
    /// Seconds since the start.
    pub uptime_secs: u64,
}

/// Why nothing was done; the body of every answer that is not 2xx.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Refusal {
    /// What is wrong.
    pub error: String,
    /// What to do.
    pub hint: String,
}

/// Every policy there is (`GET /v1/policies`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Policies {
    /// [`VERSION`].
    pub version: u32,
    /// The name of the one in force.
    pub current: String,
    /// All of them, the simplest first.
    pub policies: Vec<PolicyStatus>,
}

/// A policy of the Memory Manager.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyStatus {
    /// Its name.
    pub name: String,
    /// What it does, in a line.
    pub summary: String,
    /// Where it comes from.
    pub paper: String,
    /// What can be set, with the value in force, or the default where it is not in force.
    pub knobs: Vec<PolicyKnob>,
}

/// Something that can be set of a policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyKnob {
    /// Its name.
    pub name: String,
    /// In what it is counted: `%`, `pages`, `s`, `parts`.
    pub unit: String,
    /// Its value.
    pub value: f64,
    /// Its value where nothing is said.
    pub default: f64,
    /// The least value allowed.
    pub least: f64,
    /// The largest.
    pub most: f64,
    /// What it does.
    pub help: String,
    /// Why that default.
    pub why: String,
}

/// Another policy (`POST /v1/policy`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangePolicy {
    /// Its name.
    pub name: String,
    /// What is set of its knobs, as `knob=value`.
    #[serde(default)]
    pub knobs: Vec<String>,
    /// How long it lasts.
    #[serde(default)]
    pub lasts: Lasts,
}

/// Why a tenant may hold what it may (`GET /v1/policy/explain?tenant=NAME&until=UNIX`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explained {
    /// [`VERSION`].
    pub version: u32,
    /// Since when nothing was forgotten, in Unix seconds; nothing from a daemon that does not say.
    #[serde(default)]
    pub since: Option<u64>,
    /// What happened to it until then, the latest first.
    pub decisions: Vec<PolicyDecision>,
}

/// A decision of the Memory Manager about one tenant, or a loss of memory that none was needed for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyDecision {
    /// When, in Unix seconds.
    pub at: u64,
    /// By which policy.
    pub policy: String,
    /// What it might hold before; nothing where no target bound it.
    pub before: Option<Bytes>,
    /// What it may hold from then on.
    pub after: Option<Bytes>,
    /// What it held before it lost some of it; nothing where its target was changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_before: Option<Bytes>,
    /// What it held then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_after: Option<Bytes>,
    /// Where what it lost went, or where what it may hold more came from: together as much as that, the largest part first.
    #[serde(default)]
    pub moves: Vec<MemoryMove>,
    /// What and why, as a sentence.
    pub why: String,
}

/// A part of what a tenant lost or got.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryMove {
    /// Who has it, or had it: `tenant`, `free` (nobody), `host`, or `others` (tenants of whom each has less of it).
    pub place: String,
    /// Which tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantName>,
    /// How much of it.
    pub amount: Bytes,
}

/// A tenant's pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PagesStatus {
    /// Pools, handles on shared ones among them.
    pub pools: u64,
    /// Pages in memory.
    pub used: u64,
    /// Persistent pages on disk only.
    pub on_disk: u64,
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
    /// Ephemeral pages that went for others.
    pub evictions: u64,
    /// Persistent pages written to disk.
    pub spilled: u64,
}
