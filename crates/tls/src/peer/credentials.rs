//! A node's own certificate and key, the authorities that it trusts, and the connections that use them.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{ServerName, UnixTime};
use rustls::server::NoServerSessionStorage;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::time_provider::TimeProvider;
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, CommonState, Error, ServerConfig, ServerConnection};
use sublet_types::NodeName;

use super::certificate_summary::CertificateSummary;
use super::certificate_uri::{CertificateUri, NodeIdentity};
use super::chain_check::ChainCheck;
use super::credential_error::{DENIED_MAX, PeerCredentialError};
use super::fingerprint::Fingerprint;
use super::refusal::PeerRefusal;
use super::verifiers::{CalledNodeVerifier, CallingNodeVerifier};
use crate::chain::Purpose;
use crate::{CredentialError, identity, pem_files, provider};

/// How long before the end of a node's certificate its owner is told.
pub const EXPIRY_NOTICE: Duration = Duration::from_secs(30 * 24 * 3600);

/// Who a node is, and the files that prove it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerTlsSettings {
    /// The node, and its cluster.
    pub identity: NodeIdentity,
    /// The file of the cluster's authorities, PEM.
    pub ca: PathBuf,
    /// The file of the node's certificate chain, PEM.
    pub certificate: PathBuf,
    /// The file of the certificate's private key, PEM.
    pub key: PathBuf,
    /// The certificates that are refused, by fingerprint. At most [`DENIED_MAX`].
    pub denied: Vec<Fingerprint>,
}

/// What a node needs to trust others, and to be trusted. It never changes. To read the files again, load another.
#[derive(Debug)]
pub struct PeerCredentials {
    check: Arc<ChainCheck>,
    own: Arc<SingleCertAndKey>,
    provider: Arc<CryptoProvider>,
    clock: Arc<dyn TimeProvider>,
    accepting: Arc<ServerConfig>,
    fingerprint: Fingerprint,
    ends_unix: u64,
    authorities_end_unix: Option<u64>,
}

/// The node at the other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectedPeer {
    /// The node, and its cluster.
    pub identity: NodeIdentity,
    /// The fingerprint of its certificate.
    pub fingerprint: Fingerprint,
    /// The last second at which its certificate is valid, in Unix time.
    pub ends_unix: u64,
}

impl PeerCredentials {
    /// Reads the files. Validity is judged by `clock`, at each handshake.
    ///
    /// A certificate that has expired is loaded all the same: its owner renews it while the daemon runs.
    ///
    /// # Errors
    ///
    /// A file cannot be used, or other nodes would refuse the certificate for another reason than its end.
    pub fn load(
        settings: &PeerTlsSettings,
        clock: Arc<dyn TimeProvider>,
    ) -> Result<PeerCredentials, PeerCredentialError> {
        let provider = provider();
        if settings.denied.len() > DENIED_MAX {
            return Err(PeerCredentialError::TooManyDenied(settings.denied.len()));
        }
        let denied = BTreeSet::from_iter(settings.denied.iter().copied());
        let cluster = settings.identity.cluster.clone();
        let check = Arc::new(ChainCheck::load(&settings.ca, cluster, denied, &provider)?);
        let own = identity::certified_key(&settings.certificate, &settings.key, &provider)?;
        let summary = check_own(settings, &check, &own, clock.as_ref())?;
        let ends = own.cert.iter().filter_map(CertificateSummary::of);
        let ends_unix = ends.map(|one| one.ends_unix).min();
        let own = Arc::new(SingleCertAndKey::from(own));
        let authorities = pem_files::certificates(&settings.ca)?;
        let authorities = authorities.iter().filter_map(CertificateSummary::of);
        let authorities_end_unix = authorities.map(|one| one.ends_unix).min();
        Ok(PeerCredentials {
            accepting: server_config(&check, &own, &provider, &clock)?,
            check,
            own,
            provider,
            clock,
            fingerprint: summary.fingerprint,
            ends_unix: ends_unix.unwrap_or(summary.ends_unix),
            authorities_end_unix,
        })
    }

    /// Begins a connection to a node, as TLS's client.
    ///
    /// The node's name is verified when its certificate comes. In TLS 1.3 the handshake ends here before the node has
    /// verified ours. So only the node's first message shows that it accepted us.
    ///
    /// # Errors
    ///
    /// The library refuses.
    pub fn connect(&self, expected: &NodeName) -> Result<ClientConnection, Error> {
        let verifier = CalledNodeVerifier {
            check: Arc::clone(&self.check),
            expected: expected.clone(),
        };
        let (provider, clock) = (Arc::clone(&self.provider), Arc::clone(&self.clock));
        let mut config = ClientConfig::builder_with_details(provider, clock)
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_cert_resolver(self.own.clone());
        config.resumption = Resumption::disabled();
        config.enable_sni = false;
        // The library wants a name. The verifier passes it over, and it is not sent.
        let unused = ServerName::from(Ipv4Addr::UNSPECIFIED);
        ClientConnection::new(Arc::new(config), unused)
    }

