//! How the daemon begins and ends.

use std::net::TcpListener;
use std::process::{Command, Stdio};

use crate::daemon::{Daemon, Folder, SUBLET, text};

#[test]
fn it_says_what_it_found_what_it_serves_and_what_to_type() {
    let folder = Folder::new();
    let daemon = folder.serve();
    let names: Vec<&str> = daemon
        .greeting
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert_eq!(
        names[..5],
        ["sublet", "host", "arena", "tenant", "admin"],
        "{}",
        daemon.greeting
    );
    assert!(
        daemon
            .greeting
            .contains("up to 64.0 MiB now (the ceiling that was set)")
    );
    assert!(
        daemon
            .greeting
            .contains(&format!("{}", folder.path("admin.sock").display()))
    );
}

#[test]
fn sigterm_ends_it_cleanly_and_leaves_no_socket() {
    let folder = Folder::new();
    let (code, log) = folder.serve().end();
    assert_eq!(code, Some(0), "{log}");
    assert!(!folder.path("admin.sock").exists());
    assert!(!folder.path("default.sock").exists());
}

#[test]
fn what_a_killed_daemon_left_is_replaced() {
    let folder = Folder::new();
    folder.serve().kill();
    assert!(folder.path("admin.sock").exists() && folder.path("default.sock").exists());
    let _again = folder.serve();
    folder.sublet_ok(&["status"]);
}

#[test]
fn a_place_where_another_daemon_answers_is_not_taken() {
    let folder = Folder::new();
    let _first = folder.serve();
    let second = folder
        .command_with(&folder.path("other"), &["--listen", "tcp:127.0.0.1:0"])
        .output()
        .expect("it runs");
    assert_eq!(second.status.code(), Some(1));
    let said = text(&second.stderr);
    assert!(
        said.contains("another sublet answers at") && said.contains("--admin"),
        "{said}"
    );
    folder.sublet_ok(&["status"]);
}

#[test]
fn a_taken_port_is_named_with_what_to_type() {
    let folder = Folder::new();
    let taken = TcpListener::bind("127.0.0.1:0").expect("bound");
    let place = format!("tcp:{}", taken.local_addr().expect("an address"));
    let refused = folder
        .command(&["--listen", &place])
        .output()
        .expect("it runs");
    let said = text(&refused.stderr);
    let port = taken.local_addr().expect("an address").port().to_string();
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        said.contains(&port) && said.contains("--listen tcp:127.0.0.1:11212"),
        "{said}"
    );
    assert!(
        !folder.path("admin.sock").exists(),
        "nothing is left behind"
    );
}

#[test]
fn a_second_daemon_that_sizes_itself_is_refused() {
    let automatic = |folder: &Folder| {
        let mut command = Command::new(SUBLET);
        let listen = format!("unix:{}", folder.path("default.sock").display());
        command
            .args(["serve", "--listen", &listen, "--admin"])
            .arg(folder.path("admin.sock"));
        command.arg("--state").arg(folder.path("state"));
        command
    };
    let (first, second) = (Folder::new(), Folder::new());
    // If a daemon already runs on this host, that one is the first.
    let mut running = automatic(&first)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("started");
    let mut one_byte = [0];
    let _ = std::io::Read::read(running.stdout.as_mut().expect("piped"), &mut one_byte);
    let refused = automatic(&second).output().expect("it runs");
    let said = text(&refused.stderr);
    let _ = running.kill();
    let _ = running.wait();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(
        said.contains("sizes itself") && said.contains("--ceiling"),
        "{said}"
    );
}

#[test]
fn a_wrong_config_or_option_is_a_usage_error_with_its_place() {
    let folder = Folder::new();
    let file = folder.write("c.toml", "[arena]\ncieling = 1\n");
    let file = file.to_str().expect("text");
    let check = folder.sublet(&["config", "check", file]);
    assert_eq!(check.status.code(), Some(2));
    assert!(
        text(&check.stderr)
            .contains("c.toml:2: unknown key `cieling` in [arena]; did you mean `ceiling`?")
    );
    let serve = folder
        .command(&["--config", file])
        .output()
        .expect("it runs");
    assert_eq!(serve.status.code(), Some(2));
    let serve = folder
        .command(&["--threads", "0"])
        .output()
        .expect("it runs");
    assert_eq!(serve.status.code(), Some(2));
    assert!(text(&serve.stderr).contains("--threads: `--threads` must be 1 to 64"));
    assert_eq!(
        folder.sublet(&["serve", "--nonsense"]).status.code(),
        Some(2)
    );
    assert_eq!(folder.sublet(&["release", "lots"]).status.code(), Some(2));
}

