//! Who is no member of the cluster is refused, counted each time, and logged once.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use sublet_lend::ids::PeerId;
use sublet_lend::node::{LinkState, ShutCause};
use sublet_tls::peer::{DefaultTimeProvider, PeerCredentials};

use super::super::{PeerNotice, RefusedParty};
use super::authority::{HOST_NAME, TestAuthority, fingerprint};
use super::cluster::{BoundNode, TestNode, TestTime, connected, member};
use crate::peers::page_faults::{FaultParty, PageFault};

/// How often a cause was logged.
fn logged(node: &TestNode, cause: &str) -> usize {
    let notices = node.notices.lock();
    let is_it = |notice: &&PeerNotice| match notice {
        PeerNotice::Refused { refusal, .. } => refusal.label() == cause,
        _ => false,
    };
    notices.iter().filter(is_it).count()
}

fn refused(node: &TestNode, cause: &str) -> u64 {
    node.plane.tables().refusals().of_cause(cause)
}

/// Two nodes of which the second refuses the first for a cause, again and again.
fn second_refuses(
    time: &TestTime,
    tls: [sublet_tls::peer::PeerTlsSettings; 2],
    cause: &str,
) -> [TestNode; 2] {
    let (a, b) = (BoundNode::new("a"), BoundNode::new("b"));
    let (to_a, to_b) = (a.member(), b.member());
    let [tls_a, tls_b] = tls;
    let a = a.start(time.0, tls_a, vec![to_b]);
    let b = b.start(time.0, tls_b, vec![to_a]);
    time.wait(cause, || refused(&b, cause) >= 2);
    assert_eq!(logged(&b, cause), 1, "{cause}");
    assert!(!a.is_up_with("b") && !b.is_up_with("a"));
    assert!(matches!(b.peer("a").link, LinkState::Away { .. }));
    [a, b]
}

#[test]
fn a_denied_certificate_is_refused() {
    let (time, authority) = (TestTime::start(), TestAuthority::new());
    let a = authority.settings("blue", "a");
    let mut b = authority.settings("blue", "b");
    b.denied = vec![fingerprint(&a)];
    let [_a, b] = second_refuses(&time, [a, b], "denied");
    let refusals = b.plane.tables().refusals();
    let (party, cause, _) = refusals.parties().next().expect("one");
    assert!(matches!(party, RefusedParty::Address(ip) if ip.is_loopback()));
    assert_eq!(cause, "denied");
}

/// The caller finds out first: its own check of the other end comes before that of the other.
#[test]
fn a_node_of_another_cluster_or_authority_is_refused_by_the_caller() {
    let (time, authority, other) = (
        TestTime::start(),
        TestAuthority::new(),
        TestAuthority::new(),
    );
    for (tls, cause) in [
        (authority.settings("red", "b"), "other-cluster"),
        (other.settings("blue", "b"), "unknown-authority"),
        (authority.settings("blue", "c"), "other-node"),
    ] {
        let (a, b) = (BoundNode::new("a"), BoundNode::new("b"));
        let (to_a, to_b) = (a.member(), b.member());
        let a = a.start(time.0, authority.settings("blue", "a"), vec![to_b]);
        let b = b.start(time.0, tls, vec![to_a]);
        time.wait(cause, || refused(&a, cause) >= 2);
        assert_eq!(logged(&a, cause), 1, "{cause}");
        assert!(!a.is_up_with("b") && !b.is_up_with("a"));
        let refusals = a.plane.tables().refusals();
        let parties: Vec<_> = refusals
            .parties()
            .map(|(party, ..)| party.clone())
            .collect();
        assert!(parties.contains(&RefusedParty::Member("b".parse().expect("a name"))));
    }
}

