//! A member of a cluster, as people write it: `NAME=tcp:HOST:PORT`.

use std::fmt;
use std::str::FromStr;

use sublet_types::{NodeName, NodeNameError};

use super::peer_place::{PeerPlace, PeerPlaceError};

/// Another node of the cluster, and where it listens for its peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerMember {
    /// Its name, as its certificate has it.
    pub name: NodeName,
    /// A host name or address (IPv6 without brackets). A name is resolved anew at each connect.
    pub host: String,
    /// The port, never 0.
    pub port: u16,
}

/// Why a text is no member.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerMemberError {
    /// It has no name before its address.
    #[error("{0:?} has no name; write NAME=tcp:HOST:PORT, such as \"b=tcp:10.0.0.2:7171\"")]
    NoName(String),
    /// Its name is none.
    #[error(transparent)]
    Name(#[from] NodeNameError),
    /// Its address is none.
    #[error(transparent)]
    Place(#[from] PeerPlaceError),
}

impl FromStr for PeerMember {
    type Err = PeerMemberError;

    fn from_str(text: &str) -> Result<PeerMember, PeerMemberError> {
        let (name, address) = text
            .split_once('=')
            .ok_or_else(|| PeerMemberError::NoName(text.to_owned()))?;
        let name = name.trim().parse()?;
        let PeerPlace { host, port } = address.trim().parse()?;
        Ok(PeerMember { name, host, port })
    }
}

impl PeerMember {
    /// Where it listens.
    pub(super) fn place(&self) -> PeerPlace {
        PeerPlace {
            host: self.host.clone(),
            port: self.port,
        }
    }
}

impl fmt::Display for PeerMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.place())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_read_and_print_alike() {
        for (text, host, port) in [
            ("b=tcp:10.0.0.2:7171", "10.0.0.2", 7171),
            ("rack-2.b=tcp:b.example.net:1", "b.example.net", 1),
            ("b=tcp:[fd00::2]:65535", "fd00::2", 65535),
            ("b=tcp:[fe80::2%eth0]:7171", "fe80::2%eth0", 7171),
        ] {
            let member: PeerMember = text.parse().expect(text);
            assert_eq!((member.host.as_str(), member.port), (host, port));
            assert_eq!(member.to_string(), text);
        }
        let spaced = "b = tcp:10.0.0.2:7171".parse::<PeerMember>();
        assert_eq!(spaced, "b=tcp:10.0.0.2:7171".parse());
    }

    #[test]
    fn wrong_members_say_what_is_wrong() {
        type Wrong = fn(&PeerMemberError) -> bool;
        let wrong: [(&str, Wrong); 6] = [
            ("", |e| matches!(e, PeerMemberError::NoName(_))),
            ("tcp:10.0.0.2:7171", |e| {
                matches!(e, PeerMemberError::NoName(_))
            }),
            ("=tcp:10.0.0.2:7171", |e| {
                matches!(e, PeerMemberError::Name(_))
            }),
            ("b/c=tcp:10.0.0.2:7171", |e| {
                matches!(e, PeerMemberError::Name(_))
            }),
            ("b=unix:/b.sock", |e| {
                matches!(e, PeerMemberError::Place(PeerPlaceError::NoTcp(_)))
            }),
            ("b=tcp:10.0.0.2:0", |e| {
                matches!(e, PeerMemberError::Place(PeerPlaceError::AnyPort(_)))
            }),
        ];
        for (text, is_meant) in wrong {
            let error = text.parse::<PeerMember>().expect_err(text);
            assert!(is_meant(&error), "{text}: {error:?}");
        }
    }
}
