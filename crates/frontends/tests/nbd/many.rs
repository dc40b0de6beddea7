//! Many clients, with bad ones among them. None harms another.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use sublet_frontends::block_device::Disk;
use sublet_frontends::nbd::{IN_FLIGHT_MAX, Settings};

use crate::fake_disk::{AnswerMode, FakeDisk};
use crate::node::{Client, Node, request, soon};

const BYTES: u64 = 64 << 20;

/// Shorter than any time limit.
const MOMENT: Duration = Duration::from_millis(1);

/// Longer than the workers' interval between two looks at deadlines.
const LONG: Duration = Duration::from_secs(13);

fn roomy() -> Settings {
    Settings {
        connections_max: 1100,
        ..Settings::default()
    }
}

#[test]
fn a_thousand_connections_are_served() {
    let disks = FakeDisk::new("a", BYTES, AnswerMode::Late);
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
    let disk = FakeDisk::new("a", BYTES, AnswerMode::Prompt);
    let node = Node::start_as(vec![disk], settings, None);
    let (mut first, _second) = (node.go("a"), node.go("a"));
    let mut third = UnixStream::connect(node.path("nbd")).expect("accepted");
    assert_eq!(third.read(&mut [0; 18]).expect("an end"), 0);
    first.read(1, 0, 4096, 0);
    assert_eq!(node.figure("refused_full"), 1);
}

