//! Well-behaved and misbehaving connections: nobody else is disturbed, and memory stays bounded.

use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

use crate::started::{Client, MemcachedProcess, start, start_unix, wait_for};

fn works(started: &MemcachedProcess) {
    let mut client = started.connect();
    client.set("works", b"yes");
    assert_eq!(client.get("works").as_deref(), Some(&b"yes"[..]));
}

#[test]
fn a_pipeline_is_answered_in_order() {
    let started = start(&["-t", "1"]);
    let mut client = started.connect();
    let count = 1000;
    let mut requests = String::new();
    for n in 0..count {
        requests += &format!("set key{n} {n} 0 4\r\n{n:04}\r\nget key{n} missing\r\n");
    }
    let mut sender = client
        .stream
        .get_ref()
        .try_clone()
        .expect("a second handle");
    let sending = std::thread::spawn(move || sender.write_all(requests.as_bytes()));
    for n in 0..count {
        assert_eq!(client.line(), "STORED");
        assert_eq!(client.line(), format!("VALUE key{n} {n} 4"));
        assert_eq!(client.line(), format!("{n:04}"));
        assert_eq!(client.line(), "END");
    }
    sending.join().expect("no panic").expect("all sent");
}

#[test]
fn a_request_may_come_byte_by_byte() {
    let started = start(&[]);
    let mut client = started.connect();
    for byte in b"set slow 5 0 3\r\nabc\r\n" {
        client.send([*byte]);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(client.line(), "STORED");
    assert_eq!(client.get("slow").as_deref(), Some(&b"abc"[..]));
}

#[test]
fn what_was_asked_before_a_half_close_is_answered() {
    let started = start(&[]);
    let mut client = started.connect();
    client.send("set half 0 0 2\r\nok\r\nget half\r\n");
    let socket = client.stream.get_ref();
    socket.shutdown(Shutdown::Write).expect("half closed");
    let mut all = String::new();
    client.stream.read_to_string(&mut all).expect("the answers");
    assert_eq!(all, "STORED\r\nVALUE half 0 2\r\nok\r\nEND\r\n");
}

#[test]
fn a_large_value_comes_and_goes_whole() {
    let started = start(&["-I", "8m", "-m", "64"]);
    let mut client = started.connect();
    let value: Vec<u8> = (0..5 << 20).map(|n: u32| (n / 7) as u8).collect();
    client.set("large", &value);
    assert!(client.get("large").as_deref() == Some(&value[..]));
}

#[test]
fn a_reader_that_never_reads_costs_little_and_disturbs_nobody() {
    let started = start(&["-t", "1"]);
    started.connect().set("k", &vec![b'v'; 500_000]);
    let before = started.calm_rss_kib();
    let mut asking = Vec::new();
    for _ in 0..20 {
        let mut socket = started.connect().stream.into_inner();
        let short = Some(Duration::from_millis(200));
        socket.set_write_timeout(short).expect("a time-out");
        let requests = b"get k k k k\r\n".repeat(2000);
        // The answers would take 80 GB. The daemon may stop taking requests, but must not take that memory.
        let _ = socket.write_all(&requests);
        asking.push(socket);
    }
    works(&started);
    let grown = started.rss_kib().saturating_sub(before);
    assert!(grown < 20 * 4096, "{grown} KiB for 20 readers");
    drop(asking);
    wait_for("their connections to be closed", || {
        started.stat("curr_connections") <= 2
    });
}

#[test]
fn what_readers_took_that_never_read_goes_back_when_they_leave() {
    const MIB: u64 = 1024;
    let started = start(&["-t", "1", "-m", "64", "-I", "8m"]);
    started.connect().set("k", &vec![b'v'; 4_000_000]);
    let before = started.calm_rss_kib();
    let mut asking = Vec::new();
    for _ in 0..50 {
        let mut socket = started.connect().stream.into_inner();
        // The daemon may have had enough of them.
        let _ = socket.write_all(&b"get k\r\n".repeat(20));
        asking.push(socket);
    }
    wait_for("their answers to wait", || {
        started.rss_kib() > before + 100 * MIB
    });
    drop(asking);
    wait_for("their memory to be given back", || {
        started.rss_kib() < before + 64 * MIB
    });
    works(&started);
}

#[test]
fn a_slow_reader_gets_everything() {
    let started = start(&["-t", "1"]);
    let value = vec![b'x'; 100_000];
    let mut client = started.connect();
    client.set("k", &value);
    let count = 200;
    client.send("get k\r\n".repeat(count));
    // The only worker serves both clients in turn.
    (0..3).for_each(|_| works(&started));
    for _ in 0..count {
        assert_eq!(client.line(), "VALUE k 0 100000");
        let mut got = vec![0; value.len()];
        client.stream.read_exact(&mut got).expect("the value");
        assert!(got == value);
        assert_eq!(
            (client.line(), client.line()),
            (String::new(), "END".into())
        );
    }
}

#[test]
fn who_stops_in_mid_value_waits_alone_and_announced_bytes_cost_nothing() {
    let started = start(&["-t", "1", "-I", "16m"]);
    let before = started.calm_rss_kib();
    let mut waiting = Vec::new();
    for n in 0..100 {
        let mut client = started.connect();
        client.send(format!("set k{n} 0 0 15000000\r\nonly a little"));
        waiting.push(client);
    }
    works(&started);
    let grown = started.rss_kib().saturating_sub(before);
    assert!(grown < 32 << 10, "{grown} KiB for 100 beginnings");
    waiting.clear();
    wait_for("them to leave", || started.stat("curr_connections") <= 2);
    assert_eq!(started.connect().get("k1"), None);
}

#[test]
fn who_stops_in_mid_value_gives_way_once_others_find_no_room() {
    let started = start(&["-t", "1", "-I", "4m", "-m", "128"]);
    let mut stalled = Vec::new();
    for n in 0..20 {
        let mut client = started.connect();
        client.send(format!("set k{n} 0 0 4000000\r\n"));
        client.send(vec![b'h'; 3_900_000]);
        stalled.push(client);
    }
    works(&started);
    let value = vec![b'v'; 4_000_000];
    wait_for("room for a large value", || {
        let mut client = started.connect();
        client.send("set large 0 0 4000000\r\n");
        client.send(&value);
        client.send("\r\n");
        client.line() == "STORED"
    });
    assert!(started.stat("idle_kicks") > 0);
}

#[test]
fn garbage_disturbs_nobody() {
    let started = start(&["-t", "1"]);
    let mut seed: u64 = 0x9e37_79b9_7f4a_7c15;
    for round in 0..200 {
        let mut garbage = Vec::new();
        for _ in 0..(1 + round * 37 % 4000) {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            garbage.push(seed as u8);
        }
        if round % 3 == 0 {
            garbage[0] = 0x80;
        }
        let mut socket = started.connect().stream.into_inner();
        let _ = socket.write_all(&garbage);
        let _ = socket.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _ = socket.take(1 << 20).read_to_end(&mut answer);
    }
    works(&started);
}

#[test]
fn connections_above_the_limit_are_told_so() {
    let started = start(&["-c", "4"]);
    let mut kept: Vec<_> = (0..4).map(|_| started.connect()).collect();
    for client in &mut kept {
        assert!(client.request("version").starts_with("VERSION"));
    }
    let mut fifth = started.connect();
    assert_eq!(fifth.line(), "ERROR Too many open connections");
    assert!(fifth.is_closed());
    assert_eq!(kept[0].stat("rejected_connections"), 1);
    assert_eq!(kept[0].stat("curr_connections"), 4);

    kept.truncate(2);
    wait_for("room", || kept[0].stat("curr_connections") == 2);
    assert!(started.connect().request("version").starts_with("VERSION"));
}

/// Whether the daemon serves a new connection. It closes a refused one, perhaps before the request.
fn is_served(started: &MemcachedProcess) -> bool {
    let mut socket = started.connect().stream.into_inner();
    let _ = socket.write_all(b"version\r\nquit\r\n");
    let mut answer = String::new();
    let _ = socket.read_to_string(&mut answer);
    answer.starts_with("VERSION")
}

/// A client that has asked for something stays, however long ago that was. A client that never did gives way if places
/// are short, and only then.
#[test]
fn who_never_said_anything_gives_way_where_places_are_short() {
    let started = start(&["-c", "4"]);
    let mut asked = started.connect();
    assert!(asked.request("version").starts_with("VERSION"));
    let mut silent: Vec<_> = (0..3).map(|_| started.connect()).collect();
    wait_for("the oldest to give way", || is_served(&started));
    assert!(silent.remove(0).is_closed());
    for other in std::iter::once(&mut asked).chain(&mut silent) {
        assert!(other.request("version").starts_with("VERSION"), "it stays");
    }
}

/// With a password set, words without it count as silence.
#[test]
fn who_has_not_logged_in_gives_way_whatever_it_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let users = folder.path().join("users");
    std::fs::write(&users, "ann:secret\n").expect("written");
    let started = start(&["-c", "2", "-Y", users.to_str().expect("a plain path")]);
    let mut talks = started.connect();
    assert!(talks.request("get a").starts_with("CLIENT_ERROR"));
    let mut known = started.connect();
    let login = "set a 0 0 10\r\nann secret";
    assert_eq!(known.request(login), "STORED");
    let mut newcomer = None;
    wait_for("who has not logged in to give way", || {
        let mut socket = started.connect().stream.into_inner();
        let _ = socket.write_all(format!("{login}\r\n").as_bytes());
        let mut answer = [0; 8];
        let is_in = socket.read_exact(&mut answer).is_ok() && &answer == b"STORED\r\n";
        newcomer = is_in.then_some(socket);
        is_in
    });
    assert!(talks.is_closed());
    assert_eq!(known.request("get b"), "END");
}

