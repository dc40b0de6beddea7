//! A deferred flush takes effect at its moment even if nobody does the chores of a second.

mod harness;

use std::time::Duration;

use harness::{Client, Harness};
use sublet_frontends::backend::ManualClock;
use sublet_frontends::memcached::session::LoopAction;
use sublet_frontends::memcached::settings::Settings;
use sublet_frontends::tenancy::Clock;

const DELAY: Duration = Duration::from_secs(1);
const MOMENT: Duration = Duration::from_millis(1);

/// A daemon whose clock the test moves.
fn still(settings: Settings) -> (Harness, ManualClock) {
    let time = ManualClock::start();
    (Harness::by(Clock::by(time.clock()), settings), time)
}

/// `flush_all 1`, in the text and the binary protocol.
const TEXT: &[u8] = b"flush_all 1\r\n";
const BINARY: &[u8] = b"\x80\x08\0\0\x04\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01";

fn has(client: &mut Client<'_>, key: &str) -> bool {
    client.send(format!("get {key}\r\n").as_bytes()) != b"END\r\n"
}

fn set(client: &mut Client<'_>, key: &str) {
    let set = format!("set {key} 0 0 1\r\na\r\n");
    assert_eq!(client.send(set.as_bytes()), b"STORED\r\n");
}

#[test]
fn what_is_stored_before_the_moment_goes_and_what_is_stored_after_it_stays() {
    for flush in [TEXT, BINARY] {
        let (harness, time) = still(Settings::default());
        let (client, asker) = (&mut harness.connect(), &mut harness.connect());
        set(client, "before");
        assert!(!asker.send(flush).is_empty());
        set(client, "meanwhile");
        time.advance(DELAY - MOMENT);
        assert!(has(client, "before"), "it went before its moment");
        time.advance(MOMENT);
        assert!(!has(client, "before"), "it is there after its moment");
        set(client, "after");
        assert!(!has(client, "meanwhile") && has(client, "after"));
    }
}

#[test]
fn a_flush_without_delay_takes_effect_at_once() {
    for flush in [&b"flush_all\r\n"[..], b"flush_all 0\r\n"] {
        let harness = Harness::new(Settings::default());
        let client = &mut harness.connect();
        set(client, "before");
        assert_eq!(client.send(flush), b"OK\r\n");
        assert!(!has(client, "before"));
        set(client, "after");
        assert!(has(client, "after"));
    }
}

#[test]
fn a_batch_that_runs_across_the_moment_is_judged_request_by_request() {
    let (harness, time) = still(Settings::default());
    let client = &mut harness.connect();
    assert_eq!(client.send(b"flush_all 1\r\n"), b"OK\r\n");
    let batch = "set k 0 0 1\r\na\r\nget k\r\n".repeat(10);
    let replies = "STORED\r\nVALUE k 0 1\r\na\r\nEND\r\n".repeat(10);
    std::thread::scope(|scope| {
        // The clock passes the moment while batches run.
        let moves = scope.spawn(|| {
            for _ in 0..1250 {
                time.advance(MOMENT);
                std::thread::yield_now();
            }
        });
        let mut is_last = false;
        while !is_last {
            is_last = moves.is_finished();
            let got = client.send(batch.as_bytes());
            // At most one get falls on the other side of the moment than the set before it.
            let missed = replies.len() - got.len();
            assert!(
                missed == 0 || missed == "VALUE k 0 1\r\na\r\n".len(),
                "{missed}"
            );
        }
    });
    assert!(has(client, "k"), "stored after the moment");
}

/// Sends a packet. Returns the status of its reply.
fn send_packet(
    client: &mut Client<'_>,
    opcode: u8,
    extras: &[u8],
    key: &[u8],
    value: &[u8],
) -> u16 {
    let body = extras.len() + key.len() + value.len();
    let mut packet = vec![
        0x80,
        opcode,
        0,
        key.len() as u8,
        extras.len() as u8,
        0,
        0,
        0,
    ];
    packet.extend((body as u32).to_be_bytes());
    packet.extend([0; 12]);
    packet.extend([extras, key, value].concat());
    let reply = client.send(&packet);
    u16::from_be_bytes([reply[6], reply[7]])
}

#[test]
fn a_flush_is_of_whom_its_client_is_served_as() {
    let (harness, time) = still(Settings {
        sasl: true,
        ..Settings::default()
    });
    let (own, guest) = (&mut harness.connect(), &mut harness.connect());
    for (client, user) in [(&mut *own, "user"), (&mut *guest, "guest")] {
        let token = format!("\0{user}\0pass");
        assert_eq!(
            send_packet(client, 0x21, b"", b"PLAIN", token.as_bytes()),
            0
        );
        assert_eq!(send_packet(client, 0x01, &[0; 8], b"k", b"value"), 0);
    }
    assert_eq!(send_packet(guest, 0x08, &1u32.to_be_bytes(), b"", b""), 0);
    assert_eq!(send_packet(guest, 0x00, b"", b"k", b""), 0);
    time.advance(DELAY);
    assert_ne!(send_packet(guest, 0x00, b"", b"k", b""), 0, "it went");
    assert_eq!(
        send_packet(own, 0x00, b"", b"k", b""),
        0,
        "another tenant's stays"
    );
    assert_ne!(own.last, LoopAction::Close);
}
