//! What a login gives a client, and what ends it.

mod harness;

use harness::{Client, Harness};
use sublet_frontends::memcached::session::LoopAction;
use sublet_frontends::memcached::settings::Settings;

const OK: u16 = 0;
const MISSING: u16 = 1;
const REFUSED: u16 = 0x20;

const GET: u8 = 0x00;
const SET: u8 = 0x01;
const LIST: u8 = 0x20;
const AUTH: u8 = 0x21;
const STEP: u8 = 0x22;

/// Sends a packet. Returns the status of its reply.
fn send_packet(client: &mut Client<'_>, opcode: u8, key: &str, value: &str) -> u16 {
    let extras: &[u8] = if opcode == SET { &[0; 8] } else { &[] };
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
    packet.extend([extras, key.as_bytes(), value.as_bytes()].concat());
    let reply = client.send(&packet);
    assert!(reply.len() >= 24, "{opcode:#x}: {reply:?}");
    u16::from_be_bytes([reply[6], reply[7]])
}

fn login(client: &mut Client<'_>, acts_as: &str, user: &str, password: &str) -> u16 {
    let token = format!("{acts_as}\0{user}\0{password}");
    send_packet(client, AUTH, "PLAIN", &token)
}

fn sasl() -> Harness {
    Harness::new(Settings {
        sasl: true,
        ..Settings::default()
    })
}

/// Returns whether the client is refused and its connection closed.
fn is_nobody(client: &mut Client<'_>) -> bool {
    send_packet(client, GET, "k", "") == REFUSED && client.last == LoopAction::Close
}

#[test]
fn a_client_that_fails_to_log_in_loses_its_earlier_login() {
    let long = "x".repeat(20 << 10);
    for (opcode, mechanism, token) in [
        (AUTH, "PLAIN", "\0user\0wrong"),
        (AUTH, "PLAIN", "\0nobody\0pass"),
        (AUTH, "PLAIN", "guest\0user\0pass"),
        (AUTH, "PLAIN", "user\0pass"),
        (AUTH, "PLAIN", ""),
        (AUTH, "PLAIN", long.as_str()),
        (AUTH, "CRAM-MD5", "\0user\0pass"),
        (AUTH, "a-mechanism-whose-name-is-far-too-long", ""),
        (STEP, "PLAIN", "\0user\0pass"),
        (STEP, "PLAIN", ""),
        (STEP, "PLAIN", long.as_str()),
    ] {
        let harness = sasl();
        let client = &mut harness.connect();
        assert_eq!(login(client, "", "user", "pass"), OK);
        assert_eq!(send_packet(client, GET, "k", ""), MISSING);
        let refused = send_packet(client, opcode, mechanism, token);
        let shown = &token[..token.len().min(20)];
        assert_ne!(refused, OK, "{opcode:#x} {mechanism} {shown:?}");
        assert!(is_nobody(client), "{opcode:#x} {mechanism} {shown:?}");
    }
}

#[test]
fn a_client_that_failed_may_try_again() {
    let harness = sasl();
    let client = &mut harness.connect();
    assert_eq!(login(client, "", "user", "wrong"), REFUSED);
    assert_eq!(send_packet(client, STEP, "PLAIN", "x"), REFUSED);
    assert_eq!(login(client, "", "user", "pass"), OK);
    assert_eq!(send_packet(client, GET, "k", ""), MISSING);
    assert_eq!(send_packet(client, LIST, "", ""), OK);
    assert!(
        is_nobody(client),
        "a client that lists mechanisms begins a new login"
    );
}

#[test]
fn nobody_acts_as_somebody_else() {
    for (acts_as, status) in [
        ("", OK),
        ("guest", OK),
        ("guest@host", OK),
        ("user", REFUSED),
        ("guest@elsewhere", REFUSED),
        ("root", REFUSED),
    ] {
        for user in ["guest", "guest@host"] {
            let harness = sasl();
            let client = &mut harness.connect();
            assert_eq!(login(client, acts_as, user, "pass"), status, "{acts_as}");
            assert_eq!(is_nobody(client), status == REFUSED, "{acts_as}");
        }
    }
}

#[test]
fn a_client_that_logs_in_anew_is_served_as_itself() {
    let harness = sasl();
    let client = &mut harness.connect();
    assert_eq!(login(client, "", "user", "pass"), OK);
    assert_eq!(send_packet(client, SET, "k", "its own"), OK);
    assert_eq!(login(client, "", "guest", "pass"), OK);
    assert_eq!(
        send_packet(client, GET, "k", ""),
        MISSING,
        "another tenant's"
    );
    assert_eq!(login(client, "", "user", "pass"), OK);
    assert_eq!(
        send_packet(client, GET, "k", ""),
        OK,
        "the listener's own again"
    );
}

#[test]
fn a_token_far_too_long_is_not_waited_for() {
    let harness = Harness::new(Settings {
        auth_file: Some("passwords".into()),
        ..Settings::default()
    });
    let client = &mut harness.connect();
    for announced in ["16385", "2147483645", "2147483646", "4294967295"] {
        let line = format!("set foo 0 0 {announced}\r\n");
        let refused = b"CLIENT_ERROR auth token too long\r\n";
        assert_eq!(client.send(line.as_bytes()), refused, "{announced}");
    }
    assert_eq!(
        client.send(b"set foo 0 0 9\r\nuser pass\r\n"),
        b"STORED\r\n"
    );
    assert_eq!(client.send(b"get foo\r\n"), b"END\r\n");
}
