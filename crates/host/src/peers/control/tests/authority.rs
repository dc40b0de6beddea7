//! An authority made for a test, with the files of the nodes that it signs for.

use std::fs;
use std::path::PathBuf;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    SanType,
};
use rustls::RootCertStore;
use sublet_tls::peer::{CertificateSummary, Fingerprint, NodeIdentity, PeerTlsSettings};

/// A host's name that each certificate has beside its node.
pub(super) const HOST_NAME: &str = "node.test";

pub(super) struct TestAuthority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: tempfile::TempDir,
}

impl TestAuthority {
    pub(super) fn new() -> TestAuthority {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("a certificate");
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("ca.crt"), issuer.pem()).expect("written");
        TestAuthority { issuer, folder }
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    /// Signs a new certificate for a node, over that which it had.
    pub(super) fn settings(&self, cluster: &str, node: &str) -> PeerTlsSettings {
        use ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.extended_key_usages = vec![ClientAuth, ServerAuth];
        let uri = format!("sublet://{cluster}/{node}");
        params.subject_alt_names = vec![
            SanType::URI(uri.as_str().try_into().expect("ASCII")),
            SanType::DnsName(HOST_NAME.try_into().expect("ASCII")),
        ];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("signed");
        let file = |end: &str| self.path(&format!("{cluster}-{node}.{end}"));
        fs::write(file("crt"), certificate.pem()).expect("written");
        fs::write(file("key"), key.serialize_pem()).expect("written");
        PeerTlsSettings {
            identity: NodeIdentity {
                cluster: cluster.parse().expect("a name"),
                node: node.parse().expect("a name"),
            },
            ca: self.path("ca.crt"),
            certificate: file("crt"),
            key: file("key"),
            denied: Vec::new(),
        }
    }

    /// The authority's certificate, for clients that are no nodes.
    pub(super) fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).expect("a root");
        roots
    }
}

/// The fingerprint of a node's certificate.
pub(super) fn fingerprint(settings: &PeerTlsSettings) -> Fingerprint {
    let summary = CertificateSummary::read(&settings.certificate).expect("a certificate");
    summary.fingerprint
}
