//! Listings of all items come in parts, and other connections have turns in between.

mod harness;

use std::collections::BTreeSet;

use harness::Harness;
use sublet_frontends::memcached::settings::Settings;

const ITEMS: usize = 3000;

/// Makes a harness with that many items and nothing else.
fn stocked() -> Harness {
    let harness = Harness::new(Settings {
        track_sizes: true,
        ..Settings::default()
    });
    let mut client = harness.connect();
    for n in 0..ITEMS {
        let set = format!("set key{n} 0 0 4\r\nabcd\r\n");
        assert_eq!(client.send(set.as_bytes()), b"STORED\r\n");
    }
    drop(client);
    harness
}

/// Returns the lines of the reply to a request, and how often other connections had a turn in the meantime.
fn send_request(harness: &Harness, request: &str) -> (Vec<String>, u64) {
    let yields = || harness.tenancy.counters().conn_yields.get();
    let before = yields();
    let replies = harness.connect().send(request.as_bytes());
    let text = String::from_utf8(replies).expect("plain keys");
    (text.lines().map(str::to_owned).collect(), yields() - before)
}

#[test]
fn cachedump_lists_every_item_once_and_takes_turns() {
    let harness = stocked();
    let (mut lines, yields) = send_request(&harness, "stats cachedump 1 0\r\n");
    assert_eq!(lines.pop().as_deref(), Some("END"));
    let listed: BTreeSet<String> = lines.iter().cloned().collect();
    let stored: BTreeSet<String> = (0..ITEMS)
        .map(|n| format!("ITEM key{n} [4 b; 0 s]"))
        .collect();
    assert_eq!((listed, lines.len()), (stored, ITEMS));
    assert!(yields > 0, "one turn for all");
}

#[test]
fn cachedump_stops_at_its_limit() {
    let harness = stocked();
    let (lines, _) = send_request(&harness, "stats cachedump 1 7\r\n");
    assert_eq!((lines.len(), lines[7].as_str()), (8, "END"));
}

#[test]
fn sizes_count_every_item_and_take_turns_and_the_next_request_waits() {
    let harness = stocked();
    let (lines, yields) = send_request(&harness, "stats sizes\r\nmn\r\n");
    let (rows, rest) = lines.split_at(lines.len() - 2);
    let counted = rows
        .iter()
        .filter_map(|row| row.rsplit(' ').next()?.parse::<usize>().ok());
    assert_eq!(counted.sum::<usize>(), ITEMS);
    assert_eq!(rest, ["END", "MN"]);
    assert!(yields > 0, "one turn for all");
}
