//! What watchers see of the store, and the search for expired items that a client may start.

mod harness;

use harness::{Client, Harness};
use sublet_frontends::memcached::settings::Settings;

const VALUE: usize = 100_000;

/// More items than the harness's store holds.
const ITEMS: usize = 800;

#[test]
fn a_watcher_of_evictions_gets_the_evicted_items() {
    let harness = Harness::new(Settings::default());
    let (mut watcher, mut client) = (harness.connect(), harness.connect());
    assert_eq!(watcher.send(b"watch evictions\r\n"), b"OK\r\n");
    let value = "v".repeat(VALUE);
    for n in 0..ITEMS {
        client.send(format!("set key{n} 0 0 {VALUE} noreply\r\n{value}\r\n").as_bytes());
    }
    let lines = String::from_utf8(watcher.send(b"")).expect("text");
    assert!(lines.lines().count() > 100, "{lines}");
    for line in lines.lines() {
        let reported = line
            .split(' ')
            .find_map(|word| word.strip_prefix("key="))
            .expect("a key");
        assert!(line.contains(" type=eviction key="), "{line}");
        assert!(line.contains(" fetch=no ttl=-1 la="), "{line}");
        assert!(line.ends_with(&format!(" clsid=1 size={VALUE}")), "{line}");
        assert_eq!(
            client.send(format!("get {reported}\r\n").as_bytes()),
            b"END\r\n"
        );
    }
    assert_eq!(watcher.send(b""), b"", "each is reported once");
    let evictions = figure(&mut client, "evictions");
    assert_eq!(lines.lines().count() as u64, evictions);
}

#[test]
fn only_watchers_of_evictions_get_them() {
    let harness = Harness::new(Settings::default());
    let (mut watcher, mut client) = (harness.connect(), harness.connect());
    assert_eq!(watcher.send(b"watch deletions\r\n"), b"OK\r\n");
    let value = "v".repeat(VALUE);
    for n in 0..ITEMS {
        client.send(format!("set key{n} 0 0 {VALUE} noreply\r\n{value}\r\n").as_bytes());
    }
    assert!(figure(&mut client, "evictions") > 0);
    assert_eq!(watcher.send(b""), b"");
}

#[test]
fn a_crawl_removes_what_has_expired() {
    let harness = Harness::new(Settings::default());
    let mut client = harness.connect();
    client.send(b"set dead 0 -1 1\r\nd\r\nset alive 0 0 1\r\na\r\n");
    assert_eq!(figure(&mut client, "curr_items"), 2);
    assert_eq!(client.send(b"lru_crawler crawl all\r\n"), b"OK\r\n");
    assert_eq!(figure(&mut client, "curr_items"), 1);
    assert_eq!(figure(&mut client, "crawler_reclaimed"), 1);
    assert_eq!(figure(&mut client, "lru_crawler_starts"), 1);
    assert_eq!(figure(&mut client, "get_expired"), 0);
    client.send(b"flush_all\r\n");
    assert_eq!(client.send(b"lru_crawler crawl 1,2\r\n"), b"OK\r\n");
    assert_eq!(figure(&mut client, "crawler_reclaimed"), 2);
}

#[test]
fn a_touch_says_why_it_missed_and_counts_as_a_use() {
    let harness = Harness::new(Settings::default());
    let mut client = harness.connect();
    client.send(b"set dead 0 -1 1\r\nd\r\nset alive 0 0 1\r\na\r\n");
    assert_eq!(client.send(b"touch dead 9\r\n"), b"NOT_FOUND\r\n");
    assert_eq!(figure(&mut client, "get_expired"), 1);
    for expiry in [0, 100, 0] {
        let touch = format!("touch alive {expiry}\r\n");
        assert_eq!(client.send(touch.as_bytes()), b"TOUCHED\r\n");
        assert_eq!(client.send(b"mg alive h u\r\n"), b"HD h1\r\n");
    }
    assert_eq!(figure(&mut client, "touch_hits"), 3);
}

/// Returns the lines that a watcher gets, from `key=` on.
fn watched_lines(watcher: &mut Client<'_>) -> Vec<String> {
    let lines = String::from_utf8(watcher.send(b"")).expect("text");
    let from_key = |line: &str| {
        line.split_once(" type=item_store ")
            .map(|(_, rest)| rest.into())
    };
    lines.lines().filter_map(from_key).collect()
}

#[test]
fn a_watcher_of_mutations_gets_items_that_were_too_large() {
    let harness = Harness::new(Settings {
        item_max: 1024,
        ..Settings::default()
    });
    let (mut watcher, mut client) = (harness.connect(), harness.connect());
    assert_eq!(watcher.send(b"watch mutations\r\n"), b"OK\r\n");
    let value = "v".repeat(1024);
    for (line, command) in [
        ("set big 5 100 1024", "set"),
        ("set big 5 100 1024 noreply", "set"),
        ("add big 0 0 1024", "add"),
        ("append big 0 0 1024", "append"),
        ("cas big 0 0 1024 5", "cas"),
        ("ms big 1024 T30", "set"),
        ("ms big 1024 ME q", "add"),
    ] {
        client.send(format!("{line}\r\n{value}\r\n").as_bytes());
        let expected = format!("key=big status=too_large cmd={command} ttl=0 clsid=0 cfd=9 size=0");
        assert_eq!(watched_lines(&mut watcher), [expected], "{line}");
    }
}

#[test]
fn a_watcher_of_mutations_gets_what_other_commands_write() {
    let harness = Harness::new(Settings::default());
    let (mut watcher, mut client) = (harness.connect(), harness.connect());
    assert_eq!(watcher.send(b"watch mutations\r\n"), b"OK\r\n");
    for (line, expected) in [
        (
            "ma n N30 q",
            Some("key=n status=stored cmd=add ttl=30 clsid=1 cfd=9 size=1"),
        ),
        ("ma n", None),
        (
            "ma j N0 J1000",
            Some("key=j status=stored cmd=add ttl=0 clsid=1 cfd=9 size=4"),
        ),
        ("ma none", None),
        ("incr n 1", None),
        ("touch n 5", None),
        (
            "md n x T9",
            Some("key=n status=stored cmd=set ttl=9 clsid=1 cfd=9 size=0"),
        ),
        ("md n I", None),
        (
            "ms a 1 MA N30\r\nb",
            Some("key=a status=stored cmd=append ttl=30 clsid=1 cfd=9 size=1"),
        ),
    ] {
        client.send(format!("{line}\r\n").as_bytes());
        assert_eq!(
            watched_lines(&mut watcher),
            Vec::from_iter(expected),
            "{line}"
        );
    }
}

fn figure(client: &mut Client<'_>, name: &str) -> u64 {
    let stats = String::from_utf8(client.send(b"stats\r\n")).expect("text");
    let row = format!("STAT {name} ");
    let value = stats.lines().find_map(|line| line.strip_prefix(&row));
    value
        .and_then(|value| value.parse().ok())
        .expect("a number")
}
