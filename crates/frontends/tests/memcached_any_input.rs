//! Sends any bytes, cut anywhere. Nothing panics, replies do not depend on the cuts, and the waiting input is bounded.

mod harness;

use harness::{Client, Harness};
use proptest::collection::vec;
use proptest::prelude::*;
use sublet_frontends::memcached::session::{LoopAction, WAITING_INPUT_MAX};
use sublet_frontends::memcached::settings::Settings;

/// Parts of requests, so that many requests are nearly right.
fn text_part() -> impl Strategy<Value = Vec<u8>> {
    let words = [
        "get",
        "gets",
        "gat",
        "set",
        "add",
        "cas",
        "append",
        "prepend",
        "replace",
        "delete",
        "incr",
        "decr",
        "touch",
        "mg",
        "ms",
        "md",
        "ma",
        "mn",
        "me",
        "verbosity",
        "flush_all",
        "stats items",
        "noreply",
        "k",
        "key2",
        "0",
        "1",
        "2",
        "-1",
        "100",
        "x",
        "v",
        "t",
        "c",
        "s",
        "q",
        "k",
        "b",
        "I",
        "N30",
        "T20",
        "E7",
        "C7",
        "MA",
        "Oabc",
        "HTTP/1.1",
        "44OG44K544OI",
    ];
    prop_oneof![
        20 => prop::sample::select(words.to_vec()).prop_map(|word| word.as_bytes().to_vec()),
        20 => Just(b" ".to_vec()),
        12 => Just(b"\r\n".to_vec()),
        1 => Just(b"\n".to_vec()),
        4 => Just(b"set k 0 0 2\r\nab\r\n".to_vec()),
        2 => Just(b"ms k 2 c s\r\nab\r\n".to_vec()),
        2 => Just(b"get k key2\r\n".to_vec()),
        1 => vec(any::<u8>(), 1..40),
        1 => (0..30_000usize).prop_map(|len| {
            let mut set = format!("set large 0 0 {len}\r\n").into_bytes();
            set.resize(set.len() + len, b'v');
            set.extend_from_slice(b"\r\n");
            set
        }),
    ]
}

fn binary_part() -> impl Strategy<Value = Vec<u8>> {
    let near = (
        0..0x40u8,
        0..4u8,
        0..24u8,
        vec(any::<u8>(), 0..60),
        any::<u64>(),
    );
    prop_oneof![
        8 => (0..0x25u8, 1..5usize, 0..20usize).prop_map(|(opcode, key, value)| valid_packet(opcode, key, value)),
        1 => near.prop_map(|(opcode, key, extras, body, cas)| {
            let mut packet = head(opcode, u16::from(key), extras, body.len() as u32, cas);
            packet.extend(body);
            packet
        }),
        1 => vec(any::<u8>(), 1..30),
    ]
}

/// Makes a request whose lengths fit its opcode.
fn valid_packet(opcode: u8, key: usize, value: usize) -> Vec<u8> {
    let extras = match opcode {
        0x01..=0x03 | 0x11..=0x13 => 8,
        0x05 | 0x06 | 0x15 | 0x16 => 20,
        0x1c..=0x1e | 0x23 | 0x24 => 4,
        _ => 0,
    };
    let (key, value) = match opcode {
        0x07 | 0x08 | 0x0a | 0x0b | 0x17 | 0x18 | 0x20 => (0, 0),
        0x01..=0x03 | 0x0e | 0x0f | 0x11..=0x13 | 0x19 | 0x1a => (key, value),
        // Figures of time and work differ from run to run.
        0x10 => (0, 0),
        _ => (key, 0),
    };
    let opcode = if matches!(opcode, 0x07 | 0x10 | 0x17) {
        0x0a
    } else {
        opcode
    };
    let mut packet = head(
        opcode,
        key as u16,
        extras,
        (key + value) as u32 + u32::from(extras),
        0,
    );
    packet.resize(packet.len() + usize::from(extras), 0);
    packet.resize(packet.len() + key, b'k');
    packet.resize(packet.len() + value, b'7');
    packet
}

fn head(opcode: u8, key: u16, extras: u8, body: u32, cas: u64) -> Vec<u8> {
    let mut head = vec![0x80, opcode];
    head.extend(key.to_be_bytes());
    head.extend([extras, 0, 0, 0]);
    head.extend(body.to_be_bytes());
    head.extend([1, 2, 3, 4]);
    head.extend(cas.to_be_bytes());
    head
}

