//! Memory that stays off the host's swap.

use std::fs;

use sublet_host::memory_lock::may_lock;
use sublet_vhost_driver::{Driver, DriverSettings};

use crate::daemon::{Daemon, Folder};
use crate::guest::Guest;

/// Kibibytes of a part of a process's memory.
#[derive(Clone, Copy, Debug, Default)]
struct LockedMemory {
    resident: u64,
    locked: u64,
}

/// The memory of the mappings whose first line satisfies `is_it`.
fn memory(daemon: &Daemon, is_it: impl Fn(&str) -> bool) -> LockedMemory {
    let maps = fs::read_to_string(format!("/proc/{}/smaps", daemon.pid())).expect("Linux");
    let mut memory = LockedMemory::default();
    let mut counts = false;
    for line in maps.lines() {
        let kib = || -> u64 {
            let amount = line.split_whitespace().nth(1);
            amount.and_then(|kib| kib.parse().ok()).expect("a size")
        };
        match line.split_whitespace().next() {
            Some("Rss:") if counts => memory.resident += kib(),
            Some("Locked:") if counts => memory.locked += kib(),
            Some(word) if !word.ends_with(':') => counts = is_it(line),
            _ => {}
        }
    }
    memory
}

/// Otherwise the host would swap to make room for swapping. The host may still swap a guest's memory.
#[test]
fn all_that_swap_needs_is_locked_and_no_guests_memory_is() {
    if !may_lock() {
        eprintln!("skipped: this user may not lock memory");
        return;
    }
    let folder = Folder::new();
    let place = |name: &str| folder.path(name).display().to_string();
    let daemon = folder.serve_config(&format!(
        "[disks.swap]\nkind = \"swap\"\ntenant = \"t\"\nsize = \"1MiB\"\nlisten = [\"unix:{}\", \"vhost-user:{}\"]\n",
        place("swap.sock"),
        place("vhost.sock"),
    ));
    let mut guest = Guest::of(&folder.path("swap.sock"), "swap");
    (0..256).for_each(|page| assert_eq!(guest.write_page(page, 7), 0));
    let mut driver = Driver::new(DriverSettings::default()).expect("a driver");
    driver.connect(&folder.path("vhost.sock")).expect("served");

    let own = memory(&daemon, |line| line.contains("rw-p"));
    assert!(own.resident > 1 << 10, "{own:?}");
    assert_eq!(own.locked, own.resident, "heap, stacks and arena");
    let stage = memory(&daemon, |line| line.contains("memfd:sublet-stage"));
    assert!(stage.locked > 1 << 10, "{stage:?}");
    let guests = memory(&daemon, |line| line.contains("memfd:guest"));
    assert!(guests.resident > 0, "its rings were read: {guests:?}");
    assert_eq!(guests.locked, 0);
}
