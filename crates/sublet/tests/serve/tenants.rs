//! Tenants, as their owner adds and removes them.

use sublet_client::messages::ChangeLifetime;
use sublet_types::{EvictionKind, GetMode};

use crate::daemon::{Folder, text};

fn names(folder: &Folder) -> Vec<String> {
    let all = folder.admin().tenants().expect("answered").tenants;
    all.iter().map(|tenant| tenant.name.to_string()).collect()
}

#[test]
fn a_tenant_that_was_added_is_there_after_a_restart_until_it_is_removed() {
    let folder = Folder::new();
    let daemon = folder.serve();
    let said = folder.sublet_ok(&["tenants", "add", "vm", "--weight", "7", "--ceiling", "8MiB"]);
    let usual = EvictionKind::default();
    let ruling = usual.effective(GetMode::Exclusive);
    assert_eq!(
        said,
        format!("vm: weight 7, floor none, ceiling 8.00 MiB, eviction {usual} ({ruling})\n")
    );
    folder.sublet_ok(&["tenants", "add", "brief", "--temporary"]);
    assert_eq!(names(&folder), ["default", "vm", "brief"]);
    let status = folder.sublet_ok(&["status"]);
    for said in [
        "tenants.vm is added; the config says none (kept)\n",
        "tenants.brief is added; the config says none (until restart)\n",
    ] {
        assert!(status.contains(said), "{said} in {status}");
    }
    folder.sublet_ok(&["tenants", "remove", "vm", "--temporary"]);
    let status = folder.sublet_ok(&["status"]);
    let said = "tenants.vm is removed; the config says none (until restart)\n";
    assert!(status.contains(said), "{status}");
    folder.sublet_ok(&["tenants", "add", "vm", "--weight", "7"]);
    folder.sublet_ok(&["tenants", "set", "vm", "--weight", "9"]);
    drop(daemon);

    let again = folder.serve();
    let vm = folder.admin().tenant(&"vm".parse().expect("a name"));
    assert_eq!(vm.expect("there").weight.0, 9);
    assert_eq!(names(&folder).len(), 2);
    assert_eq!(
        folder.sublet_ok(&["tenants", "remove", "vm"]),
        "vm: removed\n"
    );
    assert_eq!(names(&folder), ["default"]);
    drop(again);

    let _last = folder.serve();
    assert_eq!(names(&folder), ["default"]);
}

/// There are 1,024 names at a time, and any number over a daemon's life. The daemon writes more lines than a pipe
/// holds, and nobody reads them.
#[test]
fn names_that_are_gone_leave_room_for_others() {
    let folder = Folder::new();
    let _daemon = folder.serve();
    let admin = folder.admin();
    for n in 0..1030 {
        let body = format!("{{\"name\": \"t{n}\", \"lasts\": \"until-restart\"}}");
        let (head, said) = folder.http("POST /v1/tenants", &body);
        assert!(head.starts_with("HTTP/1.1 200"), "{n}: {said}");
        if n < 1028 {
            let name = format!("t{n}").parse().expect("a name");
            admin
                .remove_tenant(&name, ChangeLifetime::UntilRestart)
                .expect("removed");
        }
    }
    let mut left = names(&folder);
    left.sort_unstable();
    assert_eq!(left, ["default", "t1028", "t1029"]);
}

