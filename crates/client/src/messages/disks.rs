//! The messages about disks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sublet_types::{Bytes, DiskName, DiskSettings};

use super::ConfigDifference;
use super::change_lifetime::ChangeLifetime;

/// All disks (`GET /v1/disks`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiskList {
    /// [`VERSION`](super::VERSION).
    pub version: u32,
    /// The disks, ordered by name.
    pub disks: Vec<DiskStatus>,
    /// Swapped pages that no disk writes any more, ordered by name.
    #[serde(default)]
    pub left_behind: Vec<OrphanedPages>,
}

/// Pages of swap that the daemon acknowledged, that never reached their backing, and for which no disk is served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrphanedPages {
    /// The name of their disk.
    pub name: DiskName,
    /// How many pages there are. Only memory has them.
    pub pages: u64,
    /// Why nobody writes them.
    pub why: OrphanReason,
    /// The disk's tenant, if it is known. An earlier daemon noted it in its state folder.
    #[serde(default)]
    pub tenant: Option<String>,
    /// The disk's backing, if it is known.
    #[serde(default)]
    pub backing: Option<String>,
}

/// Why nobody writes these pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OrphanReason {
    /// No disk of that name is served.
    NoDisk,
    /// The disk of that name has another backing now.
    OtherBacking,
}

/// The state of one disk (`GET /v1/disks/NAME`). Counts begin when the disk was added or the daemon started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiskStatus {
    /// The settings in force, with the backing that the daemon chose for a swap disk and the ports that it took.
    pub settings: DiskSettings,
    /// The disk's size.
    pub size: Bytes,
    /// How the disk is.
    pub state: DiskState,
    /// Why the disk is not well; empty if it is well.
    pub why: String,
    /// Connected clients, over NBD and vhost-user.
    pub connections: u64,
    /// Which clients came, and what went wrong with them.
    #[serde(default)]
    pub clients: DiskClients,
    /// Reads that clients requested.
    pub reads: u64,
    /// Writes that clients requested, including trims and zeroes.
    pub writes: u64,
    /// Bytes that were read.
    pub bytes_read: u64,
    /// Bytes that were written.
    pub bytes_written: u64,
    /// Read pages that were in memory here.
    pub hits: u64,
    /// Read pages that came from lenders.
    #[serde(default)]
    pub far_hits: u64,
    /// Read pages that came from the backing.
    pub misses: u64,
    /// Pages in memory.
    pub pages: u64,
    /// The pages in memory that the backing does not have yet.
    pub dirty: u64,
    /// Pages that were read ahead.
    pub prefetched: u64,
    /// Requests that failed.
    pub faults: u64,
    /// Whether the backing's path no longer leads to it: it was deleted or moved, or another file took its place.
    #[serde(default)]
    pub path_mismatch: bool,
    /// The old name of `path_mismatch`. It stays for two releases.
    #[serde(default)]
    pub astray: bool,
    /// Whether a note that the disk's promises rest on cannot be written. Until it is, the disk writes through.
    #[serde(default)]
    pub notes_unwritten: bool,
    /// The old name of `notes_unwritten`. It stays for two releases.
    #[serde(default)]
    pub unnoted: bool,
    /// Whether the disk writes through for now, whatever its durability.
    #[serde(default)]
    pub held_back: bool,
    /// Where the disk differs from the config.
    pub differences: Vec<ConfigDifference>,
}

/// Which clients came to a disk over NBD and vhost-user, and what went wrong with them. A listener that disks share
/// counts for each of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskClients {
    /// Connections that were made.
    pub connections_made: u64,
    /// Connections that were refused or ended, and requests for an unknown export, by reason.
    pub turned_away: BTreeMap<String, u64>,
    /// Requests that made no sense, or asked for what is not allowed. The disk never saw them.
    pub requests_refused: u64,
    /// Queues that stopped because a guest's rings made no sense.
    pub broken_rings: u64,
}

