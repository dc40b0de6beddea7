//! What clients and guests leave in a daemon that is locked in memory for swap.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use sublet_host::memory_lock::may_lock;

use crate::daemon::{Daemon, Folder};
use crate::guest::Guest;
use crate::wait::{wait_for, wait_until};

/// The most memory of buffers that may stay.
const LEFT_KIB_MAX: u64 = 16 << 10;

/// The time within which the rest must be gone.
const GONE_WITHIN: Duration = Duration::from_secs(5);

/// Kibibytes of the process beside the arena: resident and locked. Resident memory excludes its code, which the kernel
/// may drop. The kernel's `VmLck` counts addresses, touched or not; `Locked` counts memory.
fn memory(folder: &Folder, daemon: &Daemon) -> [u64; 2] {
    let held = folder.admin().status().expect("status").arena.held.0 >> 10;
    let asked = [("status", "RssAnon:"), ("smaps_rollup", "Locked:")];
    asked.map(|(file, name)| {
        let text = fs::read_to_string(format!("/proc/{}/{file}", daemon.pid())).expect("Linux");
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        u64::saturating_sub(kib.expect("a size"), held)
    })
}

fn wait_until_as_before(folder: &Folder, daemon: &Daemon, before: [u64; 2]) {
    let began = Instant::now();
    wait_for(|| {
        let now = memory(folder, daemon);
        let left = [0, 1].map(|at| now[at].saturating_sub(before[at]));
        assert!(began.elapsed() < GONE_WITHIN, "{before:?} {now:?} KiB");
        match left.iter().all(|kib| *kib <= LEFT_KIB_MAX) {
            true => Ok(()),
            false => Err(format!("{before:?} {now:?} KiB")),
        }
    });
}

/// Waits, because memory that is being gathered is resident before it is held.
fn wait_until_gathered(folder: &Folder) {
    wait_for(|| {
        let arena = folder.admin().status().expect("status").arena;
        match arena.held == arena.limit {
            true => Ok(()),
            false => Err(format!("{arena:?}")),
        }
    });
}

fn serve(folder: &Folder) -> Daemon {
    let place = |name: &str| folder.path(name).display().to_string();
    fs::create_dir(folder.path("vm")).expect("made");
    fs::write(folder.path("vm/image"), vec![7; 8 << 20]).expect("written");
    let daemon = folder.serve_config(&format!(
        "[disk]\nallow = [{:?}]\n[tenants.web]\nlisten = [\"unix:{}\"]\n\
         [disks.swap]\nkind = \"swap\"\ntenant = \"t\"\nsize = \"1MiB\"\nlisten = [\"unix:{}\"]\n\
         [disks.image]\ntenant = \"t\"\nbacking = \"{}\"\nlisten = [\"unix:{}\"]\n",
        folder.path("vm"),
        place("web.sock"),
        place("swap.sock"),
        place("vm/image"),
        place("image.sock"),
    ));
    let mut guest = Guest::of(&folder.path("swap.sock"), "swap");
    assert_eq!(guest.write_page(0, 7), 0);
    wait_until_gathered(folder);
    daemon
}

fn client(folder: &Folder) -> UnixStream {
    UnixStream::connect(folder.path("web.sock")).expect("connected")
}

/// Stores values of 900 KB, so that a set fits with its head.
fn store_values(client: &mut UnixStream) {
    let value = vec![b'x'; 900_000];
    for key in 0..4 {
        write!(client, "set k{key} 0 0 {}\r\n", value.len()).expect("sent");
        client.write_all(&value).expect("sent");
        client.write_all(b"\r\n").expect("sent");
        client.read_exact(&mut [0; 8]).expect("STORED");
    }
}

/// A client that asks for values and reads none.
fn request_and_never_read(folder: &Folder) -> UnixStream {
    let mut client = client(folder);
    let asked = "get k0 k1 k2 k3\r\n".repeat(15);
    client.write_all(asked.as_bytes()).expect("sent");
    client
}

/// A client that sends most of a value that is small enough for the heap.
fn send_most_of_a_value(folder: &Folder) -> UnixStream {
    let mut client = client(folder);
    client.write_all(b"set h 0 0 120000\r\n").expect("sent");
    client.write_all(&[b'y'; 100_000]).expect("sent");
    client
}

fn wait_until_grown(folder: &Folder, daemon: &Daemon, before: [u64; 2]) {
    wait_until("something waits for them", || {
        memory(folder, daemon)[0] >= before[0] + 2 * LEFT_KIB_MAX
    });
}

#[test]
fn clients_that_never_read_leave_no_memory_locked() {
    if !may_lock() {
        eprintln!("skipped: this user may not lock memory");
        return;
    }
    let folder = Folder::new();
    let daemon = serve(&folder);
    let mut first = client(&folder);
    store_values(&mut first);
    let before = memory(&folder, &daemon);
    let clients: Vec<UnixStream> = (0..100).map(|_| request_and_never_read(&folder)).collect();
    wait_until_grown(&folder, &daemon, before);
    drop(clients);
    wait_until_as_before(&folder, &daemon, before);
}

/// A client that came last and stays keeps the heap's end in use. What the others leave is in its middle.
#[test]
fn clients_that_stop_in_a_small_value_leave_no_memory_locked() {
    if !may_lock() {
        eprintln!("skipped: this user may not lock memory");
        return;
    }
    let folder = Folder::new();
    let daemon = serve(&folder);
    let before = memory(&folder, &daemon);
    let clients: Vec<UnixStream> = (0..400).map(|_| send_most_of_a_value(&folder)).collect();
    wait_until_grown(&folder, &daemon, before);
    let _stays: Vec<UnixStream> = (0..8).map(|_| send_most_of_a_value(&folder)).collect();
    drop(clients);
    wait_until_as_before(&folder, &daemon, before);
}

#[test]
fn large_reads_of_a_disk_leave_no_memory_locked() {
    if !may_lock() {
        eprintln!("skipped: this user may not lock memory");
        return;
    }
    let folder = Folder::new();
    let daemon = serve(&folder);
    folder.sublet_ok(&["tenants", "set", "t", "--ceiling", "2MiB"]);
    let mut guest = Guest::of(&folder.path("image.sock"), "image");
    guest.read_page(0);
    let before = memory(&folder, &daemon);
    for _ in 0..5 {
        let mut guests: Vec<Guest> = (0..16)
            .map(|_| Guest::of(&folder.path("image.sock"), "image"))
            .collect();
        guests.iter_mut().for_each(|guest| guest.send_read(8 << 20));
        guests
            .iter_mut()
            .for_each(|guest| guest.receive_read(8 << 20));
    }
    wait_until_as_before(&folder, &daemon, before);
}
