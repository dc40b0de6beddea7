//! Two daemons that lend to each other, as their owners see and steer them.

use std::net::TcpListener;
use std::process::Command;

use serde_json::Value;
use sublet_client::messages::{EventsQuery, LendPeer, LendPhase, LendStatus, PeerLink};
use sublet_client::ring::{Client, Key};
use sublet_tls::peer::CertificateSummary;
use sublet_types::{Bytes, ObjectId, PageIndex, PoolFlags};

use crate::content::page_of;
use crate::daemon::{Daemon, Folder, SUBLET, text};
use crate::wait::{wait_for, wait_until};

/// Pages that are more than the arena of a borrower holds.
const PAGES: u32 = 12 << 10;

/// The folder of a cluster's certificates.
struct Cluster(Folder);

impl Cluster {
    fn new(nodes: &[&str]) -> Cluster {
        let cluster = Cluster(Folder::new());
        cluster.ca(&["init"]);
        nodes.iter().for_each(|node| cluster.ca(&["issue", node]));
        cluster
    }

    fn ca(&self, args: &[&str]) {
        let dir = self.0.path("");
        let dir = ["--dir", dir.to_str().expect("text")];
        self.0.sublet_ok(&[&["lend", "ca"], args, &dir].concat());
    }

    fn file(&self, name: &str) -> String {
        self.0.path(name).display().to_string()
    }

    fn fingerprint(&self, node: &str) -> String {
        let summary = CertificateSummary::read(&self.0.path(&format!("{node}.crt")));
        summary.expect("a certificate").fingerprint.to_string()
    }
}

/// A host of the test: its folder, its name and its port.
struct Host {
    folder: Folder,
    name: &'static str,
    place: String,
}

impl Host {
    fn new(name: &'static str, address: &str) -> Host {
        // The kernel gives the port to nobody else for a while.
        let listener = TcpListener::bind((address, 0)).expect("a port");
        let place = listener.local_addr().expect("an address");
        Host {
            folder: Folder::new(),
            name,
            place: format!("tcp:{place}"),
        }
    }

    fn config(&self, cluster: &Cluster, members: &[&Host], more: &str) -> String {
        let members: Vec<String> = members
            .iter()
            .map(|member| format!("\"{}={}\"", member.name, member.place))
            .collect();
        format!(
            "[peers]\nnode = \"{}\"\nlisten = \"{}\"\nmembers = [{}]\n\
             ca = \"{}\"\ncertificate = \"{}\"\nkey = \"{}\"\n{more}",
            self.name,
            self.place,
            members.join(", "),
            cluster.file("ca.crt"),
            cluster.file(&format!("{}.crt", self.name)),
            cluster.file(&format!("{}.key", self.name)),
        )
    }

    fn ring(&self) -> std::path::PathBuf {
        self.folder.path("ring")
    }

    /// The config of a host that borrows, with a tenant whose pages go far.
    fn borrower(&self, cluster: &Cluster, members: &[&Host]) -> String {
        let more = format!(
            "[lend]\nmax = 0\n[borrow]\nmax = \"16MiB\"\n[tenants.web]\nlisten = [\"ring:{}\"]\n",
            self.ring().display()
        );
        self.config(cluster, members, &more)
    }

    /// The config of a host that lends.
    fn lender(&self, cluster: &Cluster, members: &[&Host], deny: &str) -> String {
        let tenant = "[tenants.idle]\nlisten = [\"tcp:127.0.0.1:0\"]\n";
        self.config(cluster, members, &format!("{deny}{tenant}"))
    }

    fn serve(&self, config: &str, ceiling: &str) -> Daemon {
        let file = self.folder.write("sublet.toml", config);
        let mut command = Command::new(SUBLET);
        command.args(["serve", "--ceiling", ceiling, "--admin"]);
        command.arg(self.folder.path("admin.sock")).arg("--state");
        command.arg(self.folder.path("state")).arg("--config");
        command.arg(file);
        Daemon::start(command)
    }

    fn status(&self) -> LendStatus {
        self.folder.admin().lending().expect("a status")
    }

    fn peer(&self) -> LendPeer {
        self.status().peers.remove(0)
    }