/// Speaks TLS without a certificate. Returns when the node has closed.
fn call_without_certificate(authority: &TestAuthority, address: SocketAddr) {
    let config = ClientConfig::builder_with_provider(sublet_tls::provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("a version")
        .with_root_certificates(authority.roots())
        .with_no_client_auth();
    let name = ServerName::try_from(HOST_NAME).expect("a name");
    let tls = ClientConnection::new(Arc::new(config), name).expect("a client");
    let socket = TcpStream::connect(address).expect("connected");
    let mut stream = StreamOwned::new(tls, socket);
    // The handshake ends here before the node has seen that there is no certificate.
    let _ = stream.write_all(b"{\"kind\":\"leave\"}\n");
    let mut answer = Vec::new();
    assert!(stream.read_to_end(&mut answer).is_err() || answer.is_empty());
}

#[test]
fn who_has_no_certificate_or_speaks_no_tls_is_refused() {
    let (time, authority) = (TestTime::start(), TestAuthority::new());
    let b = BoundNode::new("b");
    let address = b.address();
    let b = b.start(time.0, authority.settings("blue", "b"), Vec::new());
    for calls in 1..3 {
        call_without_certificate(&authority, address);
        time.wait("counted", || refused(&b, "no-certificate") == calls);
    }
    assert_eq!(logged(&b, "no-certificate"), 1);
    let mut socket = TcpStream::connect(address).expect("connected");
    socket.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("sent");
    time.wait("counted", || refused(&b, "protocol") == 1);
    let mut rest = Vec::new();
    let _ = socket.read_to_end(&mut rest);
}

#[test]
fn a_node_of_the_cluster_that_is_no_member_is_named_once() {
    let (time, authority) = (TestTime::start(), TestAuthority::new());
    let (a, b) = (BoundNode::new("a"), BoundNode::new("b"));
    let to_b = b.member();
    let b = b.start(time.0, authority.settings("blue", "b"), Vec::new());
    let _a = a.start(time.0, authority.settings("blue", "a"), vec![to_b]);
    time.wait("it came twice", || b.plane.tables().status().strangers >= 2);
    let notices = b.notices.lock();
    let strangers = notices
        .iter()
        .filter(|notice| matches!(notice, PeerNotice::Stranger { .. }));
    assert_eq!(strangers.count(), 1);
}

/// Whoever connects and says nothing takes no place that a member needs.
#[test]
fn silent_connections_keep_no_member_out() {
    let (time, authority) = (TestTime::start(), TestAuthority::new());
    let (a, b) = (BoundNode::new("a"), BoundNode::new("b"));
    let (to_a, to_b, address) = (a.member(), b.member(), b.address());
    let b = b.start(time.0, authority.settings("blue", "b"), vec![to_a]);
    let connect = |_| TcpStream::connect(address).expect("connected");
    let silent: Vec<TcpStream> = (0..200).map(connect).collect();
    let a = a.start(time.0, authority.settings("blue", "a"), vec![to_b]);
    connected(&time, &[a, b]);
    drop(silent);
}

/// A node's certificate does not make lines of what is none.
#[test]
fn a_peer_that_sends_no_lines_is_shut_out() {
    let (time, authority) = (TestTime::start(), TestAuthority::new());
    let b = BoundNode::new("b");
    let (address, to_a) = (b.address(), member("a", 1));
    let b = b.start(time.0, authority.settings("blue", "b"), vec![to_a]);
    let own = PeerCredentials::load(
        &authority.settings("blue", "a"),
        Arc::new(DefaultTimeProvider),
    );
    let name = "b".parse().expect("a name");
    let tls = own.expect("loaded").connect(&name).expect("a client");
    let socket = TcpStream::connect(address).expect("connected");
    let mut stream = StreamOwned::new(tls, socket);
    stream.write_all(b"no line of JSON\n").expect("sent");
    time.wait("shut out", || {
        let cause = ShutCause::Garbled;
        matches!(b.peer("a").link, LinkState::Shut { cause: now, .. } if now == cause)
    });
    assert_eq!(refused(&b, "garbled"), 1);
    let is_garbled = |notice: &PeerNotice| matches!(notice, PeerNotice::Garbled { .. });
    assert!(b.notices.lock().iter().any(is_garbled));
    let mut said = String::new();
    let _ = stream.read_to_string(&mut said);
    assert!(said.contains("\"bye\""), "{said}");
}

/// What threads report of page connections is counted each time, and logged once a party and fault.
#[test]
fn faults_on_page_connections_are_counted_and_logged_once() {
    let (time, authority) = (TestTime::start(), TestAuthority::new());
    let b = BoundNode::new("b");
    let b = b.start(
        time.0,
        authority.settings("blue", "b"),
        vec![member("a", 1)],
    );
    let far = &b.plane.tables().far;
    let fault = PageFault::BrokenProtocol;
    for counted in [2, 4, 6] {
        for _ in 0..2 {
            far.ledger()
                .faults()
                .report(FaultParty::Peer(PeerId(0)), fault);
        }
        time.wait("counted", || refused(&b, fault.label()) == counted);
    }
    let refusals = b.plane.tables().refusals();
    let party = RefusedParty::Member("a".parse().expect("a name"));
    let parties: Vec<_> = refusals.parties().collect();
    assert!(parties.contains(&(&party, fault.label(), 6)), "{parties:?}");
    let notices = b.notices.lock();
    let is_it = |notice: &&PeerNotice| match notice {
        PeerNotice::PageFault { party: of, .. } => *of == party,
        _ => false,
    };
    assert_eq!(notices.iter().filter(is_it).count(), 1);
}