#[test]
fn idle_connections_are_closed_and_counted() {
    let started = start(&["-o", "idle_timeout=1"]);
    let mut idle = started.connect();
    assert!(idle.request("version").starts_with("VERSION"));
    assert!(idle.is_closed());
    assert!(started.stat("idle_kicks") >= 1);
}

#[test]
fn who_watches_is_not_idle() {
    let started = start(&["-t", "1", "-o", "idle_timeout=1"]);
    let mut watcher = started.connect();
    assert_eq!(watcher.request("watch connevents"), "OK");
    // Two that came later were each idle for longer than is allowed. The watcher came first, and sees both.
    for _ in 0..2 {
        assert!(started.connect().is_closed());
    }
    let mut ends = 0;
    while ends < 2 {
        let line = watcher.line();
        assert!(!line.is_empty(), "the watcher was closed");
        ends += u32::from(line.contains(" reason=idle_timeout "));
    }
}

#[test]
fn who_still_reads_its_replies_is_not_idle() {
    let started = start(&["-t", "1", "-o", "idle_timeout=1"]);
    let (mut reader, value) = (started.connect(), vec![b'v'; 1 << 19]);
    reader.set("large", &value);
    let gets = 64;
    reader.send("get large\r\n".repeat(gets));
    // Others come and are idle for too long while it reads nothing.
    for _ in 0..2 {
        assert!(started.connect().is_closed());
    }
    for _ in 0..gets {
        assert_eq!(reader.line(), format!("VALUE large 0 {}", value.len()));
        assert_eq!(reader.line().len(), value.len());
        assert_eq!(reader.line(), "END");
    }
}

