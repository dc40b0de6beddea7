//! TLS: certificates, and the thin layer between a socket and its session.

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
use sublet_tls::{Anonymous, Authorities, Fault};

use super::listen::Transport;
use super::nobody::Nobody;
use super::socket;

/// Sessions that are kept for being resumed.
const SESSIONS_MAX: usize = 1024;

/// What is asked of a client's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificate {
    /// Nothing.
    Unasked,
    /// It may have none; one that it has must be good.
    Asked,
    /// It must have a good one.
    Required,
}

/// The oldest TLS that is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2.
    V12,
    /// TLS 1.3.
    V13,
}

/// How TLS is spoken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// Certificate chain, PEM.
    pub chain: PathBuf,
    /// Private key, PEM; in the chain's file if `None`.
    pub key: Option<PathBuf>,
    /// Who may sign clients' certificates, PEM.
    pub client_ca: Option<PathBuf>,
    /// What is asked of a client's certificate.
    pub client_certificate: ClientCertificate,
    /// The oldest TLS that is spoken.
    pub min_version: TlsVersion,
    /// Whether sessions may be resumed.
    pub resumes: bool,
}

/// Who counts what becomes of TLS.
pub trait TlsFigures {
    /// A session began that was not resumed.
    fn session_made(&self);

    /// A handshake failed.
    fn handshake_failed(&self);

    /// A record was wrong, after the handshake.
    fn record_failed(&self);
}

/// Why certificates cannot be used. Nothing changes then.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is of no use.
    #[error(transparent)]
    File(#[from] Fault),
    /// Clients are asked for certificates that nobody could have signed.
    #[error("ssl_verify_mode asks clients for certificates: name who signs them with ssl_ca_cert")]
    NoAuthority,
    /// Clients cannot be judged.
    #[error("cannot verify clients: {0}")]
    Verifier(#[from] VerifierBuilderError),
    /// The library refused.
    #[error("TLS: {0}")]
    Refused(#[from] rustls::Error),
}

/// The certificates of some listeners: read at start, and again when asked.
#[derive(Debug)]
pub struct Tls {
    settings: TlsSettings,
    configs: RwLock<Configs>,
    read_unix: AtomicU64,
}

#[derive(Clone, Debug)]
struct Configs {
    asked: Arc<ServerConfig>,
    anyone: Arc<ServerConfig>,
    mutual: Arc<ServerConfig>,
}

impl Tls {
    /// Reads the certificates.
    pub fn load(settings: TlsSettings) -> Result<Tls, TlsError> {
        Ok(Tls {
            configs: RwLock::new(Configs::load(&settings)?),
            read_unix: AtomicU64::new(unix_now()),
            settings,
        })
    }

    /// Reads the certificates again. Where that fails, the old ones stay.
    pub fn reload(&self) -> Result<(), TlsError> {
        let fresh = Configs::load(&self.settings)?;
        *self.configs.write() = fresh;
        self.read_unix.store(unix_now(), Ordering::Relaxed);
        Ok(())
    }

    /// Unix time at which the certificates were read, seconds.
    pub(crate) fn read_unix(&self) -> u64 {
        self.read_unix.load(Ordering::Relaxed)
    }

    fn config(&self, transport: Transport) -> Option<Arc<ServerConfig>> {
        let configs = self.configs.read();
        match transport {
            Transport::Plain => None,
            Transport::Tls => Some(Arc::clone(&configs.asked)),
            Transport::TlsAnyone => Some(Arc::clone(&configs.anyone)),
            Transport::TlsMutual => Some(Arc::clone(&configs.mutual)),
        }
    }
}

impl Configs {
    fn load(settings: &TlsSettings) -> Result<Configs, TlsError> {
        let authorities = settings.client_ca.as_deref().map(Authorities::read);
        let authorities = authorities.transpose()?;
        let known = authorities.as_ref();
        let asked = match (settings.client_certificate, known) {
            (ClientCertificate::Unasked, _) | (_, Some(_)) => settings.client_certificate,
            (_, None) => return Err(TlsError::NoAuthority),
        };
        let key = settings.key.as_deref().unwrap_or(&settings.chain);
        let identity = sublet_tls::identity(&settings.chain, key, &sublet_tls::provider())?;
        let config = |asked, known| config(settings, Arc::clone(&identity), asked, known);
        Ok(Configs {
            asked: config(asked, known)?,
            anyone: config(ClientCertificate::Unasked, None)?,
            mutual: config(ClientCertificate::Required, known)?,
        })
    }
}

fn config(
    settings: &TlsSettings,
    identity: Arc<SingleCertAndKey>,
    asked: ClientCertificate,
    authorities: Option<&Authorities>,
) -> Result<Arc<ServerConfig>, TlsError> {
    let versions: &[_] = match settings.min_version {
        TlsVersion::V12 => &[&TLS12, &TLS13],
        TlsVersion::V13 => &[&TLS13],
    };
    let provider = sublet_tls::provider();
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)?;
    let builder = match asked {
        ClientCertificate::Unasked => builder.with_no_client_auth(),
        _ => builder.with_client_cert_verifier(verifier(asked, authorities, &provider)?),
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

fn verifier(
    asked: ClientCertificate,
    authorities: Option<&Authorities>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let Some(authorities) = authorities else {
        let algorithms = provider.signature_verification_algorithms;
        let schemes = algorithms.supported_schemes();
        return Ok(Arc::new(Nobody { schemes }));
    };
    let anonymous = match asked {
        ClientCertificate::Asked => Anonymous::Welcome,
        ClientCertificate::Unasked | ClientCertificate::Required => Anonymous::Refused,
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

/// One connection's TLS.
pub(crate) struct TlsStream {
    tls: ServerConnection,
    greeted: bool,
}

impl TlsStream {
    /// TLS for a new connection; none where nobody may come in by this transport.
    pub(crate) fn new(tls: &Tls, transport: Transport) -> Option<TlsStream> {
        let config = tls.config(transport)?;
        ServerConnection::new(config).ok().map(|tls| TlsStream {
            tls,
            greeted: false,
        })
    }

    /// Reads what the client said; `WouldBlock` once the socket has no more, 0 at the end.
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
            self.tls.read_tls(&mut socket::Wire(socket))?;
            if let Err(error) = self.tls.process_new_packets() {
                self.count_failure(figures);
                // Tells the client why, as far as it still listens.
                let _ = self.flush(socket);
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
            if !self.greeted && !self.tls.is_handshaking() {
                self.greeted = true;
                self.count_session(figures);
            }
            // What cannot be written now goes with the next reply; the handshake alone never fills a socket.
            let _ = self.flush(socket)?;
        }
    }

    /// Takes some of `bytes` for the client; `WouldBlock` when the socket takes no more.
    pub(crate) fn write(&mut self, socket: &OwnedFd, bytes: &[u8]) -> io::Result<usize> {
        if !self.flush(socket)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.tls.writer().write(bytes)
    }

    /// Writes what was taken; says whether all of it went.
    pub(crate) fn flush(&mut self, socket: &OwnedFd) -> io::Result<bool> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut socket::Wire(socket)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Says goodbye, as TLS wants it.
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
