//! Who uses memory, and what the host's owner grants to each.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Bytes;
use crate::page::GetMode;

/// A tenant's number in this process. Files have the name instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(pub u16);

/// A tenant's share relative to the others' (Mortar §5.2). The default is 100.
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
    /// What other tenants never take from it.
    pub floor: Option<Bytes>,
    /// The most that it ever holds.
    pub ceiling: Option<Bytes>,
}

/// Whether a tenant takes new pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreezeState {
    /// New pages are refused. Gets, flushes and replacements go on.
    Frozen,
    /// New pages are taken.
    Thawed,
}

impl FreezeState {
    /// Returns whether new pages are refused.
    pub fn is_frozen(self) -> bool {
        self == FreezeState::Frozen
    }
}

impl From<bool> for FreezeState {
    fn from(is_frozen: bool) -> FreezeState {
        match is_frozen {
            true => FreezeState::Frozen,
            false => FreezeState::Thawed,
        }
    }
}

/// How blocks are chosen for a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReleaseMode {
    /// Expired content goes first, then the coldest by the eviction's own order. Hot content is copied together and
    /// survives (Mortar's SCRA in purpose).
    Ordered,
    /// Whole blocks go by generation, least hit first (Mortar's FCRA, but not blind).
    Fast,
}

/// Which ephemeral page is evicted when another needs its frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EvictionKind {
    /// The least recently used page.
    Lru,
    /// Alternately the least recently and the least frequently used page (Mortar).
    Lrfu,
    /// Newcomers that were not used twice, then the rest in queue order.
    #[serde(rename = "s3fifo")]
    S3Fifo,
    /// S3-FIFO for pools whose pages leave when they are read. It remembers the uses of pages that left.
    #[serde(rename = "x-s3h")]
    XS3h,
    /// Whole files, the least useful first (Synergy).
    File,
    /// By age and by how often pages came back. It learns which of the two counts for more.
    AdaptiveMq,
    /// Depends on the tenant's pools: `x-s3h` if one of them keeps pages that are read, else `adaptive-mq`.
    #[default]
    Auto,
}

impl EvictionKind {
    /// Each eviction, with its name and what it does.
    pub const ALL: [(EvictionKind, &str, &str); 7] = [
        (
            EvictionKind::XS3h,
            "x-s3h",
            "S3-FIFO for an exclusive tier, with hit history",
        ),
        (
            EvictionKind::S3Fifo,
            "s3fifo",
            "a small queue for newcomers, a main one for pages that were used",
        ),
        (EvictionKind::Lru, "lru", "least recently used first"),
        (
            EvictionKind::Lrfu,
            "lrfu",
            "alternately least recent and least frequent (Mortar)",
        ),
        (
            EvictionKind::File,
            "file",
            "whole files, least useful first (Synergy)",
        ),
        (
            EvictionKind::AdaptiveMq,
            "adaptive-mq",
            "by age and how often pages came back; how much that counts is learned",
        ),
        (
            EvictionKind::Auto,
            "auto",
            "adaptive-mq, or x-s3h where a pool keeps what is read (the default)",
        ),
    ];

    /// The eviction that a tenant has if this one is chosen. `mode` is [`GetMode::Keeping`] if one of the tenant's
    /// pools keeps pages that are read.
    pub fn effective(self, mode: GetMode) -> EvictionKind {
        match (self, mode) {
            (EvictionKind::Auto, GetMode::Exclusive) => EvictionKind::AdaptiveMq,
            (EvictionKind::Auto, GetMode::Keeping) => EvictionKind::XS3h,
            (named, _) => named,
        }
    }

    /// The number of this eviction in a save file. Numbers never change. A kind that is removed keeps its number in
    /// [`SimulatedEviction::ALL`].
    pub const fn number(self) -> u8 {
        match self {
            EvictionKind::XS3h => 0,
            EvictionKind::S3Fifo => 1,
            EvictionKind::Lru => 2,
            EvictionKind::Lrfu => 6,
            EvictionKind::File => 7,
            EvictionKind::AdaptiveMq => 8,
            EvictionKind::Auto => 9,
        }
    }

    /// The eviction with that number.
    pub fn numbered(number: u8) -> Option<EvictionKind> {
        let kinds = EvictionKind::ALL.map(|(kind, ..)| kind);
        kinds.into_iter().find(|kind| kind.number() == number)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        let named = EvictionKind::ALL.iter().find(|(kind, ..)| *kind == self);
        named.map_or("", |(_, name, _)| name)
    }
}

impl fmt::Display for EvictionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// An eviction that earlier daemons had and that only the simulator has now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimulatedEviction {
    /// Its name.
    pub name: &'static str,
    /// The number of this eviction in save files.
    pub number: u8,
    /// The daemon's eviction that is most like it.
    pub nearest: EvictionKind,
}

impl SimulatedEviction {
    /// All of them.
    pub const ALL: [SimulatedEviction; 3] = [
        SimulatedEviction::of("fifo", 3, EvictionKind::S3Fifo),
        SimulatedEviction::of("clock", 4, EvictionKind::Lru),
        SimulatedEviction::of("sieve", 5, EvictionKind::S3Fifo),
    ];

    const fn of(name: &'static str, number: u8, nearest: EvictionKind) -> SimulatedEviction {
        SimulatedEviction {
            name,
            number,
            nearest,
        }
    }

    /// The eviction with that number.
    pub fn numbered(number: u8) -> Option<SimulatedEviction> {
        let mut all = SimulatedEviction::ALL.into_iter();
        all.find(|eviction| eviction.number == number)
    }
}

/// Why the name of an eviction was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvictionKindError {
    /// No daemon ever had an eviction of that name.
    #[error(
        "no eviction is called {0:?}: there are x-s3h, s3fifo, lru, lrfu, file, adaptive-mq and auto"
    )]
    Unknown(String),
    /// An earlier daemon had it.
    #[error("{:?} is only in the simulator; the nearest is {:?}", .0.name, .0.nearest.name())]
    Simulated(SimulatedEviction),
}

impl FromStr for EvictionKind {
    type Err = EvictionKindError;

    fn from_str(text: &str) -> Result<EvictionKind, EvictionKindError> {
        let named = EvictionKind::ALL.iter().find(|(_, name, _)| *name == text);
        let mut simulated = SimulatedEviction::ALL.into_iter();
        let mut simulated = || simulated.find(|eviction| eviction.name == text);
        named.map(|(kind, ..)| *kind).ok_or_else(|| {
            simulated().map_or_else(
                || EvictionKindError::Unknown(text.to_owned()),
                EvictionKindError::Simulated,
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_found_by_its_number_and_keeps_it() {
        for (kind, name, _) in EvictionKind::ALL {
            assert_eq!(EvictionKind::numbered(kind.number()), Some(kind), "{name}");
        }
        assert_eq!(EvictionKind::numbered(200), None);
        for eviction in SimulatedEviction::ALL {
            assert_eq!(EvictionKind::numbered(eviction.number), None);
        }
        let refused = "sieve"
            .parse::<EvictionKind>()
            .expect_err("not the daemon's");
        assert_eq!(
            refused.to_string(),
            "\"sieve\" is only in the simulator; the nearest is \"s3fifo\""
        );
        // Save files of released versions have these numbers.
        assert_eq!(EvictionKind::Lru.number(), 2);
        assert_eq!(EvictionKind::Auto.number(), 9);
    }
}
