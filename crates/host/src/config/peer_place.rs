//! Where a node listens for its peers, as people write it: `tcp:HOST:PORT`.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use super::listen::{ListenAddress, ListenAddressError};

/// Where a node listens for its peers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PeerPlace {
    /// A host name or address (IPv6 without brackets).
    pub host: String,
    /// The port, never 0.
    pub port: u16,
}

/// Why peers cannot listen there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerPlaceError {
    /// It is no TCP address.
    #[error("{0:?} is no address for peers; write tcp:HOST:PORT, such as \"tcp:10.0.0.1:7171\"")]
    NoTcp(String),
    /// Its host or its port is none.
    #[error(transparent)]
    Address(#[from] ListenAddressError),
    /// It has an IPv6 address without brackets, so nobody knows where the port begins.
    #[error("{0:?} has an IPv6 address without brackets; write tcp:[ADDRESS]:PORT")]
    NoBrackets(String),
    /// What stands in brackets is no IPv6 address.
    #[error("{0:?} has no IPv6 address in its brackets; write tcp:[ADDRESS]:PORT")]
    NoIpv6(String),
    /// It has port 0, to which nobody can connect.
    #[error(
        "{0:?} has port 0; write the port by which the other members name the node, such as 7171"
    )]
    AnyPort(String),
}

impl FromStr for PeerPlace {
    type Err = PeerPlaceError;

    fn from_str(text: &str) -> Result<PeerPlace, PeerPlaceError> {
        let owned = || text.to_owned();
        let (host, port) = match text.parse() {
            Ok(ListenAddress::Tcp(host, port)) => (host, port),
            Ok(_) | Err(ListenAddressError::NoScheme(_) | ListenAddressError::BadPath(_)) => {
                return Err(PeerPlaceError::NoTcp(owned()));
            }
            Err(error) => return Err(error.into()),
        };
        let in_brackets = text.starts_with("tcp:[") && text.contains("]:");
        if host.contains(':') && !in_brackets {
            return Err(PeerPlaceError::NoBrackets(owned()));
        }
        if in_brackets && !is_ipv6(&host) {
            return Err(PeerPlaceError::NoIpv6(owned()));
        }
        match port {
            0 => Err(PeerPlaceError::AnyPort(owned())),
            port => Ok(PeerPlace { host, port }),
        }
    }
}

/// Returns whether a text is an IPv6 address, perhaps with its interface: `fe80::1%eth0`.
fn is_ipv6(text: &str) -> bool {
    let address = text.split_once('%').map_or(text, |(address, _)| address);
    address.parse::<Ipv6Addr>().is_ok()
}

impl fmt::Display for PeerPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ListenAddress::Tcp(self.host.clone(), self.port).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_read_and_print_alike() {
        for (text, host, port) in [
            ("tcp:10.0.0.2:7171", "10.0.0.2", 7171),
            ("tcp:b.example.net:1", "b.example.net", 1),
            ("tcp:[fd00::2]:65535", "fd00::2", 65535),
            ("tcp:[fe80::2%eth0]:7171", "fe80::2%eth0", 7171),
        ] {
            let place: PeerPlace = text.parse().expect(text);
            assert_eq!((place.host.as_str(), place.port), (host, port));
            assert_eq!(place.to_string(), text);
        }
    }

    #[test]
    fn wrong_places_say_what_is_wrong_and_name_only_tcp() {
        for (text, said) in [
            ("10.0.0.2:7171", "is no address for peers"),
            ("unix:/b.sock", "is no address for peers"),
            ("unix:", "is no address for peers"),
            ("ring:/b.ring", "is no address for peers"),
            ("tcp:10.0.0.2", "does not end in a port"),
            ("tcp::7171", "names no host"),
            ("tcp:fd00::2:7171", "without brackets"),
            (
                "tcp:[b.example.net]:7171",
                "no IPv6 address in its brackets",
            ),
            ("tcp:10.0.0.2:0", "has port 0"),
        ] {
            let error = text.parse::<PeerPlace>().expect_err(text).to_string();
            assert!(error.contains(said), "{text}: {error}");
            assert!(error.contains("tcp:"), "{error}");
            assert!(!error.contains("ring:PATH"), "{error}");
        }
    }
}
