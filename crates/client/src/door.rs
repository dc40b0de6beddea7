//! Where an admin interface is reached: a Unix socket, or TCP with TLS and a token.

use std::fmt;
use std::path::PathBuf;

use crate::default_socket;

/// Where an admin interface is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Door {
    /// A Unix socket.
    Unix(PathBuf),
    /// Over TCP, in TLS.
    Tcp {
        /// Name or address; the certificate must be for it.
        host: String,
        /// The port.
        port: u16,
        /// Who signed the daemon's certificate, PEM.
        ca: PathBuf,
        /// File whose first line is the token.
        token_file: PathBuf,
    },
}

/// Why that is no door.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DoorError {
    /// No port.
    #[error("{0:?} does not end in a port; write tcp:HOST:PORT")]
    NoPort(String),
    /// As a browser has it.
    #[error(
        "{0:?} is no place of an admin interface; write the path of its socket, or tcp:HOST:PORT"
    )]
    Url(String),
    /// TLS needs a certificate to check, and a token to show.
    #[error(
        "over TCP, say --admin-ca FILE (who signed the daemon's certificate) and --admin-token FILE"
    )]
    NoCredentials,
}

impl Door {
    /// The door that somebody meant: `tcp:HOST:PORT`, a path, or nothing.
    pub fn meant(
        place: Option<&str>,
        ca: Option<PathBuf>,
        token_file: Option<PathBuf>,
    ) -> Result<Door, DoorError> {
        let Some(place) = place else {
            return Ok(Door::Unix(default_socket()));
        };
        if place.contains("://") {
            return Err(DoorError::Url(place.to_owned()));
        }
        let Some(address) = place.strip_prefix("tcp:") else {
            return Ok(Door::Unix(
                place.strip_prefix("unix:").unwrap_or(place).into(),
            ));
        };
        let no_port = || DoorError::NoPort(place.to_owned());
        let (host, port) = address.rsplit_once(':').ok_or_else(no_port)?;
        let port = port.parse().map_err(|_| no_port())?;
        let host = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        match (ca, token_file) {
            (Some(ca), Some(token_file)) => Ok(Door::Tcp {
                host,
                port,
                ca,
                token_file,
            }),
            _ => Err(DoorError::NoCredentials),
        }
    }
}

impl fmt::Display for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Door::Unix(path) => write!(f, "{}", path.display()),
            Door::Tcp { host, port, .. } => write!(f, "tcp:{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_no_path_and_says_how_places_are_written() {
        for place in [
            "https://localhost:7070",
            "tcp://localhost:7070",
            "unix:///run/a.sock",
        ] {
            let refused = Door::meant(Some(place), None, None).expect_err("refused");
            assert!(refused.to_string().contains("tcp:HOST:PORT"), "{refused}");
        }
        let path = Door::meant(Some("unix:/run/a.sock"), None, None);
        assert_eq!(path, Ok(Door::Unix("/run/a.sock".into())));
    }
}
