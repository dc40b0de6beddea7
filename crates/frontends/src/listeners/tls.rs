//! TLS: the certificates, and the thin layer between a socket and its session.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::RwLock;
use rustls::crypto::CryptoProvider;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, ServerSessionMemoryCache, VerifierBuilderError};
use rustls::sign::SingleCertAndKey;
use rustls::version::{TLS12, TLS13};
use rustls::{HandshakeKind, ServerConfig, ServerConnection};
use sublet_tls::{AnonymousClients, Authorities, CredentialError};

use super::listener::Transport;
use super::reject_all_clients::RejectAllClients;
use super::socket;

/// Sessions that are kept so that clients can resume them.
const SESSIONS_MAX: usize = 1024;

/// What the daemon asks of a client's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificateDemand {
    /// It asks for none.
    Unasked,
    /// The client may have none. If it has one, it must be good.
    Asked,
    /// The client must have a good one.
    Required,
}

/// The oldest version of TLS that the daemon speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2.
    V12,
    /// TLS 1.3.
    V13,
}

/// How the daemon speaks TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// The file of the certificate chain, PEM.
    pub chain: PathBuf,
    /// The file of the private key, PEM; the chain's file if `None`.
    pub key: Option<PathBuf>,
    /// The file of the authorities that may sign clients' certificates, PEM.
    pub client_ca: Option<PathBuf>,
    /// What the daemon asks of a client's certificate.
    pub client_certificate: ClientCertificateDemand,
    /// The oldest version of TLS that the daemon speaks.
    pub min_version: TlsVersion,
    /// Whether clients may resume sessions.
    pub resumes: bool,
}

/// Counts the outcomes of TLS.
pub trait TlsFigures {
    /// A session began that resumed no earlier one.
    fn session_made(&self);

    /// A handshake failed.
    fn handshake_failed(&self);

    /// A record was wrong after the handshake.
    fn record_failed(&self);
}

