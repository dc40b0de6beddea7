//! The tables of lending: what they mean, what is wrong with them, and who may borrow for a tenant.

use sublet_lend::guard::GuardPolicy;
use sublet_lend::lender::{LendLimits, LendMax, MaxEach};
use sublet_lend::node::{LendTo, MEMBERS_MAX};
use sublet_lend::seal::CipherChoice;
use sublet_store::Borrowing;
use sublet_tls::peer::{DENIED_MAX, Fingerprint};
use sublet_types::{ClusterName, NodeName};

use super::*;

/// A host among its peers. It begins a file: the members are on its fourth line.
const PEERS: &str = "[peers]
node = \"a\"
listen = \"tcp:10.0.0.1:7171\"
members = [\"b=tcp:10.0.0.2:7171\", \"rack-2.c=tcp:[fd00::3]:7172\"]
ca = \"/etc/sublet/ca.crt\"
certificate = \"/etc/sublet/a.crt\"
key = \"/etc/sublet/a.key\"
";

/// The SHA-256 hash of the three bytes `abc`.
const FINGERPRINT: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

fn node(text: &str) -> NodeName {
    text.parse().expect(text)
}

/// The config of `PEERS` without the lines of these keys.
fn peers_without(keys: &[&str]) -> String {
    let is_kept = |line: &&str| !keys.iter().any(|key| line.starts_with(&format!("{key} =")));
    let kept = PEERS.lines().filter(is_kept);
    kept.map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_host_without_peers_neither_lends_nor_borrows() {
    let config = read("").expect("a config");
    assert_eq!(config.peers.tls, None);
    assert_eq!(config.peers.listen, None);
    assert_eq!(config.borrow.blocks_max(), 0);
    let shown = config.key_values();
    assert!(!shown.keys().any(|key| key.starts_with("peers.")));
    assert_eq!(shown["borrow.max"], "0 B");
}

#[test]
fn peers_and_defaults_mean_what_the_reference_says() {
    let config = read(PEERS).expect("a config");
    let tls = config.peers.tls.expect("a host with peers");
    assert_eq!(tls.identity.node, node("a"));
    assert_eq!(tls.identity.cluster, ClusterName::default());
    assert_eq!(tls.ca, Path::new("/etc/sublet/ca.crt"));
    assert_eq!(tls.certificate, Path::new("/etc/sublet/a.crt"));
    assert_eq!(tls.key, Path::new("/etc/sublet/a.key"));
    assert!(tls.denied.is_empty());
    assert_eq!(
        config.peers.listen,
        Some("tcp:10.0.0.1:7171".parse().expect("a place"))
    );
    let members = config.peers.members.iter();
    let members: Vec<_> = members
        .map(|one| (one.name.as_str(), one.host.as_str(), one.port))
        .collect();
    let expected = [("b", "10.0.0.2", 7171), ("rack-2.c", "fd00::3", 7172)];
    assert_eq!(members, expected);

    let lend = config.lend;
    let limits = LendLimits {
        max: LendMax::Auto,
        max_each: MaxEach::Percent(50),
    };
    assert_eq!(lend.limits(), limits);
    assert_eq!(lend.lends_to(&node("b")), LendTo::Allowed);
    assert_eq!((lend.rate, lend.cpu_percent, lend.threads), (None, 25, 1));
    let borrow = config.borrow;
    assert_eq!((borrow.max, borrow.outbox), (Bytes::ZERO, Bytes::mib(4)));
    assert_eq!(borrow.outbox_pages(), 1024);
    assert_eq!(borrow.guard, GuardPolicy::Relative);
    assert_eq!(borrow.cipher, CipherChoice::Auto);
}

#[test]
fn what_is_said_of_lending_is_what_is_meant() {
    let text = format!(
        "{PEERS}cluster = \"lab\"\ndeny = [\"{FINGERPRINT}\"]\n\
         [lend]\nmax = \"1GiB\"\nto = [\"b\"]\nmax_each = \"25%\"\nrate = \"500MiB\"\ncpu = \"400%\"\nthreads = 4\n\
         [borrow]\nmax = \"64GiB\"\noutbox = \"128MiB\"\nguard = \"puma\"\ncipher = \"aes-gcm\"\n"
    );
    let config = read(&text).expect("a config");
    let tls = config.peers.tls.expect("a host with peers");
    assert_eq!(tls.identity.cluster.as_str(), "lab");
    let denied: Fingerprint = FINGERPRINT.parse().expect("a fingerprint");
    assert_eq!(tls.denied, [denied]);
    let limits = LendLimits {
        max: LendMax::Blocks(512),
        max_each: MaxEach::Percent(25),
    };
    assert_eq!(config.lend.limits(), limits);
    assert_eq!(config.lend.lends_to(&node("b")), LendTo::Allowed);
    assert_eq!(config.lend.lends_to(&node("rack-2.c")), LendTo::NotNamed);
    assert_eq!(config.lend.rate, Some(Bytes::mib(500)));
    assert_eq!((config.lend.cpu_percent, config.lend.threads), (400, 4));
    assert_eq!(config.borrow.blocks_max(), 32 << 10);
    assert_eq!(config.borrow.outbox, Bytes::mib(128));
    assert_eq!(config.borrow.outbox_pages(), 32 << 10);
    assert_eq!(config.borrow.guard, GuardPolicy::Puma);
    assert_eq!(config.borrow.cipher, CipherChoice::AesGcm);
}

/// What is shown is written into a file, and read again.
#[test]
fn what_is_shown_of_lending_reads_as_the_same() {
    let said = format!(
        "{PEERS}deny = [\"{FINGERPRINT}\"]\n[lend]\nmax = 0\nto = [\"rack-2.c\", \"b\"]\nrate = \"1MiB\"\n\
         [borrow]\nmax = \"3GiB\"\noutbox = \"128KiB\"\ncipher = \"aes-gcm\"\n"
    );
    let config = read(&said).expect("a config");
    let shown = config.key_values();
    let mut again = String::new();
    for table in ["peers", "lend", "borrow"] {
        again.push_str(&format!("[{table}]\n"));
        for (key, value) in &shown {
            let Some(key) = key.strip_prefix(&format!("{table}.")) else {
                continue;
            };
            let value = match key {
                "threads" => value.clone(),
                "members" | "deny" | "to" => {
                    let each = value.split(", ").map(|one| format!("{one:?}"));
                    format!("[{}]", each.collect::<Vec<_>>().join(", "))
                }
                _ => format!("{value:?}"),
            };
            again.push_str(&format!("{key} = {value}\n"));
        }
    }
    let read_again = read(&again).expect(&again);
    assert_eq!(read_again.peers, config.peers);
    assert_eq!(read_again.lend, config.lend);
    assert_eq!(read_again.borrow, config.borrow);
}

#[test]
fn a_wrong_value_of_lending_is_named_with_its_line_and_what_fits() {
    for (text, expected) in [
        (
            "[peers]\nnode = \"a/b\"",
            "t.toml:2: `peers.node` \"a/b\" is no name for a node: use 1 to 64 letters, digits, '-', '_' or '.', beginning with a letter or digit",
        ),
        (
            "[peers]\ncluster = \"\"",
            "t.toml:2: `peers.cluster` is empty",
        ),
        (
            "[peers]\nmembers = [\"tcp:10.0.0.2:7171\"]",
            "t.toml:2: `peers.members` \"tcp:10.0.0.2:7171\" has no name; write NAME=tcp:HOST:PORT, such as \"b=tcp:10.0.0.2:7171\"",
        ),
        (
            "[peers]\nmembers = [\"b=tcp:fd00::2:7171\"]",
            "t.toml:2: `peers.members` \"tcp:fd00::2:7171\" has an IPv6 address without brackets; write tcp:[ADDRESS]:PORT",
        ),
        (
            "[peers]\ndeny = [\"ba78\"]",
            "t.toml:2: `peers.deny` \"ba78\" is no fingerprint of a certificate: write the 64 hexadecimal digits of its SHA-256, with or without colons",
        ),
        (
            "[lend]\nmax = \"automatic\"",
            "t.toml:2: `lend.max` no number; write an amount such as 512MiB or 2GiB",
        ),
        (
            "[lend]\nto = []",
            "t.toml:2: `lend.to` names nobody; to lend nothing, write `max = 0` instead",
        ),
        (
            "[lend]\nmax_each = \"0%\"",
            "t.toml:2: `lend.max_each` must be 1% to 100%",
        ),
        (
            "[lend]\nmax_each = \"101%\"",
            "t.toml:2: `lend.max_each` must be 1% to 100%",
        ),
        (
            "[lend]\nmax_each = 50",
            "t.toml:2: `lend.max_each` \"50\" is no percentage; write a whole number and %, such as \"50%\"",
        ),
        (
            "[lend]\ncpu = \"-1%\"",
            "t.toml:2: `lend.cpu` must be 1% to 400%",
        ),
        (
            "[lend]\ncpu = \"401%\"",
            "t.toml:2: `lend.cpu` must be 1% to 400%",
        ),
        (
            "[lend]\nthreads = 5",
            "t.toml:2: `lend.threads` must be 1 to 4",
        ),
        (
            "[lend]\nrate = 0",
            "t.toml:2: `lend.rate` must be 1.00 MiB to 1.00 TiB",
        ),
        (
            "[borrow]\noutbox = \"64KiB\"",
            "t.toml:2: `borrow.outbox` must be 128 KiB to 128 MiB",
        ),
        (
            "[borrow]\noutbox = 200000",
            "t.toml:2: `borrow.outbox` must be whole pages of 4 KiB",
        ),
        (
            "[borrow]\nguard = \"pumas\"",
            "t.toml:2: `borrow.guard` \"pumas\" is none of relative, puma; did you mean \"puma\"?",
        ),
        (
            "[borrow]\ncipher = \"none\"",
            "t.toml:2: `borrow.cipher` \"none\" is none of auto, aes-gcm",
        ),
        (
            "[borrow]\noutbx = 1",
            "t.toml:2: unknown key `outbx` in [borrow]; did you mean `outbox`?",
        ),
        (
            "[peers]\nmember = []",
            "t.toml:2: unknown key `member` in [peers]; did you mean `members`?",
        ),
        (
            "[arena]\nmax_each = \"50%\"",
            "t.toml:2: unknown key `max_each` in [arena]; it belongs in [lend]",
        ),
        (
            "[peer]\nnode = \"a\"",
            "t.toml:1: no table is called [peer]; did you mean `peers`?",
        ),
        (
            "lend = true",
            "t.toml:1: `lend` must be a table; write [lend]",
        ),
        (
            &format!("{WEB}borrow = \"yes\""),
            "t.toml:3: `tenants.web.borrow` wants true or false, not text",
        ),
    ] {
        assert_eq!(complaint(text), expected, "{text}");
    }
}

#[test]
fn lists_of_lending_have_a_bound() {
    let listed = |text: &str, count: usize| vec![text; count].join(",");
    let members = |count| {
        let member = |n| format!("\"n{n}=tcp:10.0.0.2:7171\"");
        let all: Vec<String> = (0..count).map(member).collect();
        format!("[peers]\nmembers = [{}]", all.join(","))
    };
    let deny = |count| {
        let one = format!("{FINGERPRINT:?}");
        format!("[peers]\ndeny = [{}]", listed(&one, count))
    };
    let fits = |text: String| {
        let written = WrittenConfig::defaults().read(Path::new("t.toml"), &text);
        written.map_err(|faults| faults.to_string())
    };
    assert_eq!(fits(members(MEMBERS_MAX)), Ok(()));
    assert_eq!(fits(deny(DENIED_MAX)), Ok(()));
    assert_eq!(
        fits(members(MEMBERS_MAX + 1)),
        Err("t.toml:2: `peers.members` lists more than 16384 members".to_owned())
    );
    assert_eq!(
        fits(deny(DENIED_MAX + 1)),
        Err("t.toml:2: `peers.deny` lists more than 4096 fingerprints; leave out certificates that have expired".to_owned())
    );
}

#[test]
fn what_contradicts_itself_in_lending_is_named() {
    let nobody = "means nothing without [peers]; name this host, its certificate and the members there, or leave this out";
    let unreached = "borrowers cannot reach this host; give it `listen = \"tcp:10.0.0.1:7171\"` in [peers], or lend nothing with `max = 0` in [lend]";
    let members = |all: &str| PEERS.replace("[\"b=tcp:10.0.0.2:7171\", ", &format!("[{all}, "));
    for (text, expected) in [
        (
            "[lend]\nmax = 0\n".to_owned(),
            format!("t.toml:2: `lend.max` {nobody}"),
        ),
        (
            "[borrow]\nguard = \"puma\"\nmax = \"1GiB\"\n".to_owned(),
            format!("t.toml:3: `borrow.max` {nobody}"),
        ),
        (
            peers_without(&["node", "key"]),
            "t.toml:2: `peers.listen` needs `peers.node` beside it\nt.toml:2: `peers.listen` needs `peers.key` beside it"
                .to_owned(),
        ),
        (
            peers_without(&["ca", "certificate"]),
            "t.toml:2: `peers.node` needs `peers.ca` beside it\nt.toml:2: `peers.node` needs `peers.certificate` beside it"
                .to_owned(),
        ),
        (
            peers_without(&["listen"]),
            format!("t.toml:2: {unreached}"),
        ),
        (
            peers_without(&["listen"]) + "[lend]\nmax = \"auto\"\n",
            format!("t.toml:8: {unreached}"),
        ),
        (
            PEERS.replace("tcp:10.0.0.1:7171", "unix:/run/a.sock"),
            "t.toml:3: `peers.listen` \"unix:/run/a.sock\" is no address for peers; write tcp:HOST:PORT, such as \"tcp:10.0.0.1:7171\"".to_owned(),
        ),
        (
            PEERS.replace("tcp:10.0.0.1:7171", "tcp:10.0.0.1:0"),
            "t.toml:3: `peers.listen` \"tcp:10.0.0.1:0\" has port 0; write the port by which the other members name the node, such as 7171".to_owned(),
        ),
        (
            PEERS.replace("tcp:10.0.0.1:7171", "tcp:fd09::1:7171"),
            "t.toml:3: `peers.listen` \"tcp:fd09::1:7171\" has an IPv6 address without brackets; write tcp:[ADDRESS]:PORT".to_owned(),
        ),
        (
            members("\"b=tcp:10.0.0.2:1\", \"c=tcp:10.0.0.2:1\""),
            "t.toml:4: `peers.members`: b and c have one address; each node has its own".to_owned(),
        ),
        (
            members("\"a=tcp:10.0.0.1:7171\""),
            "t.toml:4: `peers.members`: a is this host's own name; take it out of the list".to_owned(),
        ),
        (
            members("\"b=tcp:10.0.0.2:1\", \"b=tcp:10.0.0.4:1\""),
            "t.toml:4: `peers.members`: b is named twice; a node has one address".to_owned(),
        ),
        (
            format!("{PEERS}[lend]\nto = [\"b\", \"rack-3.c\"]\n"),
            "t.toml:9: `lend.to`: no member is called rack-3.c; did you mean rack-2.c?".to_owned(),
        ),
        (
            format!("{PEERS}[lend]\nto = [\"database\"]\n"),
            "t.toml:9: `lend.to`: no member is called database; add it to `peers.members`".to_owned(),
        ),
        (
            format!("{PEERS}[lend]\nmax = 16\n"),
            "t.toml:9: `lend.max`: 16 B is less than a block, 2.00 MiB; did you mean 16GiB?".to_owned(),
        ),
        (
            format!("{PEERS}[borrow]\nmax = 64\n"),
            "t.toml:9: `borrow.max`: 64 B is less than a block, 2.00 MiB; did you mean 64GiB?".to_owned(),
        ),
    ] {
        assert_eq!(complaint(&text), expected, "{text}");
    }
}

/// A host that only borrows connects to its lenders, and nobody connects to it.
#[test]
fn who_lends_nothing_need_not_listen() {
    let text = peers_without(&["listen"]) + "[lend]\nmax = 0\n[borrow]\nmax = \"1GiB\"\n";
    let config = read(&text).expect("a config");
    assert_eq!(config.peers.listen, None);
    assert_eq!(config.lend.limits().max, LendMax::Blocks(0));
    assert_eq!(config.borrow.blocks_max(), 512);
}

#[test]
fn a_tenant_borrows_unless_its_owner_says_otherwise_and_a_live_change_is_kept() {
    let borrowing = |text: &str| read(text).expect(text).tenants[0].borrowing;
    assert_eq!(borrowing(WEB), Borrowing::Allowed);
    let left_out = format!("{WEB}borrow = false\n");
    assert_eq!(borrowing(&left_out), Borrowing::Forbidden);
    let shown = read(&left_out).expect("a config").key_values();
    assert_eq!(shown["tenants.web.borrow"], "false");

    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("c.toml");
    fs::write(&file, WEB).expect("written");
    let flags = [("state", folder.path().display().to_string())];
    let loaded = load(Some(&file), &flags).expect("loads");
    let change = |borrow| TenantChange {
        borrow: Some(borrow),
        ..TenantChange::default()
    };
    let live = kept(loaded.live.with_change(name("web"), &change(false)));
    let again = load(Some(&file), &flags).expect("loads");
    assert_eq!(again.config.tenants[0].borrowing, Borrowing::Forbidden);
    assert_eq!(again.written.tenants[0].borrowing, Borrowing::Allowed);
    assert_eq!(again.live.change(&name("web")), change(false));
    // A later change of something else leaves it, and a later one of the same replaces it.
    let weight = TenantChange {
        weight: Some(Weight(7)),
        ..TenantChange::default()
    };
    drop((loaded, again));
    let live = live.with_change(name("web"), &weight);
    assert_eq!(live.change(&name("web")).borrow, Some(false));
    let live = live.with_change(name("web"), &change(true));
    assert_eq!(live.change(&name("web")).borrow, Some(true));
}

/// What holds after `live.toml` was left with this text, with this config.
fn with_live(config: &str, live: &str) -> LoadedConfig {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("live.toml"), live).expect("written");
    let file = folder.path().join("sublet.toml");
    fs::write(&file, config).expect("written");
    let state = ("state", folder.path().display().to_string());
    load(Some(&file), &[state]).expect("a config")
}

#[test]
fn a_drain_is_kept_over_what_the_config_says_either_way() {
    let kept = |change: DrainChange| {
        let live = LiveChanges::none(None).with_drain(Some(change)).export();
        let drain = change.is_drain();
        assert!(
            live.ends_with(&format!("\n[lend]\ndrain = {drain}\n")),
            "{live}"
        );
        live
    };
    let draining = format!("{PEERS}[lend]\ndrain = true\n");
    for (config, live, holds) in [
        (PEERS, kept(DrainChange::Drain), true),
        (&*draining, kept(DrainChange::Resume), false),
        (&*draining, LiveChanges::none(None).export(), true),
    ] {
        let loaded = with_live(config, &live);
        assert_eq!(loaded.config.lend.drain, holds, "{live}");
        assert_eq!(loaded.written.lend.drain, config == draining);
        assert_eq!(loaded.live.export(), live, "the next write keeps it");
        assert!(loaded.orphans.is_empty());
        let undone = loaded.live.with_drain(None);
        assert_eq!(
            undone.is_same_as(&loaded.live),
            loaded.live.drain().is_none()
        );
    }
}

#[test]
fn a_drain_of_a_host_that_has_no_peers_any_more_waits_until_it_has_some() {
    let live = LiveChanges::none(None).with_drain(Some(DrainChange::Drain));
    let loaded = with_live("", &live.export());
    assert_eq!(loaded.orphans, ["lend.drain"]);
    assert!(!loaded.config.lend.drain);
    assert_eq!(loaded.live.drain(), Some(DrainChange::Drain));
    assert!(complaint("[lend]\ndrain = true\n").contains("peers"));
}
