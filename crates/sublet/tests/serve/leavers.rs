//! What was evicted, as shown by status, metrics and the tables.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use sublet_client::messages::{EvictedStatus, EvictionsStatus};
use sublet_client::ring::{Client, Key};
use sublet_types::{ObjectId, PageIndex, PoolFlags, PoolId};

use crate::content::page_of;
use crate::daemon::Folder;
use crate::wait::{wait_for, wait_until};

/// The status of web's evictions, as soon as `suits` accepts it.
fn once(folder: &Folder, suits: impl Fn(&EvictionsStatus) -> bool) -> EvictionsStatus {
    wait_for(|| {
        let web = folder.admin().tenant(&"web".parse().expect("a name"));
        let evicted = web.expect("there").evicted;
        match suits(&evicted) {
            true => Ok(evicted),
            false => Err(format!("{evicted:?}")),
        }
    })
}

fn judged(evicted: Option<EvictedStatus>) -> u64 {
    evicted.map_or(0, |evicted| evicted.judged)
}

/// Asks for `mib` MiB of pages in order, and puts those that are not there. Their objects lie in all shards, so that no
/// shard has more to note than it can.
fn read_through(client: &mut Client, pool: PoolId, begin: u64, mib: u64) {
    for object in begin..begin + mib * 4 {
        let key = Key {
            pool,
            object: ObjectId(object),
            index: PageIndex(0),
        };
        let mut pages = [[0; 4096]; 64];
        client.get_run(key, &mut pages).expect("answered");
        client.put_run(key, &[page_of(3); 64]).expect("put");
    }
}

/// A loop that is a little too long has each page evicted just before it is asked for again. A scan never asks again.
#[test]
fn pages_that_come_round_again_are_regretted_and_a_scan_is_not() {
    let folder = Folder::new();
    let ring = folder.path("ring");
    let _daemon = folder.serve_config(&format!(
        "[tenants.web]\nlisten = [\"ring:{}\"]\neviction = \"lru\"\n",
        ring.display()
    ));
    let mut client = Client::connect(&ring).expect("let in");
    let pool = client.create_pool(PoolFlags::default(), None);
    let pool = pool.expect("a pool");
    assert_eq!(once(&folder, |_| true), EvictionsStatus::default());
    read_through(&mut client, pool, 1000, 150);
    let scan = once(&folder, |evicted| judged(evicted.pages) > 100);
    let scan = scan.pages.expect("there are pages");
    assert_eq!((scan.regret, scan.regretted), (Some(0.0), 0));
    assert_eq!((scan.uses_p50, scan.uses_p95), (Some(0.0), Some(0.0)));
    assert!(scan.age_p50_secs <= scan.age_p95_secs, "{scan:?}");

    (0..8).for_each(|_| read_through(&mut client, pool, 0, 80));
    let round = once(&folder, |evicted| {
        evicted.pages.is_some_and(|pages| pages.regretted > 4000)
    });
    let round = round.pages.expect("there are pages");
    assert!(round.regret > Some(0.5), "{round:?}");

    let page = folder.admin().metrics().expect("a page");
    let name = "sublet_tenant_evictions_regretted_total{tenant=\"web\",kind=\"pages\"}";
    assert!(page.contains(name), "{page}");
    let status = folder.sublet_ok(&["status"]);
    let is_row = |line: &&str| line.split_whitespace().take(2).eq(["web", "pages"]);
    let row = status.lines().find(is_row);
    let row = row.unwrap_or_else(|| panic!("a row in {status}"));
    assert!(row.trim_end().ends_with(" %"), "{row}");
    assert!(
        status.contains("regret is their part that was asked for"),
        "{status}"
    );
    let shown = folder.sublet_ok(&["tenants", "show", "web"]);
    assert!(shown.contains("evicted pages: half "), "{shown}");
}

/// Stores `count` items of 8 KiB, from number `from` on.
fn store_items(place: &Path, from: u32, count: u32) {
    let mut stream = UnixStream::connect(place).expect("let in");
    let value = [b'v'; 8192];
    for n in from..from + count {
        write!(stream, "set k{n} 0 0 8192 noreply\r\n").expect("sent");
        stream.write_all(&value).expect("sent");
        stream.write_all(b"\r\n").expect("sent");
    }
    stream.write_all(b"version\r\n").expect("sent");
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).expect("told");
    assert!(line.starts_with("VERSION"), "{line}");
}

fn uptime(folder: &Folder) -> u64 {
    let status = folder.admin().status().expect("answered");
    status.daemon.uptime_secs
}

#[test]
fn items_that_were_evicted_unused_are_told_with_their_age() {
    let folder = Folder::new();
    let place = folder.path("web.sock");
    let listen = format!("[tenants.web]\nlisten = [\"unix:{}\"]\n", place.display());
    let _daemon = folder.serve_config(&listen);
    store_items(&place, 0, 6000);
    let since = uptime(&folder);
    wait_until("they are a second old", || uptime(&folder) >= since + 2);
    store_items(&place, 6000, 12_000);
    let evicted = once(&folder, |evicted| judged(evicted.items) > 20);
    assert_eq!(evicted.pages, None);
    let items = evicted.items.expect("there are items");
    assert_eq!((items.regret, items.uses_p95), (Some(0.0), Some(0.0)));
    assert!(items.age_p95_secs >= Some(1.0), "{items:?}");
    let page = folder.admin().metrics().expect("a page");
    let name = "sublet_tenant_eviction_age_p95_seconds{tenant=\"web\",kind=\"items\"}";
    assert!(page.contains(name), "{page}");
}
