//! The admin interface: what the daemon answers its owner.

use sublet_client::messages::{ReleaseRequest, Status};
use sublet_types::{Bytes, ReleaseMode};

use crate::daemon::{Folder, text};

const TWO_TENANTS: &str = "\
[tenants.web]
listen = [\"tcp:127.0.0.1:0\"]
weight = 200
[tenants.wiki]
listen = [\"tcp:127.0.0.1:0\"]
";

#[test]
fn without_a_daemon_the_commands_say_what_to_type() {
    let folder = Folder::new();
    for args in [&["status"][..], &["tenants", "list"], &["release", "1GiB"]] {
        let output = folder.sublet(args);
        assert_eq!(output.status.code(), Some(3), "{args:?}");
        assert!(text(&output.stderr).contains("sublet serve"), "{args:?}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn status_is_a_table_for_people_and_json_for_programs() {
    let folder = Folder::new();
    let daemon = folder.serve_config(TWO_TENANTS);
    let page = folder.sublet_ok(&["status"]);
    let names: Vec<&str> = page
        .lines()
        .map(|line| line.split(' ').next().unwrap_or(""))
        .collect();
    assert_eq!(
        names,
        [
            "host", "arena", "why", "policy", "process", "", "tenant", "web", "wiki", "",
            "fairness"
        ],
        "{page}"
    );
    let heading = page
        .lines()
        .find(|line| line.starts_with("tenant"))
        .expect("a heading");
    let columns: Vec<&str> = heading.split_whitespace().collect();
    assert_eq!(
        columns,
        [
            "tenant", "weight", "held", "target", "used", "items", "evicted", "pages", "fairness",
            "hits", "ops/s", "conns", "listens", "at"
        ]
    );

    let status: Status =
        serde_json::from_str(&folder.sublet_ok(&["status", "--json"])).expect("JSON");
    assert_eq!((status.version, status.daemon.pid), (1, daemon.pid()));
    assert!(status.host.memory > Bytes::mib(64) && status.daemon.resident > Bytes::mib(1));
    assert_eq!(status.headroom.bound, "ceiling");
    assert_eq!(status.arena.limit, Bytes::mib(64));
    assert_eq!(status.tenants.len(), 2);
}

#[test]
fn changes_outlast_the_daemon_unless_they_are_temporary() {
    let folder = Folder::new();
    let daemon = folder.serve_config(TWO_TENANTS);
    folder.sublet_ok(&[
        "tenants",
        "set",
        "web",
        "--weight",
        "50",
        "--ceiling",
        "32MiB",
    ]);
    folder.sublet_ok(&["tenants", "set", "wiki", "--weight", "7", "--temporary"]);
    let status = folder.admin().status().expect("answered");
    let mut changed: Vec<(&str, bool)> = status
        .changed
        .iter()
        .map(|d| (d.key.as_str(), d.kept))
        .collect();
    changed.sort_unstable();
    assert_eq!(
        changed,
        [
            ("tenants.web.ceiling", true),
            ("tenants.web.weight", true),
            ("tenants.wiki.weight", false)
        ]
    );
    assert!(
        folder
            .sublet_ok(&["status"])
            .contains("tenants.web.weight is 50; the config says 200 (kept)")
    );
    assert_eq!(daemon.end().0, Some(0));

    let _again = folder.serve_config(TWO_TENANTS);
    let tenants = folder.admin().tenants().expect("answered").tenants;
    let weights: Vec<u32> = tenants.iter().map(|tenant| tenant.weight.0).collect();
    assert_eq!(weights, [50, 100]);
    assert_eq!(tenants[0].ceiling, Some(Bytes::mib(32)));
    folder.sublet_ok(&["tenants", "set", "web", "--ceiling", "none"]);
    assert_eq!(
        folder.admin().tenants().expect("answered").tenants[0].ceiling,
        None
    );
}

#[test]
fn a_change_that_makes_no_sense_changes_nothing() {
    let folder = Folder::new();
    let _daemon = folder.serve_config(TWO_TENANTS);
    for (path, body, code) in [
        ("web", r#"{"weight":0}"#, "422"),
        ("web", r#"{"weight":1000001}"#, "422"),
        ("web", r#"{"floor":"2GiB","ceiling":"1GiB"}"#, "422"),
        ("web", r#"{"wieght":3}"#, "400"),
        ("web", r#"{"weight":-1}"#, "400"),
        ("web", "{", "400"),
        ("nobody", r#"{"weight":1}"#, "404"),
        ("-x", r#"{"weight":1}"#, "400"),
    ] {
        let (head, answer) = folder.http(&format!("PATCH /v1/tenants/{path}"), body);
        assert!(head.contains(code), "{path} {body}: {head} {answer}");
        let refusal: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
        assert!(
            refusal["error"].is_string() && refusal["hint"].is_string(),
            "{answer}"
        );
    }
    let unknown = folder.sublet(&["tenants", "set", "nobody", "--weight", "3"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert_eq!(
        folder.sublet(&["tenants", "set", "web"]).status.code(),
        Some(2)
    );
    assert!(
        folder
            .admin()
            .status()
            .expect("answered")
            .changed
            .is_empty()
    );
    assert!(!folder.path("state/live.toml").exists());
}

#[test]
fn a_change_that_cannot_be_kept_is_not_made() {
    let folder = Folder::new();
    // A file stands where the state folder should be.
    folder.write("state", "");
    let listen = format!("unix:{}", folder.path("default.sock").display());
    let mut command = folder.command(&["--listen", &listen]);
    let refused = command.output().expect("it runs");
    assert_eq!(
        refused.status.code(),
        Some(2),
        "a state folder that is none is told at the start"
    );

    std::fs::remove_file(folder.path("state")).expect("removed");
    let _daemon = folder.serve();
    std::fs::remove_dir_all(folder.path("state")).expect("removed");
    folder.write("state", "");
    let set = folder.sublet(&["tenants", "set", "default", "--weight", "3"]);
    assert_eq!(set.status.code(), Some(1));
    assert!(text(&set.stderr).contains("--temporary"), "{set:?}");
    assert_eq!(
        folder.admin().tenants().expect("answered").tenants[0]
            .weight
            .0,
        100
    );
    folder.sublet_ok(&["tenants", "set", "default", "--weight", "3", "--temporary"]);
    assert_eq!(
        folder.admin().tenants().expect("answered").tenants[0]
            .weight
            .0,
        3
    );
}

#[test]
fn a_release_says_what_it_did_and_holds() {
    let folder = Folder::new();
    let _daemon = folder.serve();
    let request = ReleaseRequest {
        amount: Bytes::gib(1),
        mode: Some(ReleaseMode::Fast),
        tenant: Some("default".parse().expect("a name")),
        hold_millis: 60_000,
    };
    let report = folder.admin().release(&request).expect("released");
    assert_eq!((report.version, report.mode), (1, ReleaseMode::Fast));
    let output = folder.sublet(&["release", "1GiB", "--hold", "60s"]);
    assert_eq!(output.status.code(), Some(1), "there is no GiB to give");
    let page = String::from_utf8_lossy(&output.stdout);
    assert!(
        page.contains("released in") && page.contains("it stays so for 60 s"),
        "{page}"
    );
    for wrong in [
        &["release", "0"][..],
        &["release", "10"],
        &["release", "1GiB", "--tenant", "nobody"],
    ] {
        assert_eq!(folder.sublet(wrong).status.code(), Some(1), "{wrong:?}");
    }
    let both = folder.sublet(&["release", "1GiB", "--fast", "--ordered"]);
    assert_eq!(both.status.code(), Some(2));
}

#[test]
fn the_admin_interface_answers_every_wrong_request_in_json() {
    let folder = Folder::new();
    let _daemon = folder.serve();
    let large = "x".repeat(100_000);
    for (request, body, code) in [
        ("GET /", "", "404"),
        ("GET /v2/status", "", "404"),
        ("DELETE /v1/release", "", "405"),
        ("POST /v1/status", "", "405"),
        ("POST /v1/release", "", "400"),
        ("POST /v1/release", large.as_str(), "413"),
        (
            "POST /v1/release",
            r#"{"amount":1,"hold_millis":18446744073709551615}"#,
            "422",
        ),
    ] {
        let (head, answer) = folder.http(request, body);
        assert!(
            head.starts_with(&format!("HTTP/1.1 {code}")),
            "{request}: {head}"
        );
        let refusal: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
        assert!(
            refusal["error"].is_string() && refusal["hint"].is_string(),
            "{answer}"
        );
    }
    let health = folder.admin().health().expect("answered");
    assert!(health.serving);
    let settings = folder.admin().settings().expect("answered").settings;
    assert_eq!(settings["arena.ceiling"], "64.0 MiB");
    assert_eq!(settings["tenants.default.weight"], "100");
}

#[test]
fn callers_who_say_nothing_do_not_keep_others_out_for_ever() {
    let folder = Folder::new();
    let _daemon = folder.serve();
    let socket = folder.path("admin.sock");
    let silent: Vec<_> = (0..20)
        .map(|_| std::os::unix::net::UnixStream::connect(&socket))
        .collect();
    folder.sublet_ok(&["status"]);
    drop(silent);
}

#[test]
fn a_fault_of_a_request_is_told_in_words_of_who_wrote_it() {
    let folder = Folder::new();
    let _daemon = folder.serve();
    for (request, body, status, said) in [
        ("GET /v1/tenants/%ff", "", 400, "UTF-8"),
        ("GET /v1/policy/explain?last=x", "", 400, ""),
        ("POST /v1/tenants", "{", 400, "ends before its JSON does"),
        (
            "POST /v1/tenants",
            "{\"name\" 1}",
            400,
            "is no JSON at line 1",
        ),
        (
            "POST /v1/tenants",
            "{\"nam\": \"x\"}",
            400,
            "no key is called `nam`; there are `name`",
        ),
        (
            "PATCH /v1/tenants/default",
            "{\"weight\": -1}",
            400,
            "is to be a whole number, not below zero, at line 1, column",
        ),
    ] {
        let (head, text) = folder.http(request, body);
        assert!(
            head.starts_with(&format!("HTTP/1.1 {status} ")),
            "{request}: {head}"
        );
        let answer: serde_json::Value = serde_json::from_str(&text).expect(&text);
        let error = answer["error"].as_str().expect("an error");
        assert!(error.contains(said), "{request} {body}: {error}");
        assert!(answer["hint"].is_string(), "{text}");
    }
}

/// A list would be taken for an object's values, in the order of its keys.
#[test]
fn a_body_that_is_a_list_is_refused_and_changes_nothing() {
    let folder = Folder::new();
    let _daemon = folder.serve_config(TWO_TENANTS);
    for (request, body) in [
        ("PATCH /v1/tenants/web", "[300]"),
        ("POST /v1/tenants", " [\"more\"]"),
        ("POST /v1/release", "[\"2MiB\", \"fast\"]"),
    ] {
        let (head, said) = folder.http(request, body);
        assert!(head.starts_with("HTTP/1.1 400"), "{request}: {head}");
        assert!(said.contains("is a list"), "{said}");
    }
    let status: Status = folder.admin().status().expect("answered");
    let weights: Vec<u32> = status
        .tenants
        .iter()
        .map(|tenant| tenant.weight.0)
        .collect();
    assert_eq!(weights, [200, 100]);
}
