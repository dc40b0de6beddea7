//! Two ends of TLS in one thread, and the bytes between them.

use std::io::{Read, Write};
use std::ops::DerefMut;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, ConnectionCommon, Error, RootCertStore, ServerConnection,
    SideData, SupportedProtocolVersion,
};
use sublet_tls::peer::{PeerCredentials, PeerRefusal};

use crate::cluster::{Cluster, HOST_NAME, START, SetClock};

/// More exchanges than any handshake takes.
const EXCHANGES_MAX: usize = 20;

/// Both ends after as many exchanges as they wanted.
pub(crate) struct Handshake {
    pub(crate) client: ClientConnection,
    pub(crate) server: ServerConnection,
    /// What each end made of it.
    pub(crate) at_client: Result<(), Error>,
    pub(crate) at_server: Result<(), Error>,
}

impl Handshake {
    /// Lets one node call another, which it takes for `expected`.
    pub(crate) fn between(
        caller: &PeerCredentials,
        called: &PeerCredentials,
        expected: &str,
    ) -> Handshake {
        let expected = expected.parse().expect("a name");
        Handshake::run(caller.connect(&expected).expect("begun"), called)
    }

    /// Lets any client call a node.
    pub(crate) fn run(client: ClientConnection, called: &PeerCredentials) -> Handshake {
        let server = called.accept().expect("begun");
        let mut handshake = Handshake {
            client,
            server,
            at_client: Ok(()),
            at_server: Ok(()),
        };
        for _ in 0..EXCHANGES_MAX {
            let sent = pass(
                &mut handshake.client,
                &mut handshake.server,
                &mut handshake.at_server,
            );
            let answered = pass(
                &mut handshake.server,
                &mut handshake.client,
                &mut handshake.at_client,
            );
            if sent + answered == 0 {
                break;
            }
        }
        handshake
    }

    /// Checks that both ends are content, and that bytes pass either way.
    pub(crate) fn succeeded(mut self) -> Handshake {
        assert_eq!((&self.at_client, &self.at_server), (&Ok(()), &Ok(())));
        assert!(!self.client.is_handshaking() && !self.server.is_handshaking());
        self.client.writer().write_all(b"ask").expect("taken");
        pass(&mut self.client, &mut self.server, &mut self.at_server);
        let mut asked = [0; 3];
        self.server.reader().read_exact(&mut asked).expect("came");
        assert_eq!(&asked, b"ask");
        self
    }

    /// What the node that was called says.
    pub(crate) fn refused_by_server(&self) -> PeerRefusal {
        PeerRefusal::of(self.at_server.as_ref().expect_err("the server refuses"))
    }

    /// What the node that called says.
    pub(crate) fn refused_by_client(&self) -> PeerRefusal {
        PeerRefusal::of(self.at_client.as_ref().expect_err("the client refuses"))
    }
}

/// Moves what one end has to send to the other. An end's first error stays.
fn pass<A: SideData, B: SideData>(
    from: &mut impl DerefMut<Target = ConnectionCommon<A>>,
    to: &mut impl DerefMut<Target = ConnectionCommon<B>>,
    at_receiver: &mut Result<(), Error>,
) -> usize {
    let mut bytes = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut bytes).expect("into memory");
    }
    let mut rest = &bytes[..];
    while !rest.is_empty() && at_receiver.is_ok() {
        to.read_tls(&mut rest).expect("from memory");
        if let Err(error) = to.process_new_packets() {
            *at_receiver = Err(error);
        }
    }
    bytes.len()
}

/// A client of TLS that is none of ours. It trusts the cluster's authority, and takes the node for a host.
pub(crate) fn foreign_client(
    cluster: &Cluster,
    certificate: Option<&str>,
    version: &'static SupportedProtocolVersion,
) -> ClientConnection {
    let provider = sublet_tls::provider();
    let authority = sublet_tls::Authorities::read(&cluster.path("ca.crt")).expect("an authority");
    let clock = SetClock::at(START);
    let builder = ClientConfig::builder_with_details(Arc::clone(&provider), clock)
        .with_protocol_versions(&[version])
        .expect("a version");
    let builder = builder.with_root_certificates(RootCertStore::empty());
    let mut config = match certificate {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let chain = CertificateDer::from_pem_file(cluster.path(&format!("{file}.crt")));
            let key = PrivateKeyDer::from_pem_file(cluster.path(&format!("{file}.key")));
            let (chain, key) = (vec![chain.expect("one")], key.expect("one"));
            builder
                .with_client_auth_cert(chain, key)
                .expect("they belong")
        }
    };
    let verifier = sublet_tls::server_verifier(authority, &provider);
    config.dangerous().set_certificate_verifier(verifier);
    let name = ServerName::try_from(HOST_NAME).expect("a name");
    ClientConnection::new(Arc::new(config), name).expect("begun")
}
