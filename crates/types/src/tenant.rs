//! Who uses memory, and what the host's owner grants to each.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Bytes;

/// A tenant's number in this process. Never written to disk: there the name stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(pub u16);

/// A tenant's share relative to the others' (Mortar §5.2); 100 unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Weight(pub u32);

impl Default for Weight {
    fn default() -> Weight {
        Weight(100)
    }
}

/// A tenant's name: 1 to 64 letters, digits, `-`, `_` or `.`, beginning with a letter or digit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TenantName(String);

/// Why a tenant's name was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no name for a tenant: use 1 to 64 letters, digits, '-', '_' or '.', beginning with a letter or digit"
)]
pub struct TenantNameError(pub String);

impl TenantName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TenantName {
    type Err = TenantNameError;

    fn from_str(text: &str) -> Result<TenantName, TenantNameError> {
        let first_fits = text.starts_with(|c: char| c.is_ascii_alphanumeric());
        let rest_fits = text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
        if first_fits && rest_fits && text.len() <= 64 {
            Ok(TenantName(text.to_owned()))
        } else {
            Err(TenantNameError(text.to_owned()))
        }
    }
}

impl TryFrom<String> for TenantName {
    type Error = TenantNameError;
    fn try_from(text: String) -> Result<TenantName, TenantNameError> {
        text.parse()
    }
}

impl From<TenantName> for String {
    fn from(name: TenantName) -> String {
        name.0
    }
}

impl fmt::Display for TenantName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// What the owner grants to a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantSettings {
    /// Its name, unique in the daemon.
    pub name: TenantName,
    /// Its share relative to the others'.
    pub weight: Weight,
    /// What the others never take from it.
    pub floor: Option<Bytes>,
    /// What it never holds more than.
    pub ceiling: Option<Bytes>,
}

/// How blocks are chosen when memory is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReleaseMode {
    /// Expired first, then coldest by the eviction's own order; what is hot is copied together and
    /// survives (Mortar's SCRA in purpose).
    Ordered,
    /// Whole blocks by generation, least hit first (Mortar's FCRA, but not blind).
    Fast,
    /// Whole blocks, alternately the oldest and the least hit: SCRA as published, for comparison.
    Scra,
    /// Whole blocks at random: FCRA as published, for comparison.
    Random,
}
