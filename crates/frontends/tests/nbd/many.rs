//! Many clients, bad ones among them: none harms another.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sublet_frontends::nbd::{IN_FLIGHT_MAX, Settings};

use crate::fake_disk::{FakeDisk, Mood};
use crate::node::{Client, Node, request, soon};

const BYTES: u64 = 64 << 20;

fn roomy() -> Settings {
    Settings {
        connections_max: 1100,
        ..Settings::default()
    }
}

#[test]
fn a_thousand_connections_are_served() {
    let disks = FakeDisk::new("a", BYTES, Mood::Late);
    let node = Node::start_as(vec![disks], roomy(), None);
    let mut clients: Vec<_> = (0..1000).map(|_| node.go("a")).collect();
    for (n, client) in (0..).zip(&mut clients) {
        client.write(n, n * 4096, &[n as u8; 4096]);
    }
    for (n, client) in (0..).zip(&mut clients) {
        assert_eq!(client.answer().expect("an answer"), (0, n));
    }
    for (n, client) in (0..1000).zip(clients.iter_mut().rev()) {
        client.read(n, n * 4096, 4096, n as u8);
    }
    drop(clients);
    soon("all are gone", || node.figure("connections") == 0);
}

#[test]
fn one_too_many_is_hung_up_on() {
    let settings = Settings {
        connections_max: 2,
        ..Settings::default()
    };
    let disk = FakeDisk::new("a", BYTES, Mood::Prompt);
    let node = Node::start_as(vec![disk], settings, None);
    let (mut first, _second) = (node.go("a"), node.go("a"));
    let mut third = UnixStream::connect(node.path("nbd")).expect("accepted");
    assert_eq!(third.read(&mut [0; 18]).expect("an end"), 0);
    first.read(1, 0, 4096, 0);
    assert_eq!(node.figure("refused_full"), 1);
}

#[test]
fn garbage_ends_its_connection_only() {
    let node = Node::start(vec![FakeDisk::new("a", BYTES, Mood::Late)]);
    let mut good = node.go("a");
    let mut seed = 1_u64;
    for round in 0..200_u64 {
        let mut bad = node.connect();
        if round % 2 == 0 {
            bad.go("a");
            bad.ask(0, 1, 0, 4096);
        }
        let count = 1 + (seed >> 40) as usize % 5000;
        let garbage: Vec<u8> = std::iter::repeat_with(|| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 56) as u8
        })
        .take(count)
        .collect();
        let _ = bad.0.write_all(&garbage);
        good.write(round, 4096 * round, &[round as u8; 4096]);
        assert_eq!(good.answer().expect("an answer"), (0, round));
        good.read(round, 4096 * round, 4096, round as u8);
    }
    assert!(node.figure("ended_garbage") > 100);
    soon("the bad are gone", || node.figure("connections") == 1);
}

#[test]
fn who_leaves_with_requests_in_flight_is_forgotten() {
    let node = Node::start(vec![FakeDisk::new("a", BYTES, Mood::Late)]);
    let mut stays = node.go("a");
    for round in 0..50 {
        let mut leaves = node.go("a");
        for n in 0..60 {
            match n % 3 {
                0 => leaves.write(n, n * 70_000, &[9; 70_000]),
                1 => leaves.ask(0, n, n * 70_000, 7_000),
                _ => leaves.ask(6, n, n * 70_000, 70_000),
            }
        }
        // Another takes its place at once.
        drop(leaves);
        let mut next = node.go("a");
        next.write(round, BYTES - 4096, &[round as u8; 4096]);
        assert_eq!(next.answer().expect("an answer"), (0, round));
        stays.read(round, BYTES - 4096, 4096, round as u8);
    }
    soon("they are gone", || node.figure("connections") == 1);
}

#[test]
fn who_does_not_read_is_not_heard_and_gets_it_all_in_the_end() {
    let disk = FakeDisk::new("a", BYTES, Mood::Prompt);
    let node = Node::start(vec![Arc::clone(&disk) as _]);
    let (mut slow, mut quick) = (node.go("a"), node.go("a"));
    quick.write(0, 0, &vec![7; 1 << 20]);
    assert_eq!(quick.answer().expect("an answer"), (0, 0));
    const READS: u64 = 300;
    let said: Vec<u8> = (0..READS).flat_map(|n| request(0, n, 0, 1 << 20)).collect();
    slow.0.write_all(&said).expect("heard");
    thread::sleep(Duration::from_millis(200));
    assert!(*disk.asked.lock() < 20, "it reads ahead of its client");
    quick.read(1, 0, 1 << 20, 7);
    let mut bytes = vec![0; 1 << 20];
    for n in 0..READS {
        assert_eq!(slow.answer().expect("an answer"), (0, n));
        slow.0.read_exact(&mut bytes).expect("bytes");
        assert!(bytes.iter().all(|byte| *byte == 7));
    }
}