/// Why certificates cannot be used. The ones in use then stay.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be used.
    #[error(transparent)]
    File(#[from] CredentialError),
    /// Clients are asked for certificates, but no authority is named that could have signed them.
    #[error(
        "ssl_verify_mode asks clients for certificates, but no authority is set; name its file with ssl_ca_cert"
    )]
    NoAuthority,
    /// Clients cannot be verified.
    #[error("cannot verify clients: {0}")]
    Verifier(#[from] VerifierBuilderError),
    /// The library refused.
    #[error("TLS: {0}")]
    Refused(#[from] rustls::Error),
}

/// The certificates of some listeners. They are read at the start, and again on request.
#[derive(Debug)]
pub struct TlsCertificates {
    settings: TlsSettings,
    configs: RwLock<ServerConfigs>,
    read_unix: AtomicU64,
}

#[derive(Clone, Debug)]
struct ServerConfigs {
    requested: Arc<ServerConfig>,
    anyone: Arc<ServerConfig>,
    mutual: Arc<ServerConfig>,
}

impl TlsCertificates {
    /// Reads the certificates.
    pub fn load(settings: TlsSettings) -> Result<TlsCertificates, TlsError> {
        Ok(TlsCertificates {
            configs: RwLock::new(ServerConfigs::load(&settings)?),
            read_unix: AtomicU64::new(unix_now()),
            settings,
        })
    }

    /// Reads the certificates again. If that fails, the old ones stay.
    pub fn reload(&self) -> Result<(), TlsError> {
        let fresh = ServerConfigs::load(&self.settings)?;
        *self.configs.write() = fresh;
        self.read_unix.store(unix_now(), Ordering::Relaxed);
        Ok(())
    }

    /// Returns the Unix time at which the certificates were read, in seconds.
    pub(crate) fn read_unix(&self) -> u64 {
        self.read_unix.load(Ordering::Relaxed)
    }

    fn server_config(&self, transport: Transport) -> Option<Arc<ServerConfig>> {
        let configs = self.configs.read();
        match transport {
            Transport::Plain => None,
            Transport::Tls => Some(Arc::clone(&configs.requested)),
            Transport::TlsAnyone => Some(Arc::clone(&configs.anyone)),
            Transport::TlsMutual => Some(Arc::clone(&configs.mutual)),
        }
    }
}

impl ServerConfigs {
    fn load(settings: &TlsSettings) -> Result<ServerConfigs, TlsError> {
        let authorities = settings.client_ca.as_deref().map(Authorities::read);
        let authorities = authorities.transpose()?;
        let known = authorities.as_ref();
        let requested = match (settings.client_certificate, known) {
            (ClientCertificateDemand::Unasked, _) | (_, Some(_)) => settings.client_certificate,
            (_, None) => return Err(TlsError::NoAuthority),
        };
        let key = settings.key.as_deref().unwrap_or(&settings.chain);
        let identity = sublet_tls::identity(&settings.chain, key, &sublet_tls::provider())?;
        let config = |requested, known| {
            build_server_config(settings, Arc::clone(&identity), requested, known)
        };
        Ok(ServerConfigs {
            requested: config(requested, known)?,
            anyone: config(ClientCertificateDemand::Unasked, None)?,
            mutual: config(ClientCertificateDemand::Required, known)?,
        })
    }
}

fn build_server_config(
    settings: &TlsSettings,
    identity: Arc<SingleCertAndKey>,
    requested: ClientCertificateDemand,
    authorities: Option<&Authorities>,
) -> Result<Arc<ServerConfig>, TlsError> {
    let versions: &[_] = match settings.min_version {
        TlsVersion::V12 => &[&TLS12, &TLS13],
        TlsVersion::V13 => &[&TLS13],
    };
    let provider = sublet_tls::provider();
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)?;
    let builder = match requested {
        ClientCertificateDemand::Unasked => builder.with_no_client_auth(),
        _ => builder.with_client_cert_verifier(client_verifier(requested, authorities, &provider)?),
    };
    let mut config = builder.with_cert_resolver(identity);
    if settings.resumes {
        config.session_storage = ServerSessionMemoryCache::new(SESSIONS_MAX);
    } else {
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    Ok(Arc::new(config))
}

fn client_verifier(
    requested: ClientCertificateDemand,
    authorities: Option<&Authorities>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let Some(authorities) = authorities else {
        let algorithms = provider.signature_verification_algorithms;
        let schemes = algorithms.supported_schemes();
        return Ok(Arc::new(RejectAllClients { schemes }));
    };
    let anonymous = match requested {
        ClientCertificateDemand::Asked => AnonymousClients::Accepted,
        ClientCertificateDemand::Unasked | ClientCertificateDemand::Required => {
            AnonymousClients::Refused
        }
    };
    Ok(sublet_tls::client_verifier(
        authorities,
        anonymous,
        provider,
    )?)
}

fn unix_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

/// The TLS of one connection.
pub(crate) struct TlsStream {
    tls: ServerConnection,
    greeted: bool,
}

impl TlsStream {
    /// Begins TLS for a new connection. Returns `None` if the transport is plain, or if the library refuses.
    pub(crate) fn new(tls: &TlsCertificates, transport: Transport) -> Option<TlsStream> {
        let config = tls.server_config(transport)?;
        ServerConnection::new(config).ok().map(|tls| TlsStream {
            tls,
            greeted: false,
        })
    }

    /// Reads what the client sent. Returns `WouldBlock` once the socket has no more, and 0 at the end.
    pub(crate) fn read(
        &mut self,
        socket: &OwnedFd,
        buffer: &mut [u8],
        figures: &dyn TlsFigures,
    ) -> io::Result<usize> {
        loop {
            match self.tls.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                read => return read,
            }
            self.tls.read_tls(&mut socket::RustlsSocket(socket))?;
            if let Err(error) = self.tls.process_new_packets() {
                self.count_failure(figures);
                // This tells the client why, if it still reads.
                let _ = self.flush(socket);
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
            if !self.greeted && !self.tls.is_handshaking() {
                self.greeted = true;
                self.count_session(figures);
            }
            // The next reply sends along what cannot be written now. A handshake alone never fills a socket.
            let _ = self.flush(socket)?;
        }
    }

    /// Takes some of `bytes` for the client. Returns `WouldBlock` if the socket takes no more.
    pub(crate) fn write(&mut self, socket: &OwnedFd, bytes: &[u8]) -> io::Result<usize> {
        if !self.flush(socket)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.tls.writer().write(bytes)
    }

    /// Writes the bytes that were taken. Returns whether it wrote all of them.
    pub(crate) fn flush(&mut self, socket: &OwnedFd) -> io::Result<bool> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut socket::RustlsSocket(socket)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Sends the goodbye that TLS prescribes.
    pub(crate) fn close(&mut self, socket: &OwnedFd) {
        self.tls.send_close_notify();
        let _ = self.flush(socket);
    }

    fn count_failure(&self, figures: &dyn TlsFigures) {
        match self.greeted {
            true => figures.record_failed(),
            false => figures.handshake_failed(),
        }
    }

    fn count_session(&self, figures: &dyn TlsFigures) {
        if self.tls.handshake_kind() != Some(HandshakeKind::Resumed) {
            figures.session_made();
        }
    }
}
