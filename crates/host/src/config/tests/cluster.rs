//! What the config says of a cluster: a leader's name, or etcd.

use sublet_etcd::gateway::{CertificateFiles, Endpoint, TlsFiles as EtcdFiles};
use sublet_policy::placement::PlacementPolicy;

use super::*;
use crate::config::EtcdUserConfig;

const IDENTITY: &str = "[peers]
node = \"a\"
listen = \"tcp:10.0.0.1:7171\"
ca = \"/etc/sublet/ca.crt\"
certificate = \"/etc/sublet/a.crt\"
key = \"/etc/sublet/a.key\"
";

fn said(more: &str) -> String {
    format!("{IDENTITY}{more}\n")
}

const MEMBERS: &str = "members = [\"b=tcp:10.0.0.2:7171\"]";

#[test]
fn a_leader_is_a_member_or_this_host() {
    for leader in ["a", "b"] {
        let text = said(&format!(
            "{MEMBERS}\nleader = \"{leader}\"\nplacement = \"two-choices\"\nrack = \"r1\""
        ));
        let peers = read(&text).expect("a config").peers;
        assert_eq!(peers.leader.as_ref().map(|it| it.as_str()), Some(leader));
        assert_eq!(peers.placement.policy(), PlacementPolicy::TwoChoices);
        assert_eq!(
            peers.rack.map(|rack| rack.0.to_string()),
            Some("r1".to_owned())
        );
        assert_eq!(peers.etcd, None);
    }
    let wrong = said(&format!("{MEMBERS}\nleader = \"bb\""));
    assert_eq!(
        complaint(&wrong),
        "t.toml:8: `peers.leader`: no member is called bb; add it to `peers.members`"
    );
}

#[test]
fn etcd_has_the_certificates_of_the_peers_unless_it_has_its_own() {
    let etcd = |more: &str| {
        let text = said(&format!(
            "etcd = [\"https://10.0.0.8:2379\", \"https://10.0.0.9\"]\n{more}"
        ));
        read(&text).expect("a config").peers.etcd.expect("etcd")
    };
    let files = |ca: &str, chain: &str, key: &str| EtcdFiles {
        authority: ca.into(),
        certificate: Some(CertificateFiles {
            chain: chain.into(),
            key: key.into(),
        }),
    };
    let plain = etcd("");
    let endpoints: Vec<String> = plain.endpoints.iter().map(Endpoint::to_string).collect();
    assert_eq!(
        endpoints,
        ["https://10.0.0.8:2379", "https://10.0.0.9:2379"]
    );
    let of_peers = files(
        "/etc/sublet/ca.crt",
        "/etc/sublet/a.crt",
        "/etc/sublet/a.key",
    );
    assert_eq!(plain.tls, Some(of_peers));
    assert_eq!(plain.user, None);

    let own = etcd(
        "etcd_ca = \"/e/ca\"\netcd_certificate = \"/e/crt\"\netcd_key = \"/e/key\"\netcd_user = \"s\"\netcd_password_file = \"/e/pw\"",
    );
    assert_eq!(own.tls, Some(files("/e/ca", "/e/crt", "/e/key")));
    let user = EtcdUserConfig {
        name: "s".to_owned(),
        password_file: "/e/pw".into(),
    };
    assert_eq!(own.user, Some(user));

    let clear = said("etcd = \"http://127.0.0.1:2379\"");
    let clear = read(&clear).expect("a config").peers.etcd.expect("etcd");
    assert_eq!(clear.tls, None);
}

#[test]
fn what_is_shown_of_a_cluster_reads_as_the_same() {
    let text = said(
        "etcd = [\"https://10.0.0.8:2379\"]\nadvertise = \"tcp:a.lan:7171\"\nrack = \"r1\"\nplacement = \"two-level\"\njoin = false",
    );
    let config = read(&text).expect("a config");
    let shown = config.key_values();
    let mut again = "[peers]\n".to_owned();
    for (key, value) in &shown {
        let Some(key) = key.strip_prefix("peers.") else {
            continue;
        };
        again.push_str(&match key {
            "join" => format!("{key} = {value}\n"),
            _ => format!("{key} = {value:?}\n"),
        });
    }
    assert_eq!(read(&again).expect(&again).peers, config.peers);
}