    fn await_link(&self, link: PeerLink) -> LendPeer {
        wait_for(|| {
            let peer = self.peer();
            match peer.link == link {
                true => Ok(peer),
                false => Err(format!("{} is {}", peer.name, peer.link.name())),
            }
        })
    }

    /// The ids of the events so far, each with its reason.
    fn events(&self) -> Vec<String> {
        let events = self.folder.admin().events(&EventsQuery::default());
        let events = events.expect("events").events;
        let told = events.iter();
        told.map(|event| format!("{} {}", event.id, event.reason))
            .collect()
    }

    fn await_event(&self, event: &str) {
        wait_for(|| {
            let all = self.events();
            match all.iter().any(|told| told == event) {
                true => Ok(()),
                false => Err(format!("{event} is none of {all:?}")),
            }
        });
    }

    fn lend_ok(&self, args: &[&str]) -> String {
        self.folder.sublet_ok(&[&["lend"], args].concat())
    }

    /// Puts more pages than fit here, so that the host wants memory of others, until the other host has lent some.
    fn want_of(&self, lender: &Host) {
        let mut client = Client::connect(self.ring()).expect("let in");
        let pool = client.create_pool(PoolFlags::default(), None);
        let pool = pool.expect("a pool");
        wait_until("the other host has lent some", || {
            for first in (0..PAGES).step_by(32) {
                let key = Key {
                    pool,
                    object: ObjectId(1),
                    index: PageIndex(first),
                };
                client
                    .put_run(key, &[page_of(first as u8); 32])
                    .expect("put");
            }
            lender.status().lent > Bytes::ZERO
        });
    }
}

/// A lender a and a borrower b, both connected.
fn pair(address: &str) -> (Cluster, Host, Host, [Daemon; 2]) {
    pair_of(["a", "b"], address)
}

