//! A cluster's authority and the files of its nodes, made for a test, and a clock that stands where the test puts it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    SanType, date_time_ymd,
};
use rustls::pki_types::UnixTime;
use sublet_tls::peer::{NodeIdentity, PeerCredentials, PeerTlsSettings, TimeProvider};

/// The Unix time at which every certificate of these tests begins.
pub(crate) const START: u64 = 1_800_000_000;
/// How long each lasts, in seconds.
pub(crate) const LIFE: u64 = 1000;

/// A host's name that each certificate has, too.
pub(crate) const HOST_NAME: &str = "node.test";

/// A clock that a test moves.
#[derive(Debug)]
pub(crate) struct SetClock(AtomicU64);

impl SetClock {
    pub(crate) fn at(unix: u64) -> Arc<SetClock> {
        Arc::new(SetClock(AtomicU64::new(unix)))
    }

    pub(crate) fn set(&self, unix: u64) {
        self.0.store(unix, Ordering::Relaxed);
    }
}

impl TimeProvider for SetClock {
    fn current_time(&self) -> Option<UnixTime> {
        let unix = self.0.load(Ordering::Relaxed);
        Some(UnixTime::since_unix_epoch(Duration::from_secs(unix)))
    }
}

/// An authority, with its certificate in `ca.crt` of its folder.
pub(crate) struct Cluster {
    authority: CertifiedIssuer<'static, KeyPair>,
    folder: tempfile::TempDir,
}

impl Cluster {
    pub(crate) fn new() -> Cluster {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        let key = KeyPair::generate().expect("a key");
        let authority = CertifiedIssuer::self_signed(params, key).expect("a certificate");
        let folder = tempfile::tempdir().expect("a folder");
        let cluster = Cluster { authority, folder };
        fs::write(cluster.path("ca.crt"), cluster.authority.pem()).expect("written");
        cluster
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Signs a certificate with these URIs, in `FILE.crt`, and its key in `FILE.key`.
    pub(crate) fn sign(&self, file: &str, uris: &[&str]) {
        use ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
        self.sign_for(file, uris, &[ClientAuth, ServerAuth]);
    }

    /// Signs a certificate for these purposes.
    pub(crate) fn sign_for(&self, file: &str, uris: &[&str], purposes: &[ExtendedKeyUsagePurpose]) {
        self.sign_with(file, uris, |params| {
            params.extended_key_usages = purposes.to_vec();
        });
    }

    /// Signs a certificate that ends a second before it begins.
    pub(crate) fn sign_backwards(&self, file: &str, uris: &[&str]) {
        self.sign_with(file, uris, |params| {
            params.not_after = params.not_before - Duration::from_secs(1);
        });
    }

    fn sign_with(&self, file: &str, uris: &[&str], change: impl FnOnce(&mut CertificateParams)) {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.not_before = date_time_ymd(1970, 1, 1) + Duration::from_secs(START);
        params.not_after = params.not_before + Duration::from_secs(LIFE);
        change(&mut params);
        let uris = uris.iter().map(|uri| (*uri).try_into().expect("ASCII"));
        let host = SanType::DnsName(HOST_NAME.try_into().expect("ASCII"));
        params.subject_alt_names = uris.map(SanType::URI).chain([host]).collect();
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.authority).expect("signed");
        let write = |path: &Path, text: String| fs::write(path, text).expect("written");
        write(&self.path(&format!("{file}.crt")), certificate.pem());
        write(&self.path(&format!("{file}.key")), key.serialize_pem());
    }

    /// Settings of a node of the cluster `blue`, with the files of its name.
    pub(crate) fn settings(&self, node: &str) -> PeerTlsSettings {
        PeerTlsSettings {
            identity: NodeIdentity {
                cluster: "blue".parse().expect("a name"),
                node: node.parse().expect("a name"),
            },
            ca: self.path("ca.crt"),
            certificate: self.path(&format!("{node}.crt")),
            key: self.path(&format!("{node}.key")),
            denied: Vec::new(),
        }
    }

    /// Signs a node's certificate and loads it.
    pub(crate) fn node(&self, node: &str, clock: &Arc<SetClock>) -> PeerCredentials {
        self.sign(node, &[&format!("sublet://blue/{node}")]);
        self.load(node, clock)
    }

    /// Loads a node's certificate.
    pub(crate) fn load(&self, node: &str, clock: &Arc<SetClock>) -> PeerCredentials {
        PeerCredentials::load(&self.settings(node), clock.clone()).expect("loaded")
    }
}
