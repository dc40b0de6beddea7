//! What is said of disks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sublet_types::{Bytes, DiskName, DiskSettings};

use super::{Difference, Lasts};

/// All disks (`GET /v1/disks`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Disks {
    /// [`VERSION`](super::VERSION).
    pub version: u32,
    /// Each, in order of names.
    pub disks: Vec<DiskStatus>,
    /// What was swapped and no disk writes any more, in order of names.
    #[serde(default)]
    pub left_behind: Vec<LeftBehind>,
}

/// Pages of swap that were acknowledged and never reached their backing, and that no disk is served for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftBehind {
    /// Their disk's name.
    pub name: DiskName,
    /// How many they are; only memory has them.
    pub pages: u64,
    /// Why nobody writes them.
    pub why: Deserted,
    /// Whose disk it was, where that is known: the daemon before noted it in its state folder.
    #[serde(default)]
    pub tenant: Option<String>,
    /// What was behind it, where that is known.
    #[serde(default)]
    pub backing: Option<String>,
}

/// Why nobody writes what was left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Deserted {
    /// No disk of that name is served.
    NoDisk,
    /// The disk of that name has another backing now.
    OtherBacking,
}

/// One disk, now (`GET /v1/disks/NAME`). Counts are since it was added or the daemon started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiskStatus {
    /// What holds, with the backing that a swap disk was given and the ports that were taken.
    pub settings: DiskSettings,
    /// Its size.
    pub size: Bytes,
    /// How it is.
    pub state: DiskState,
    /// Why it is not well; empty else.
    pub why: String,
    /// Clients that are connected, over NBD and vhost-user.
    pub connections: u64,
    /// Who came, and what went wrong with them.
    #[serde(default)]
    pub clients: DiskClients,
    /// Reads that were asked for.
    pub reads: u64,
    /// Writes that were asked for, trims and zeroes among them.
    pub writes: u64,
    /// Bytes that were read.
    pub bytes_read: u64,
    /// Bytes that were written.
    pub bytes_written: u64,
    /// Pages that were read and were in memory.
    pub hits: u64,
    /// Pages that were read and came from the backing.
    pub misses: u64,
    /// Pages in memory.
    pub pages: u64,
    /// Of these, pages that the backing does not have yet.
    pub dirty: u64,
    /// Pages that were read ahead.
    pub prefetched: u64,
    /// Requests that failed.
    pub faults: u64,
    /// The path of its backing leads to it no more: it was deleted or moved, or another is in its place.
    #[serde(default)]
    pub astray: bool,
    /// A note that its promises rest on cannot be written: until then it writes through.
    #[serde(default)]
    pub unnoted: bool,
    /// It writes through for now, whatever its durability.
    #[serde(default)]
    pub held_back: bool,
    /// Where it is not what the config says.
    pub differences: Vec<Difference>,
}

/// Who came to a disk over NBD and vhost-user, and what went wrong with them. A place that disks share counts for each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskClients {
    /// Connections that were made.
    pub connections_made: u64,
    /// Connections that were refused or ended, and questions for an export that is not there, by reason.
    pub turned_away: BTreeMap<String, u64>,
    /// Requests that made no sense, or asked for what is not allowed; the disk never saw them.
    pub requests_refused: u64,
    /// Queues that stopped because a guest's rings made no sense.
    pub broken_rings: u64,
}

impl DiskClients {
    /// These, with those of another place.
    #[must_use]
    pub fn and(mut self, other: &DiskClients) -> DiskClients {
        self.connections_made += other.connections_made;
        self.requests_refused += other.requests_refused;
        self.broken_rings += other.broken_rings;
        for (reason, count) in &other.turned_away {
            *self.turned_away.entry(reason.clone()).or_default() += count;
        }
        self
    }
}