#[test]
fn a_config_is_wrong_whose_files_cannot_be_used() {
    let folder = Folder::new();
    let users = folder.path("users");
    let tenant = format!("[tenants.web]\nlisten = [\"tcp:127.0.0.1:0\"]\nauth_file = {users:?}\n");
    let file = folder.write("c.toml", &tenant);
    let file = file.to_str().expect("text");
    let missing = folder.sublet(&["config", "check", file]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stderr).contains(&format!("{}", users.display())));
    folder.write("users", "ann:secret\n");
    let there = folder.sublet(&["config", "check", file]);
    assert_eq!(text(&there.stderr), "");
    assert_eq!(there.status.code(), Some(0));
}

/// The files that prove who a host is to its peers are read by the check, too, with what is in them.
#[test]
fn a_config_is_wrong_whose_node_is_not_the_certificates() {
    let folder = Folder::new();
    let peers = |node: &str| {
        let path = |name: &str| format!("{:?}", folder.path(name));
        let (ca, certificate, key) = (path("ca.crt"), path("a.crt"), path("a.key"));
        let text = format!(
            "[peers]\nnode = {node:?}\nlisten = \"tcp:127.0.0.1:7171\"\nca = {ca}\ncertificate = {certificate}\nkey = {key}\n"
        );
        folder.write("c.toml", &text)
    };
    let check = |node: &str| {
        let file = peers(node);
        let output = folder.sublet(&["config", "check", file.to_str().expect("text")]);
        (output.status.code(), text(&output.stderr))
    };
    let (code, said) = check("a");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("ca.crt"), "{said}");

    let place = folder.path("");
    let place = place.to_str().expect("text");
    folder.sublet_ok(&["lend", "ca", "init", "--dir", place]);
    folder.sublet_ok(&["lend", "ca", "issue", "a", "--dir", place]);
    assert_eq!(check("a"), (Some(0), String::new()));
    let (code, said) = check("b");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("a.crt"), "{said}");
}

#[test]
fn a_reader_who_has_seen_enough_is_no_failure() {
    let folder = Folder::new();
    let _daemon = folder.serve();
    for command in [
        "config default",
        "status",
        "status --watch 1",
        "tenants list",
    ] {
        let line = format!("'{SUBLET}' {command} | head -c 1; echo ${{PIPESTATUS[0]}}");
        let mut bash = Command::new("bash");
        bash.args(["-c", &line])
            .env("SUBLET_ADMIN", folder.path("admin.sock"));
        let output = bash.output().expect("it runs");
        assert!(
            text(&output.stdout).trim_end().ends_with('0'),
            "{command}: {output:?}"
        );
        assert_eq!(text(&output.stderr), "", "{command}");
    }
}

#[test]
fn logs_are_json_where_asked() {
    let folder = Folder::new();
    let listen = format!("unix:{}", folder.path("default.sock").display());
    let daemon = Daemon::start(folder.command(&["--listen", &listen, "--log-format", "json"]));
    let (_, log) = daemon.end();
    for line in log.lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect(line);
        assert!(line["level"].is_string() && line["fields"]["message"].is_string());
    }
    assert!(log.contains("ending"), "{log}");
    let wrong = folder
        .command(&["--log", "info,=[x"])
        .output()
        .expect("it runs");
    assert!(text(&wrong.stderr).contains("none of error"), "{wrong:?}");
    let mut loud = folder.command(&["--log", "info,sublet_host=loud"]);
    let wrong = loud.output().expect("it runs");
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    for (filter, says_more) in [(" info , sublet_host=debug", true), ("warn", false)] {
        let daemon = Daemon::start(folder.command(&["--listen", &listen, "--log", filter]));
        let (_, log) = daemon.end();
        assert_eq!(log.contains("ending"), says_more, "{filter}: {log}");
    }
}

#[test]
fn a_place_said_again_is_one_more_and_the_files_give_way() {
    let folder = Folder::new();
    let place = |name: &str| format!("unix:{}", folder.path(name).display());
    let file = format!("[tenants.web]\nlisten = [\"{}\"]\n", place("file.sock"));
    let file = folder.write("sublet.toml", &file);
    let file = file.to_str().expect("text");
    let (one, two) = (place("one.sock"), place("two.sock"));
    let said = ["--config", file, "--listen", &one, "--listen", &two];
    let _daemon = Daemon::start(folder.command(&said));
    let tenants = folder.admin().tenants().expect("answered").tenants;
    assert_eq!(tenants[0].listen, [one, two]);
}
