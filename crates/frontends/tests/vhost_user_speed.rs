//! The cost of the frontend alone. Run it by hand: `cargo test --release -p sublet-frontends --test vhost_user_speed --
//! --ignored --nocapture`.

#[allow(dead_code, reason = "what the disk counts is for others")]
#[path = "../examples/memory_disk/mod.rs"]
mod memory_disk;

use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use memory_disk::{DiskBehavior, MemoryDisk, backend};
use sublet_frontends::block_device::DiskShape;
use sublet_frontends::vhost_user::serve::{Settings, start};
use sublet_vhost_driver::{Driver, DriverRequest, DriverSettings};
use vm_memory::{Bytes, GuestAddress};

const BYTES: u64 = 64 << 20;

#[test]
#[ignore = "measures"]
fn reads_of_what_is_in_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let file = rustix::fs::memfd_create("disk", rustix::fs::MemfdFlags::CLOEXEC);
    let file = std::fs::File::from(file.expect("a memfd"));
    file.write_all_at(&vec![1; BYTES as usize], 0)
        .expect("bytes");
    let (backend, tenant) = backend();
    let shape = DiskShape {
        bytes: BYTES,
        read_only: false,
        trims: true,
    };
    let behavior = DiskBehavior {
        hits: 8,
        ..DiskBehavior::default()
    };
    let disk = MemoryDisk::new("fast", tenant, shape, file, behavior);
    let running = start(disk, &path, 0o600, &backend, Settings::default()).expect("served");
    for (slots, bytes) in [(1, 4096), (16, 4096), (32, 4096), (8, 128 << 10)] {
        let layout = DriverSettings {
            slots,
            slot_bytes: 128 << 10,
            ..DriverSettings::default()
        };
        let mut driver = Driver::new(layout).expect("a driver");
        driver.connect(&path).expect("a connection");
        let (done, seconds) = drive(&mut driver, bytes);
        println!(
            "depth {slots}, {bytes} bytes: {:.0} reads/s, {:.0} MB/s",
            done / seconds,
            done * f64::from(bytes) / seconds / 1e6
        );
    }
    running.stop();
}

/// Reads at random places for a second. Returns how many reads, and in how many seconds.
fn drive(driver: &mut Driver, bytes: u32) -> (f64, f64) {
    let queue = &mut driver.queues[0];
    let (mut done, mut random) = (0u32, 7u64);
    let mut room = vec![0; bytes as usize];
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(1) {
        while let Some(slot) = queue.take_slot() {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let sector = (random >> 33) % ((BYTES - u64::from(bytes)) / 4096) * 8;
            queue
                .submit(slot, DriverRequest::Read { sector, bytes })
                .expect("it fits");
        }
        queue.kick().expect("a kick");
        queue.wait(Duration::from_secs(5)).expect("a wait");
        while let Some(answer) = queue.reap().expect("honest") {
            assert_eq!(answer.status, 0);
            queue.read_slot(answer.slot, &mut room).expect("they fit");
            done += 1;
        }
    }
    (f64::from(done), started.elapsed().as_secs_f64())
}

/// Compares accesses through the mapping with accesses by system calls.
#[test]
#[ignore = "measures"]
fn accesses_of_guest_memory() {
    const TIMES: u32 = 100_000;
    let driver = Driver::new(DriverSettings::default()).expect("a driver");
    for bytes in [2, 4096] {
        let mut room = vec![0; bytes];
        let started = Instant::now();
        for n in 0..TIMES {
            let at = u64::from(n % 64) * 4096;
            driver
                .memory()
                .read_slice(&mut room, GuestAddress(at))
                .expect("memory");
        }
        let mapped = started.elapsed() / TIMES;
        let started = Instant::now();
        for n in 0..TIMES {
            let at = u64::from(n % 64) * 4096;
            driver.file().read_exact_at(&mut room, at).expect("memory");
        }
        println!(
            "{bytes} bytes: mapping {mapped:?}, pread {:?}",
            started.elapsed() / TIMES
        );
    }
}
