//! Mutual TLS between two nodes: who is refused, by which end, and why.

mod cluster;
mod handshake;

use std::fs;

use rcgen::ExtendedKeyUsagePurpose;
use rustls::version::{TLS12, TLS13};
use rustls::{AlertDescription, ProtocolVersion};
use sublet_tls::CredentialError;
use sublet_tls::peer::{
    CertificateSummary, CertificateUriError, DENIED_MAX, EXPIRY_NOTICE, PeerCredentialError,
    PeerCredentials, PeerRefusal, connected_peer, session_secret,
};

use crate::cluster::{Cluster, LIFE, START, SetClock};
use crate::handshake::{Handshake, foreign_client};

fn refusal(loaded: Result<PeerCredentials, PeerCredentialError>) -> PeerRefusal {
    match loaded.expect_err("it is refused") {
        PeerCredentialError::Refused { refusal, .. } => *refusal,
        other => panic!("refused for another reason: {other}"),
    }
}

#[test]
fn two_nodes_of_a_cluster_know_each_other_and_share_a_secret() {
    let (cluster, clock) = (Cluster::new(), SetClock::at(START));
    let (a, b) = (cluster.node("a", &clock), cluster.node("b", &clock));
    let begun = Handshake {
        client: a.connect(&"b".parse().expect("a name")).expect("begun"),
        server: b.accept().expect("begun"),
        at_client: Ok(()),
        at_server: Ok(()),
    };
    assert_eq!(connected_peer(&begun.server), None);
    assert!(session_secret(&begun.client).is_err());

    let pair = Handshake::between(&a, &b, "b").succeeded();
    assert_eq!(
        pair.client.protocol_version(),
        Some(ProtocolVersion::TLSv1_3)
    );
    let caller = connected_peer(&pair.server).expect("known");
    assert_eq!(caller.identity.to_string(), "sublet://blue/a");
    assert_eq!(
        (caller.fingerprint, caller.ends_unix),
        (a.fingerprint(), START + LIFE)
    );
    let called = connected_peer(&pair.client).expect("known");
    assert_eq!(called.identity.to_string(), "sublet://blue/b");
    assert_eq!(called.fingerprint, b.fingerprint());

    let secret = session_secret(&pair.client).expect("a secret");
    assert_eq!(session_secret(&pair.server).expect("a secret"), secret);
    let other = Handshake::between(&a, &b, "b").succeeded();
    assert_ne!(session_secret(&other.client).expect("a secret"), secret);
}

#[test]
fn a_third_host_is_refused_whatever_it_shows() {
    let (cluster, clock) = (Cluster::new(), SetClock::at(START));
    let b = cluster.node("b", &clock);
    let bare = Handshake::run(foreign_client(&cluster, None, &TLS13), &b);
    assert_eq!(bare.refused_by_server(), PeerRefusal::NoCertificate);
    assert_eq!(connected_peer(&bare.server), None);
    let told = PeerRefusal::RefusedByPeer(AlertDescription::CertificateRequired);
    assert_eq!(bare.refused_by_client(), told);

    // Of a cluster of the same name that another authority signs.
    let stranger = Cluster::new().node("a", &clock);
    let refused = Handshake::between(&stranger, &b, "b");
    assert_eq!(refused.refused_by_client(), PeerRefusal::UnknownAuthority);
    let mixed = Cluster::new();
    mixed.sign("a", &["sublet://blue/a"]);
    fs::copy(cluster.path("ca.crt"), mixed.path("ca.crt")).expect("copied");
    let shown = Handshake::run(foreign_client(&mixed, Some("a"), &TLS13), &b);
    assert_eq!(shown.refused_by_server(), PeerRefusal::UnknownAuthority);

    // Of our authority, for another cluster, for nobody, for two nodes, for a cluster.
    cluster.sign("red", &["sublet://red/a"]);
    let red = Handshake::run(foreign_client(&cluster, Some("red"), &TLS13), &b);
    let PeerRefusal::OtherCluster { found } = red.refused_by_server() else {
        panic!("{:?}", red.at_server);
    };
    assert_eq!(found.to_string(), "sublet://red/a");
    for (uris, cause) in [
        (&["https://blue/a"][..], CertificateUriError::Missing),
        (
            &["sublet://blue/a", "sublet://blue/c"],
            CertificateUriError::Several,
        ),
        (&["sublet://blue/a/b"], CertificateUriError::Malformed),
        (&["sublet://blue"], CertificateUriError::Malformed),
    ] {
        cluster.sign("odd", uris);
        let odd = Handshake::run(foreign_client(&cluster, Some("odd"), &TLS13), &b);
        assert_eq!(
            odd.refused_by_server(),
            PeerRefusal::NoNodeName(cause),
            "{uris:?}"
        );
    }
    cluster.sign_for(
        "half",
        &["sublet://blue/a"],
        &[ExtendedKeyUsagePurpose::ServerAuth],
    );
    let half = Handshake::run(foreign_client(&cluster, Some("half"), &TLS13), &b);
    assert_eq!(half.refused_by_server(), PeerRefusal::WrongPurpose);
}

