//! What the host's owner says of a disk.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Bytes, TenantName, TenantNameError};

/// A disk's name, and its name as an NBD export: spelled as a tenant's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DiskName(TenantName);

impl DiskName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Display for DiskName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a disk's name was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no name for a disk: use 1 to 64 letters, digits, '-', '_' or '.', beginning with a letter or digit"
)]
pub struct DiskNameError(pub String);

impl FromStr for DiskName {
    type Err = DiskNameError;

    fn from_str(text: &str) -> Result<DiskName, DiskNameError> {
        let named = text.parse();
        named
            .map(DiskName)
            .map_err(|TenantNameError(text)| DiskNameError(text))
    }
}

/// What a disk is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskKind {
    /// Files: memory holds a second copy of what the backing has.
    Disk,
    /// Swap: memory is where pages go, the backing where they find room when memory is short.
    Swap,
}

/// When a write is safe, and from what (`docs/disks.md` has the table).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// Acknowledged from memory; lost with the daemon.
    Memory,
    /// Acknowledged from memory that outlives the daemon; written to the backing in the background.
    WriteBehind,
    /// Acknowledged when the backing has it.
    WriteThrough,
}

/// Which pages that were read from the backing are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fill {
    /// Every one.
    Miss,
    /// One that is missed a second time.
    #[default]
    SecondMiss,
    /// Every one, until it is read from memory: the guest has it then.
    DropOnRead,
}

/// A backing that is made slower than it is, for experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slow {
    /// Added to each request.
    pub latency: Duration,
    /// Bytes a second, at the most.
    pub bandwidth: Option<Bytes>,
}

/// A disk as its owner wants it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskSettings {
    /// Its name.
    pub name: DiskName,
    /// What it is for.
    pub kind: DiskKind,
    /// Whose memory it uses.
    pub tenant: TenantName,
    /// The file or block device behind it. A swap disk may have none: a file is made in the state folder.
    pub backing: Option<String>,
    /// Its size; a backing that exists has it already.
    pub size: Option<Bytes>,
    /// Where it is served: `unix:PATH`, `tcp:HOST:PORT`, `vhost-user:PATH`.
    pub listen: Vec<String>,
    /// Nobody may write.
    pub read_only: bool,
    /// When a write is safe. Unless said: write-through for disks, write-behind for swap.
    pub durability: Option<Durability>,
    /// Which pages are kept.
    pub fill: Option<Fill>,
    /// Pages of a sequential run that are kept, at the most; none is passed by unless this is said (PUMA's filter).
    pub sequential_max: Option<u32>,
    /// For experiments.
    pub slow: Option<Slow>,
}
