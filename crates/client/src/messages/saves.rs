//! What is said of save files.

use serde::{Deserialize, Serialize};
use sublet_types::{Bytes, TenantName};

/// Refuses a tenant's new pages, or takes them again (`POST /v1/tenants/NAME/freeze`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Freeze {
    /// Whether they are refused from now on.
    pub frozen: bool,
}

/// A save file to be written on the daemon's host (`POST /v1/tenants/NAME/save`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SaveFile {
    /// Its path, from the root on.
    pub file: String,
}

/// A save file to be read on the daemon's host (`POST /v1/tenants/NAME/restore`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RestoreFile {
    /// Its path, from the root on.
    pub file: String,
    /// Which weight, floor and ceiling the tenant has from then on.
    #[serde(default)]
    pub grants: Grants,
}

/// Which weight, floor and ceiling a restored tenant has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grants {
    /// Those that the file says; they are kept over a restart, as all that its owner grants.
    #[default]
    Saved,
    /// Those that it has.
    Kept,
}

/// Which way pages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Copying {
    /// Into a save file.
    Save,
    /// Out of one.
    Restore,
}

/// A save or a restore that is under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CopyStatus {
    /// Which of them.
    pub copying: Copying,
    /// Whose pages.
    pub tenant: TenantName,
    /// The save file.
    pub file: String,
    /// Bytes read or written so far.
    pub done: Bytes,
    /// Of so many; a restore reads its file twice.
    pub of: Bytes,
}

/// What a save or a restore did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CopyReport {
    /// [`VERSION`](super::VERSION).
    pub version: u32,
    /// Which of them.
    pub copying: Copying,
    /// Whose pages.
    pub tenant: TenantName,
    /// The save file.
    pub file: String,
    /// Persistent pools: those in the file, or those that wait for their program now.
    pub pools: u64,
    /// Their pages.
    pub pages: u64,
    /// The file's size.
    pub bytes: Bytes,
    /// Whether the tenant is frozen.
    pub frozen: bool,
    /// How long it took, microseconds.
    pub micros: u64,
}
