//! Disks whose backing fails.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use rustix::fs::{SealFlags, fcntl_add_seals};

use super::*;
use crate::disk::open_disks::ServedDisk;

/// A backing that can be broken for good: a sealed memfd refuses every write.
fn frail() -> (File, String) {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(memfd_create("backing", flags).expect("a memfd"));
    file.set_len(DISK_BYTES).expect("it grows");
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    (file, path)
}

/// Pages leave the stage before they are written, so that there is nothing to write. That says nothing about the
/// backing.
#[test]
fn a_backing_that_was_given_nothing_still_fails() {
    let (backing, path) = frail();
    let rig = Rig::new(DiskKind::Swap, |settings| settings.backing = Some(path));
    let handle = rig.handle();
    fcntl_add_seals(&backing, SealFlags::WRITE).expect("sealed");
    rig.write(&*handle, 0, &[1; 4096]);
    let disk = Arc::clone(&rig.open.as_ref().expect("open").disk);
    let swap = disk.swap.as_ref().expect("swap");
    wait_until("a sealed memfd takes no writes", || swap.is_failing());
    // This takes longer than a failed backing is left alone.
    for _ in 0..20 {
        assert!(handle.trim(0, 4096));
        assert_eq!(swap.dirty(), 0);
        std::thread::sleep(Duration::from_millis(100));
        assert!(swap.is_failing(), "nothing was written since");
        assert!(swap.put(0, &[2; 4096], || {}));
    }
    assert!(handle.trim(0, 4096));
}

/// A backing that answers too late holds up no caller that gives up what it does not take.
#[test]
fn a_backing_that_hangs_is_left_alone() {
    let mut rig = Rig::new(DiskKind::Swap, |settings| {
        settings.slow = Some(SlowBacking {
            latency: Duration::from_secs(10),
            bandwidth: None,
        });
    });
    let asked = Instant::now();
    rig.write(&*rig.handle(), 0, &[1; 4096]);
    let open = rig.open.take().expect("open");
    let disk = Arc::clone(&open.disk);
    let leaving = ServedDisk {
        settings: rig.settings.clone(),
        disk: Arc::clone(&disk),
        running: Mutex::new(Some(open)),
        is_leaving: AtomicBool::new(true),
    };
    let second = Duration::from_secs(1);
    leaving.try_drain(second);
    let swap = disk.swap.as_ref().expect("swap");
    assert_eq!(swap.dirty(), 1, "the backing has not taken it");
    // What is staged is gone, so that the next flush waits only for the backing.
    assert!(
        rig.stage
            .as_ref()
            .expect("a stage")
            .remove_all(&rig.settings.name)
            == 1
    );
    leaving.try_drain(second);
    leaving.end_within(second);
    let waited = asked.elapsed();
    assert!(
        waited < 8 * second,
        "{waited:?} for three waits of {second:?}"
    );
}

/// A client lost its connection while its request is under way. What it asks over another connection comes after that
/// request.
#[test]
fn what_is_asked_later_lasts_longer_than_what_takes_longer() {
    let rig = Rig::new(DiskKind::Swap, |settings| {
        settings.slow = Some(SlowBacking {
            latency: Duration::from_millis(300),
            bandwidth: None,
        });
    });
    let (handle, other) = (rig.handle(), rig.handle());
    // More than the stage takes, so that the backing must do it.
    let zeroes = DiskOperation::Zero(Zeroing {
        hole: Hole::Allowed,
        speed: ZeroSpeed::Any,
        fua: Fua::Off,
    });
    let earlier = rig.begin(zeroes, 0, 2 << 20, Buffer::default());
    rig.write(&*other, 20 * 4096, &[7; 4096]);
    assert!(earlier.try_recv().is_ok(), "it waits for what was earlier");
    assert_eq!(rig.read(&*handle, 20 * 4096, 4096), [7; 4096]);
    assert!(handle.write(21 * 4096, &[8; 4096], Fua::Off), "as before");
}

/// A staged page that cannot be read is not read from the backing, which has an older one.
#[test]
fn a_staged_page_that_cannot_be_read_is_an_error() {
    let mut rig = Rig::new(DiskKind::Swap, |settings| {
        settings.durability = Some(Durability::Memory);
    });
    rig.end();
    let memfd = File::from(memfd_create("stage", MemfdFlags::CLOEXEC).expect("a memfd"));
    memfd.set_len(Stage::file_bytes(64)).expect("it grows");
    Preface::write(&memfd, 64).expect("written");
    let staged = memfd.try_clone().expect("cloned");
    rig.stage = Some(Arc::new(Stage::open(staged).expect("a stage")));
    rig.open();
    let handle = rig.handle();
    rig.write(&*handle, 0, &[1; 4096]);
    let disk = Arc::clone(&rig.open.as_ref().expect("open").disk);
    let worker = rig.backend.store.worker().expect("a worker");
    let key = crate::disk::page_span::key(disk.pool, 0);
    assert!(worker.flush_page(disk.tenant, key, Second(1)));
    assert_eq!(rig.read(&*handle, 0, 4096), [1; 4096], "it is staged");

    memfd.set_len(4096).expect("cut off");
    assert!(!handle.read(0, &mut [0; 4096]));
    for (at, len) in [(0, 4096), (0, 16384), (512, 512)] {
        let outcome = rig.request(DiskOperation::Read, at, len, Buffer::zeroed(len as usize));
        assert_eq!(outcome.result, Err(DiskFault::Io), "{len} bytes at {at}");
    }
    let part = DiskOperation::Write { fua: Fua::Off };
    let outcome = rig.request(part, 512, 512, Buffer::zeroed(512));
    assert_eq!(
        outcome.result,
        Err(DiskFault::Io),
        "the rest of the page is not known"
    );
    assert_eq!(disk.swap.as_ref().expect("swap").dirty(), 1);
    assert!(handle.trim(0, 4096), "its guest may forget it");
    assert_eq!(rig.read(&*handle, 0, 4096).len(), 4096);
}
