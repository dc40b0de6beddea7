//! Disks whose backing fails.

use std::fs::File;
use std::os::fd::AsRawFd;

use rustix::fs::{SealFlags, fcntl_add_seals};

use super::*;

/// A backing that can be broken for good: a sealed memfd refuses every write.
fn frail() -> (File, String) {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(memfd_create("backing", flags).expect("a memfd"));
    file.set_len(DISK_BYTES).expect("it grows");
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    (file, path)
}

/// Pages leave the stage before they are written, so that there is nothing to write: that says nothing of the backing.
#[test]
fn a_backing_that_was_given_nothing_still_fails() {
    let (backing, path) = frail();
    let rig = Rig::new(DiskKind::Swap, |settings| settings.backing = Some(path));
    let desk = rig.desk();
    fcntl_add_seals(&backing, SealFlags::WRITE).expect("sealed");
    rig.write(&*desk, 0, &[1; 4096]);
    let disk = Arc::clone(&rig.open.as_ref().expect("open").disk);
    let swap = disk.swap.as_ref().expect("swap");
    let until = Instant::now() + Duration::from_secs(20);
    while !swap.is_failing() {
        assert!(Instant::now() < until, "a sealed memfd takes no writes");
        std::thread::sleep(Duration::from_millis(1));
    }
    // For longer than a backing that failed is left alone.
    for _ in 0..20 {
        assert!(desk.trim(0, 4096));
        assert_eq!(swap.dirty(), 0);
        std::thread::sleep(Duration::from_millis(100));
        assert!(swap.is_failing(), "nothing was written since");
        assert!(swap.put(0, &[2; 4096], || {}));
    }
    assert!(desk.trim(0, 4096));
}
