//! Where something listens, as people write it: `tcp:HOST:PORT`, `unix:PATH` or `ring:PATH`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// A place to listen on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Listen {
    /// A host name or address (IPv6 without brackets) and a port; port 0 takes any free one.
    Tcp(String, u16),
    /// A Unix socket.
    Unix(PathBuf),
    /// A page ring, entered by a Unix socket.
    Ring(PathBuf),
}

/// Why it is no place to listen on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListenError {
    /// None of the known kinds.
    #[error("{0:?} is none of tcp:HOST:PORT, unix:PATH and ring:PATH")]
    NoScheme(String),
    /// A ring where bytes are to be served.
    #[error("{0:?} is a page ring; here it must be tcp:HOST:PORT or unix:PATH")]
    NoRing(String),
    /// No port, or none that a port can be.
    #[error("{0:?} does not end in a port; write tcp:HOST:PORT, such as tcp:127.0.0.1:11211")]
    NoPort(String),
    /// No host: every interface must be asked for by its name.
    #[error("{0:?} names no host; write tcp:0.0.0.0:PORT where every interface is meant")]
    NoHost(String),
    /// No path, or one longer than the kernel takes.
    #[error("{0:?} is no path for a Unix socket: 1 to {UNIX_PATH_MAX} bytes")]
    BadPath(String),
}

/// The longest path of a Unix socket (`sun_path` and its closing zero).
pub(super) const UNIX_PATH_MAX: usize = 107;

impl FromStr for Listen {
    type Err = ListenError;

    fn from_str(text: &str) -> Result<Listen, ListenError> {
        match text.split_once(':') {
            Some(("tcp", rest)) => tcp(text, rest),
            Some(("unix" | "ring", path)) if path.is_empty() || path.len() > UNIX_PATH_MAX => {
                Err(ListenError::BadPath(text.to_owned()))
            }
            Some(("unix", path)) => Ok(Listen::Unix(path.into())),
            Some(("ring", path)) => Ok(Listen::Ring(path.into())),
            _ => Err(ListenError::NoScheme(text.to_owned())),
        }
    }
}

fn tcp(text: &str, rest: &str) -> Result<Listen, ListenError> {
    let no_port = || ListenError::NoPort(text.to_owned());
    let (host, port) = rest.rsplit_once(':').ok_or_else(no_port)?;
    let port = port.parse().map_err(|_| no_port())?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host {
        "" => Err(ListenError::NoHost(text.to_owned())),
        host => Ok(Listen::Tcp(host.to_owned(), port)),
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Tcp(host, port) if host.contains(':') => write!(f, "tcp:[{host}]:{port}"),
            Listen::Tcp(host, port) => write!(f, "tcp:{host}:{port}"),
            Listen::Unix(path) => write!(f, "unix:{}", path.display()),
            Listen::Ring(path) => write!(f, "ring:{}", path.display()),
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
                text.parse::<Listen>().map(|l| l.to_string()),
                Ok(text.to_owned())
            );
        }
    }

    #[test]
    fn wrong_places_say_what_is_wrong() {
        let fault = |text: &str| text.parse::<Listen>().expect_err(text);
        assert!(matches!(fault("127.0.0.1:11211"), ListenError::NoScheme(_)));
        assert!(matches!(fault("tcp:127.0.0.1"), ListenError::NoPort(_)));
        assert!(matches!(
            fault("tcp:127.0.0.1:70000"),
            ListenError::NoPort(_)
        ));
        assert!(matches!(fault("tcp::11211"), ListenError::NoHost(_)));
        assert!(matches!(fault("unix:"), ListenError::BadPath(_)));
        assert!(matches!(
            fault(&format!("unix:/{}", "x".repeat(107))),
            ListenError::BadPath(_)
        ));
    }
}