impl DiskStatus {
    /// A disk that nobody has asked for anything yet.
    pub fn idle(settings: DiskSettings, size: Bytes) -> DiskStatus {
        DiskStatus {
            settings,
            size,
            state: DiskState::Serving,
            why: String::new(),
            connections: 0,
            clients: DiskClients::default(),
            reads: 0,
            writes: 0,
            bytes_read: 0,
            bytes_written: 0,
            hits: 0,
            misses: 0,
            pages: 0,
            dirty: 0,
            prefetched: 0,
            faults: 0,
            astray: false,
            unnoted: false,
            held_back: false,
            differences: Vec::new(),
        }
    }

    /// Hits among the pages that were read, where any were.
    pub fn hit_rate(&self) -> Option<f64> {
        let pages = self.hits + self.misses;
        (pages > 0).then(|| self.hits as f64 / pages as f64)
    }
}

/// How a disk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskState {
    /// Well.
    Serving,
    /// Its backing fails; what it cannot take stays in memory.
    Ailing,
    /// It is being removed, or its daemon ends: what is dirty goes to the backing.
    Leaving,
    /// It was kept from an earlier run and could not be opened; nobody reaches it.
    Closed,
}

impl DiskState {
    /// As a word.
    pub fn name(self) -> &'static str {
        match self {
            DiskState::Serving => "serving",
            DiskState::Ailing => "ailing",
            DiskState::Leaving => "leaving",
            DiskState::Closed => "closed",
        }
    }
}

/// A new disk (`POST /v1/disks`): beside the three fields below, the keys and values of `[disks.NAME]` in a config.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AddDisk {
    /// Its name.
    pub name: DiskName,
    /// Whether it is there again after a restart.
    #[serde(default)]
    pub lasts: Lasts,
    /// Its backing is made: a file of the size that is said, where none is yet.
    #[serde(default)]
    pub create: bool,
    /// What is said of it.
    #[serde(flatten)]
    pub said: BTreeMap<String, serde_json::Value>,
}

/// One folder more under which backings may lie (`POST /v1/disk-folders`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllowFolder {
    /// Its path, from the root on.
    pub folder: String,
    /// Whether a restart keeps it.
    #[serde(default)]
    pub lasts: Lasts,
}

/// Folders under which the backings of disks must lie that are added while the daemon runs (`GET /v1/disk-folders`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskFolders {
    /// [`VERSION`](super::VERSION).
    pub version: u32,
    /// Their paths.
    pub folders: Vec<String>,
}

/// How a closed disk is opened (the query of `POST /v1/disks/NAME/open`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenDisk {
    /// It opens although pages are lost that its backing did not have: the guest that wrote them is gone.
    #[serde(default)]
    pub force: bool,
}

/// How a disk is removed (the query of `DELETE /v1/disks/NAME`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoveDisk {
    /// Whether it stays removed after a restart.
    #[serde(default)]
    pub lasts: Lasts,
    /// It goes although its backing does not take everything: what only memory has is given up.
    #[serde(default)]
    pub force: bool,
    /// The file that was made for it goes too.
    #[serde(default)]
    pub delete: bool,
}

/// What a disk left behind when it was removed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RemovedDisk {
    /// [`VERSION`](super::VERSION).
    pub version: u32,
    /// Pages that only memory had; nobody has them any more.
    pub given_up: u64,
    /// Pages of its name that only memory has, and keeps: they belong to a backing that it had before.
    #[serde(default)]
    pub left_behind: u64,
    /// What was behind it.
    pub backing: Option<String>,
    /// Nobody had named that: Sublet made it for the disk.
    pub made: bool,
    /// It is gone with its disk.
    pub deleted: bool,
    /// The disks that remain, in order of names.
    pub disks: Vec<DiskStatus>,
}

/// Another size of a disk (`POST /v1/disks/NAME/resize`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResizeDisk {
    /// The new size.
    pub size: Bytes,
    /// Whether a restart keeps it.
    #[serde(default)]
    pub lasts: Lasts,
}
