//! The process: how it starts, what ends it, and what it leaves behind.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use crate::started::{Client, command, read_ports, run, start, start_as, wait_for};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use sublet_host::memory_lock::may_lock;

#[test]
fn help_version_and_licence_end_well() {
    for option in ["-h", "-V", "-i", "--help"] {
        let output = run(&[option]);
        assert_eq!(output.status.code(), Some(0), "{option}");
        assert!(output.stdout.starts_with(b"memcached 1.6."), "{option}");
    }
}

#[test]
fn what_cannot_be_done_ends_at_once_with_a_reason() {
    for (options, exit) in [
        (&["-l", "fooble"][..], 71),
        (&["-B", "http"], 64),
        (&["-c", "0"], 1),
        (&["-c", "-1"], 1),
        (&["-t", "0"], 1),
        (&["-S", "-B", "ascii"], 64),
        (&["-I", "1000"], 64),
        (&["-I", "256m"], 64),
        (&["-U", "11211"], 64),
        (&["-Z"], 64),
        (&["-Y", "/no/such/file"], 1),
        (&["-s", "/no/such/folder/socket"], 71),
        (&["-o", "no_such_option"], 1),
        (&["-x"], 1),
    ] {
        let output = run(options);
        assert_eq!(output.status.code(), Some(exit), "{options:?}");
        assert!(!output.stderr.is_empty(), "{options:?} says why");
    }
}

/// Memory is locked when it is used, as memcached's is. The arena reserves address space for all of the host's memory.
#[test]
fn locked_memory_is_no_more_than_what_is_used() {
    let started = start(&["-k", "-m", "64"]);
    assert!(
        Client::tcp(started.ports[0])
            .request("version")
            .starts_with("VERSION")
    );
    let status = fs::read_to_string(format!("/proc/{}/status", started.process.id()));
    let status = status.expect("its status");
    let kib = |name: &str| -> u64 {
        let line = status.lines().find(|line| line.starts_with(name));
        let amount = line.and_then(|line| line.split_whitespace().nth(1));
        amount.and_then(|amount| amount.parse().ok()).expect(name)
    };
    assert!(kib("VmRSS:") < 256 << 10, "{status}");
    if may_lock() {
        assert!(kib("VmLck:") > 64 << 10, "{status}");
    }
}

#[test]
fn a_taken_port_is_refused() {
    let first = start(&[]);
    let port = first.ports[0].to_string();
    let output = run(&["-l", "127.0.0.1", "-p", &port]);
    assert_eq!(output.status.code(), Some(71));
}

#[test]
fn every_address_is_listened_at_and_named_in_the_port_file() {
    let started = start_as(&["-p", "-1", "-l", "127.0.0.1,127.0.0.2", "-t", "1"]);
    assert_eq!(started.ports.len(), 2);
    let mut client = Client::tcp(started.ports[0]);
    assert!(client.request("version").starts_with("VERSION "));
}

#[test]
fn signals_end_it_and_some_do_not() {
    for (signal, said) in [
        (Signal::TERM, "Exiting normally"),
        (Signal::INT, "Exiting normally"),
        (Signal::USR1, "Gracefully stopping"),
    ] {
        let started = start(&["-v"]);
        let mut client = started.connect();
        assert!(client.request("version").starts_with("VERSION "));
        started.signal(Signal::HUP);
        assert!(
            client.request("version").starts_with("VERSION "),
            "after SIGHUP"
        );
        started.signal(signal);
        let (status, stderr) = started.end();
        assert_eq!(status.code(), Some(0), "{signal:?}");
        assert!(stderr.contains(said), "{signal:?}: {stderr}");
    }
}

#[test]
fn shutdown_ends_it_where_it_is_enabled() {
    let started = start(&["-A"]);
    started.connect().send("shutdown\r\n");
    let (status, _) = started.end();
    assert_eq!(status.code(), Some(0));

    let started = start(&["-A"]);
    started.connect().send("shutdown graceful\r\n");
    let (status, stderr) = started.end();
    assert_eq!(status.code(), Some(0));
    assert!(stderr.contains("Gracefully stopping"), "{stderr}");
}

#[test]
fn in_the_background_it_serves_under_the_pid_in_its_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pid_file, port_file) = (folder.path().join("pid"), folder.path().join("ports"));
    let pid_path = pid_file.to_str().expect("a plain path");
    let status = command(&["-d", "-p", "-1", "-l", "127.0.0.1", "-P", pid_path])
        .env("MEMCACHED_PORT_FILENAME", &port_file)
        .stdin(Stdio::null())
        .status()
        .expect("sublet runs");
    assert_eq!(status.code(), Some(0));
    let pid = read_pid(&pid_file);
    assert_ne!(
        pid,
        Pid::from_raw(std::process::id() as i32).expect("a pid")
    );
    let mut client = Client::tcp(read_ports(&port_file)[0]);
    assert_eq!(client.stat("pid"), pid.as_raw_nonzero().get() as u64);

    kill_process(pid, Signal::TERM).expect("it runs");
    wait_for("its end", || test_kill_process(pid).is_err());
    assert!(!pid_file.exists(), "the pid file goes with it");
}

#[test]
fn what_fails_in_the_background_is_told_in_the_foreground() {
    let output = run(&["-d", "-l", "fooble"]);
    assert_eq!(output.status.code(), Some(71));
    assert!(!output.stderr.is_empty());
}

#[test]
fn users_are_read_again_at_a_hangup() {
    let folder = tempfile::tempdir().expect("a folder");
    let users = folder.path().join("users");
    fs::write(&users, "one:first\n").expect("written");
    let started = start(&["-Y", users.to_str().expect("a plain path")]);
    let try_in = |user: &str| {
        let mut client = started.connect();
        client.request(&format!("set x 0 0 {}\r\n{user}", user.len()))
    };
    assert_eq!(try_in("one first"), "STORED");
    assert_eq!(try_in("two second"), "CLIENT_ERROR authentication failure");
    fs::write(&users, "two:second").expect("written");
    started.signal(Signal::HUP);
    wait_for("the new user", || try_in("two second") == "STORED");
    assert_eq!(try_in("one first"), "CLIENT_ERROR authentication failure");

    fs::write(&users, "nonsense").expect("written");
    started.signal(Signal::HUP);
    assert_eq!(try_in("two second"), "STORED", "a bad file changes nothing");
}

#[test]
fn one_socket_is_not_shared_and_a_stale_one_is_replaced() {
    let (first, path) = crate::started::start_unix(&[]);
    let taken = run(&["-s", path.to_str().expect("a plain path")]);
    assert_eq!(taken.status.code(), Some(71));
    first.signal(Signal::KILL);
    let folder = &first.folder;
    wait_for("its end", || is_gone(first.pid()));
    assert!(path.exists(), "killed, it cannot tidy up in {folder:?}");
    let mut second = command(&["-s", path.to_str().expect("a plain path")])
        .spawn()
        .expect("sublet starts");
    wait_for("it to serve", || {
        std::os::unix::net::UnixStream::connect(&path).is_ok()
    });
    second.kill().expect("it runs");
    second.wait().expect("a child");
}

fn is_gone(pid: u32) -> bool {
    let state = fs::read_to_string(format!("/proc/{pid}/stat"));
    state.is_ok_and(|state| state.contains(") Z "))
}

fn read_pid(path: &Path) -> Pid {
    let text = fs::read_to_string(path).expect("a pid file");
    Pid::from_raw(text.trim().parse().expect("a number")).expect("a pid")
}