#[test]
fn what_contradicts_itself_in_a_cluster_is_named() {
    let etcd = "etcd = \"https://10.0.0.8:2379\"";
    for (more, expected) in [
        (
            format!("{etcd}\n{MEMBERS}\nleader = \"b\""),
            "t.toml:8: `peers.members`: with `peers.etcd` it comes from there; leave it out\nt.toml:9: `peers.leader`: with `peers.etcd` it comes from there; leave it out".to_owned(),
        ),
        (
            format!("{MEMBERS}\netcd_user = \"s\""),
            "t.toml:8: `peers.etcd_user` needs `peers.etcd` beside it".to_owned(),
        ),
        (
            format!("{etcd}\netcd_user = \"s\""),
            "t.toml:8: `peers.etcd_user` needs `peers.etcd_password_file` beside it".to_owned(),
        ),
        (
            format!("{etcd}\netcd_key = \"/k\""),
            "t.toml:8: `peers.etcd_key` needs `peers.etcd_certificate` beside it".to_owned(),
        ),
        (
            format!("{etcd}\nadvertise = \"tcp:0.0.0.0:7171\""),
            "t.toml:8: `peers.advertise`: no other host can connect to tcp:0.0.0.0:7171; write `advertise = \"tcp:HOST:PORT\"` in [peers] with an address of this host".to_owned(),
        ),
        (
            "etcd = \"http://10.0.0.8:2379\"\netcd_user = \"s\"\netcd_password_file = \"/p\"".to_owned(),
            "t.toml:8: `peers.etcd_user`: its password would travel to http://10.0.0.8:2379 in clear text; give etcd a certificate and write https://".to_owned(),
        ),
        (
            "etcd = \"10.0.0.8:2379\"".to_owned(),
            "t.toml:7: `peers.etcd` \"10.0.0.8:2379\" is no address of etcd; write https://HOST:PORT or http://HOST:PORT, and nothing behind it".to_owned(),
        ),
        (
            format!("{MEMBERS}\nplacement = \"spred\""),
            "t.toml:8: `peers.placement` no placement policy is called \"spred\"; did you mean spread?".to_owned(),
        ),
    ] {
        assert_eq!(complaint(&said(&more)), expected, "{more}");
    }
    let any = said(etcd).replace("10.0.0.1", "[::]");
    assert!(
        complaint(&any)
            .starts_with("t.toml:3: `peers.listen`: no other host can connect to tcp:[::]:7171")
    );
    let advertised = any + "advertise = \"tcp:a.lan:7171\"\n";
    assert!(read(&advertised).is_ok());
}

#[test]
fn a_leave_is_kept_over_what_the_config_says() {
    let live = LiveChanges::none(None).with_presence(Some(PresenceChange::Leave));
    let text = live.export();
    assert!(text.ends_with("\n[peers]\njoin = false\n"), "{text}");
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("live.toml"), &text).expect("written");
    let file = folder.path().join("sublet.toml");
    let state = [("state", folder.path().display().to_string())];
    fs::write(&file, said(MEMBERS)).expect("written");
    let loaded = load(Some(&file), &state).expect("a config");
    assert!(!loaded.config.peers.join && loaded.written.peers.join);
    assert_eq!(loaded.live.presence(), Some(PresenceChange::Leave));
    drop(loaded);
    // A config without peers has nothing to leave.
    fs::write(&file, WEB).expect("written");
    let loaded = load(Some(&file), &state).expect("a config");
    assert!(loaded.config.peers.join && loaded.config.peers.tls.is_none());
}
