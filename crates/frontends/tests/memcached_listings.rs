//! Listings of all items come in parts, with turns for others in between.

mod desk;

use std::collections::BTreeSet;

use desk::Desk;
use sublet_frontends::memcached::settings::Settings;

const ITEMS: usize = 3000;

/// A desk with that many items, and nothing else.
fn stocked() -> Desk {
    let desk = Desk::new(Settings {
        track_sizes: true,
        ..Settings::default()
    });
    let mut client = desk.connect();
    for n in 0..ITEMS {
        let set = format!("set key{n} 0 0 4\r\nabcd\r\n");
        assert_eq!(client.send(set.as_bytes()), b"STORED\r\n");
    }
    drop(client);
    desk
}

/// The lines that a request brings, with how often others had their turn meanwhile.
fn ask(desk: &Desk, request: &str) -> (Vec<String>, u64) {
    let yields = || desk.tenancy.counters().conn_yields.get();
    let before = yields();
    let replies = desk.connect().send(request.as_bytes());
    let text = String::from_utf8(replies).expect("plain keys");
    (text.lines().map(str::to_owned).collect(), yields() - before)
}

#[test]
fn cachedump_lists_every_item_once_and_takes_turns() {
    let desk = stocked();
    let (mut lines, yields) = ask(&desk, "stats cachedump 1 0\r\n");
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
    let desk = stocked();
    let (lines, _) = ask(&desk, "stats cachedump 1 7\r\n");
    assert_eq!((lines.len(), lines[7].as_str()), (8, "END"));
}

#[test]
fn sizes_count_every_item_and_take_turns_and_the_next_request_waits() {
    let desk = stocked();
    let (lines, yields) = ask(&desk, "stats sizes\r\nmn\r\n");
    let (rows, rest) = lines.split_at(lines.len() - 2);
    let counted = rows
        .iter()
        .filter_map(|row| row.rsplit(' ').next()?.parse::<usize>().ok());
    assert_eq!(counted.sum::<usize>(), ITEMS);
    assert_eq!(rest, ["END", "MN"]);
    assert!(yields > 0, "one turn for all");
}