/// A lender and a borrower of these names, both connected. The host with the lower name calls the other.
fn pair_of(names: [&'static str; 2], address: &str) -> (Cluster, Host, Host, [Daemon; 2]) {
    let cluster = Cluster::new(&names);
    let [a, b] = names.map(|name| Host::new(name, address));
    let lends = a.serve(&a.lender(&cluster, &[&b], ""), "64MiB");
    let borrows = b.serve(&b.borrower(&cluster, &[&a]), "16MiB");
    a.await_link(PeerLink::Up);
    b.await_link(PeerLink::Up);
    (cluster, a, b, [lends, borrows])
}

#[test]
fn each_host_shows_the_other_over_ipv6_too() {
    let (_cluster, a, b, _daemons) = pair("::1");
    for (host, other) in [(&a, &b), (&b, &a)] {
        let peer = host.await_link(PeerLink::Up);
        assert_eq!(
            (peer.name.as_str(), &peer.address),
            (other.name, &other.place)
        );
        assert_eq!((peer.protocol, peer.counters.sessions), (Some(1), 1));
        assert!(peer.up_secs.is_some(), "{peer:?}");
        host.await_event("peer.connected agreed");
        host.await_event("credentials.read start");
        let page = host.lend_ok(&["status"]);
        assert!(
            page.contains(&other.place) && page.contains("cipher"),
            "{page}"
        );
        let page = host.folder.sublet_ok(&["status"]);
        assert!(page.contains(&other.place), "{page}");
        let json: Value = serde_json::from_str(&host.lend_ok(&["status", "--json"])).expect("JSON");
        assert_eq!(json["peers"][0]["link"], "up");
        let whole = host.folder.admin().status().expect("a status").lending;
        assert_eq!(whole.expect("it has peers").peers.len(), 1);
        let metrics = host.folder.admin().metrics().expect("a page");
        let up = format!("sublet_peer_up{{peer=\"{}\"}} 1", other.name);
        assert!(metrics.contains(&up), "{metrics}");
        let year = "sublet_lending_certificate_remaining_seconds{kind=\"certificate\"} 315";
        assert!(metrics.contains(year), "{metrics}");
        let nothing = host.lend_ok(&["list"]);
        assert_eq!(nothing, "nothing is lent, and nothing is borrowed\n");
        let report: Value =
            serde_json::from_slice(&host.folder.sublet(&["doctor", "--json"]).stdout)
                .expect("JSON");
        let checks = report["checks"].as_array().expect("a list");
        let peers = checks.iter().find(|one| one["check"] == "lending: peers");
        assert_eq!(peers.expect("a check")["found"], "1 of 1 connected");
    }
}

#[test]
fn what_is_lent_is_shown_drained_over_a_restart_resumed_and_recalled() {
    let (cluster, a, b, [lends, _borrows]) = pair("127.0.0.1");
    b.want_of(&a);
    wait_until("both agree on what is lent", || {
        a.status().lent == b.status().borrowed
    });
    let lent = a.status().lent;
    assert!(lent > Bytes::ZERO && lent <= Bytes::mib(16), "{lent}");
    let leases = a.folder.admin().leases().expect("leases").leases;
    assert_eq!(leases.iter().map(|lease| lease.bytes).sum::<Bytes>(), lent);
    assert!(a.lend_ok(&["list"]).contains("lent"));
    assert!(b.lend_ok(&["list"]).contains("borrowed"));
    wait_until("pages went there", || a.peer().pages.stored > 0);
    assert_eq!(a.peer().counters.granted, lent);
    a.await_event("lend.granted in-full");
    b.await_event("borrow.granted in-full");

    let drained = a.lend_ok(&["drain", "--within", "20s"]);
    assert!(drained.starts_with("drained: nothing is lent"), "{drained}");
    let status = a.status();
    assert_eq!(
        (status.phase, status.lent),
        (LendPhase::Draining, Bytes::ZERO)
    );
    wait_until("the borrower has nothing", || {
        b.status().borrowed == Bytes::ZERO
    });
    a.await_event("lend.drained kept");
    a.await_event("lend.noticed draining");
    b.await_event("borrow.noticed recalled");
    let settings = a.folder.admin().settings().expect("settings").settings;
    assert_eq!(settings["lend.drain"], "true");

    lends.terminate();
    b.await_event("peer.lost goodbye");
    let (code, log) = lends.ended();
    assert_eq!(code, Some(0), "{log}");
    let _lends = a.serve(&a.lender(&cluster, &[&b], ""), "64MiB");
    assert_eq!(a.status().phase, LendPhase::Draining);
    let changed = a.folder.admin().status().expect("a status").changed;
    assert!(
        changed
            .iter()
            .any(|one| one.key == "lend.drain" && one.kept)
    );
    b.await_link(PeerLink::Up);

    a.lend_ok(&["resume"]);
    assert_eq!(a.status().phase, LendPhase::Lending);
    assert!(
        a.folder
            .admin()
            .status()
            .expect("a status")
            .changed
            .is_empty()
    );
    a.await_event("lend.resumed kept");
    b.want_of(&a);
    let page = a.lend_ok(&["recall", "--now"]);
    assert!(page.contains("all was taken back"), "{page}");
    let status = a.status();
    assert_eq!(
        (status.phase, status.lent),
        (LendPhase::Paused, Bytes::ZERO)
    );
    assert!(status.phase_millis.is_some_and(|left| left <= 30_000));
    a.await_event("lend.paused by-hand");
    a.await_event("lend.recalled by-hand");
    b.await_event("borrow.recalled recalled");
}

#[test]
fn a_temporary_drain_ends_with_the_daemon() {
    let (cluster, a, b, [lends, _borrows]) = pair("127.0.0.1");
    let said = a.lend_ok(&["drain", "--temporary", "--within", "0s"]);
    assert!(said.contains("or the daemon's end"), "{said}");
    assert_eq!(a.status().phase, LendPhase::Draining);
    assert_eq!(lends.end().0, Some(0));
    let _lends = a.serve(&a.lender(&cluster, &[&b], ""), "64MiB");
    assert_eq!(a.status().phase, LendPhase::Lending);
}

#[test]
fn whom_the_config_denies_loses_its_leases_by_sighup_and_stays_out() {
    let (cluster, z, b, [lends, borrows]) = pair_of(["z", "b"], "127.0.0.1");
    b.want_of(&z);
    let deny = format!("deny = [\"{}\"]\n", cluster.fingerprint("b"));
    let faulty = z.lender(&cluster, &[&b], &format!("{deny}[lend]\nmaximum = 1\n"));
    z.folder.write("sublet.toml", &faulty);
    lends.hang_up();
    z.await_event("credentials.refused reread");
    z.await_event("credentials.read reread");
    assert_eq!(
        z.peer().link,
        PeerLink::Up,
        "a config with faults changes nothing"
    );

    z.folder
        .write("sublet.toml", &z.lender(&cluster, &[&b], &deny));
    lends.hang_up();
    let denied = z.await_link(PeerLink::Denied);
    assert_eq!(denied.lent, Bytes::ZERO);
    z.await_event("peer.denied denied");
    z.await_event("lend.ended shut");
    b.await_event("borrow.ended goodbye");
    assert_eq!(b.status().borrowed, Bytes::ZERO);
    assert_eq!(b.await_link(PeerLink::Shut).why, "said-bye");

    // The denied host comes back as a new process, which calls at once.
    assert_eq!(borrows.end().0, Some(0));
    let _borrows = b.serve(&b.borrower(&cluster, &[&z]), "16MiB");
    z.await_event("peer.refused denied");
    assert!(z.status().refused["denied"] > 0);
    assert_eq!(z.peer().link, PeerLink::Denied);
    z.folder
        .write("sublet.toml", &z.lender(&cluster, &[&b], ""));
    lends.hang_up();
    z.await_link(PeerLink::Up);
}

#[test]
fn a_certificate_that_ends_soon_is_told_as_soon_as_it_is_read() {
    let (cluster, a, _b, [lends, _borrows]) = pair("127.0.0.1");
    let own = |host: &Host| host.status().certificates.remove(0);
    assert_eq!(own(&a).file, cluster.file("a.crt"));
    assert!(!a.lend_ok(&["status"]).contains("renew it"));
    cluster.ca(&["issue", "a", "--days", "10"]);
    lends.hang_up();
    a.await_event("certificate.ending expiry");
    let left = own(&a).ends_in_secs;
    assert!((9 * 86_400..=10 * 86_400).contains(&left), "{left}");
    assert!(a.lend_ok(&["status"]).contains("a.crt ends in "));
    let findings = text(&a.folder.sublet(&["doctor"]).stdout);
    assert!(findings.contains("a.crt ends in "), "{findings}");
    assert_eq!(a.peer().link, PeerLink::Up, "connections stay");
}

#[test]
fn a_host_of_another_cluster_and_one_that_no_member_names_are_refused() {
    let (cluster, other) = (Cluster::new(&["a", "b"]), Cluster::new(&["c"]));
    let hosts = ["a", "b", "c"].map(|name| Host::new(name, "127.0.0.1"));
    let [a, b, c] = &hosts;
    let _b = b.serve(&b.lender(&cluster, &[c], ""), "64MiB");
    let _c = c.serve(&c.lender(&other, &[b], ""), "64MiB");
    let _a = a.serve(&a.lender(&cluster, &[b], ""), "64MiB");
    b.await_event("peer.refused unknown-authority");
    b.await_event("peer.refused stranger");
    wait_until("the stranger is counted", || b.status().strangers > 0);
    assert_ne!(b.peer().link, PeerLink::Up);
    let refused = b.status().refused;
    assert!(refused["unknown-authority"] > 0, "{refused:?}");
    assert_eq!(b.peer().refused, refused, "c is called by its name");
}

#[test]
fn a_host_without_peers_says_which_section_its_config_lacks() {
    let folder = Folder::new();
    let _daemon = folder.serve();
    for args in [
        &["status"][..],
        &["list"],
        &["drain"],
        &["resume"],
        &["recall", "--now"],
    ] {
        let output = folder.sublet(&[&["lend"], args].concat());
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let said = text(&output.stderr);
        assert!(said.contains("no section [peers]"), "{args:?}: {said}");
    }
    let status = folder.admin().status().expect("a status");
    assert_eq!(status.lending, None);
    assert!(
        !folder
            .admin()
            .metrics()
            .expect("a page")
            .contains("sublet_peer_")
    );
    let usage = folder.sublet(&["lend", "recall"]);
    assert_eq!(usage.status.code(), Some(2), "it wants --now");
    let usage = folder.sublet(&["lend", "drain", "--within", "2h"]);
    assert_eq!(usage.status.code(), Some(2), "{}", text(&usage.stderr));
}
