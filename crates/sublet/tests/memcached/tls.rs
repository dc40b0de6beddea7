//! TLS: which clients are admitted, and certificates that change while the process runs.

use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned,
    SupportedProtocolVersion,
};

use crate::started::{Client, MemcachedProcess, PATIENCE, start_as, wait_for};

/// An authority and the certificates that it signed, in a folder.
struct TestAuthority {
    authority: CertifiedIssuer<'static, KeyPair>,
    folder: tempfile::TempDir,
}

impl TestAuthority {
    fn new() -> TestAuthority {
        let mut params = CertificateParams::new(Vec::<String>::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let authority = CertifiedIssuer::self_signed(params, key).expect("a certificate");
        let papers = TestAuthority {
            authority,
            folder: tempfile::tempdir().expect("a folder"),
        };
        fs::write(papers.path("ca"), papers.authority.pem()).expect("written");
        papers.sign("host", "localhost");
        papers.sign("client", "client.test");
        papers
    }

    /// Makes a certificate for `name` in `FILE`, and its key in `FILE.key`.
    fn sign(&self, file: &str, name: &str) {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new([name.to_owned()]).expect("a name");
        let certificate = params.signed_by(&key, &self.authority).expect("signed");
        fs::write(self.path(file), certificate.pem()).expect("written");
        fs::write(self.path(&format!("{file}.key")), key.serialize_pem()).expect("written");
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    fn start(&self, more: &[&str], suboptions: &str) -> MemcachedProcess {
        let list = format!(
            "ssl_chain_cert={},ssl_key={},ssl_ca_cert={}{suboptions}",
            self.path("host").display(),
            self.path("host.key").display(),
            self.path("ca").display(),
        );
        let mut options = vec!["-Z", "-o", &list, "-p", "-1", "-t", "1"];
        options.extend(more);
        start_as(&options)
    }
}

/// What a client presents and expects.
struct TlsClient<'a> {
    papers: &'a TestAuthority,
    certificate: Option<&'a str>,
    version: &'static SupportedProtocolVersion,
}

type Secure = StreamOwned<ClientConnection, TcpStream>;

impl TlsClient<'_> {
    fn config(&self) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        let authority = self.papers.authority.der().clone();
        roots.add(authority).expect("a certificate");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[self.version])
            .expect("a version")
            .with_root_certificates(roots);
        Arc::new(match self.certificate {
            None => builder.with_no_client_auth(),
            Some(file) => builder
                .with_client_auth_cert(
                    vec![pem(&self.papers.path(file))],
                    PrivateKeyDer::from_pem_file(self.papers.path(&format!("{file}.key")))
                        .expect("a key"),
                )
                .expect("a pair"),
        })
    }

    fn connect(&self, port: u16) -> io::Result<Client<Secure>> {
        connect(self.config(), port)
    }
}

fn pem(path: &Path) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(path).expect("a certificate")
}

/// Connects and sends a request. Only then does TLS 1.3 tell a client that it was refused.
fn connect(config: Arc<ClientConfig>, port: u16) -> io::Result<Client<Secure>> {
    let name = ServerName::try_from("localhost").expect("a name");
    let connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
    let socket = TcpStream::connect(("127.0.0.1", port))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut stream = StreamOwned::new(connection, socket);
    stream.write_all(b"mn\r\n")?;
    let mut answer = [0; 4];
    stream.read_exact(&mut answer)?;
    assert_eq!(&answer, b"MN\r\n");
    Ok(Client::over(stream))
}

#[test]
fn values_of_every_size_pass_through_tls() {
    let papers = TestAuthority::new();
    let started = papers.start(&["-l", "127.0.0.1", "-I", "2m"], "");
    for version in [&TLS12, &TLS13] {
        let caller = TlsClient {
            papers: &papers,
            certificate: None,
            version,
        };
        let mut client = caller.connect(started.ports[0]).expect("it may come in");
        for size in [0, 1, 100, 16_384, 70_000, 1_500_000] {
            let value = vec![size as u8; size];
            client.set("k", &value);
            assert!(client.get("k").as_deref() == Some(&value[..]), "{size}");
        }
    }
}

#[test]
fn who_never_begins_tls_gives_way_where_places_are_short() {
    let papers = TestAuthority::new();
    let started = papers.start(&["-l", "127.0.0.1", "-c", "2"], "");
    let caller = TlsClient {
        papers: &papers,
        certificate: None,
        version: &TLS13,
    };
    let mut stays = caller.connect(started.ports[0]).expect("it may come in");
    let mut silent = Client::tcp(started.ports[0]);
    wait_for("the silent one to give way", || {
        caller.connect(started.ports[0]).is_ok()
    });
    assert!(silent.is_closed());
    stays.set("k", b"v");
}

