//! Why a handshake between two nodes failed.

use rustls::{AlertDescription, CertificateError, Error, OtherError, PeerIncompatible};
use sublet_types::NodeName;

use super::certificate_uri::{CertificateUriError, NodeIdentity};
use super::fingerprint::Fingerprint;

/// Why a handshake between two nodes failed.
///
/// Each kind is counted and logged apart; [`PeerRefusal::label`] names the kind.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PeerRefusal {
    /// The peer showed no certificate.
    #[error("the peer showed no certificate; it is no node, or its peers.certificate is not set")]
    NoCertificate,
    /// No authority of ours signed the peer's certificate.
    #[error(
        "none of the authorities in peers.ca signed the peer's certificate; issue it with this cluster's CA, or add the CA that signed it"
    )]
    UnknownAuthority,
    /// The peer's certificate has expired.
    #[error(
        "the peer's certificate has expired; renew it with `sublet lend ca issue`, and check both clocks"
    )]
    Expired,
    /// The peer's certificate is not valid yet.
    #[error("the peer's certificate is not valid yet; check both clocks")]
    NotValidYet,
    /// The peer's certificate is not for both ends of a connection.
    #[error(
        "the peer's certificate is not for this purpose; it must be for servers and for clients (extended key usage)"
    )]
    WrongPurpose,
    /// The peer's certificate names no node.
    #[error("the peer's certificate names no node: {0}; issue it with `sublet lend ca issue`")]
    NoNodeName(CertificateUriError),
    /// The peer's certificate is of another cluster.
    #[error(
        "the peer is {found}, of another cluster; it may not lend to this one, or peers.cluster differs"
    )]
    OtherCluster {
        /// Whom the certificate names.
        found: NodeIdentity,
    },
    /// The peer's certificate is of another node than the one that was called.
    #[error(
        "the peer is {found}, and {expected} was expected; check the address of {expected} in peers.members, and peers.node there"
    )]
    OtherNode {
        /// Whom the certificate names.
        found: NodeIdentity,
        /// Who was called.
        expected: NodeName,
    },
    /// The peer's certificate is on the deny list.
    #[error("the peer's certificate {fingerprint} is on the list peers.deny")]
    Denied {
        /// The certificate.
        fingerprint: Fingerprint,
    },
    /// The peer's certificate is damaged, or signed in a way that is not accepted.
    #[error("the peer's certificate cannot be used: {0:?}")]
    BadCertificate(CertificateError),
    /// The peer does not speak TLS 1.3.
    #[error(
        "the peer does not speak TLS 1.3; it is no node, or something between the two changes what they say"
    )]
    OldTls,
    /// The peer refused our certificate, or another part of the handshake. Its log says why.
    #[error("the peer refused us ({0:?}); its log says why")]
    RefusedByPeer(AlertDescription),
    /// The peer broke the protocol, or the library failed.
    #[error("TLS failed: {0}")]
    Protocol(Error),
}

impl PeerRefusal {
    /// Returns why a connection failed.
    pub fn of(error: &Error) -> PeerRefusal {
        match error {
            Error::NoCertificatesPresented => PeerRefusal::NoCertificate,
            Error::InvalidCertificate(cause) => PeerRefusal::of_certificate(cause),
            Error::PeerIncompatible(
                PeerIncompatible::Tls12NotOffered
                | PeerIncompatible::Tls12NotOfferedOrEnabled
                | PeerIncompatible::SupportedVersionsExtensionRequired
                | PeerIncompatible::ServerDoesNotSupportTls12Or13
                | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig,
            )
            | Error::AlertReceived(AlertDescription::ProtocolVersion) => PeerRefusal::OldTls,
            Error::AlertReceived(alert) => PeerRefusal::RefusedByPeer(*alert),
            other => PeerRefusal::Protocol(other.clone()),
        }
    }

    fn of_certificate(cause: &CertificateError) -> PeerRefusal {
        match cause {
            CertificateError::UnknownIssuer => PeerRefusal::UnknownAuthority,
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                PeerRefusal::Expired
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                PeerRefusal::NotValidYet
            }
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
                PeerRefusal::WrongPurpose
            }
            CertificateError::Other(OtherError(ours)) => ours
                .downcast_ref::<PeerRefusal>()
                .cloned()
                .unwrap_or_else(|| PeerRefusal::BadCertificate(cause.clone())),
            other => PeerRefusal::BadCertificate(other.clone()),
        }
    }

    /// Returns the kind of the cause, as counters and events name it.
    pub fn label(&self) -> &'static str {
        match self {
            PeerRefusal::NoCertificate => "no-certificate",
            PeerRefusal::UnknownAuthority => "unknown-authority",
            PeerRefusal::Expired => "expired",
            PeerRefusal::NotValidYet => "not-valid-yet",
            PeerRefusal::WrongPurpose => "wrong-purpose",
            PeerRefusal::NoNodeName(_) => "no-node-name",
            PeerRefusal::OtherCluster { .. } => "other-cluster",
            PeerRefusal::OtherNode { .. } => "other-node",
            PeerRefusal::Denied { .. } => "denied",
            PeerRefusal::BadCertificate(_) => "bad-certificate",
            PeerRefusal::OldTls => "old-tls",
            PeerRefusal::RefusedByPeer(_) => "refused-by-peer",
            PeerRefusal::Protocol(_) => "protocol",
        }
    }

    /// Returns the error that carries this cause through the library.
    pub(super) fn into_error(self) -> Error {
        CertificateError::Other(OtherError(std::sync::Arc::new(self))).into()
    }
}