#[test]
fn garbage_ends_its_connection_only() {
    let node = Node::start(vec![FakeDisk::new("a", BYTES, AnswerMode::Late)]);
    let mut good = node.go("a");
    let mut seed = 1_u64;
    for round in 0..200_u64 {
        let mut bad = node.connect();
        if round % 2 == 0 {
            bad.go("a");
            bad.send_request(0, 1, 0, 4096);
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
    let node = Node::start(vec![FakeDisk::new("a", BYTES, AnswerMode::Late)]);
    let mut stays = node.go("a");
    for round in 0..50 {
        let mut leaves = node.go("a");
        for n in 0..60 {
            match n % 3 {
                0 => leaves.write(n, n * 70_000, &[9; 70_000]),
                1 => leaves.send_request(0, n, n * 70_000, 7_000),
                _ => leaves.send_request(6, n, n * 70_000, 70_000),
            }
        }
        // Another client takes the place at once.
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
    let disk = FakeDisk::new("a", BYTES, AnswerMode::Prompt);
    let node = Node::start(vec![Arc::clone(&disk) as _]);
    let (mut slow, mut quick) = (node.go("a"), node.go("a"));
    quick.write(0, 0, &vec![7; 1 << 20]);
    assert_eq!(quick.answer().expect("an answer"), (0, 0));
    const READS: u64 = 300;
    let bytes: Vec<u8> = (0..READS).flat_map(|n| request(0, n, 0, 1 << 20)).collect();
    slow.0.write_all(&bytes).expect("written");
    let reads = || *disk.asked.lock() - 1;
    soon("the disk gets the first reads", || reads() > 0);
    // Each worker gives the slow client a turn between two of these reads, if that client has work.
    let mut others = [node.go("a"), node.go("a")];
    const TURNS: u64 = 100;
    for n in 0..TURNS {
        others.iter_mut().for_each(|other| other.read(n, 0, 1, 7));
    }
    let ahead = reads() - 2 * TURNS;
    assert!(
        (1..20).contains(&ahead),
        "{ahead} reads ahead of its client"
    );
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
    let node = Node::start(vec![FakeDisk::new("a", BYTES, AnswerMode::Late)]);
    let mut client = node.go("a");
    let all = u64::from(IN_FLIGHT_MAX) * 8;
    let bytes: Vec<u8> = (0..all)
        .flat_map(|n| request(5, n, n * 4096, 4096))
        .collect();
    client.0.write_all(&bytes).expect("written");
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
    let node = Node::start(vec![FakeDisk::new("a", BYTES, AnswerMode::Late)]);
    let mut client = node.go("a");
    let len = 32 << 20;
    let mut bytes = request(1, 1, 5, len);
    bytes.resize(bytes.len() + len as usize, 3);
    bytes.extend(request(1, 2, BYTES - 10, len));
    bytes.resize(bytes.len() + len as usize, 4);
    for piece in bytes.chunks(777_777) {
        client.0.write_all(piece).expect("written");
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
    let disk = FakeDisk::new("a", BYTES, AnswerMode::Prompt);
    let settings = Settings::default();
    let (node, time) = Node::start_still(vec![disk], settings, None);
    let mut goes = node.go("a");
    let mut waits = node.connect();
    time.advance(settings.handshake_max - MOMENT);
    node.let_all_turn("a");
    assert_eq!(node.figure("ended_late"), 0, "before its time");
    time.advance(LONG);
    assert_eq!(waits.0.read(&mut [0; 1]).expect("an end"), 0);
    assert_eq!(node.figure("ended_late"), 1);
    goes.read(1, 0, 1, 0);
}

/// Silent clients take every place. A new client waits only until the oldest of them gives way, not until that one has
/// negotiated for too long.
#[test]
fn a_newcomer_is_served_where_silent_ones_take_every_place() {
    let settings = Settings {
        connections_max: 10,
        ..Settings::default()
    };
    let disk = FakeDisk::new("a", BYTES, AnswerMode::Prompt);
    let (node, time) = Node::start_still(vec![disk], settings, None);
    let mut served = node.go("a");
    let silent: Vec<_> = (0..9).map(|_| node.connect()).collect();
    for _ in 0..3 {
        time.advance(settings.silence_max);
        node.go("a").read(1, 0, 1, 0);
    }
    served.read(1, 0, 1, 0);
    assert_eq!(node.figure("refused_full"), 0);
    assert!(node.figure("ended_late") > 0);
    drop(silent);
}

/// A client that sends a byte now and then counts as silent.
#[test]
fn who_drips_gives_way_as_the_silent_do() {
    let settings = Settings {
        connections_max: 2,
        ..Settings::default()
    };
    let disk = FakeDisk::new("a", BYTES, AnswerMode::Prompt);
    let (node, time) = Node::start_still(vec![disk], settings, None);
    let drips: Vec<_> = (0..2).map(|_| node.connect()).collect();
    for byte in [0, 0, 0, 3, b'I', b'H'] {
        for drip in &drips {
            (&drip.0).write_all(&[byte]).expect("heard");
        }
        time.advance(settings.silence_max / 5);
    }
    node.go("a").read(1, 0, 1, 0);
    assert_eq!(node.figure("ended_late"), 1);
}

/// A backing hangs, and its disk's clients come and go. They do not take places for ever.
#[test]
fn who_is_gone_gives_up_its_place_at_once_though_the_disk_has_what_it_asked() {
    let settings = Settings {
        absence_max: Duration::from_secs(3600),
        ..Settings::default()
    };
    let disk = FakeDisk::new("a", BYTES, AnswerMode::Silent);
    let node = Node::start_as(vec![disk], settings, None);
    let mut stays = node.go("a");
    stays.send_request(0, 1, 0, 4096);
    for cookie in 0..10 {
        node.go("a").send_request(0, cookie, 0, 4096);
    }
    soon("they are gone", || node.figure("connections") == 1);
    drop(stays);
    soon("it is gone, too", || node.figure("connections") == 0);
}

#[test]
fn who_only_sends_nothing_more_keeps_its_place_for_a_while() {
    let settings = Settings::default();
    let disks = [
        ("silent", AnswerMode::Silent),
        ("works", AnswerMode::Prompt),
    ];
    let disks = disks.map(|(name, mode)| FakeDisk::new(name, BYTES, mode) as _);
    let (node, time) = Node::start_still(disks.to_vec(), settings, None);
    let mut waits = node.go("silent");
    waits.send_request(0, 1, 0, 4096);
    waits.0.shutdown(Shutdown::Write).expect("shut");
    node.let_all_turn("works");
    time.advance(settings.absence_max - MOMENT);
    node.let_all_turn("works");
    let mut left = node.go("works");
    left.read(1, 0, 1, 0);
    soon("the others are gone", || node.figure("connections") <= 2);
    assert_eq!(node.figure("connections"), 2, "before its time");
    time.advance(LONG);
    soon("it is not waited for any more", || {
        node.figure("connections") == 1
    });
}

/// A client that is gone may have repeated its requests over another connection. A request that waited for room is not
/// begun any more.
#[test]
fn what_waits_for_room_is_never_begun_when_its_client_is_gone() {
    let disk = FakeDisk::new("a", BYTES, AnswerMode::Silent);
    let works = FakeDisk::new("works", BYTES, AnswerMode::Prompt);
    let node = Node::start(vec![Arc::clone(&disk) as _, works]);
    let mut goes = Client::greet(TcpStream::connect(node.open_tcp()).expect("connected"));
    goes.go("a");
    for cookie in 0..u64::from(IN_FLIGHT_MAX) {
        goes.send_request(0, cookie, 0, 4096);
    }
    goes.write(1000, 4096, &[1; 4096]);
    goes.0.shutdown(Shutdown::Write).expect("shut");
    let asked = || disk.unanswered.lock().len();
    soon("all that there is room for is begun", || {
        asked() == IN_FLIGHT_MAX as usize
    });
    // A worker gets the kernel's events of one client before or with those of the next.
    node.let_all_turn("works");
    let mut next = node.go("a");
    next.write(1, 4096, &[2; 4096]);
    soon("the next one's is begun, too", || {
        asked() == IN_FLIGHT_MAX as usize + 1
    });
    let answer_all = || {
        let asked = std::mem::take(&mut *disk.unanswered.lock());
        asked
            .into_iter()
            .for_each(|request| disk.carry_out(request));
    };
    answer_all();
    assert_eq!(next.answer().expect("an answer"), (0, 1));
    soon("the one that went is gone", || {
        answer_all();
        node.figure("connections") == 1
    });
    next.send_request(0, 2, 4096, 4096);
    soon("it is asked", || asked() == 1);
    answer_all();
    assert_eq!(next.answer().expect("an answer"), (0, 2));
    let mut bytes = [0; 4096];
    next.0.read_exact(&mut bytes).expect("bytes");
    assert_eq!(bytes, [2; 4096]);
}

/// Clients of a hanging disk wait for memory. The daemon disconnects no client of another disk for that, however long
/// it stalls.
#[test]
fn who_stalls_is_not_in_the_way_of_another_disk() {
    let hangs = FakeDisk::new("hangs", BYTES, AnswerMode::Silent);
    let works = FakeDisk::new("works", BYTES, AnswerMode::Prompt);
    let third = FakeDisk::new("third", BYTES, AnswerMode::Prompt);
    let disks: Vec<Arc<dyn Disk>> = vec![hangs, works, third];
    let (node, time) = Node::start_still(disks, Settings::default(), None);
    let ask = |client: &mut Client, cookie| client.send_request(0, cookie, 0, 16 << 20);
    // Both workers have one of each kind: one client holds everything that the disk may have, and the next waits.
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
    node.let_all_turn("third");
    for _ in 0..2 {
        time.advance(LONG);
        node.let_all_turn("third");
    }
    assert_eq!(node.figure("ended_stalled"), 0);
    for mut client in stalled {
        client
            .0
            .write_all(&vec![7; (1 << 20) - 1000])
            .expect("sent");
        assert_eq!(client.answer().expect("an answer"), (0, 1));
    }
}