#[test]
fn requests_in_flight_are_bounded_and_all_answered() {
    let node = Node::start(vec![FakeDisk::new("a", BYTES, Mood::Late)]);
    let mut client = node.go("a");
    let all = u64::from(IN_FLIGHT_MAX) * 8;
    let said: Vec<u8> = (0..all)
        .flat_map(|n| request(5, n, n * 4096, 4096))
        .collect();
    client.0.write_all(&said).expect("heard");
    let mut cookies: Vec<u64> = (0..all)
        .map(|_| client.answer().expect("an answer"))
        .map(|(errno, cookie)| {
            assert_eq!(errno, 0);
            cookie
        })
        .collect();
    assert!(!cookies.is_sorted(), "this disk answers in no order");
    cookies.sort_unstable();
    assert!(cookies.into_iter().eq(0..all));
}

#[test]
fn large_writes_go_past_the_inbox_in_pieces_of_any_size() {
    let node = Node::start(vec![FakeDisk::new("a", BYTES, Mood::Late)]);
    let mut client = node.go("a");
    let len = 32 << 20;
    let mut said = request(1, 1, 5, len);
    said.resize(said.len() + len as usize, 3);
    said.extend(request(1, 2, BYTES - 10, len));
    said.resize(said.len() + len as usize, 4);
    for piece in said.chunks(777_777) {
        client.0.write_all(piece).expect("heard");
    }
    let mut answers = [0; 2].map(|_| client.answer().expect("an answer"));
    answers.sort_unstable_by_key(|(_, cookie)| *cookie);
    assert_eq!(
        answers[..2],
        [(0, 1), (28, 2)],
        "the second reaches beyond the end"
    );
    client.read(3, 4, 1, 0);
    let mut other = node.go("a");
    other.read(1, 5, 1 << 20, 3);
    other.read(2, 4 + (32 << 20), 1, 3);
    other.read(3, 5 + (32 << 20), 1 << 20, 0);
}

#[test]
fn who_haggles_for_too_long_is_turned_out() {
    let settings = Settings {
        handshake_max: Duration::from_millis(300),
        ..Settings::default()
    };
    let disk = FakeDisk::new("a", BYTES, Mood::Prompt);
    let node = Node::start_as(vec![disk], settings, None);
    let mut goes = node.go("a");
    let mut waits = node.connect();
    assert_eq!(waits.0.read(&mut [0; 1]).expect("an end"), 0);
    assert_eq!(node.figure("ended_late"), 1);
    goes.read(1, 0, 1, 0);
}

/// Silent ones take every place: whoever comes waits until the oldest gives way, not until it has haggled for too long.
#[test]
fn a_newcomer_is_served_where_silent_ones_take_every_place() {
    let settings = Settings {
        connections_max: 10,
        silence_max: Duration::from_millis(300),
        ..Settings::default()
    };
    let disk = FakeDisk::new("a", BYTES, Mood::Prompt);
    let node = Node::start_as(vec![disk], settings, None);
    let mut served = node.go("a");
    let silent: Vec<_> = (0..9).map(|_| node.connect()).collect();
    for _ in 0..3 {
        node.go("a").read(1, 0, 1, 0);
    }
    served.read(1, 0, 1, 0);
    assert_eq!(node.figure("refused_full"), 0);
    assert!(node.figure("ended_late") > 0);
    drop(silent);
}