#[test]
fn ten_thousand_connections_cost_little() {
    const COUNT: usize = 10_000;
    let wanted = COUNT as u64 + 200;
    let limits = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    if limits.maximum.is_some_and(|most| most < wanted) {
        eprintln!("SKIPPED: `ulimit -Hn` is below {wanted}");
        return;
    }
    let raised = rustix::process::Rlimit {
        current: Some(wanted),
        maximum: limits.maximum,
    };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised)
        .expect("below the maximum");

    let started = start(&["-c", "10100", "-t", "2"]);
    let before = started.calm_rss_kib();
    let mut sockets: Vec<TcpStream> = Vec::with_capacity(COUNT);
    for _ in 0..COUNT {
        sockets.push(TcpStream::connect(("127.0.0.1", started.ports[0])).expect("room for it"));
    }
    for socket in &mut sockets {
        socket.write_all(b"mn\r\n").expect("taken");
    }
    for socket in &mut sockets {
        let mut answer = [0; 4];
        socket.read_exact(&mut answer).expect("an answer");
        assert_eq!(&answer, b"MN\r\n");
    }
    works(&started);
    let each = (started.rss_kib() - before) * 1024 / COUNT as u64;
    assert!(each < 4096, "{each} bytes a connection");
}

#[test]
fn a_connection_with_much_to_say_leaves_turns_to_others() {
    let started = start(&["-t", "1", "-R", "5"]);
    let mut busy = started.connect();
    let mut sender = busy.stream.get_ref().try_clone().expect("a second handle");
    let count = 20_000;
    let sending =
        std::thread::spawn(move || sender.write_all("get a\r\n".repeat(count).as_bytes()));
    works(&started);
    for _ in 0..count {
        assert_eq!(busy.line(), "END");
    }
    sending.join().expect("no panic").expect("all sent");
    assert!(busy.stat("conn_yields") > 0);
}

