//! The doors of the admin interface: bound before the daemon begins, removed when it ends.

use std::fs::{self, DirBuilder};
use std::io;
use std::net::{TcpListener, ToSocketAddrs};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sublet_frontends::doors::{SocketFile, SocketFileError};
use sublet_tls::Fault;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{self, ServerConfig};

use crate::config::{AdminTcp, Config, Listen};
use crate::credentials::CredentialFiles;
use crate::observe::events::{Events, Object, Why};
use crate::patience::patiently;
use crate::stuck::{self, Stuck};

/// Connections that one door has open at once; more wait in the kernel's queue.
pub const CONNECTIONS_MAX: usize = 32;

/// Where callers come in.
pub struct Doors {
    pub(super) socket: UnixDoor,
    pub(super) tcp: Option<TlsDoor>,
    pub(super) metrics: Option<MetricsDoor>,
}

/// The admin interface over TCP.
pub(super) struct TlsDoor {
    pub(super) listener: TcpListener,
    pub(super) acceptor: TlsAcceptor,
    pub(super) token: String,
}

/// Where metrics are read.
pub(super) enum MetricsDoor {
    Tcp(TcpListener),
    Unix(UnixDoor),
}

/// Why a door could not be made.
#[derive(Debug, thiserror::Error)]
pub enum DoorsError {
    /// Somebody answers there.
    #[error(
        "another sublet answers at {path}; stop it, or choose another place: sublet serve {said}"
    )]
    Taken {
        /// Where.
        path: PathBuf,
        /// How another place is said.
        said: &'static str,
    },
    /// Somebody holds it who was killed and cannot end.
    #[error("nobody answers at {path}, and it is not free: {stuck}")]
    Stuck {
        /// Where.
        path: PathBuf,
        /// Who has it.
        stuck: Stuck,
    },
    /// There is something that is no socket.
    #[error(
        "{path} exists and is no socket; remove it, or choose another place: sublet serve {said}"
    )]
    NotASocket {
        /// Where.
        path: PathBuf,
        /// How another place is said.
        said: &'static str,
    },
    /// The system refused.
    #[error("cannot listen at {place}: {source}{}", hint(.source))]
    Refused {
        /// Where.
        place: String,
        /// Why.
        source: io::Error,
    },
    /// The token's file is of no use.
    #[error("cannot read the token in {path}: {source}")]
    Token {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Anybody on the host could read it.
    #[error("{0} can be read by everybody; chmod 0600 it")]
    OpenToken(PathBuf),
    /// A token that can be guessed.
    #[error(
        "the token in {0} is shorter than {TOKEN_BYTES_MIN} characters; make one: head -c 24 /dev/urandom | base64"
    )]
    ShortToken(PathBuf),
    /// A certificate or a key is of no use.
    #[error(transparent)]
    File(#[from] Fault),
    /// The TLS library refused.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "; choose a place of your own: sublet serve --admin PATH"
        }
        _ => "",
    }
}

/// A token that 2^64 guesses would not find.
const TOKEN_BYTES_MIN: usize = 16;
/// More than a token takes, and what its file may say below it.
const TOKEN_FILE_BYTES_MAX: u64 = 64 << 10;

const BACKLOG: u32 = 64;

impl Doors {
    /// Makes every door that the config asks for.
    pub fn open(config: &Config, events: &Events) -> Result<Doors, DoorsError> {
        let doors = Doors {
            socket: UnixDoor::open(&config.admin.socket, "--admin PATH")?,
            tcp: config.admin.tcp.as_ref().map(TlsDoor::open).transpose()?,
            metrics: config
                .metrics
                .listen
                .as_ref()
                .map(MetricsDoor::open)
                .transpose()?,
        };
        if let Some(AdminTcp {
            cert,
            key,
            token_file,
            ..
        }) = &config.admin.tcp
        {
            let mut read = CredentialFiles::new(events, Why::Start);
            read.note_read(Object::None, &[cert, key, token_file]);
        }
        Ok(doors)
    }

    /// The TCP address of the metrics, with the port that the kernel chose.
    pub(crate) fn metrics_place(&self) -> Option<String> {
        match self.metrics.as_ref()? {
            MetricsDoor::Tcp(listener) => listener
                .local_addr()
                .ok()
                .map(|a| format!("http://{a}/metrics")),
            MetricsDoor::Unix(socket) => Some(format!("unix:{}", socket.file.path().display())),
        }
    }

    /// The TCP address of the admin interface, with the port that the kernel chose.
    pub(crate) fn tcp_place(&self) -> Option<String> {
        let address = self.tcp.as_ref()?.listener.local_addr().ok()?;
        Some(format!("tcp:{address}"))
    }
}

/// Whether the files that the admin interface over TCP needs can be used.
///
/// # Errors
///
/// The first that cannot.
pub fn check_files(config: &AdminTcp) -> Result<(), DoorsError> {
    token(&config.token_file)?;
    acceptor(&config.cert, &config.key)?;
    Ok(())
}

