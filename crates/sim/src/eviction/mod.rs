//! The orders in which a tier's ephemeral pages leave: the daemon's, and some that only the simulator has for
//! comparison.

mod clock;
mod fifo;
mod sieve;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer};
use sublet_store::eviction::MakeEviction;
use sublet_types::EvictionKind;

/// An eviction order that a tier can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnyEviction {
    /// One of the daemon's.
    OfDaemon(EvictionKind),
    /// The page that came first goes first.
    Fifo,
    /// A page goes if it was not used since the hand last passed.
    Clock,
    /// Like `clock`, with a hand that goes on from where it was.
    Sieve,
}

impl AnyEviction {
    /// The evictions that only the simulator has.
    pub const OWN: [AnyEviction; 3] = [AnyEviction::Fifo, AnyEviction::Clock, AnyEviction::Sieve];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            AnyEviction::OfDaemon(kind) => kind.name(),
            AnyEviction::Fifo => "fifo",
            AnyEviction::Clock => "clock",
            AnyEviction::Sieve => "sieve",
        }
    }

    /// The daemon's eviction that is chosen for a tenant.
    pub(crate) fn chosen(self) -> EvictionKind {
        match self {
            AnyEviction::OfDaemon(kind) => kind,
            _ => EvictionKind::default(),
        }
    }

    /// The eviction that the store gets instead of one of its own.
    pub(crate) fn handed_in(self) -> Option<MakeEviction> {
        match self {
            AnyEviction::OfDaemon(_) => None,
            AnyEviction::Fifo => Some(|| Box::new(fifo::FifoEviction::new())),
            AnyEviction::Clock => Some(|| Box::new(clock::ClockEviction::new())),
            AnyEviction::Sieve => Some(|| Box::new(sieve::SieveEviction::new())),
        }
    }
}

impl Default for AnyEviction {
    fn default() -> AnyEviction {
        AnyEviction::OfDaemon(EvictionKind::default())
    }
}

impl From<EvictionKind> for AnyEviction {
    fn from(kind: EvictionKind) -> AnyEviction {
        AnyEviction::OfDaemon(kind)
    }
}

impl fmt::Display for AnyEviction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Why the name of an eviction was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no eviction is called {0:?}: there are {names}", names = names())]
pub struct AnyEvictionError(pub String);

fn names() -> String {
    let daemons = EvictionKind::ALL.iter().map(|(_, name, _)| *name);
    let all = daemons.chain(AnyEviction::OWN.map(AnyEviction::name));
    all.collect::<Vec<_>>().join(", ")
}

impl FromStr for AnyEviction {
    type Err = AnyEvictionError;

    fn from_str(text: &str) -> Result<AnyEviction, AnyEvictionError> {
        let mut own = AnyEviction::OWN.into_iter();
        let named = own.find(|eviction| eviction.name() == text);
        let daemons = || text.parse().ok().map(AnyEviction::OfDaemon);
        named
            .or_else(daemons)
            .ok_or_else(|| AnyEvictionError(text.to_owned()))
    }
}

impl<'de> Deserialize<'de> for AnyEviction {
    fn deserialize<D: Deserializer<'de>>(text: D) -> Result<AnyEviction, D::Error> {
        let text = String::deserialize(text)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_read_by_its_name_and_no_other_is() {
        let daemons = EvictionKind::ALL.map(|(kind, ..)| AnyEviction::from(kind));
        for eviction in daemons.into_iter().chain(AnyEviction::OWN) {
            assert_eq!(eviction.to_string().parse(), Ok(eviction));
        }
        let wrong = "seive".parse::<AnyEviction>().expect_err("none");
        assert!(
            wrong.to_string().ends_with(", fifo, clock, sieve"),
            "{wrong}"
        );
    }
}
