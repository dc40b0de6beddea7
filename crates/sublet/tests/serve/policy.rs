//! Explanations of what a tenant holds.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use sublet_client::ring::{Client, Key};
use sublet_types::{ObjectId, PageIndex, PoolFlags, PoolId};

use crate::content::page_of;
use crate::daemon::{Folder, text};
use crate::wait::wait_until;

/// A tenant that puts pages on its ring.
struct Tenant {
    client: Client,
    pool: PoolId,
}

impl Tenant {
    fn at(ring: PathBuf) -> Tenant {
        let mut client = Client::connect(&ring).expect("let in");
        let pool = client.create_pool(PoolFlags::default(), None);
        let pool = pool.expect("a pool");
        Tenant { client, pool }
    }

    fn fill(&mut self, mib: u32) {
        for index in (0..mib * 256).step_by(64) {
            let key = Key {
                pool: self.pool,
                object: ObjectId(1),
                index: PageIndex(index),
            };
            let put = self.client.put_run(key, &[page_of(3); 64]);
            put.expect("put");
        }
    }
}

/// A policy that decides nothing may still have to explain. Under `weights` a tenant without a target loses memory to
/// others.
#[test]
fn a_tenant_that_gave_way_is_told_to_whom_and_since_when() {
    let folder = Folder::new();
    let ring = |name: &str| folder.path(&format!("{name}.ring"));
    let table = |name: &str| {
        format!(
            "[tenants.{name}]\nlisten = [\"ring:{}\"]\n",
            ring(name).display()
        )
    };
    let _daemon = folder.serve_config(&["web", "wiki"].map(table).concat());
    let explain = ["policy", "explain", "--tenant", "web"];
    let said = folder.sublet_ok(&explain);
    assert!(said.starts_with("until then no policy changed"), "{said}");
    assert!(said.contains("is not kept"), "since when: {said}");

    let (mut web, mut wiki) = (Tenant::at(ring("web")), Tenant::at(ring("wiki")));
    web.fill(80);
    // The manager looks once per second: first at what web filled, then at what it lost.
    let holds = |mib: f64| {
        let status = folder.admin().status().expect("answered");
        status.tenants[0].held.0 as f64 / f64::from(1 << 20) >= mib
    };
    assert!(holds(40.0), "it fills what there is");
    thread::sleep(Duration::from_millis(1500));
    wiki.fill(30);
    wait_until("it is told", || {
        let said = folder.sublet_ok(&explain);
        said.contains("weights       web: lost")
    });
    let said = folder.sublet_ok(&explain);
    assert!(said.contains("others put and hold"), "{said}");
    assert!(said.contains(" to wiki"), "{said}");
    let json = folder.sublet_ok(&[&explain[..], &["--json", "--last", "1"]].concat());
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let decisions = json["decisions"].as_array().expect("a list");
    assert_eq!(decisions.len(), 1, "{json}");
    let held = |which: &str| decisions[0][which].as_u64().expect("a number");
    let lost = held("held_before") - held("held_after");
    let moves = decisions[0]["moves"].as_array().expect("a list");
    let amounts = moves.iter().map(|one| one["amount"].as_u64());
    assert_eq!(
        amounts.sum::<Option<u64>>(),
        Some(lost),
        "it adds up: {json}"
    );
    assert!(
        lost > 0 && moves.iter().any(|one| one["tenant"] == "wiki"),
        "{json}"
    );

    let status = folder.sublet_ok(&["status"]);
    assert!(status.contains("policy    weights; "), "{status}");
    assert!(
        status.contains(" went from one tenant to another"),
        "{status}"
    );
    let rows = status
        .lines()
        .skip_while(|line| !line.starts_with("pages of"));
    let row = rows
        .skip(1)
        .find(|line| line.starts_with("web "))
        .expect("a row");
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[1], "1", "pools: {row}");
    assert_eq!(cells[5], "20480", "puts: {row}");
    assert!(cells[6].parse::<u64>().expect("displacing") > 0, "{row}");
    assert_eq!(cells[7], "0", "refused: {row}");
}