/// Sends the input cut into these lengths, over and over. Returns the replies and whether the connection closed.
fn replies(input: &[u8], cuts: &[usize]) -> (Vec<u8>, bool) {
    let settings = Settings {
        detail: true,
        ..Settings::default()
    };
    let harness = Harness::new(settings);
    let mut client = harness.connect();
    let mut replies = Vec::new();
    let mut rest = input;
    let mut cuts = cuts.iter().cycle();
    while !rest.is_empty() && !is_closed(&client) {
        let len = cuts.next().map_or(rest.len(), |&cut| cut.min(rest.len()));
        replies.append(&mut client.send(&rest[..len]));
        rest = &rest[len..];
        assert!(
            client.waiting.len() <= WAITING_INPUT_MAX,
            "{} bytes wait",
            client.waiting.len()
        );
    }
    (replies, is_closed(&client))
}

fn is_closed(client: &Client<'_>) -> bool {
    matches!(client.last, LoopAction::Close | LoopAction::Shutdown(_))
}

/// Returns whether the input has a line that is too long. Such a line closes a connection as soon as the session sees
/// it, which depends on the cuts.
fn has_long_line(input: &[u8]) -> bool {
    input
        .split(|&byte| byte == b'\n')
        .any(|line| line.len() > 2000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn text_goes_the_same_however_it_is_cut(parts in vec(text_part(), 1..80), cuts in vec(1..50usize, 1..6)) {
        let input = parts.concat();
        if !has_long_line(&input) {
            prop_assert_eq!(replies(&input, &[usize::MAX]), replies(&input, &cuts));
        }
    }

    #[test]
    fn binary_goes_the_same_however_it_is_cut(parts in vec(binary_part(), 1..40), cuts in vec(1..50usize, 1..6)) {
        // Statistics contain the number of bytes read so far, which depends on the cuts.
        const STAT: u8 = 0x10;
        prop_assume!(parts.iter().all(|part| part.get(1) != Some(&STAT)));
        let mut input = valid_packet(0x0a, 0, 0);
        input.extend(parts.concat());
        prop_assert_eq!(replies(&input, &[usize::MAX]), replies(&input, &cuts));
    }

    #[test]
    fn no_bytes_break_a_session(input in vec(any::<u8>(), 0..600), cuts in vec(1..50usize, 1..6)) {
        replies(&input, &cuts);
        let line = [input.as_slice(), b"\r\n"].concat();
        replies(&line, &cuts);
    }
}

#[test]
fn a_line_without_an_end_closes_unless_it_is_a_get() {
    let harness = Harness::new(Settings::default());
    let mut client = harness.connect();
    client.send(&[b'm'; 3000]);
    assert_eq!(client.last, LoopAction::Close);

    let mut client = harness.connect();
    client.send(b"set k 0 0 1\r\na\r\n");
    client.send(b"get ");
    for _ in 0..30_000 {
        client.send(b"k none ");
    }
    let found = client.send(b"\r\n");
    assert_eq!(
        found.len(),
        30_000 * b"VALUE k 0 1\r\na\r\n".len() + b"END\r\n".len()
    );
}

#[test]
fn a_value_that_does_not_come_takes_memory_only_as_it_comes() {
    let settings = Settings {
        item_max: 1 << 30,
        ..Settings::default()
    };
    let harness = Harness::new(settings);
    let mut client = harness.connect();
    client.send(b"set k 0 0 1000000000\r\n");
    assert!(matches!(client.last, LoopAction::Read { wanted: 1.. }));
    let stats = String::from_utf8(harness.connect().send(b"stats\r\n")).expect("text");
    assert!(stats.contains("STAT read_buf_bytes 0\r\n"), "{stats}");
    client.send(&[0; 100_000]);
    let stats = String::from_utf8(harness.connect().send(b"stats\r\n")).expect("text");
    assert!(!stats.contains("STAT read_buf_bytes 0\r\n"), "{stats}");
    drop(client);
    let stats = String::from_utf8(harness.connect().send(b"stats\r\n")).expect("text");
    assert!(stats.contains("STAT read_buf_bytes 0\r\n"), "{stats}");
}

#[test]
fn all_values_on_their_way_together_have_a_bound() {
    let harness = Harness::new(Settings::default());
    let mut clients: Vec<Client<'_>> = Vec::new();
    let value = vec![b'v'; 1_000_000];
    let refused = (0..80).find_map(|_| {
        let mut client = harness.connect();
        client.send(b"set k 0 0 1000001\r\n");
        let reply = client.send(&value);
        clients.push(client);
        (!reply.is_empty()).then_some(reply)
    });
    assert_eq!(
        refused.as_deref(),
        Some(b"SERVER_ERROR out of memory storing object\r\n".as_slice())
    );
    let last = clients.last_mut().expect("one was refused");
    assert_eq!(last.send(b"v\r\nversion\r\n"), b"VERSION 1.6.45\r\n");
}