/// The foreign clients above are refused for what they show, and not for being foreign.
#[test]
fn a_foreign_client_with_a_nodes_certificate_is_that_node() {
    let (cluster, clock) = (Cluster::new(), SetClock::at(START));
    let (a, b) = (cluster.node("a", &clock), cluster.node("b", &clock));
    let shown = Handshake::run(foreign_client(&cluster, Some("a"), &TLS13), &b).succeeded();
    let caller = connected_peer(&shown.server).expect("known");
    assert_eq!(caller.fingerprint, a.fingerprint());
}

#[test]
fn an_older_version_of_tls_is_refused_even_with_a_good_certificate() {
    let (cluster, clock) = (Cluster::new(), SetClock::at(START));
    cluster.sign("a", &["sublet://blue/a"]);
    let b = cluster.node("b", &clock);
    let old = Handshake::run(foreign_client(&cluster, Some("a"), &TLS12), &b);
    assert_eq!(old.refused_by_server(), PeerRefusal::OldTls);
    assert_eq!(old.refused_by_client(), PeerRefusal::OldTls);
}

#[test]
fn a_caller_speaks_to_no_other_node_than_the_one_it_called() {
    let (cluster, clock) = (Cluster::new(), SetClock::at(START));
    let (a, b) = (cluster.node("a", &clock), cluster.node("b", &clock));
    let wrong = Handshake::between(&a, &b, "c");
    let PeerRefusal::OtherNode { found, expected } = wrong.refused_by_client() else {
        panic!("{:?}", wrong.at_client);
    };
    assert_eq!(
        (found.to_string().as_str(), expected.as_str()),
        ("sublet://blue/b", "c")
    );
    assert_eq!(connected_peer(&wrong.server), None);
    // Capitals count.
    let capital = Handshake::between(&a, &b, "B").refused_by_client();
    assert_eq!(capital.label(), "other-node");
}

#[test]
fn a_certificate_is_good_from_its_first_second_to_its_last() {
    let (cluster, clock) = (Cluster::new(), SetClock::at(START));
    // Each end judges by its own clock.
    let (theirs, ours) = (SetClock::at(START), clock);
    let (a, b) = (cluster.node("a", &theirs), cluster.node("b", &ours));
    for within in [START, START + LIFE] {
        ours.set(within);
        Handshake::between(&a, &b, "b").succeeded();
    }
    ours.set(START + LIFE + 1);
    assert_eq!(
        Handshake::between(&a, &b, "b").refused_by_server(),
        PeerRefusal::Expired
    );
    assert_eq!(
        Handshake::between(&b, &a, "a").refused_by_client(),
        PeerRefusal::Expired
    );
    ours.set(START - 1);
    assert_eq!(
        Handshake::between(&a, &b, "b").refused_by_server(),
        PeerRefusal::NotValidYet
    );
}

#[test]
fn a_certificate_that_ended_is_loaded_and_its_end_is_foretold() {
    let cluster = Cluster::new();
    let b = cluster.node("b", &SetClock::at(START + LIFE * 5));
    assert_eq!(b.ends_unix(), START + LIFE);
    let first = START + LIFE + 1 - EXPIRY_NOTICE.as_secs();
    assert!(b.is_ending(first) && !b.is_ending(first - 1));
    assert!(b.is_ending(u64::MAX));
}

#[test]
fn a_certificate_that_is_valid_at_no_time_says_so() {
    let cluster = Cluster::new();
    cluster.sign_backwards("b", &["sublet://blue/b"]);
    let error = PeerCredentials::load(&cluster.settings("b"), SetClock::at(START));
    let said = error.expect_err("never valid").to_string();
    assert!(said.contains("valid at no time"), "{said}");
}

#[test]
fn a_denied_certificate_is_refused_at_either_end() {
    let (cluster, clock) = (Cluster::new(), SetClock::at(START));
    let (a, b) = (cluster.node("a", &clock), cluster.node("b", &clock));
    let live = Handshake::between(&a, &b, "b").succeeded();

    let mut settings = cluster.settings("b");
    let fingerprint = a.fingerprint();
    settings.denied = vec![fingerprint];
    let strict = PeerCredentials::load(&settings, clock.clone()).expect("loaded");
    let denied = PeerRefusal::Denied { fingerprint };
    assert_eq!(
        Handshake::between(&a, &strict, "b").refused_by_server(),
        denied
    );
    assert_eq!(
        Handshake::between(&strict, &a, "a").refused_by_client(),
        denied
    );
    // A connection from before is found by its certificate.
    let peer = connected_peer(&live.server).expect("known");
    assert!(strict.denies(&peer.fingerprint) && !b.denies(&peer.fingerprint));
    // Another certificate of the same node is another one.
    let renewed = cluster.node("a", &clock);
    Handshake::between(&renewed, &strict, "b").succeeded();

    settings.denied = vec![fingerprint; DENIED_MAX + 1];
    let error = PeerCredentials::load(&settings, clock).expect_err("too many");
    assert!(
        matches!(error, PeerCredentialError::TooManyDenied(_)),
        "{error}"
    );
}