impl TlsDoor {
    fn open(config: &AdminTcp) -> Result<TlsDoor, DoorsError> {
        Ok(TlsDoor {
            token: token(&config.token_file)?,
            acceptor: acceptor(&config.cert, &config.key)?,
            listener: listen_tcp(&config.address.0, config.address.1)?,
        })
    }
}

impl MetricsDoor {
    fn open(place: &Listen) -> Result<MetricsDoor, DoorsError> {
        match place {
            Listen::Tcp(host, port) => listen_tcp(host, *port).map(MetricsDoor::Tcp),
            Listen::Unix(path) | Listen::Ring(path) => {
                UnixDoor::open(path, "--metrics unix:PATH").map(MetricsDoor::Unix)
            }
        }
    }
}

/// A Unix socket of mode 0600, and its file.
pub(super) struct UnixDoor {
    pub(super) listener: UnixListener,
    file: SocketFile,
}

impl UnixDoor {
    /// `said` is how another place is named on the command line.
    fn open(path: &Path, said: &'static str) -> Result<UnixDoor, DoorsError> {
        let refused = |source| DoorsError::Refused {
            place: path.display().to_string(),
            source,
        };
        if let Some(folder) = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
        {
            let mut builder = DirBuilder::new();
            builder
                .recursive(true)
                .mode(0o755)
                .create(folder)
                .map_err(refused)?;
        }
        let listen = || SocketFile::listen(path, 0o600, BACKLOG);
        let is_taken = |error: &SocketFileError| matches!(error, SocketFileError::Taken);
        let (socket, file) = patiently(is_taken, listen).map_err(|error| match error {
            SocketFileError::Taken => match stuck::listener(path) {
                Some(stuck) => DoorsError::Stuck {
                    path: path.to_owned(),
                    stuck,
                },
                None => DoorsError::Taken {
                    path: path.to_owned(),
                    said,
                },
            },
            SocketFileError::NotASocket => DoorsError::NotASocket {
                path: path.to_owned(),
                said,
            },
            SocketFileError::Refused(source) => refused(source),
        })?;
        let listener = socket.into();
        Ok(UnixDoor { listener, file })
    }
}

fn listen_tcp(host: &str, port: u16) -> Result<TcpListener, DoorsError> {
    let refused = |source| DoorsError::Refused {
        place: format!("tcp:{host}:{port}"),
        source,
    };
    let addresses: Vec<_> = (host, port).to_socket_addrs().map_err(refused)?.collect();
    let listener = TcpListener::bind(addresses.as_slice()).map_err(refused)?;
    listener.set_nonblocking(true).map_err(refused)?;
    Ok(listener)
}

fn token(path: &Path) -> Result<String, DoorsError> {
    let unreadable = |source| DoorsError::Token {
        path: path.to_owned(),
        source,
    };
    let mode = fs::metadata(path).map_err(unreadable)?.permissions().mode();
    if mode & 0o004 != 0 {
        return Err(DoorsError::OpenToken(path.to_owned()));
    }
    let text = sublet_tls::read_text(path, TOKEN_FILE_BYTES_MAX).map_err(unreadable)?;
    let token = text.lines().next().unwrap_or_default().trim().to_owned();
    match token.len() {
        short if short < TOKEN_BYTES_MIN => Err(DoorsError::ShortToken(path.to_owned())),
        _ => Ok(token),
    }
}

fn acceptor(cert: &Path, key: &Path) -> Result<TlsAcceptor, DoorsError> {
    let provider = sublet_tls::provider();
    let identity = sublet_tls::identity(cert, key, &provider)?;
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(identity);
    Ok(TlsAcceptor::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_its_owners_and_leftovers_are_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sub/admin.sock");
        let first = UnixDoor::open(&path, "--admin PATH").expect("bound");
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(matches!(
            UnixDoor::open(&path, "--admin PATH"),
            Err(DoorsError::Taken { .. })
        ));
        // Killed: the file stays, nobody listens.
        let UnixDoor { listener, .. } = &first;
        rustix::net::shutdown(listener, rustix::net::Shutdown::Both).expect("shut");
        let second = UnixDoor::open(&path, "--admin PATH").expect("bound anew");
        drop(first);
        assert!(
            path.exists(),
            "the first does not take the second's file with it"
        );
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn what_is_no_socket_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("precious");
        fs::write(&path, "text").expect("written");
        assert!(matches!(
            UnixDoor::open(&path, "--admin PATH"),
            Err(DoorsError::NotASocket { .. })
        ));
        assert_eq!(fs::read_to_string(&path).expect("there"), "text");
    }

    #[test]
    fn a_token_is_long_and_private() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        fs::write(&path, "short\n").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("set");
        assert!(matches!(token(&path), Err(DoorsError::OpenToken(_))));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("set");
        assert!(matches!(token(&path), Err(DoorsError::ShortToken(_))));
        fs::write(&path, "  0123456789abcdef \nmore").expect("written");
        assert_eq!(token(&path).expect("a token"), "0123456789abcdef");
    }
}
