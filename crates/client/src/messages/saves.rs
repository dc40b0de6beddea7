//! The messages about save files.

use serde::{Deserialize, Serialize};
use sublet_types::{Bytes, TenantName};

/// Makes a tenant refuse new pages, or take them again (`POST /v1/tenants/NAME/freeze`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetFrozen {
    /// Whether the tenant refuses them from now on.
    pub frozen: bool,
}

/// A save file to write on the daemon's host (`POST /v1/tenants/NAME/save`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SaveFile {
    /// The file's path, from the root on.
    pub file: String,
}

/// A save file to read on the daemon's host (`POST /v1/tenants/NAME/restore`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RestoreFile {
    /// The file's path, from the root on.
    pub file: String,
    /// Which weight, floor and ceiling the tenant has afterwards.
    #[serde(default)]
    pub grants: GrantSource,
}

/// Which weight, floor and ceiling a restored tenant has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GrantSource {
    /// Those in the file. They survive a restart, like everything that an owner grants.
    #[default]
    Saved,
    /// Those that the tenant has now.
    Kept,
}

/// In which direction pages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CopyKind {
    /// Into a save file.
    Save,
    /// Out of a save file.
    Restore,
}

/// A save or a restore that is under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CopyStatus {
    /// Whether it is a save or a restore.
    pub copying: CopyKind,
    /// The tenant whose pages are copied.
    pub tenant: TenantName,
    /// The save file.
    pub file: String,
    /// Bytes read or written so far.
    pub done: Bytes,
    /// Bytes in all. A restore reads its file twice.
    pub of: Bytes,
}

/// The result of a save or a restore.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CopyReport {
    /// [`VERSION`](super::VERSION).
    pub version: u32,
    /// Whether it was a save or a restore.
    pub copying: CopyKind,
    /// The tenant whose pages were copied.
    pub tenant: TenantName,
    /// The save file.
    pub file: String,
    /// Persistent pools: those in the file after a save, those that wait for their program after a restore.
    pub pools: u64,
    /// The pools' pages.
    pub pages: u64,
    /// The file's size.
    pub bytes: Bytes,
    /// Whether the tenant is frozen.
    pub frozen: bool,
    /// How long it took, microseconds.
    pub micros: u64,
}
