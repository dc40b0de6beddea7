//! A backing that does not answer holds what a guest asked: its disk stays, or goes by its owner's word.

use std::fs::File;

use sublet_types::{DiskListen, DiskName};
use sublet_vhost_driver::{Ask, Driver, Layout};

use super::super::leaving::Unwritten;
use super::super::open_disks::{DiskGround, OpenDisks};
use super::*;
use crate::config::Claim;

const SECOND: Duration = Duration::from_secs(1);

fn open_disks(folder: &Path) -> OpenDisks {
    let ground = DiskGround {
        state: Claim::default(),
        dirty_max: Bytes::mib(1),
        keeper: folder.join("stage"),
        threads: 1,
        silence_max: SECOND,
        events: Events::default(),
    };
    let backend = backend(Bytes::mib(16));
    let tenant = TenantSettings {
        name: "t".parse().expect("a name"),
        weight: Weight::default(),
        floor: None,
        ceiling: None,
    };
    backend.store.add_tenant(tenant).expect("a tenant");
    OpenDisks::open(&backend, ground)
}

/// A disk whose backing takes so long to answer.
fn slow(backing: &Path, socket: &Path, latency: Duration) -> DiskSettings {
    let slow = Slow {
        latency,
        bandwidth: None,
    };
    DiskSettings {
        listen: vec![DiskListen::VhostUser(socket.display().to_string())],
        slow: Some(slow),
        ..settings(DiskKind::Disk, backing)
    }
}

fn name() -> DiskName {
    "db".parse().expect("a name")
}

/// A disk of a backing that takes so long to answer, and a guest that has asked for its first page; the slot of that.
fn asked(folder: &Path, latency: Duration) -> (OpenDisks, Driver, u16) {
    let (backing, socket) = (folder.join("backing"), folder.join("db.sock"));
    let file = File::create(&backing).expect("a file");
    file.set_len(1 << 20).expect("grown");
    let disks = open_disks(folder);
    disks
        .add(&slow(&backing, &socket, latency), History::New)
        .expect("it opens");
    let mut guest = Driver::new(Layout::default()).expect("a driver");
    guest.connect(&socket).expect("connected");
    let slot = ask(&mut guest, 0);
    (disks, guest, slot)
}

/// Asks for a page that begins at `sector`; the slot of that.
fn ask(guest: &mut Driver, sector: u64) -> u16 {
    let queue = &mut guest.queues[0];
    let slot = queue.vacant().expect("a slot");
    let page = Ask::Read {
        sector,
        bytes: 4096,
    };
    queue.submit(slot, page).expect("it fits");
    queue.kick().expect("a kick");
    slot
}

#[test]
fn a_disk_whose_backing_is_silent_stays_or_goes_by_that_word() {
    let folder = tempfile::tempdir().expect("a folder");
    let begun = Instant::now();
    let (disks, mut guest, slot) = asked(folder.path(), 8 * SECOND);
    let socket = folder.path().join("db.sock");
    assert!(matches!(
        disks.clear(&name()),
        Err(DiskError::Silent { .. })
    ));
    let kept = disks.remove(&name(), Unwritten::Kept);
    assert!(matches!(kept, Err(DiskError::Silent { .. })), "{kept:?}");
    assert!(begun.elapsed() < 6 * SECOND, "before the backing answers");
    // What it asked and nobody answered, it asks who serves it next.
    guest.connect(&socket).expect("it is served again");
    let queue = &mut guest.queues[0];
    assert!(queue.wait(20 * SECOND).expect("a wait"), "no answer");
    assert_eq!(queue.reap().expect("honest").expect("an answer").slot, slot);

    ask(&mut guest, 64);
    disks
        .remove(&name(), Unwritten::GivenUp)
        .expect("it goes all the same");
    assert!(!socket.exists() && disks.list().is_empty());
}

#[test]
fn the_end_leaves_a_backing_that_is_silent() {
    let folder = tempfile::tempdir().expect("a folder");
    let (disks, _guest, _) = asked(folder.path(), 600 * SECOND);
    let begun = Instant::now();
    disks.begin_ending();
    assert!(disks.drain(&name()).is_err(), "it is silent");
    disks.end();
    assert!(begun.elapsed() < 60 * SECOND, "{:?}", begun.elapsed());
    assert!(disks.list().is_empty());
}