impl DiskClients {
    /// These counts, with those of another listener added.
    #[must_use]
    pub fn merge(mut self, other: &DiskClients) -> DiskClients {
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
    /// The status of a disk that nobody has used yet.
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
            far_hits: 0,
            misses: 0,
            pages: 0,
            dirty: 0,
            prefetched: 0,
            faults: 0,
            path_mismatch: false,
            astray: false,
            notes_unwritten: false,
            unnoted: false,
            held_back: false,
            differences: Vec::new(),
        }
    }

    /// The pages in memory, here or at lenders, per page that was read, if there were any.
    pub fn hit_rate(&self) -> Option<f64> {
        let hits = self.hits + self.far_hits;
        let pages = hits + self.misses;
        (pages > 0).then(|| hits as f64 / pages as f64)
    }
}

/// How a disk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskState {
    /// The disk is well.
    Serving,
    /// The backing fails. What it cannot take stays in memory.
    Ailing,
    /// The disk is being removed, or the daemon is ending. Dirty pages go to the backing.
    Leaving,
    /// The disk is kept from an earlier run and could not be opened. Nobody reaches it.
    Closed,
}

impl DiskState {
    /// The state as a word.
    pub fn name(self) -> &'static str {
        match self {
            DiskState::Serving => "serving",
            DiskState::Ailing => "ailing",
            DiskState::Leaving => "leaving",
            DiskState::Closed => "closed",
        }
    }
}

/// A new disk (`POST /v1/disks`): the three fields below, and the keys and values of `[disks.NAME]` in a config.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AddDisk {
    /// The disk's name.
    pub name: DiskName,
    /// Whether the disk survives a restart.
    #[serde(default)]
    pub lasts: ChangeLifetime,
    /// Whether the daemon makes the backing: a file of the given size, if there is none yet.
    #[serde(default)]
    pub create: bool,
    /// The disk's keys and values.
    #[serde(flatten)]
    pub said: BTreeMap<String, serde_json::Value>,
}

/// One more folder in which backings may lie (`POST /v1/disk-folders`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllowFolder {
    /// The folder's path, from the root on.
    pub folder: String,
    /// Whether a restart keeps it.
    #[serde(default)]
    pub lasts: ChangeLifetime,
}

/// The folders in which the backings of disks that are added at run time must lie (`GET /v1/disk-folders`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskFolders {
    /// [`VERSION`](super::VERSION).
    pub version: u32,
    /// The folders' paths.
    pub folders: Vec<String>,
}

/// How a closed disk is opened (the query of `POST /v1/disks/NAME/open`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenDiskRequest {
    /// Whether to open the disk although pages are lost that its backing did not have. The guest that wrote them is
    /// gone.
    #[serde(default)]
    pub force: bool,
}

/// How a disk is removed (the query of `DELETE /v1/disks/NAME`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoveDisk {
    /// Whether the disk stays removed after a restart.
    #[serde(default)]
    pub lasts: ChangeLifetime,
    /// Whether to remove the disk although its backing does not take everything. Pages that only memory has are given
    /// up.
    #[serde(default)]
    pub force: bool,
    /// Whether to delete the file that the daemon made for the disk.
    #[serde(default)]
    pub delete: bool,
}

/// What remains of a disk after its removal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RemovedDisk {
    /// [`VERSION`](super::VERSION).
    pub version: u32,
    /// Pages that only memory had. Nobody has them any more.
    pub given_up: u64,
    /// Pages of that name that only memory has and keeps. They belong to an earlier backing.
    #[serde(default)]
    pub left_behind: u64,
    /// The disk's backing.
    pub backing: Option<String>,
    /// Whether Sublet made the backing for the disk, because nobody had named one.
    pub made: bool,
    /// Whether the backing was deleted with the disk.
    pub deleted: bool,
    /// The disks that remain, ordered by name.
    pub disks: Vec<DiskStatus>,
}

/// A new size of a disk (`POST /v1/disks/NAME/resize`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResizeDisk {
    /// The new size.
    pub size: Bytes,
    /// Whether a restart keeps it.
    #[serde(default)]
    pub lasts: ChangeLifetime,
}
