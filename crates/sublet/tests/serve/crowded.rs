//! Peers take every place of an admin listener, and send nothing or only part of a request.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::afar;
use crate::daemon::{Folder, http};

/// Connections that one door has open at once.
const PLACES: usize = 32;

/// A newcomer never waits this long, however busy the machine is: the daemon goes through a crowd within a second.
const SERVED_MAX: Duration = Duration::from_secs(4);

const METRICS: &str = "\
[metrics]
listen = \"unix:FOLDER/metrics.sock\"
[tenants.web]
listen = [\"unix:FOLDER/web.sock\"]
";

fn soon_enough(began: Instant) {
    let took = began.elapsed();
    assert!(took < SERVED_MAX, "{took:?}");
}

#[test]
fn the_token_is_heard_where_others_that_have_none_take_every_place() {
    let folder = Folder::new();
    let daemon = folder.serve_config(&afar::config(&folder));
    let port = afar::port(&daemon);
    let silent =
        [(); 10 * PLACES].map(|()| TcpStream::connect(("127.0.0.1", port)).expect("queued"));
    let began = Instant::now();
    let status = afar::admin(&folder, port, "crt", "token").status();
    assert_eq!(status.expect("answered").daemon.pid, daemon.pid());
    soon_enough(began);
    drop(silent);
}

#[test]
fn who_announces_a_body_and_sends_none_keeps_nobody_waiting_and_has_an_end() {
    let folder = Folder::new();
    let _daemon = folder.serve();
    let began = Instant::now();
    let mut callers = [(); PLACES].map(|()| {
        let mut caller = UnixStream::connect(folder.path("admin.sock")).expect("let in");
        let head = "POST /v1/release HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{";
        caller.write_all(head.as_bytes()).expect("heard");
        caller
    });
    folder.admin().status().expect("answered");
    soon_enough(began);
    let mut answer = [0; 12];
    let last = &mut callers[PLACES - 1];
    last.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 408");
    assert!(began.elapsed() >= Duration::from_secs(10));
}

#[test]
fn metrics_are_read_where_silent_ones_take_every_place() {
    let folder = Folder::new();
    let config = METRICS.replace("FOLDER", folder.path("").to_str().expect("text"));
    let _daemon = folder.serve_config(&config);
    let place = folder.path("metrics.sock");
    let began = Instant::now();
    let silent = [(); PLACES].map(|()| UnixStream::connect(&place).expect("let in"));
    let (head, _) = http(&place, "GET /metrics", "");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    soon_enough(began);
    drop(silent);
}