#[test]
fn a_unix_socket_has_its_mode_and_serves() {
    let (_started, path) = start_unix(&["-a", "0750"]);
    let mode = std::fs::metadata(&path)
        .expect("a socket")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o750);
    let mut client = Client::over(UnixStream::connect(&path).expect("somebody listens"));
    client.set("k", b"v");
    assert_eq!(client.get("k").as_deref(), Some(&b"v"[..]));
}

/// Ten requests, an urgent byte, and ten more. A read ends at the urgent byte, though more bytes are there.
#[test]
fn urgent_bytes_hold_nothing_back() {
    let started = start(&["-t", "1"]);
    for _ in 0..30 {
        let mut client = started.connect();
        client.set("k", b"v");
        let socket = client
            .stream
            .get_ref()
            .try_clone()
            .expect("a second handle");
        (&socket).write_all(&b"mn\r\n".repeat(10)).expect("sent");
        rustix::net::send(&socket, b"!", SendFlags::OOB).expect("sent");
        (&socket).write_all(&b"mn\r\n".repeat(20)).expect("sent");
        for _ in 0..30 {
            assert_eq!(client.line(), "MN");
        }
    }
}

/// A read ends with the bytes that came with files, though more bytes are there.
#[test]
fn files_that_are_sent_along_hold_nothing_back() {
    let (_started, path) = start_unix(&["-t", "1"]);
    for _ in 0..30 {
        let mut socket = UnixStream::connect(&path).expect("connected");
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut files = SendAncillaryBuffer::new(&mut space);
        let stdin = [rustix::stdio::stdin()];
        assert!(files.push(SendAncillaryMessage::ScmRights(&stdin)));
        let bytes = [IoSlice::new(b"mn\r\n")];
        rustix::net::sendmsg(&socket, &bytes, &mut files, SendFlags::empty()).expect("sent");
        socket.write_all(&b"mn\r\n".repeat(20)).expect("sent");
        socket
            .set_read_timeout(Some(Duration::from_secs(10)))
            .expect("set");
        let mut answers = [0; 21 * 4];
        socket.read_exact(&mut answers).expect("all are answered");
        assert_eq!(answers[..], b"MN\r\n".repeat(21));
    }
}