/// The log has what was given, and the tenant's explanation has it as its owner's act.
#[test]
fn a_release_by_hand_is_told_as_such() {
    let folder = Folder::new();
    let ring = folder.path("web.ring");
    let listen = format!("[tenants.web]\nlisten = [\"ring:{}\"]\n", ring.display());
    let daemon = folder.serve_config(&listen);
    Tenant::at(ring).fill(40);
    // Setting a policy makes the manager look.
    folder.sublet_ok(&["policy", "set", "weights"]);
    folder.sublet_ok(&["release", "16MiB", "--tenant", "web"]);
    folder.sublet_ok(&["policy", "set", "weights"]);
    let said = folder.sublet_ok(&["policy", "explain", "--tenant", "web"]);
    assert!(said.contains("were released by hand"), "{said}");
    let (_, log) = daemon.end();
    let told: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("memory went back to the host"))
        .collect();
    assert_eq!(told.len(), 1, "{log}");
    assert!(told[0].contains("amount=\"16.0 MiB\""), "{log}");
    assert!(told[0].contains("reason=\"by-hand\""), "{log}");
}

/// `/dev/full` can be opened, but takes nothing.
#[test]
fn a_decision_log_that_takes_nothing_is_told_of_at_the_first_decision() {
    let folder = Folder::new();
    let daemon =
        folder.serve_config("[policy]\nname = \"static-alloc\"\nlog_file = \"/dev/full\"\n");
    folder.sublet_ok(&["tenants", "add", "guest"]);
    let explain = ["policy", "explain", "--tenant", "guest"];
    wait_until("something is decided", || {
        text(&folder.sublet(&explain).stdout).contains("static-alloc")
    });
    let (code, log) = daemon.end();
    assert_eq!(code, Some(0), "{log}");
    let told: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("the decision log cannot be written"))
        .collect();
    assert_eq!(told.len(), 1, "{log}");
    assert!(told[0].contains("/dev/full"), "{log}");
}

#[test]
fn what_was_decided_about_a_tenant_is_told_when_it_is_gone() {
    let folder = Folder::new();
    let _daemon = folder.serve_config("[policy]\nname = \"static-alloc\"\n");
    folder.sublet_ok(&["tenants", "add", "guest"]);
    let explain = |name| folder.sublet(&["policy", "explain", "--tenant", name]);
    let told = |name| String::from_utf8_lossy(&explain(name).stdout).into_owned();
    wait_until("it is told", || told("guest").contains("static-alloc"));
    folder.sublet_ok(&["tenants", "remove", "guest"]);
    assert!(told("guest").contains("static-alloc"), "{}", told("guest"));
    assert!(!explain("nobody").status.success());
}

/// Kept, or for a while only, or with another knob only. It is not shown once it is again what the config says.
#[test]
fn a_policy_that_is_not_the_configs_is_shown_as_changed() {
    let folder = Folder::new();
    let ring = folder.path("web.ring");
    let listen = format!("[tenants.web]\nlisten = [\"ring:{}\"]\n", ring.display());
    let _daemon = folder.serve_config(&listen);
    let set = |said: &[&str]| {
        folder.sublet_ok(&[&["policy", "set"], said].concat());
        let page = folder.sublet_ok(&["status"]);
        let line = page.lines().find(|line| line.contains("policy is "));
        line.map_or(String::new(), str::to_owned)
    };
    let told = set(&["greedy"]);
    assert_eq!(
        told,
        "changed   policy is greedy; the config says weights (kept)"
    );
    let told = set(&["mrc", "gain=7", "--temporary"]);
    assert!(told.contains("policy is mrc ") && told.contains(" gain=7"));
    assert!(told.ends_with("(until restart)"), "{told}");
    assert_eq!(set(&["weights"]), "");
}
