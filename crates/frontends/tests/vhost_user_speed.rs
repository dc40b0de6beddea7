//! What the frontend alone costs. Run by hand:
//! `cargo test --release -p sublet-frontends --test vhost_user_speed -- --ignored --nocapture`.

#[allow(dead_code, reason = "what the disk counts is for others")]
#[path = "../examples/memory_disk/mod.rs"]
mod memory_disk;

use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use memory_disk::{Manners, MemoryDisk, backend};
use sublet_frontends::block::Shape;
use sublet_frontends::vhost_user::serve::{Settings, start};
use sublet_vhost_driver::{Ask, Driver, Layout};
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
    let shape = Shape {
        bytes: BYTES,
        read_only: false,
        trims: true,
    };
    let manners = Manners {
        hits: 8,
        ..Manners::default()
    };
    let disk = MemoryDisk::new("fast", tenant, shape, file, manners);
    let running = start(disk, &path, 0o600, &backend, Settings::default()).expect("served");
    for (slots, bytes) in [(1, 4096), (16, 4096), (32, 4096), (8, 128 << 10)] {
        let layout = Layout {
            slots,
            slot_bytes: 128 << 10,
            ..Layout::default()
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

/// Reads at random places for a second; says how often, and in how many seconds.
fn drive(driver: &mut Driver, bytes: u32) -> (f64, f64) {
    let queue = &mut driver.queues[0];
    let (mut done, mut luck) = (0u32, 7u64);
    let mut room = vec![0; bytes as usize];
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(1) {
        while let Some(slot) = queue.vacant() {
            luck = luck.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let sector = (luck >> 33) % ((BYTES - u64::from(bytes)) / 4096) * 8;
            queue
                .submit(slot, Ask::Read { sector, bytes })
                .expect("it fits");
        }
        queue.kick().expect("a kick");
        queue.wait(Duration::from_secs(5)).expect("a wait");
        while let Some(answer) = queue.reap().expect("honest") {
            assert_eq!(answer.status, 0);
            queue.look(answer.slot, &mut room).expect("they fit");
            done += 1;
        }
    }
    (f64::from(done), began.elapsed().as_secs_f64())
}

/// Through the mapping, or by a system call each.
#[test]
#[ignore = "measures"]
fn accesses_of_guest_memory() {
    const TIMES: u32 = 100_000;
    let driver = Driver::new(Layout::default()).expect("a driver");
    for bytes in [2, 4096] {
        let mut room = vec![0; bytes];
        let began = Instant::now();
        for n in 0..TIMES {
            let at = u64::from(n % 64) * 4096;
            driver
                .memory()
                .read_slice(&mut room, GuestAddress(at))
                .expect("memory");
        }
        let mapped = began.elapsed() / TIMES;
        let began = Instant::now();
        for n in 0..TIMES {
            let at = u64::from(n % 64) * 4096;
            driver.file().read_exact_at(&mut room, at).expect("memory");
        }
        println!(
            "{bytes} bytes: mapping {mapped:?}, pread {:?}",
            began.elapsed() / TIMES
        );
    }
}