#[test]
fn a_plain_client_and_an_old_version_are_turned_away_and_counted() {
    let papers = TestAuthority::new();
    let started = papers.start(&["-l", "127.0.0.1"], ",ssl_min_version=3");
    let mut plain = Client::tcp(started.ports[0]);
    plain.send("version\r\n");
    assert!(plain.is_closed());
    let mut caller = TlsClient {
        papers: &papers,
        certificate: None,
        version: &TLS12,
    };
    assert!(caller.connect(started.ports[0]).is_err());
    caller.version = &TLS13;
    let mut client = caller.connect(started.ports[0]).expect("it may come in");
    assert_eq!(client.stat("ssl_handshake_errors"), 2);
}

#[test]
fn every_listener_has_its_own_rule() {
    let papers = TestAuthority::new();
    let started = papers.start(&["-l", "notls:127.0.0.1,127.0.0.1,mtls:127.0.0.1"], "");
    let [plain, tls, mutual] = started.ports[..] else {
        panic!("{:?}", started.ports);
    };
    Client::tcp(plain).set("k", b"v");
    let mut caller = TlsClient {
        papers: &papers,
        certificate: None,
        version: &TLS13,
    };
    let mut client = caller.connect(tls).expect("it may come in");
    assert_eq!(client.get("k").as_deref(), Some(&b"v"[..]));
    assert!(caller.connect(mutual).is_err(), "no certificate, no entry");
    caller.certificate = Some("client");
    assert!(caller.connect(mutual).is_ok());
}

#[test]
fn without_an_authority_nobody_can_prove_who_he_is() {
    let papers = TestAuthority::new();
    let list = format!(
        "ssl_chain_cert={},ssl_key={}",
        papers.path("host").display(),
        papers.path("host.key").display(),
    );
    let started = start_as(&["-Z", "-o", &list, "-p", "-1", "-l", "mtls:127.0.0.1"]);
    for (certificate, version) in [
        (None, &TLS13),
        (Some("client"), &TLS13),
        (Some("client"), &TLS12),
    ] {
        let caller = TlsClient {
            papers: &papers,
            certificate,
            version,
        };
        assert!(caller.connect(started.ports[0]).is_err());
    }
}

#[test]
fn a_required_certificate_must_be_of_the_right_authority() {
    let (papers, strangers) = (TestAuthority::new(), TestAuthority::new());
    let started = papers.start(&["-l", "127.0.0.1"], ",ssl_verify_mode=2");
    for file in ["client", "client.key"] {
        let strange = papers.path(&file.replace("client", "strange"));
        fs::copy(strangers.path(file), strange).expect("copied");
    }
    for (certificate, welcome) in [
        (None, false),
        (Some("strange"), false),
        (Some("client"), true),
    ] {
        let caller = TlsClient {
            papers: &papers,
            certificate,
            version: &TLS12,
        };
        let came_in = caller.connect(started.ports[0]).is_ok();
        assert_eq!(came_in, welcome, "{certificate:?}");
    }
}

#[test]
fn certificates_are_read_again_when_asked_and_bad_ones_change_nothing() {
    let papers = TestAuthority::new();
    let started = papers.start(&["-l", "127.0.0.1"], "");
    let caller = TlsClient {
        papers: &papers,
        certificate: None,
        version: &TLS13,
    };
    let shown = |client: &Client<Secure>| {
        let certificates = client.stream.get_ref().conn.peer_certificates();
        certificates.expect("it has one")[0].clone().into_owned()
    };
    let before = pem(&papers.path("host"));
    let mut client = caller.connect(started.ports[0]).expect("it may come in");
    assert_eq!(shown(&client), before);

    papers.sign("host", "localhost");
    assert_eq!(client.request("refresh_certs"), "OK");
    let fresh = caller.connect(started.ports[0]).expect("it may come in");
    assert_eq!(shown(&fresh), pem(&papers.path("host")));
    assert_ne!(shown(&fresh), before);

    fs::write(papers.path("host"), "nonsense").expect("written");
    assert_ne!(client.request("refresh_certs"), "OK");
    let still = caller.connect(started.ports[0]).expect("it may come in");
    assert_eq!(shown(&still), shown(&fresh));
}

#[test]
fn sessions_are_resumed_only_where_that_is_wanted() {
    let papers = TestAuthority::new();
    for (suboptions, kind) in [
        ("", HandshakeKind::Full),
        (",ssl_session_cache", HandshakeKind::Resumed),
    ] {
        let started = papers.start(&["-l", "127.0.0.1"], suboptions);
        let caller = TlsClient {
            papers: &papers,
            certificate: None,
            version: &TLS12,
        };
        let config = caller.config();
        drop(connect(Arc::clone(&config), started.ports[0]).expect("it may come in"));
        let second = connect(config, started.ports[0]).expect("it may come in");
        assert_eq!(second.stream.get_ref().conn.handshake_kind(), Some(kind));
    }
}
