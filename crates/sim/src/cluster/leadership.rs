//! Who leads the nodes of a run.

use std::fmt;
use std::str::FromStr;

/// Who leads the nodes of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Leadership {
    /// Each node has a connection with each, and nobody leads.
    Mesh,
    /// Nodes have connections on demand, and nobody leads.
    Nobody,
    /// The settings of each node name one.
    Static,
    /// An election through etcd, which keeps the members, too.
    Etcd,
}

/// A word that names no way to lead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} says not who leads; say mesh, none, static or etcd")]
pub struct UnknownLeadership {
    word: String,
}

impl Leadership {
    /// Every way.
    pub const ALL: [Leadership; 4] = [
        Leadership::Mesh,
        Leadership::Nobody,
        Leadership::Static,
        Leadership::Etcd,
    ];

    /// Its word on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Leadership::Mesh => "mesh",
            Leadership::Nobody => "none",
            Leadership::Static => "static",
            Leadership::Etcd => "etcd",
        }
    }

    /// Returns whether some node is to lead.
    pub fn has_leader(self) -> bool {
        matches!(self, Leadership::Static | Leadership::Etcd)
    }
}

impl fmt::Display for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Leadership {
    type Err = UnknownLeadership;

    fn from_str(word: &str) -> Result<Leadership, UnknownLeadership> {
        let found = Leadership::ALL.into_iter().find(|way| way.name() == word);
        found.ok_or_else(|| UnknownLeadership {
            word: word.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_of_a_way_names_it() {
        for way in Leadership::ALL {
            assert_eq!(way.name().parse(), Ok(way));
        }
        assert!("etc".parse::<Leadership>().is_err());
    }
}