#[test]
fn files_that_are_read_again_hold_for_the_next_connection() {
    let (cluster, clock) = (Cluster::new(), SetClock::at(START));
    let (a, b) = (cluster.node("a", &clock), cluster.node("b", &clock));
    let before = Handshake::between(&a, &b, "b").succeeded();
    let renewed = cluster.node("b", &clock);
    let after = Handshake::between(&a, &renewed, "b").succeeded();
    let fingerprint = |pair: &Handshake| connected_peer(&pair.client).expect("known").fingerprint;
    assert_eq!(fingerprint(&before), b.fingerprint());
    assert_eq!(fingerprint(&after), renewed.fingerprint());
    assert_ne!(renewed.fingerprint(), b.fingerprint());

    // The cluster changes its authority: for some time each node trusts both.
    let next = Cluster::new();
    next.sign("a", &["sublet://blue/a"]);
    let both = ["ca.crt"; 2].map(|file| fs::read_to_string(cluster.path(file)).expect("read"));
    let both = [
        &both[0][..],
        &fs::read_to_string(next.path("ca.crt")).expect("read"),
    ]
    .concat();
    fs::write(cluster.path("ca.crt"), &both).expect("written");
    fs::write(next.path("ca.crt"), &both).expect("written");
    Handshake::between(&next.load("a", &clock), &cluster.load("b", &clock), "b").succeeded();
    let unaware = Handshake::between(&next.load("a", &clock), &b, "b");
    assert_eq!(unaware.refused_by_server(), PeerRefusal::UnknownAuthority);
}

#[test]
fn what_others_would_refuse_is_not_loaded() {
    let (cluster, clock) = (Cluster::new(), SetClock::at(START));
    let load = |node: &str| PeerCredentials::load(&cluster.settings(node), clock.clone());
    let missing = load("a").expect_err("no file");
    let PeerCredentialError::File(CredentialError::Unreadable { path, .. }) = missing else {
        panic!("{missing}");
    };
    assert_eq!(path, cluster.path("a.key"));

    cluster.sign("a", &["sublet://blue/b"]);
    assert_eq!(refusal(load("a")).label(), "other-node");
    cluster.sign("a", &["sublet://red/a"]);
    assert_eq!(refusal(load("a")).label(), "other-cluster");
    cluster.sign("a", &[]);
    assert_eq!(refusal(load("a")).label(), "no-node-name");
    for half in [
        ExtendedKeyUsagePurpose::ClientAuth,
        ExtendedKeyUsagePurpose::ServerAuth,
    ] {
        cluster.sign_for("a", &["sublet://blue/a"], &[half]);
        assert_eq!(refusal(load("a")).label(), "wrong-purpose");
    }
    cluster.sign("a", &["sublet://blue/a"]);
    load("a").expect("it is right");
    fs::copy(Cluster::new().path("ca.crt"), cluster.path("ca.crt")).expect("copied");
    assert_eq!(refusal(load("a")), PeerRefusal::UnknownAuthority);
    // A certificate that is trusted for itself may not sign others.
    fs::copy(cluster.path("a.crt"), cluster.path("ca.crt")).expect("copied");
    let error = load("a").expect_err("no authority");
    assert!(
        matches!(error, PeerCredentialError::NoAuthority(_)),
        "{error}"
    );
}

#[test]
fn bytes_that_are_no_tls_are_an_error_of_their_own() {
    let (cluster, clock) = (Cluster::new(), SetClock::at(START));
    let mut server = cluster.node("b", &clock).accept().expect("begun");
    server
        .read_tls(&mut &b"GET / HTTP/1.1\r\n\r\n"[..])
        .expect("from memory");
    let error = server.process_new_packets().expect_err("no TLS");
    assert_eq!(PeerRefusal::of(&error).label(), "protocol");
}

#[test]
fn a_summary_says_whom_a_certificate_names_and_until_when() {
    let cluster = Cluster::new();
    cluster.sign("a", &["sublet://blue/a"]);
    let summary = CertificateSummary::read(&cluster.path("a.crt")).expect("read");
    assert_eq!(summary.uri.expect("a node").to_string(), "sublet://blue/a");
    assert_eq!(
        (summary.starts_unix, summary.ends_unix),
        (START, START + LIFE)
    );
}
