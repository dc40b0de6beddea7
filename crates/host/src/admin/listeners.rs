//! The listeners of the admin interface. They are bound before the daemon begins, and removed when it ends.

use std::fs::{self, DirBuilder};
use std::io;
use std::net::{TcpListener, ToSocketAddrs};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sublet_frontends::listeners::{SocketFile, SocketFileError};
use sublet_tls::CredentialError;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{self, ServerConfig};

use crate::config::{AdminTcp, Config, ListenAddress};
use crate::credential_report::CredentialReport;
use crate::observe::events::{EventReason, EventSubject, Events};
use crate::retry::retry_for_killed_daemon;
use crate::stuck::{self, StuckProcess};

/// The most connections that one listener has open at once. More wait in the kernel's queue.
pub const CONNECTIONS_MAX: usize = 32;

/// The listeners of the admin interface.
pub struct AdminListeners {
    pub(super) socket: UnixSocketListener,
    pub(super) tcp: Option<TlsListener>,
    pub(super) metrics: Option<MetricsListener>,
}

/// The admin interface over TCP.
pub(super) struct TlsListener {
    pub(super) listener: TcpListener,
    pub(super) acceptor: TlsAcceptor,
    pub(super) token: String,
}

/// Where metrics are read.
pub(super) enum MetricsListener {
    Tcp(TcpListener),
    Unix(UnixSocketListener),
}

