//! Where an admin interface is reached: a Unix socket, or TCP with TLS and a token.

use std::fmt;
use std::path::PathBuf;

use crate::default_socket;

/// Where an admin interface is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminEndpoint {
    /// A Unix socket.
    Unix(PathBuf),
    /// TCP with TLS.
    Tcp {
        /// A name or an address. The certificate must be for it.
        host: String,
        /// The port.
        port: u16,
        /// The PEM file of the authority that signed the daemon's certificate.
        ca: PathBuf,
        /// The file whose first line is the token.
        token_file: PathBuf,
    },
}

/// Why a text is no endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdminEndpointError {
    /// The address has no port.
    #[error("{0:?} does not end in a port; write tcp:HOST:PORT")]
    NoPort(String),
    /// The text is a URL, as a browser takes it.
    #[error("{0:?} names no admin interface; write the path of its socket, or tcp:HOST:PORT")]
    Url(String),
    /// TLS needs a certificate to check, and a token to send.
    #[error(
        "over TCP, say --admin-ca FILE (who signed the daemon's certificate) and --admin-token FILE"
    )]
    NoCredentials,
}

impl AdminEndpoint {
    /// Parses an endpoint: `tcp:HOST:PORT`, the path of a socket, or nothing for the default socket.
    pub fn parse(
        place: Option<&str>,
        ca: Option<PathBuf>,
        token_file: Option<PathBuf>,
    ) -> Result<AdminEndpoint, AdminEndpointError> {
        let Some(place) = place else {
            return Ok(AdminEndpoint::Unix(default_socket()));
        };
        if place.contains("://") {
            return Err(AdminEndpointError::Url(place.to_owned()));
        }
        let Some(address) = place.strip_prefix("tcp:") else {
            return Ok(AdminEndpoint::Unix(
                place.strip_prefix("unix:").unwrap_or(place).into(),
            ));
        };
        let no_port = || AdminEndpointError::NoPort(place.to_owned());
        let (host, port) = address.rsplit_once(':').ok_or_else(no_port)?;
        let port = port.parse().map_err(|_| no_port())?;
        let host = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        match (ca, token_file) {
            (Some(ca), Some(token_file)) => Ok(AdminEndpoint::Tcp {
                host,
                port,
                ca,
                token_file,
            }),
            _ => Err(AdminEndpointError::NoCredentials),
        }
    }
}

impl fmt::Display for AdminEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AdminEndpoint::Unix(path) => write!(f, "{}", path.display()),
            AdminEndpoint::Tcp { host, port, .. } => write!(f, "tcp:{host}:{port}"),
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
            let refused = AdminEndpoint::parse(Some(place), None, None).expect_err("refused");
            assert!(refused.to_string().contains("tcp:HOST:PORT"), "{refused}");
        }
        let path = AdminEndpoint::parse(Some("unix:/run/a.sock"), None, None);
        assert_eq!(path, Ok(AdminEndpoint::Unix("/run/a.sock".into())));
    }
}
