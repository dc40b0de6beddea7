//! A backing that does not answer holds what a guest asked. Its disk stays, or goes if its owner says so.

use std::fs::File;
use std::time::Instant;

use sublet_types::{DiskListen, DiskName};
use sublet_vhost_driver::{Driver, DriverRequest, DriverSettings};

use super::super::closing::UnwrittenAction;
use super::super::open_disks::{DiskEnvironment, OpenDisks};
use super::*;
use crate::config::StateFolderClaim;

const SECOND: Duration = Duration::from_secs(1);

fn open_disks(folder: &Path) -> OpenDisks {
    let environment = DiskEnvironment {
        far: None,
        state: StateFolderClaim::default(),
        dirty_max: Bytes::mib(1),
        keeper: folder.join("stage"),
        threads: 1,
        silence_max: SECOND,
        events: Events::default(),
    };
    let backend = backend(Bytes::mib(16), 0);
    let tenant = TenantSettings {
        name: "t".parse().expect("a name"),
        weight: Weight::default(),
        floor: None,
        ceiling: None,
    };
    backend.store.add_tenant(tenant).expect("a tenant");
    OpenDisks::open(&backend, environment)
}

/// A disk whose backing takes this long to answer.
fn slow(backing: &Path, socket: &Path, latency: Duration) -> DiskSettings {
    let slow = SlowBacking {
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

/// A disk of a backing that takes this long to answer, a guest that has asked for its first page, and the slot of that
/// request.
fn asked(folder: &Path, latency: Duration) -> (OpenDisks, Driver, u16) {
    let (backing, socket) = (folder.join("backing"), folder.join("db.sock"));
    let file = File::create(&backing).expect("a file");
    file.set_len(1 << 20).expect("grown");
    let disks = open_disks(folder);
    disks
        .add(&slow(&backing, &socket, latency), DiskHistory::New)
        .expect("it opens");
    let mut guest = Driver::new(DriverSettings::default()).expect("a driver");
    guest.connect(&socket).expect("connected");
    let slot = send_read(&mut guest, 0);
    (disks, guest, slot)
}

/// Asks for a page that begins at `sector`. Returns the slot of the request.
fn send_read(guest: &mut Driver, sector: u64) -> u16 {
    let queue = &mut guest.queues[0];
    let slot = queue.take_slot().expect("a slot");
    let page = DriverRequest::Read {
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
        disks.drain_for_removal(&name()),
        Err(DiskError::Silent { .. })
    ));
    let kept = disks.remove(&name(), UnwrittenAction::Keep);
    assert!(matches!(kept, Err(DiskError::Silent { .. })), "{kept:?}");
    assert!(begun.elapsed() < 6 * SECOND, "before the backing answers");
    // What the guest asked in vain, it asks again of the daemon that serves it next.
    guest.connect(&socket).expect("it is served again");
    let queue = &mut guest.queues[0];
    assert!(queue.wait(20 * SECOND).expect("a wait"), "no answer");
    assert_eq!(queue.reap().expect("honest").expect("an answer").slot, slot);

    send_read(&mut guest, 64);
    disks
        .remove(&name(), UnwrittenAction::Discard)
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