/// Why a listener could not be made.
#[derive(Debug, thiserror::Error)]
pub enum AdminListenError {
    /// Another process answers there.
    #[error(
        "another sublet answers at {path}; stop it, or choose another place: sublet serve {said}"
    )]
    Taken {
        /// Where.
        path: PathBuf,
        /// How to name another place.
        said: &'static str,
    },
    /// A killed process that cannot end holds the place.
    #[error("nobody answers at {path}, and it is not free: {stuck}")]
    Stuck {
        /// Where.
        path: PathBuf,
        /// The process that has it.
        stuck: StuckProcess,
    },
    /// The file there is not a socket.
    #[error(
        "{path} exists and is no socket; remove it, or choose another place: sublet serve {said}"
    )]
    NotASocket {
        /// Where.
        path: PathBuf,
        /// How to name another place.
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
    /// The token's file cannot be used.
    #[error("cannot read the token in {path}: {source}")]
    Token {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Any user of the host could read the file.
    #[error("{0} can be read by everybody; chmod 0600 it")]
    OpenToken(PathBuf),
    /// The token can be guessed.
    #[error(
        "the token in {0} is shorter than {TOKEN_BYTES_MIN} characters; make one: head -c 24 /dev/urandom | base64"
    )]
    ShortToken(PathBuf),
    /// A certificate or a key cannot be used.
    #[error(transparent)]
    File(#[from] CredentialError),
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

/// The shortest token, which 2^64 guesses would not find.
const TOKEN_BYTES_MIN: usize = 16;
/// The most bytes of a token's file: more than a token takes, and what the file may say below it.
const TOKEN_FILE_BYTES_MAX: u64 = 64 << 10;

const BACKLOG: u32 = 64;

impl AdminListeners {
    /// Makes every listener that the config asks for.
    pub fn open(config: &Config, events: &Events) -> Result<AdminListeners, AdminListenError> {
        let listeners = AdminListeners {
            socket: UnixSocketListener::open(&config.admin.socket, "--admin PATH")?,
            tcp: config
                .admin
                .tcp
                .as_ref()
                .map(TlsListener::open)
                .transpose()?,
            metrics: config
                .metrics
                .listen
                .as_ref()
                .map(MetricsListener::open)
                .transpose()?,
        };
        if let Some(AdminTcp {
            cert,
            key,
            token_file,
            ..
        }) = &config.admin.tcp
        {
            let mut read = CredentialReport::new(events, EventReason::Start);
            read.record_read(EventSubject::None, &[cert, key, token_file]);
        }
        Ok(listeners)
    }

    /// The TCP address of the metrics, with the port that the kernel chose.
    pub(crate) fn metrics_address(&self) -> Option<String> {
        match self.metrics.as_ref()? {
            MetricsListener::Tcp(listener) => listener
                .local_addr()
                .ok()
                .map(|a| format!("http://{a}/metrics")),
            MetricsListener::Unix(socket) => Some(format!("unix:{}", socket.file.path().display())),
        }
    }

    /// The TCP address of the admin interface, with the port that the kernel chose.
    pub(crate) fn tcp_address(&self) -> Option<String> {
        let address = self.tcp.as_ref()?.listener.local_addr().ok()?;
        Some(format!("tcp:{address}"))
    }
}

/// Checks that the files for the admin interface over TCP can be used.
///
/// # Errors
///
/// The first file that cannot be used.
pub fn check_files(config: &AdminTcp) -> Result<(), AdminListenError> {
    token(&config.token_file)?;
    acceptor(&config.cert, &config.key)?;
    Ok(())
}

impl TlsListener {
    fn open(config: &AdminTcp) -> Result<TlsListener, AdminListenError> {
        Ok(TlsListener {
            token: token(&config.token_file)?,
            acceptor: acceptor(&config.cert, &config.key)?,
            listener: listen_tcp(&config.address.0, config.address.1)?,
        })
    }
}

impl MetricsListener {
    fn open(place: &ListenAddress) -> Result<MetricsListener, AdminListenError> {
        match place {
            ListenAddress::Tcp(host, port) => listen_tcp(host, *port).map(MetricsListener::Tcp),
            ListenAddress::Unix(path) | ListenAddress::Ring(path) => {
                UnixSocketListener::open(path, "--metrics unix:PATH").map(MetricsListener::Unix)
            }
        }
    }
}

/// A Unix socket of mode 0600, and its file.
pub(super) struct UnixSocketListener {
    pub(super) listener: UnixListener,
    file: SocketFile,
}

impl UnixSocketListener {
    /// `said` is how the command line names another place.
    fn open(path: &Path, said: &'static str) -> Result<UnixSocketListener, AdminListenError> {
        let refused = |source| AdminListenError::Refused {
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
        let (socket, file) =
            retry_for_killed_daemon(is_taken, listen).map_err(|error| match error {
                SocketFileError::Taken => match stuck::listener(path) {
                    Some(stuck) => AdminListenError::Stuck {
                        path: path.to_owned(),
                        stuck,
                    },
                    None => AdminListenError::Taken {
                        path: path.to_owned(),
                        said,
                    },
                },
                SocketFileError::NotASocket => AdminListenError::NotASocket {
                    path: path.to_owned(),
                    said,
                },
                SocketFileError::Refused(source) => refused(source),
            })?;
        let listener = socket.into();
        Ok(UnixSocketListener { listener, file })
    }
}

fn listen_tcp(host: &str, port: u16) -> Result<TcpListener, AdminListenError> {
    let refused = |source| AdminListenError::Refused {
        place: format!("tcp:{host}:{port}"),
        source,
    };
    let addresses: Vec<_> = (host, port).to_socket_addrs().map_err(refused)?.collect();
    let listener = TcpListener::bind(addresses.as_slice()).map_err(refused)?;
    listener.set_nonblocking(true).map_err(refused)?;
    Ok(listener)
}

fn token(path: &Path) -> Result<String, AdminListenError> {
    let unreadable = |source| AdminListenError::Token {
        path: path.to_owned(),
        source,
    };
    let mode = fs::metadata(path).map_err(unreadable)?.permissions().mode();
    if mode & 0o004 != 0 {
        return Err(AdminListenError::OpenToken(path.to_owned()));
    }
    let text = sublet_tls::read_text(path, TOKEN_FILE_BYTES_MAX).map_err(unreadable)?;
    let token = text.lines().next().unwrap_or_default().trim().to_owned();
    match token.len() {
        short if short < TOKEN_BYTES_MIN => Err(AdminListenError::ShortToken(path.to_owned())),
        _ => Ok(token),
    }
}

fn acceptor(cert: &Path, key: &Path) -> Result<TlsAcceptor, AdminListenError> {
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
        let first = UnixSocketListener::open(&path, "--admin PATH").expect("bound");
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(matches!(
            UnixSocketListener::open(&path, "--admin PATH"),
            Err(AdminListenError::Taken { .. })
        ));
        // After a kill the file stays, and nobody listens.
        let UnixSocketListener { listener, .. } = &first;
        rustix::net::shutdown(listener, rustix::net::Shutdown::Both).expect("shut");
        let second = UnixSocketListener::open(&path, "--admin PATH").expect("bound anew");
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
            UnixSocketListener::open(&path, "--admin PATH"),
            Err(AdminListenError::NotASocket { .. })
        ));
        assert_eq!(fs::read_to_string(&path).expect("there"), "text");
    }

    #[test]
    fn a_token_is_long_and_private() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        fs::write(&path, "short\n").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("set");
        assert!(matches!(token(&path), Err(AdminListenError::OpenToken(_))));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("set");
        assert!(matches!(token(&path), Err(AdminListenError::ShortToken(_))));
        fs::write(&path, "  0123456789abcdef \nmore").expect("written");
        assert_eq!(token(&path).expect("a token"), "0123456789abcdef");
    }
}
