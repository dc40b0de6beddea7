//! Decides whether a certificate is one of a node of our cluster.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{CertificateError, Error, RootCertStore};
use sublet_types::ClusterName;

use super::certificate_summary::CertificateSummary;
use super::certificate_uri::{CertificateUri, CertificateUriError, NodeIdentity};
use super::credential_error::PeerCredentialError;
use super::fingerprint::Fingerprint;
use super::refusal::PeerRefusal;
use crate::Authorities;
use crate::chain::Purpose;

/// Checks certificates of nodes. Only an authority may have signed them; no certificate is trusted for itself.
#[derive(Debug)]
pub(super) struct ChainCheck {
    roots: Arc<RootCertStore>,
    pub(super) callers: Arc<dyn ClientCertVerifier>,
    pub(super) algorithms: WebPkiSupportedAlgorithms,
    cluster: ClusterName,
    denied: BTreeSet<Fingerprint>,
}

impl ChainCheck {
    /// Reads the authorities of a cluster.
    pub(super) fn load(
        ca: &Path,
        cluster: ClusterName,
        denied: BTreeSet<Fingerprint>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<ChainCheck, PeerCredentialError> {
        let roots = Authorities::read(ca)?.signers;
        let (trusted, verified_by) = (Arc::clone(&roots), Arc::clone(provider));
        let callers = WebPkiClientVerifier::builder_with_provider(trusted, verified_by)
            .build()
            .map_err(|_| PeerCredentialError::NoAuthority(ca.to_owned()))?;
        Ok(ChainCheck {
            roots,
            callers,
            algorithms: provider.signature_verification_algorithms,
            cluster,
            denied,
        })
    }

    /// Returns whether a certificate is on the deny list.
    pub(super) fn denies(&self, fingerprint: &Fingerprint) -> bool {
        self.denied.contains(fingerprint)
    }

    /// Returns which node of our cluster a peer is, unless its certificate is denied.
    pub(super) fn admitted(
        &self,
        leaf: &CertificateDer<'_>,
        sent: &[CertificateDer<'_>],
        purpose: Purpose,
        now: UnixTime,
    ) -> Result<NodeIdentity, Error> {
        let identity = self.identified(leaf, sent, purpose, now)?;
        let fingerprint = Fingerprint::of(leaf);
        match self.denies(&fingerprint) {
            true => Err(PeerRefusal::Denied { fingerprint }.into_error()),
            false => Ok(identity),
        }
    }

    /// Returns which node of our cluster a certificate is for.
    pub(super) fn identified(
        &self,
        leaf: &CertificateDer<'_>,
        sent: &[CertificateDer<'_>],
        purpose: Purpose,
        now: UnixTime,
    ) -> Result<NodeIdentity, Error> {
        self.verify_chain(leaf, sent, purpose, now)
            .map_err(unknown_if_unsigned)?;
        let summary = CertificateSummary::of(leaf).ok_or(CertificateError::BadEncoding)?;
        let nameless = |cause| PeerRefusal::NoNodeName(cause).into_error();
        match summary.uri {
            Ok(CertificateUri::Node(found)) if found.cluster == self.cluster => Ok(found),
            Ok(CertificateUri::Node(found)) => {
                Err(PeerRefusal::OtherCluster { found }.into_error())
            }
            Ok(CertificateUri::Cluster(_)) => Err(nameless(CertificateUriError::Malformed)),
            Err(cause) => Err(nameless(cause)),
        }
    }
    fn verify_chain(
        &self,
        leaf: &CertificateDer<'_>,
        sent: &[CertificateDer<'_>],
        purpose: Purpose,
        now: UnixTime,
    ) -> Result<(), Error> {
        match purpose {
            Purpose::Client => {
                let verified = self.callers.verify_client_cert(leaf, sent, now);
                verified.map(drop)
            }
            Purpose::Server => {
                let (leaf, known) = (ParsedCertificate::try_from(leaf)?, self.algorithms.all);
                verify_server_cert_signed_by_trust_anchor(&leaf, &self.roots, sent, now, known)
            }
        }
    }
}

/// An authority of the same name with another key is another authority. The library calls it a bad signature.
fn unknown_if_unsigned(error: Error) -> Error {
    match error {
        Error::InvalidCertificate(CertificateError::BadSignature) => {
            CertificateError::UnknownIssuer.into()
        }
        other => other,
    }
}
