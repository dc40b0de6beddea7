//! TLS: the daemon tells a client nothing without TLS, and accepts nobody without a certificate.

use std::fs;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use sublet_frontends::listeners::{
    ClientCertificateDemand, TlsCertificates, TlsSettings, TlsVersion,
};
use sublet_frontends::nbd::Settings;

use crate::fake_disk::{AnswerMode, FakeDisk};
use crate::node::{Client, Node, soon};

/// An authority and what it signed, in a folder, under the names that clients of libnbd look for.
struct TestCertificates {
    authority: CertifiedIssuer<'static, KeyPair>,
    folder: tempfile::TempDir,
}

impl TestCertificates {
    fn new() -> TestCertificates {
        let mut params = CertificateParams::new(Vec::<String>::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, "authority");
        let key = KeyPair::generate().expect("a key");
        let papers = TestCertificates {
            authority: CertifiedIssuer::self_signed(params, key).expect("a certificate"),
            folder: tempfile::tempdir().expect("a folder"),
        };
        fs::write(papers.path("ca-cert.pem"), papers.authority.pem()).expect("written");
        papers.sign("server", "localhost");
        papers.sign("client", "client.test");
        papers
    }

    fn sign(&self, file: &str, name: &str) {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new([name.to_owned()]).expect("a name");
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, &self.authority).expect("signed");
        let key = key.serialize_pem();
        fs::write(self.path(&format!("{file}-cert.pem")), certificate.pem()).expect("written");
        fs::write(self.path(&format!("{file}-key.pem")), key).expect("written");
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    fn tls(&self) -> TlsCertificates {
        let loaded = TlsCertificates::load(TlsSettings {
            chain: self.path("server-cert.pem"),
            key: Some(self.path("server-key.pem")),
            client_ca: Some(self.path("ca-cert.pem")),
            client_certificate: ClientCertificateDemand::Required,
            min_version: TlsVersion::V12,
            resumes: true,
        });
        loaded.expect("good papers")
    }

    fn config(&self, client: Option<&str>) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots
            .add(self.authority.der().clone())
            .expect("a certificate");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots);
        match client {
            None => builder.with_no_client_auth(),
            Some(file) => {
                let key = self.path(&format!("{file}-key.pem"));
                let key = PrivateKeyDer::from_pem_file(key).expect("a key");
                let chain = vec![pem(&self.path(&format!("{file}-cert.pem")))];
                builder.with_client_auth_cert(chain, key).expect("a pair")
            }
        }
    }
}

fn pem(path: &Path) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(path).expect("a certificate")
}

type TlsClientStream = StreamOwned<ClientConnection, UnixStream>;

/// Asks for TLS, and continues in it.
fn through_tls(mut client: Client, config: ClientConfig) -> Client<TlsClientStream> {
    client.option(5, b"");
    assert_eq!(client.reply().0, 1);
    let name = ServerName::try_from("localhost").expect("a name");
    let connection = ClientConnection::new(Arc::new(config), name).expect("a connection");
    Client(StreamOwned::new(connection, client.0))
}

fn node(papers: &TestCertificates) -> Node {
    let disk = FakeDisk::new("a", 64 << 20, AnswerMode::Late);
    Node::start_as(vec![disk], Settings::default(), Some(papers.tls()))
}

#[test]
fn who_has_a_certificate_reads_and_writes_in_tls() {
    let papers = TestCertificates::new();
    let node = node(&papers);
    let mut plain = node.connect();
    plain.option(3, b"");
    assert_eq!(plain.reply().0, 0x8000_0005, "TLS first");
    let mut client = through_tls(plain, papers.config(Some("client")));
    client.go("a");
    client.write(1, 7, &[5; 4096]);
    assert_eq!(client.answer().expect("an answer"), (0, 1));
    client.read(2, 7, 4096, 5);
    let large = vec![6; 20 << 20];
    client.write(3, 1 << 20, &large);
    assert_eq!(client.answer().expect("an answer"), (0, 3));
    client.read(4, 1 << 20, 20 << 20, 6);
}

