//! Who a client is: what a login gives it, and what takes that away again.

mod desk;

use desk::{Client, Desk};
use sublet_frontends::memcached::session::Next;
use sublet_frontends::memcached::settings::Settings;

const OK: u16 = 0;
const MISSING: u16 = 1;
const REFUSED: u16 = 0x20;

const GET: u8 = 0x00;
const SET: u8 = 0x01;
const LIST: u8 = 0x20;
const AUTH: u8 = 0x21;
const STEP: u8 = 0x22;

/// Sends a packet; its reply's status.
fn ask(client: &mut Client<'_>, opcode: u8, key: &str, value: &str) -> u16 {
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
    ask(client, AUTH, "PLAIN", &token)
}

fn sasl() -> Desk {
    Desk::new(Settings {
        sasl: true,
        ..Settings::default()
    })
}

/// Refused and hung up on.
fn is_nobody(client: &mut Client<'_>) -> bool {
    ask(client, GET, "k", "") == REFUSED && client.last == Next::Close
}

#[test]
fn who_fails_to_log_in_is_no_longer_who_it_was() {
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
        let desk = sasl();
        let client = &mut desk.connect();
        assert_eq!(login(client, "", "user", "pass"), OK);
        assert_eq!(ask(client, GET, "k", ""), MISSING);
        let refused = ask(client, opcode, mechanism, token);
        let shown = &token[..token.len().min(20)];
        assert_ne!(refused, OK, "{opcode:#x} {mechanism} {shown:?}");
        assert!(is_nobody(client), "{opcode:#x} {mechanism} {shown:?}");
    }
}

#[test]
fn who_failed_may_try_again() {
    let desk = sasl();
    let client = &mut desk.connect();
    assert_eq!(login(client, "", "user", "wrong"), REFUSED);
    assert_eq!(ask(client, STEP, "PLAIN", "x"), REFUSED);
    assert_eq!(login(client, "", "user", "pass"), OK);
    assert_eq!(ask(client, GET, "k", ""), MISSING);
    assert_eq!(ask(client, LIST, "", ""), OK);
    assert!(is_nobody(client), "who asks for mechanisms begins anew");
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
            let desk = sasl();
            let client = &mut desk.connect();
            assert_eq!(login(client, acts_as, user, "pass"), status, "{acts_as}");
            assert_eq!(is_nobody(client), status == REFUSED, "{acts_as}");
        }
    }
}

#[test]
fn who_logs_in_anew_is_served_as_itself() {
    let desk = sasl();
    let client = &mut desk.connect();
    assert_eq!(login(client, "", "user", "pass"), OK);
    assert_eq!(ask(client, SET, "k", "its own"), OK);
    assert_eq!(login(client, "", "guest", "pass"), OK);
    assert_eq!(ask(client, GET, "k", ""), MISSING, "another tenant's");
    assert_eq!(login(client, "", "user", "pass"), OK);
    assert_eq!(ask(client, GET, "k", ""), OK, "the listener's own again");
}

#[test]
fn a_token_far_too_long_is_not_waited_for() {
    let desk = Desk::new(Settings {
        auth_file: Some("passwords".into()),
        ..Settings::default()
    });
    let client = &mut desk.connect();
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