/// A byte now and then is nothing said.
#[test]
fn who_drips_gives_way_as_the_silent_do() {
    let settings = Settings {
        connections_max: 2,
        silence_max: Duration::from_millis(300),
        ..Settings::default()
    };
    let disk = FakeDisk::new("a", BYTES, Mood::Prompt);
    let node = Node::start_as(vec![disk], settings, None);
    let drips: Vec<_> = (0..2).map(|_| node.connect()).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| node.go("a").read(1, 0, 1, 0));
        for byte in [0, 0, 0, 3, b'I', b'H'] {
            for drip in &drips {
                let _ = (&drip.0).write_all(&[byte]);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    assert_eq!(node.figure("ended_late"), 1);
}

/// A backing hangs, and its disk's clients come and go: they take no places for ever.
#[test]
fn who_is_gone_gives_up_its_place_at_once_though_the_disk_has_what_it_asked() {
    let settings = Settings {
        absence_max: Duration::from_secs(3600),
        ..Settings::default()
    };
    let disk = FakeDisk::new("a", BYTES, Mood::Silent);
    let node = Node::start_as(vec![disk], settings, None);
    let mut stays = node.go("a");
    stays.ask(0, 1, 0, 4096);
    for cookie in 0..10 {
        node.go("a").ask(0, cookie, 0, 4096);
    }
    soon("they are gone", || node.figure("connections") == 1);
    drop(stays);
    soon("it is gone, too", || node.figure("connections") == 0);
}

#[test]
fn who_only_sends_nothing_more_keeps_its_place_for_a_while() {
    const ABSENCE: Duration = Duration::from_millis(1500);
    let settings = Settings {
        absence_max: ABSENCE,
        ..Settings::default()
    };
    let disk = FakeDisk::new("a", BYTES, Mood::Silent);
    let node = Node::start_as(vec![disk], settings, None);
    let mut waits = node.go("a");
    waits.ask(0, 1, 0, 4096);
    let since = Instant::now();
    waits.0.shutdown(Shutdown::Write).expect("shut");
    soon("it is not waited for any more", || {
        node.figure("connections") == 0
    });
    assert!(since.elapsed() >= ABSENCE);
}

/// A client that is gone may have asked anew over another connection: what there was no room for is not begun any more.
#[test]
fn what_waits_for_room_is_never_begun_when_its_client_is_gone() {
    let disk = FakeDisk::new("a", BYTES, Mood::Silent);
    let node = Node::start(vec![Arc::clone(&disk) as _]);
    let mut goes = Client::greet(TcpStream::connect(node.open_tcp()).expect("let in"));
    goes.go("a");
    for cookie in 0..u64::from(IN_FLIGHT_MAX) {
        goes.ask(0, cookie, 0, 4096);
    }
    goes.write(1000, 4096, &[1; 4096]);
    goes.0.shutdown(Shutdown::Write).expect("shut");
    thread::sleep(Duration::from_millis(100));
    let mut next = node.go("a");
    next.write(1, 4096, &[2; 4096]);
    thread::sleep(Duration::from_millis(100));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let until = Instant::now() + Duration::from_secs(20);
            while !is_over.load(Ordering::Relaxed) && Instant::now() < until {
                let asked = std::mem::take(&mut *disk.unanswered.lock());
                asked
                    .into_iter()
                    .for_each(|request| disk.carry_out(request));
                thread::sleep(Duration::from_millis(1));
            }
        });
        assert_eq!(next.answer().expect("an answer"), (0, 1));
        thread::sleep(Duration::from_millis(100));
        next.read(2, 4096, 4096, 2);
        is_over.store(true, Ordering::Relaxed);
    });
}

/// Clients of a disk that hangs wait for memory: nobody else's client is turned out for that, however long it stalls.
#[test]
fn who_stalls_is_not_in_the_way_of_another_disk() {
    let hangs = FakeDisk::new("hangs", BYTES, Mood::Silent);
    let works = FakeDisk::new("works", BYTES, Mood::Prompt);
    let node = Node::start(vec![hangs, works]);
    let ask = |client: &mut Client, cookie| client.ask(0, cookie, 0, 16 << 20);
    // Both workers have one of each: one holds all that the disk may have, the next waits.
    let mut holders: Vec<_> = (0..4).map(|_| node.go("hangs")).collect();
    holders
        .iter_mut()
        .for_each(|client| (0..4).for_each(|cookie| ask(client, cookie)));
    let stalled: Vec<_> = (0..2)
        .map(|_| {
            let mut client = node.go("works");
            let half = &request(1, 1, 0, 1 << 20)[..];
            client
                .0
                .write_all(&[half, &[7; 1000]].concat())
                .expect("sent");
            client
        })
        .collect();
    std::thread::sleep(Duration::from_secs(13));
    assert_eq!(node.figure("ended_stalled"), 0);
    for mut client in stalled {
        client
            .0
            .write_all(&vec![7; (1 << 20) - 1000])
            .expect("sent");
        assert_eq!(client.answer().expect("an answer"), (0, 1));
    }
}
