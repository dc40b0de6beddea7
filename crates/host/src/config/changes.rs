//! What can be changed while the daemon runs, as `live.toml` says it.

use std::fmt::Write as _;

use sublet_types::{Bytes, DiskName, DiskSettings, EvictionKind, TenantName, Weight};

use super::knobs::disk_lines;
use super::listen::ListenAddress;

/// What an owner did about lending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainChange {
    /// Nothing is lent.
    Drain,
    /// The host lends again.
    Resume,
}

impl DrainChange {
    /// Returns whether nothing is lent from then on.
    pub fn is_drain(self) -> bool {
        self == DrainChange::Drain
    }
}

/// What an owner did about the host's place in its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PresenceChange {
    /// The host left.
    Leave,
    /// It came back.
    Join,
}

impl PresenceChange {
    /// Returns whether the host takes part from then on.
    pub fn is_join(self) -> bool {
        self == PresenceChange::Join
    }
}

/// The changes of one tenant. `None` means that the config's value holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TenantChange {
    /// The tenant was added, and exists without a listener.
    pub added: bool,
    /// Its weight.
    pub weight: Option<Weight>,
    /// Its floor, or that it has none.
    pub floor: Option<Option<Bytes>>,
    /// Its ceiling, or that it has none.
    pub ceiling: Option<Option<Bytes>>,
    /// How it chooses the page to evict.
    pub eviction: Option<EvictionKind>,
    /// Whether its pages may go to lenders.
    pub borrow: Option<bool>,
    /// Its listeners.
    pub listen: Option<Vec<ListenAddress>>,
}

impl TenantChange {
    /// Puts the values of `other` over these.
    pub fn merge(&mut self, other: &TenantChange) {
        self.added |= other.added;
        self.weight = other.weight.or(self.weight);
        self.floor = other.floor.or(self.floor);
        self.ceiling = other.ceiling.or(self.ceiling);
        self.eviction = other.eviction.or(self.eviction);
        self.borrow = other.borrow.or(self.borrow);
        self.listen = other.listen.clone().or_else(|| self.listen.take());
    }

    pub(super) fn write(&self, name: &TenantName, text: &mut String) {
        let amount =
            |amount: Option<Bytes>| amount.map_or("\"none\"".to_owned(), |a| a.0.to_string());
        let places = |places: &Vec<ListenAddress>| {
            let quoted: Vec<String> = places
                .iter()
                .map(|place| toml::Value::from(place.to_string()).to_string())
                .collect();
            format!("[{}]", quoted.join(", "))
        };
        let lines = [
            ("added", self.added.then(|| "true".to_owned())),
            ("weight", self.weight.map(|weight| weight.0.to_string())),
            ("floor", self.floor.map(amount)),
            ("ceiling", self.ceiling.map(amount)),
            ("eviction", self.eviction.map(|kind| format!("\"{kind}\""))),
            ("borrow", self.borrow.map(|borrow| borrow.to_string())),
            ("listen", self.listen.as_ref().map(places)),
        ];
        let _ = write!(text, "\n[tenants.\"{name}\"]\n");
        for (key, value) in lines {
            if let Some(value) = value {
                let _ = writeln!(text, "{key} = {value}");
            }
        }
    }
}

/// The policy that was chosen while the daemon ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyChange {
    /// Its name.
    pub name: String,
    /// Its knobs, as `knob=value`.
    pub knobs: Vec<String>,
}

impl PolicyChange {
    pub(super) fn write(&self, text: &mut String) {
        let name = toml::Value::from(self.name.clone());
        let knobs = toml::Value::from(self.knobs.clone());
        let _ = write!(text, "\n[policy]\nname = {name}\n");
        if !self.knobs.is_empty() {
            let _ = writeln!(text, "knobs = {knobs}");
        }
    }
}

/// What was done with a disk while the daemon ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskChange {
    /// The disk was added, with these settings.
    Added(Box<DiskSettings>),
    /// A disk of the config was removed.
    Removed,
    /// A disk of the config was given another size.
    Resized(Bytes),
}

impl DiskChange {
    /// Returns whether this says everything about the disk.
    pub(crate) fn is_added(&self) -> bool {
        matches!(self, DiskChange::Added(_))
    }

    pub(super) fn write(&self, name: &DiskName, text: &mut String) {
        let lines = match self {
            DiskChange::Added(disk) => disk_lines(disk),
            DiskChange::Removed => vec![("removed", toml::Value::from(true))],
            DiskChange::Resized(size) => vec![("size", toml::Value::from(size.0 as i64))],
        };
        let _ = write!(text, "\n[disks.\"{name}\"]\n");
        for (key, value) in lines {
            let _ = writeln!(text, "{key} = {value}");
        }
    }
}
