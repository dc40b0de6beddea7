//! Disks that come and go leave nothing behind in the daemon.

use std::fs;

use serde_json::json;

use crate::daemon::{Daemon, Folder};
use crate::guest::Guest;

/// Threads and connections of the admin interface, which come and go.
const SLACK: usize = 8;

/// The resources of the process.
#[derive(Debug)]
struct DaemonResources {
    threads: usize,
    files: usize,
    resident_kib: u64,
}

fn resources(daemon: &Daemon) -> DaemonResources {
    let proc = format!("/proc/{}", daemon.pid());
    let count = |what: &str| {
        fs::read_dir(format!("{proc}/{what}"))
            .expect("Linux")
            .count()
    };
    let status = fs::read_to_string(format!("{proc}/status")).expect("Linux");
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let resident = resident.and_then(|kib| kib.split_whitespace().next()?.parse().ok());
    DaemonResources {
        threads: count("task"),
        files: count("fd"),
        resident_kib: resident.expect("a size"),
    }
}

/// Adds a disk and a swap disk. A guest writes to each, and they are removed.
fn run_round(folder: &Folder, round: u32) {
    for kind in ["disk", "swap"] {
        let name = format!("{kind}{round}");
        let socket = folder.path("disk.sock");
        let mut said = json!({
            "name": name, "kind": kind, "tenant": "t", "lasts": "until-restart",
            "listen": [
                format!("unix:{}", socket.display()),
                format!("vhost-user:{}", folder.path("vhost.sock").display()),
            ],
        });
        match kind {
            "disk" => said["backing"] = json!(folder.path("vm/image")),
            _ => said["size"] = json!("1MiB"),
        }
        let (head, answer) = folder.http("POST /v1/disks", &said.to_string());
        assert!(head.contains("200"), "{head} {answer}");
        let mut guest = Guest::of(&socket, &name);
        assert_eq!(guest.write_page(3, 1), 0);
        let query = "?lasts=until-restart";
        let (head, answer) = folder.http(&format!("DELETE /v1/disks/{name}{query}"), "");
        assert!(head.contains("200"), "{head} {answer}");
        let _ = fs::remove_file(folder.path(&format!("state/disks/{name}.swap")));
    }
}

#[test]
fn a_daemon_is_as_large_after_three_hundred_disks_as_after_thirty() {
    let folder = Folder::new();
    fs::create_dir(folder.path("vm")).expect("made");
    fs::write(folder.path("vm/image"), vec![0; 1 << 20]).expect("written");
    let daemon = folder.serve_config(&format!(
        "[disk]\nallow = [{:?}]\ndirty_max = \"2MiB\"\n[tenants.web]\nlisten = [\"unix:{}\"]\n",
        folder.path("vm"),
        folder.path("web.sock").display()
    ));
    (0..15).for_each(|round| run_round(&folder, round));
    let before = resources(&daemon);
    (15..150).for_each(|round| run_round(&folder, round));
    let after = resources(&daemon);
    let is_as_before = |after: usize, before: usize| after <= before + SLACK;
    assert!(
        is_as_before(after.threads, before.threads),
        "{before:?} {after:?}"
    );
    assert!(
        is_as_before(after.files, before.files),
        "{before:?} {after:?}"
    );
    let grown = after.resident_kib.saturating_sub(before.resident_kib);
    assert!(grown < 4096, "{before:?} {after:?}");
    let pools = folder.admin().tenant(&"t".parse().expect("a name"));
    assert_eq!(pools.expect("there").pages.pools, 0);
}
