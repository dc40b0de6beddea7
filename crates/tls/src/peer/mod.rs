//! Trust between nodes of a cluster: mutual TLS 1.3, and nothing else.
//!
//! One authority signs the certificates of a cluster. A node's certificate has one URI of the form
//! `sublet://CLUSTER/NODE`. Each end checks the chain, the validity, the cluster and the deny list. The end that
//! connects also checks the node's name; the other end learns it.

mod certificate_summary;
mod certificate_uri;
mod chain_check;
mod credential_error;
mod credentials;
mod fingerprint;
mod refusal;
mod session_secret;
mod verifiers;

pub use rustls::time_provider::{DefaultTimeProvider, TimeProvider};

pub use self::certificate_summary::CertificateSummary;
pub use self::certificate_uri::{CertificateUri, CertificateUriError, NodeIdentity};
pub use self::credential_error::{DENIED_MAX, PeerCredentialError};
pub use self::credentials::{
    ConnectedPeer, EXPIRY_NOTICE, PeerCredentials, PeerTlsSettings, connected_peer,
};
pub use self::fingerprint::{Fingerprint, FingerprintError};
pub use self::refusal::PeerRefusal;
pub use self::session_secret::{SESSION_SECRET_BYTES, SESSION_SECRET_LABEL, session_secret};
