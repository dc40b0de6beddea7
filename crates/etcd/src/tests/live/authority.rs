//! An authority with the certificates of etcds and of their clients.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair,
};

use crate::gateway::{CertificateFiles, TlsFiles};

/// An authority. Its files lie in a folder that ends with the test.
pub(super) struct TestAuthority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: tempfile::TempDir,
}

impl TestAuthority {
    pub(super) fn new() -> TestAuthority {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params
            .distinguished_name
            .push(DnType::CommonName, "authority");
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("a certificate");
        let folder = tempfile::tempdir().expect("a folder");
        let authority = TestAuthority { issuer, folder };
        fs::write(authority.certificate(), authority.issuer.pem()).expect("written");
        authority
    }

    pub(super) fn certificate(&self) -> PathBuf {
        self.folder.path().join("ca.crt")
    }

    /// Signs a certificate for this host, without a common name. etcd's gateway shows etcd's own as a client, so it has both
    /// purposes.
    pub(super) fn sign(&self, name: &str) -> CertificateFiles {
        self.sign_subject(name, DistinguishedName::new())
    }

    /// Signs a certificate for this host, with a common name.
    pub(super) fn sign_with_subject(&self, name: &str) -> CertificateFiles {
        let mut subject = DistinguishedName::new();
        subject.push(DnType::CommonName, name);
        self.sign_subject(name, subject)
    }

    fn sign_subject(&self, name: &str, subject: DistinguishedName) -> CertificateFiles {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).expect("names");
        params.distinguished_name = subject;
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("signed");
        let write = |ending: &str, text: String| {
            let path = self.folder.path().join(format!("{name}.{ending}"));
            fs::write(&path, text).expect("written");
            path
        };
        CertificateFiles {
            chain: write("crt", certificate.pem()),
            key: write("key", key.serialize_pem()),
        }
    }
}

/// The files of a client.
pub(super) fn tls_files(authority: &Path, certificate: Option<CertificateFiles>) -> TlsFiles {
    TlsFiles {
        authority: authority.to_owned(),
        certificate,
    }
}