/// A client counts as silent until it has sent its certificate, whether it asked for TLS or not.
#[test]
fn who_shows_its_certificate_comes_in_where_others_show_none() {
    let papers = TestCertificates::new();
    let disk = FakeDisk::new("a", 64 << 20, AnswerMode::Prompt);
    let settings = Settings {
        connections_max: 4,
        ..Settings::default()
    };
    let (node, time) = Node::start_still(vec![disk], settings, Some(papers.tls()));
    let mut others: Vec<_> = (0..4).map(|_| node.connect()).collect();
    for other in &mut others[..2] {
        other.option(5, b"");
        assert_eq!(other.reply().0, 1);
    }
    for _ in 0..3 {
        time.advance(settings.silence_max);
        let mut client = through_tls(node.connect(), papers.config(Some("client")));
        client.go("a");
        client.read(1, 0, 1, 0);
    }
    assert_eq!(node.figure("refused_full"), 0);
}

/// Ten times as many clients as places wait before it in the kernel's queue, and stay connected.
#[test]
fn who_shows_its_certificate_comes_in_behind_a_queue_of_others() {
    let papers = TestCertificates::new();
    let disk = FakeDisk::new("a", 64 << 20, AnswerMode::Prompt);
    let settings = Settings {
        connections_max: 8,
        ..Settings::default()
    };
    let node = Node::start_as(vec![disk], settings, Some(papers.tls()));
    let mut stays = through_tls(node.connect(), papers.config(Some("client")));
    stays.go("a");
    let queue = [(); 80].map(|()| UnixStream::connect(node.path("nbd")).expect("queued"));
    let started = Instant::now();
    let mut client = through_tls(node.connect(), papers.config(Some("client")));
    client.go("a");
    client.read(1, 0, 1, 0);
    let took = started.elapsed();
    assert!(took < Duration::from_secs(4), "{took:?}");
    stays.read(1, 0, 1, 0);
    assert_eq!(node.figure("refused_full"), 0);
    drop(queue);
}

#[test]
fn who_has_none_does_not_come_in() {
    let papers = TestCertificates::new();
    let node = node(&papers);
    let mut client = through_tls(node.connect(), papers.config(None));
    let came_in = client.0.read(&mut [0; 1]);
    assert!(came_in.is_err() || matches!(came_in, Ok(0)), "{came_in:?}");
    soon("it is gone", || node.figure("connections") == 0);
    assert_eq!(node.figure("tls_handshake_errors"), 1);
}

#[test]
fn what_was_said_in_the_open_is_not_believed_in_tls() {
    let papers = TestCertificates::new();
    let node = node(&papers);
    let mut client = node.connect();
    let eager = [
        &b"IHAVEOPT\0\0\0\x05\0\0\0\0"[..],
        b"IHAVEOPT\0\0\0\x08\0\0\0\0",
    ]
    .concat();
    io::Write::write_all(&mut client.0, &eager).expect("written");
    let mut rest = Vec::new();
    let _ = client.0.read_to_end(&mut rest);
    assert!(rest.len() <= 20, "an answer to the first at most");
    soon("it is gone", || node.figure("connections") == 0);
}

#[test]
fn nbdinfo_comes_in_with_papers() {
    let Some(nbdinfo) = crate::clients::installed("nbdinfo") else {
        return;
    };
    let papers = TestCertificates::new();
    let node = node(&papers);
    let list_exports = |certificates: &Path| {
        let uri = format!(
            "nbds+unix://localhost/a?socket={}&tls-certificates={}",
            node.path("nbd").display(),
            certificates.display()
        );
        Command::new(nbdinfo).arg(uri).output().expect("it runs")
    };
    let output = list_exports(papers.folder.path());
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        said.contains("with TLS") && said.contains("67108864"),
        "{output:?}"
    );
    let strangers = TestCertificates::new();
    assert!(!list_exports(strangers.folder.path()).status.success());
}