#[test]
fn a_tenant_that_is_in_use_stays_and_one_is_not_added_twice() {
    let folder = Folder::new();
    let _daemon = folder.serve();
    folder.sublet_ok(&["tenants", "add", "vm"]);
    let place = format!("unix:{}", folder.path("s.sock").display());
    folder.sublet_ok(&[
        "disk", "add", "s", "--tenant", "vm", "--kind", "swap", "--size", "1MiB", "--listen",
        &place,
    ]);
    folder.sublet_ok(&["tenants", "set", "vm", "--floor", "40MiB"]);
    let refused: [(&[&str], &str); 9] = [
        (&["tenants", "remove", "vm"], "it has disks: s"),
        (&["tenants", "remove", "default"], "it listens at unix:"),
        (
            &["tenants", "remove", "nobody"],
            "no tenant is called nobody",
        ),
        (&["tenants", "add", "vm"], "exists already"),
        (
            &["tenants", "set", "vm", "--ceiling", "10"],
            "its ceiling of 10 B is less than a block, 2.00 MiB; did you mean 10GiB?",
        ),
        (
            &["tenants", "add", "x", "--floor", "512KiB"],
            "its floor of 512 KiB is less than a block",
        ),
        (
            &["tenants", "add", "x", "--floor", "2GiB"],
            "above the arena's ceiling",
        ),
        (
            &["tenants", "add", "x", "--floor", "30MiB"],
            "floors would be 70.0 MiB together",
        ),
        (
            &[
                "tenants",
                "add",
                "x",
                "--floor",
                "8MiB",
                "--ceiling",
                "4MiB",
            ],
            "the floor is above the ceiling",
        ),
    ];
    for (args, expected) in refused {
        let output = folder.sublet(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(text(&output.stderr).contains(expected), "{output:?}");
    }
    assert_eq!(names(&folder), ["default", "vm"]);
    folder.sublet_ok(&["disk", "remove", "s"]);
    folder.sublet_ok(&["tenants", "remove", "vm"]);
    folder.sublet_ok(&["tenants", "add", "vm", "--weight", "3"]);
    assert_eq!(names(&folder), ["default", "vm"]);
}

/// The change holds at once and after a restart, until the user returns to the config's word. `--temporary` is
/// forgotten.
#[test]
fn an_eviction_is_changed_live_and_kept() {
    const CONFIG: &str = "[tenants.web]\nlisten = [\"tcp:127.0.0.1:0\"]\neviction = \"lru\"\n";
    let folder = Folder::new();
    let daemon = folder.serve_config(CONFIG);
    let eviction = |name: &str| {
        let tenant = folder.admin().tenant(&name.parse().expect("a name"));
        tenant.expect("there").eviction
    };
    assert_eq!(eviction("web"), "lru");
    let said = folder.sublet_ok(&["tenants", "set", "web", "--eviction", "s3fifo"]);
    assert_eq!(
        said,
        "web: weight 100, floor none, ceiling none, eviction s3fifo\n"
    );
    let said = folder.sublet_ok(&["tenants", "add", "vm", "--eviction", "lrfu"]);
    assert!(said.ends_with(", eviction lrfu\n"), "{said}");
    folder.sublet_ok(&["tenants", "set", "vm", "--eviction", "file", "--temporary"]);
    let status = folder.sublet_ok(&["status"]);
    let changed = "tenants.web.eviction is s3fifo; the config says lru (kept)\n";
    assert!(status.contains(changed), "{status}");
    assert_eq!(eviction("vm"), "file");
    drop(daemon);

    let _again = folder.serve_config(CONFIG);
    assert_eq!(eviction("web"), "s3fifo");
    assert_eq!(eviction("vm"), "lrfu");
    let said = folder.sublet_ok(&["tenants", "set", "vm", "--eviction", "auto"]);
    assert!(said.ends_with(", eviction auto (adaptive-mq)\n"), "{said}");
    folder.sublet_ok(&["tenants", "set", "web", "--eviction", "lru"]);
    assert!(
        !folder
            .sublet_ok(&["status"])
            .contains("tenants.web.eviction")
    );

    let output = folder.sublet(&["tenants", "set", "web", "--eviction", "s3fofi"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("a similar value exists: 's3fifo'"), "{said}");
    let (head, said) = folder.http("PATCH /v1/tenants/web", "{\"eviction\": \"s3fofi\"}");
    assert!(head.starts_with("HTTP/1.1 400"), "{head}");
    assert!(
        said.contains("`s3fofi`") && said.contains("`s3fifo`"),
        "{said}"
    );
    assert_eq!(eviction("web"), "lru");
}

/// The change holds at once and after a restart, until the user returns to the config's word.
#[test]
fn a_tenant_is_left_out_of_borrowing_live_and_that_is_kept() {
    const CONFIG: &str = "[tenants.web]\nlisten = [\"tcp:127.0.0.1:0\"]\n\
                          [tenants.db]\nlisten = [\"tcp:127.0.0.1:0\"]\nborrow = false\n";
    let folder = Folder::new();
    let daemon = folder.serve_config(CONFIG);
    let borrow = |name: &str| {
        let tenant = folder.admin().tenant(&name.parse().expect("a name"));
        tenant.expect("there").borrow
    };
    assert_eq!((borrow("web"), borrow("db")), (Some(true), Some(false)));
    let said = folder.sublet_ok(&["tenants", "set", "web", "--borrow", "false"]);
    assert!(said.ends_with(", borrow false\n"), "{said}");
    folder.sublet_ok(&["tenants", "set", "db", "--borrow", "true", "--temporary"]);
    assert_eq!((borrow("web"), borrow("db")), (Some(false), Some(true)));
    folder.sublet_ok(&["tenants", "add", "vm", "--borrow", "false"]);
    assert_eq!(borrow("vm"), Some(false));
    let status = folder.sublet_ok(&["status"]);
    for changed in [
        "tenants.web.borrow is false; the config says true (kept)\n",
        "tenants.db.borrow is true; the config says false (until restart)\n",
    ] {
        assert!(status.contains(changed), "{status}");
    }
    let settings = folder.admin().settings().expect("answered").settings;
    assert_eq!(settings["tenants.web.borrow"], "false");
    drop(daemon);

    let _again = folder.serve_config(CONFIG);
    assert_eq!((borrow("web"), borrow("db")), (Some(false), Some(false)));
    assert_eq!(borrow("vm"), Some(false));
    let said = folder.sublet_ok(&["tenants", "set", "web", "--borrow", "true"]);
    assert!(!said.contains("borrow"), "{said}");
    assert!(!folder.sublet_ok(&["status"]).contains("tenants.web.borrow"));
}

/// Each floor was granted while the other did not hold. Both come back, and the daemon with them.
#[test]
fn floors_that_do_not_fit_together_keep_no_daemon_from_starting() {
    let folder = Folder::new();
    let daemon = folder.serve();
    folder.sublet_ok(&["tenants", "add", "a", "--floor", "40MiB"]);
    folder.sublet_ok(&["tenants", "set", "a", "--floor", "none", "--temporary"]);
    folder.sublet_ok(&["tenants", "add", "b", "--floor", "40MiB"]);
    assert_eq!(daemon.end().0, Some(0));
    let again = folder.serve();
    assert_eq!(names(&folder), ["a", "b", "default"]);
    let (code, log) = again.end();
    assert_eq!(code, Some(0));
    assert!(log.contains("floors do not fit together"), "{log}");
}