    /// Begins a connection that a node opened, as TLS's server.
    ///
    /// # Errors
    ///
    /// The library refuses.
    pub fn accept(&self) -> Result<ServerConnection, Error> {
        ServerConnection::new(Arc::clone(&self.accepting))
    }

    /// Returns the fingerprint of the node's own certificate.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Returns the last second at which the node's own chain is valid, in Unix time.
    pub fn ends_unix(&self) -> u64 {
        self.ends_unix
    }

    /// Returns the last second at which all authorities are valid, in Unix time. Returns `None` if none of them says.
    pub fn authorities_end_unix(&self) -> Option<u64> {
        self.authorities_end_unix
    }

    /// Returns whether the owner is to be told of the certificate's end: it is less than [`EXPIRY_NOTICE`] away.
    pub fn is_ending(&self, now_unix: u64) -> bool {
        self.ends_unix < now_unix.saturating_add(EXPIRY_NOTICE.as_secs())
    }

    /// Returns whether a certificate is on the deny list. It serves for connections that began before the list changed.
    pub fn denies(&self, fingerprint: &Fingerprint) -> bool {
        self.check.denies(fingerprint)
    }
}

/// Returns the node at the other end. Returns `None` while the handshake goes on.
pub fn connected_peer(tls: &CommonState) -> Option<ConnectedPeer> {
    if tls.is_handshaking() {
        return None;
    }
    let leaf = tls.peer_certificates()?.first()?;
    let summary = CertificateSummary::of(leaf)?;
    let Ok(CertificateUri::Node(identity)) = summary.uri else {
        return None;
    };
    Some(ConnectedPeer {
        identity,
        fingerprint: summary.fingerprint,
        ends_unix: summary.ends_unix,
    })
}

fn server_config(
    check: &Arc<ChainCheck>,
    own: &Arc<SingleCertAndKey>,
    provider: &Arc<CryptoProvider>,
    clock: &Arc<dyn TimeProvider>,
) -> Result<Arc<ServerConfig>, Error> {
    let verifier = CallingNodeVerifier {
        check: Arc::clone(check),
    };
    let (provider, clock) = (Arc::clone(provider), Arc::clone(clock));
    let mut config = ServerConfig::builder_with_details(provider, clock)
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(Arc::new(verifier))
        .with_cert_resolver(own.clone());
    // A resumed session would pass over the deny list.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// Checks the node's own certificate as its peers would.
fn check_own(
    settings: &PeerTlsSettings,
    check: &ChainCheck,
    own: &CertifiedKey,
    clock: &dyn TimeProvider,
) -> Result<CertificateSummary, PeerCredentialError> {
    let path = &settings.certificate;
    let (leaf, sent) = own.cert.split_first().unzip();
    let (leaf, sent) = (
        leaf.ok_or_else(|| not_x509(path))?,
        sent.unwrap_or_default(),
    );
    let summary = CertificateSummary::of(leaf).ok_or_else(|| not_x509(path))?;
    if summary.ends_unix < summary.starts_unix {
        return Err(PeerCredentialError::NeverValid(path.clone()));
    }
    let refused = |refusal| PeerCredentialError::Refused {
        path: path.clone(),
        refusal: Box::new(refusal),
    };
    let now = clock.current_time().ok_or(Error::FailedToGetCurrentTime)?;
    let within = valid_time_near(now, &summary);
    for purpose in [Purpose::Server, Purpose::Client] {
        let found = check.identified(leaf, sent, purpose, within);
        let found = found.map_err(|error| refused(PeerRefusal::of(&error)))?;
        if found != settings.identity {
            return Err(refused(PeerRefusal::OtherNode {
                found,
                expected: settings.identity.node.clone(),
            }));
        }
    }
    Ok(summary)
}

/// Returns the moment next to `now` at which a certificate is valid. It must not end before it begins.
fn valid_time_near(now: UnixTime, summary: &CertificateSummary) -> UnixTime {
    let within = now.as_secs().clamp(summary.starts_unix, summary.ends_unix);
    UnixTime::since_unix_epoch(Duration::from_secs(within))
}

fn not_x509(path: &Path) -> CredentialError {
    CredentialError::NotX509 {
        path: path.to_owned(),
        nth: 1,
    }
}
