//! A member of a cluster, as people write it: `NAME=tcp:HOST:PORT`.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use sublet_types::{NodeName, NodeNameError};

use super::listen::{ListenAddress, ListenAddressError};

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
    Address(#[from] ListenAddressError),
    /// Its address is a path.
    #[error("{0:?} is no member on another host; write NAME=tcp:HOST:PORT")]
    NoTcp(String),
    /// It has an IPv6 address without brackets, so nobody knows where the port begins.
    #[error("{0:?} has an IPv6 address without brackets; write NAME=tcp:[ADDRESS]:PORT")]
    NoBrackets(String),
    /// What stands in brackets is no IPv6 address.
    #[error("{0:?} has no IPv6 address in its brackets; write NAME=tcp:[ADDRESS]:PORT")]
    NoIpv6(String),
    /// It has port 0, to which nobody can connect.
    #[error("{0:?} has port 0; write the port on which that node listens")]
    AnyPort(String),
}

impl FromStr for PeerMember {
    type Err = PeerMemberError;

    fn from_str(text: &str) -> Result<PeerMember, PeerMemberError> {
        let owned = || text.to_owned();
        let (name, address) = text
            .split_once('=')
            .ok_or_else(|| PeerMemberError::NoName(owned()))?;
        let name = name.trim().parse()?;
        let address = address.trim();
        let ListenAddress::Tcp(host, port) = address.parse()? else {
            return Err(PeerMemberError::NoTcp(owned()));
        };
        let in_brackets = address.starts_with("tcp:[") && address.contains("]:");
        if host.contains(':') && !in_brackets {
            return Err(PeerMemberError::NoBrackets(owned()));
        }
        if in_brackets && !is_ipv6(&host) {
            return Err(PeerMemberError::NoIpv6(owned()));
        }
        match port {
            0 => Err(PeerMemberError::AnyPort(owned())),
            port => Ok(PeerMember { name, host, port }),
        }
    }
}

/// Returns whether a text is an IPv6 address, perhaps with its interface: `fe80::1%eth0`.
fn is_ipv6(text: &str) -> bool {
    let address = text.split_once('%').map_or(text, |(address, _)| address);
    address.parse::<Ipv6Addr>().is_ok()
}

impl fmt::Display for PeerMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = ListenAddress::Tcp(self.host.clone(), self.port);
        write!(f, "{}={address}", self.name)
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
        let wrong: [(&str, Wrong); 11] = [
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
            ("b=10.0.0.2:7171", |e| {
                matches!(e, PeerMemberError::Address(ListenAddressError::NoScheme(_)))
            }),
            ("b=tcp:10.0.0.2", |e| {
                matches!(e, PeerMemberError::Address(ListenAddressError::NoPort(_)))
            }),
            ("b=tcp::7171", |e| {
                matches!(e, PeerMemberError::Address(ListenAddressError::NoHost(_)))
            }),
            ("b=unix:/b.sock", |e| matches!(e, PeerMemberError::NoTcp(_))),
            ("b=tcp:fd00::2:7171", |e| {
                matches!(e, PeerMemberError::NoBrackets(_))
            }),
            ("b=tcp:[b.example.net]:7171", |e| {
                matches!(e, PeerMemberError::NoIpv6(_))
            }),
            ("b=tcp:10.0.0.2:0", |e| {
                matches!(e, PeerMemberError::AnyPort(_))
            }),
        ];
        for (text, is_meant) in wrong {
            let error = text.parse::<PeerMember>().expect_err(text);
            assert!(is_meant(&error), "{text}: {error:?}");
        }
    }
}
