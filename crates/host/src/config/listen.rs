//! Where something listens, as people write it: `tcp:HOST:PORT`, `unix:PATH` or `ring:PATH`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// A place to listen on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ListenAddress {
    /// A host name or address (IPv6 without brackets) and a port. Port 0 takes any free port.
    Tcp(String, u16),
    /// A Unix socket.
    Unix(PathBuf),
    /// A page ring, which programs enter through a Unix socket.
    Ring(PathBuf),
}

/// Why a text is not a place to listen on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListenAddressError {
    /// It is none of the known kinds.
    #[error("{0:?} is none of tcp:HOST:PORT, unix:PATH and ring:PATH")]
    NoScheme(String),
    /// It is a ring, and bytes are to be served there.
    #[error("{0:?} is a page ring; here it must be tcp:HOST:PORT or unix:PATH")]
    NoRing(String),
    /// It has no port, or no valid one.
    #[error("{0:?} does not end in a port; write tcp:HOST:PORT, such as tcp:127.0.0.1:11211")]
    NoPort(String),
    /// It has no host. You must ask for every interface by name.
    #[error("{0:?} names no host; write tcp:0.0.0.0:PORT for every interface")]
    NoHost(String),
    /// It has no path, or a path that is longer than the kernel takes.
    #[error("{0:?} is no path for a Unix socket: 1 to {UNIX_PATH_MAX} bytes")]
    BadPath(String),
}

/// The longest path of a Unix socket (`sun_path` and its closing zero).
pub(super) const UNIX_PATH_MAX: usize = 107;

impl FromStr for ListenAddress {
    type Err = ListenAddressError;

    fn from_str(text: &str) -> Result<ListenAddress, ListenAddressError> {
        match text.split_once(':') {
            Some(("tcp", rest)) => tcp(text, rest),
            Some(("unix" | "ring", path)) if path.is_empty() || path.len() > UNIX_PATH_MAX => {
                Err(ListenAddressError::BadPath(text.to_owned()))
            }
            Some(("unix", path)) => Ok(ListenAddress::Unix(path.into())),
            Some(("ring", path)) => Ok(ListenAddress::Ring(path.into())),
            _ => Err(ListenAddressError::NoScheme(text.to_owned())),
        }
    }
}

fn tcp(text: &str, rest: &str) -> Result<ListenAddress, ListenAddressError> {
    let no_port = || ListenAddressError::NoPort(text.to_owned());
    let (host, port) = rest.rsplit_once(':').ok_or_else(no_port)?;
    let port = port.parse().map_err(|_| no_port())?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host {
        "" => Err(ListenAddressError::NoHost(text.to_owned())),
        host => Ok(ListenAddress::Tcp(host.to_owned(), port)),
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddress::Tcp(host, port) if host.contains(':') => {
                write!(f, "tcp:[{host}]:{port}")
            }
            ListenAddress::Tcp(host, port) => write!(f, "tcp:{host}:{port}"),
            ListenAddress::Unix(path) => write!(f, "unix:{}", path.display()),
            ListenAddress::Ring(path) => write!(f, "ring:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_read_and_print_alike() {
        for text in [
            "tcp:127.0.0.1:11211",
            "tcp:[::1]:0",
            "tcp:localhost:65535",
            "unix:/run/web.sock",
            "ring:/run/web.ring",
        ] {
            assert_eq!(
                text.parse::<ListenAddress>().map(|l| l.to_string()),
                Ok(text.to_owned())
            );
        }
    }

    #[test]
    fn wrong_places_say_what_is_wrong() {
        let fault = |text: &str| text.parse::<ListenAddress>().expect_err(text);
        assert!(matches!(
            fault("127.0.0.1:11211"),
            ListenAddressError::NoScheme(_)
        ));
        assert!(matches!(
            fault("tcp:127.0.0.1"),
            ListenAddressError::NoPort(_)
        ));
        assert!(matches!(
            fault("tcp:127.0.0.1:70000"),
            ListenAddressError::NoPort(_)
        ));
        assert!(matches!(fault("tcp::11211"), ListenAddressError::NoHost(_)));
        assert!(matches!(fault("unix:"), ListenAddressError::BadPath(_)));
        assert!(matches!(
            fault(&format!("unix:/{}", "x".repeat(107))),
            ListenAddressError::BadPath(_)
        ));
    }
}
