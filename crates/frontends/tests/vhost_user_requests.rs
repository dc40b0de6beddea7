//! Every type of request over a real socket, and guests that misbehave.

#[path = "../examples/memory_disk/mod.rs"]
mod memory_disk;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use memory_disk::{DiskBehavior, MemoryDisk, backend};
use sublet_frontends::backend::Backend;
use sublet_frontends::block_device::DiskShape;
use sublet_frontends::vhost_user::serve::{Settings, VhostUserService, start};
use sublet_types::TenantId;
use sublet_vhost_driver::{Driver, DriverCompletion, DriverRequest, DriverSettings, NO_STATUS};

const BYTES: u64 = 1 << 20;
const LONGEST: Duration = Duration::from_secs(10);

/// A folder with sockets, and what serving needs.
struct TestHost {
    folder: tempfile::TempDir,
    backend: Backend,
    tenant: TenantId,
}

/// A served disk.
struct DiskFixture {
    disk: Arc<MemoryDisk>,
    running: VhostUserService,
    path: PathBuf,
}

fn behavior() -> DiskBehavior {
    DiskBehavior {
        hits: 4,
        takes_writes: true,
        delay_max: Duration::from_micros(300),
    }
}

fn shape() -> DiskShape {
    DiskShape {
        bytes: BYTES,
        read_only: false,
        trims: true,
    }
}

impl TestHost {
    fn new() -> TestHost {
        let (backend, tenant) = backend();
        let folder = tempfile::tempdir().expect("a folder");
        TestHost {
            folder,
            backend,
            tenant,
        }
    }

    fn serve(&self, name: &str, shape: DiskShape, behavior: DiskBehavior) -> DiskFixture {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(shape.bytes).expect("its length");
        self.serve_file(name, shape, behavior, file)
    }

    fn serve_file(
        &self,
        name: &str,
        shape: DiskShape,
        behavior: DiskBehavior,
        file: File,
    ) -> DiskFixture {
        let path = self.folder.path().join(name);
        let disk = MemoryDisk::new(name, self.tenant, shape, file, behavior);
        let settings = Settings {
            queues: 2,
            ..Settings::default()
        };
        let running = start(
            Arc::clone(&disk) as _,
            &path,
            0o600,
            &self.backend,
            settings,
        );
        DiskFixture {
            disk,
            running: running.expect("it is served"),
            path,
        }
    }
}

fn connect(path: &Path, layout: DriverSettings) -> Driver {
    let mut driver = Driver::new(layout).expect("a driver");
    driver.connect(path).expect("a connection");
    driver
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + LONGEST;
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::yield_now();
    }
}

/// Submits one request to a queue, and waits for its completion.
fn submit_and_wait(
    driver: &mut Driver,
    n: usize,
    request: DriverRequest,
    bytes: &[u8],
) -> DriverCompletion {
    let queue = &mut driver.queues[n];
    let slot = queue.take_slot().expect("nothing is under way");
    queue.write_slot(slot, bytes).expect("it fits");
    queue.submit(slot, request).expect("it fits");
    queue.kick().expect("a kick");
    assert!(
        queue.wait(LONGEST).expect("a wait"),
        "no answer to {request:?}"
    );
    let answer = queue.reap().expect("an honest answer").expect("an answer");
    assert_eq!(answer.slot, slot);
    answer
}

fn read_slot(driver: &Driver, n: usize, answer: DriverCompletion, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    driver.queues[n]
        .read_slot(answer.slot, &mut bytes)
        .expect("they fit");
    bytes
}

fn read(driver: &mut Driver, sector: u64, bytes: u32) -> Vec<u8> {
    let answer = submit_and_wait(driver, 0, DriverRequest::Read { sector, bytes }, &[]);
    assert_eq!((answer.status, answer.written), (0, bytes + 1));
    read_slot(driver, 0, answer, bytes as usize)
}

fn write(driver: &mut Driver, sector: u64, bytes: &[u8]) {
    let len = bytes.len() as u32;
    let answer = submit_and_wait(
        driver,
        0,
        DriverRequest::Write { sector, bytes: len },
        bytes,
    );
    assert_eq!((answer.status, answer.written), (0, 1));
}

fn every_layout() -> Vec<DriverSettings> {
    let mut layouts = Vec::new();
    for (event_index, indirect) in [(true, true), (true, false), (false, true), (false, false)] {
        layouts.push(DriverSettings {
            queues: 2,
            event_index,
            indirect,
            ..DriverSettings::default()
        });
    }
    layouts
}

#[test]
fn every_kind_of_request_is_answered() {
    let host = TestHost::new();
    let fixture = host.serve("kinds", shape(), behavior());
    for layout in every_layout() {
        let mut driver = connect(&fixture.path, layout);
        let page: Vec<u8> = (0..8192u32).map(|n| (n / 7) as u8).collect();
        for sector in [0, 9, 40, 80] {
            write(&mut driver, sector, &page);
            assert_eq!(read(&mut driver, sector, 8192), page);
        }
        assert_eq!(read(&mut driver, 10, 512), page[512..1024]);
        let answer = submit_and_wait(&mut driver, 1, DriverRequest::Name, &[0xff; 20]);
        assert_eq!(
            read_slot(&driver, 1, answer, 20),
            b"kinds\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
        );
        assert_eq!(
            submit_and_wait(&mut driver, 1, DriverRequest::Flush, &[]).status,
            0
        );
        let zeroes = DriverRequest::Zeroes {
            sector: 9,
            sectors: 2,
            flags: 1,
        };
        assert_eq!(submit_and_wait(&mut driver, 1, zeroes, &[]).status, 0);
        assert_eq!(
            read(&mut driver, 9, 1536),
            [&[0; 1024][..], &page[1024..1536]].concat()
        );
        let discard = DriverRequest::Discard {
            sector: 0,
            sectors: 8,
            flags: 0,
        };
        assert_eq!(submit_and_wait(&mut driver, 1, discard, &[]).status, 0);
        assert_eq!(
            submit_and_wait(
                &mut driver,
                0,
                DriverRequest::Other {
                    kind: 77,
                    readable: 0
                },
                &[]
            )
            .status,
            2
        );
        let beyond = DriverRequest::Read {
            sector: BYTES / 512,
            bytes: 512,
        };
        assert_eq!(submit_and_wait(&mut driver, 0, beyond, &[]).status, 1);
        let odd = DriverRequest::Write {
            sector: 0,
            bytes: 100,
        };
        assert_eq!(submit_and_wait(&mut driver, 0, odd, &[]).status, 1);
        driver.hang_up();
    }
    assert!(fixture.disk.counts.flushes.load(Ordering::Relaxed) >= 4);
    assert!(fixture.disk.counts.trims.load(Ordering::Relaxed) >= 4);
    let path = fixture.path.clone();
    fixture.running.stop();
    assert!(!path.exists(), "the socket goes with the disk");
}

#[test]
fn the_config_space_tells_size_and_queues_and_takes_wce() {
    let host = TestHost::new();
    let fixture = host.serve("config", shape(), behavior());
    let mut driver = connect(&fixture.path, DriverSettings::default());
    let config = driver.config(0, 60).expect("a config");
    assert_eq!(config[..8], (BYTES / 512).to_le_bytes());
    assert_eq!(config[34..36], 2u16.to_le_bytes());
    assert_eq!(config[32], 1, "writes are cached");
    write(&mut driver, 0, &[1; 512]);
    assert_eq!(fixture.disk.counts.fua.load(Ordering::Relaxed), 0);
    driver.set_config(32, &[0]).expect("it may be turned off");
    assert_eq!(driver.config(32, 1).expect("a config"), [0]);
    driver.set_config(32, &[2]).expect("it may be any");
    assert_eq!(driver.config(32, 1).expect("a config"), [1]);
    driver.set_config(32, &[0]).expect("it may be turned off");
    write(&mut driver, 0, &[2; 512]);
    assert_eq!(fixture.disk.counts.fua.load(Ordering::Relaxed), 1);
    assert!(
        driver.set_config(0, &[1]).is_err(),
        "nothing else can be written to"
    );
    fixture.running.stop();
}

#[test]
fn a_read_only_disk_stays_as_it_is() {
    let host = TestHost::new();
    let fixed = DiskShape {
        read_only: true,
        ..shape()
    };
    let fixture = host.serve("fixed", fixed, behavior());
    let mut driver = connect(&fixture.path, DriverSettings::default());
    let answer = submit_and_wait(
        &mut driver,
        0,
        DriverRequest::Write {
            sector: 0,
            bytes: 512,
        },
        &[7; 512],
    );
    assert_eq!(answer.status, 1);
    assert_eq!(read(&mut driver, 0, 512), [0; 512]);
    fixture.running.stop();
}

#[test]
fn a_broken_chain_stops_its_own_queue_alone() {
    const NEXT: u16 = 1;
    const WRITE: u16 = 2;
    const INDIRECT: u16 = 4;
    let host = TestHost::new();
    let fixture = host.serve("chains", shape(), behavior());
    let layout = DriverSettings {
        queues: 2,
        slots: 8,
        ..DriverSettings::default()
    };
    let loops = (0, 16, NEXT, 100);
    let broken = [
        loops,
        (0, 0, WRITE, 0),
        (u64::MAX - 2, 16, WRITE, 0),
        (1 << 40, 16, WRITE, 0),
        (0, 16, NEXT, 127),
        (0, 17, INDIRECT, 0),
        (0, 16, INDIRECT | NEXT, 0),
        (0, 1, 0, 0),
    ];
    let figures = fixture.running.figures();
    for (n, descriptor) in (1..).zip(broken) {
        let mut driver = connect(&fixture.path, layout.clone());
        let queue = &mut driver.queues[1];
        queue
            .write_descriptor(100, descriptor)
            .expect("it is in memory");
        queue.push_available(100).expect("a place");
        queue.kick_anyway().expect("a kick");
        until(&format!("{descriptor:?} stops the queue"), || {
            figures.broken_rings.get() >= n
        });
        assert_eq!(queue.used_index().expect("in memory"), 0, "no answer");
        write(&mut driver, n, &[n as u8; 512]);
        assert_eq!(read(&mut driver, n, 512), [n as u8; 512]);
    }
    assert!(figures.faults.get() >= broken.len() as u64);
    fixture.running.stop();
}

#[test]
fn a_ring_that_makes_no_sense_rests_until_it_is_set_up_anew() {
    let host = TestHost::new();
    let fixture = host.serve("rings", shape(), behavior());
    let other = host.serve("other", shape(), behavior());
    let mut driver = connect(&fixture.path, DriverSettings::default());
    driver.queues[0]
        .set_available_index(5000)
        .expect("in memory");
    driver.queues[0].kick_anyway().expect("a kick");
    assert!(
        !driver.queues[0]
            .wait(Duration::from_millis(200))
            .expect("a wait")
    );
    assert_eq!(fixture.running.figures().broken_rings.get(), 1);
    let mut neighbour = connect(&other.path, DriverSettings::default());
    write(&mut neighbour, 0, &[3; 512]);
    driver.hang_up();
    let mut anew = connect(&fixture.path, DriverSettings::default());
    write(&mut anew, 0, &[4; 512]);
    let mut wild = Driver::new(DriverSettings::default()).expect("a driver");
    anew.hang_up();
    wild.connect(&fixture.path).expect("a connection");
    wild.queues[0].push_available(999).expect("a place");
    wild.queues[0].kick_anyway().expect("a kick");
    assert!(
        !wild.queues[0]
            .wait(Duration::from_millis(200))
            .expect("a wait")
    );
    assert_eq!(fixture.running.figures().broken_rings.get(), 2);
    fixture.running.stop();
    other.running.stop();
}

#[test]
fn a_queue_goes_on_when_its_memory_was_taken_and_given_again() {
    let host = TestHost::new();
    let fixture = host.serve("memory", shape(), behavior());
    let mut driver = connect(&fixture.path, DriverSettings::default());
    for n in 0..5 {
        write(&mut driver, n, &[n as u8; 512]);
        driver.change_memory().expect("it is taken");
        assert_eq!(read(&mut driver, n, 512), [n as u8; 512]);
    }
    assert_eq!(fixture.running.figures().broken_rings.get(), 0);
    fixture.running.stop();
}

#[test]
fn memory_that_is_cut_rests_its_own_queue_and_hurts_nobody() {
    let host = TestHost::new();
    let fixture = host.serve("cut", shape(), behavior());
    let other = host.serve("other", shape(), behavior());
    let mut neighbour = connect(&other.path, DriverSettings::default());
    let figures = fixture.running.figures();
    for n in 1..=3 {
        let layout = DriverSettings {
            sealed: false,
            ..DriverSettings::default()
        };
        let mut guest = connect(&fixture.path, layout);
        write(&mut guest, 7, &[n as u8; 4096]);
        let queue = &mut guest.queues[0];
        let slot = queue.take_slot().expect("nothing is under way");
        let over = DriverRequest::Write {
            sector: 7,
            bytes: 4096,
        };
        queue.submit(slot, over).expect("it fits");
        guest.file().set_len(0).expect("its memory is gone");
        guest.queues[0].kick_anyway().expect("a kick");
        until("the queue rests", || figures.broken_rings.get() >= n);
        write(&mut neighbour, 1, &[9; 4096]);
        assert_eq!(read(&mut neighbour, 1, 4096), [9; 4096]);
        drop(guest);
        let mut anew = connect(&fixture.path, DriverSettings::default());
        assert_eq!(read(&mut anew, 7, 4096), [n as u8; 4096]);
    }
    assert_eq!(figures.refused_memory.get(), 0);
    fixture.running.stop();
    other.running.stop();
}

#[test]
fn one_notification_for_many_answers_and_none_unless_wanted() {
    let host = TestHost::new();
    let at_once = DiskBehavior {
        hits: 8,
        takes_writes: true,
        delay_max: Duration::ZERO,
    };
    let fixture = host.serve("calls", shape(), at_once);
    let mut driver = connect(&fixture.path, DriverSettings::default());
    let queue = &mut driver.queues[0];
    queue.notifications();
    let slots: Vec<u16> = std::iter::from_fn(|| queue.take_slot()).collect();
    for slot in &slots {
        let read = DriverRequest::Read {
            sector: 8 * u64::from(*slot),
            bytes: 4096,
        };
        queue.submit(*slot, read).expect("it fits");
    }
    queue.kick().expect("a kick");
    let mut answered = 0;
    while answered < slots.len() {
        match queue.reap().expect("honest") {
            Some(answer) => {
                assert_eq!(answer.status, 0);
                answered += 1;
            }
            None => std::hint::spin_loop(),
        }
    }
    // The worker has sent every notification before it ends.
    fixture.running.stop();
    let calls = driver.queues[0].notifications();
    assert!(calls <= 1, "{calls} notifications of {answered} answers");
}

#[test]
fn a_queue_that_is_stopped_in_good_order_has_answered_all() {
    let host = TestHost::new();
    let fixture = host.serve("order", shape(), behavior());
    let mut driver = connect(&fixture.path, DriverSettings::default());
    for round in 0..10 {
        let queue = &mut driver.queues[0];
        while let Some(slot) = queue.take_slot() {
            let sector = u64::from(slot) * 8;
            queue.write_slot(slot, &[round; 4096]).expect("it fits");
            queue
                .submit(
                    slot,
                    DriverRequest::Write {
                        sector,
                        bytes: 4096,
                    },
                )
                .expect("it fits");
        }
        queue.kick().expect("a kick");
        let position = driver.stop_queue(0).expect("it stops");
        let used = driver.queues[0].used_index().expect("in memory");
        assert_eq!(u32::from(used), position, "all that was taken is answered");
        driver.restart_queue(0).expect("it starts");
        let queue = &mut driver.queues[0];
        while queue.free_slots() < 32 {
            match queue.reap().expect("honest") {
                Some(answer) => assert_eq!(answer.status, 0),
                None => assert!(queue.wait(LONGEST).expect("a wait"), "the rest is answered"),
            }
        }
    }
    let slot = driver.queues[0].take_slot().expect("none is under way");
    assert_ne!(NO_STATUS, 0);
    driver.queues[0].return_slot(slot);
    fixture.running.stop();
}

#[test]
fn what_a_leaving_disk_gives_back_is_left_to_the_next() {
    let host = TestHost::new();
    let file = tempfile::tempfile().expect("a file");
    file.set_len(BYTES).expect("its length");
    let again = file.try_clone().expect("a file");
    let leaving = host.serve_file("leaving", shape(), DiskBehavior::default(), file);
    leaving
        .disk
        .counts
        .is_leaving
        .store(true, Ordering::Relaxed);
    let mut driver = connect(&leaving.path, DriverSettings::default());
    let queue = &mut driver.queues[0];
    for sector in [0, 8] {
        let slot = queue.take_slot().expect("a slot");
        queue.write_slot(slot, &[6; 4096]).expect("it fits");
        let request = DriverRequest::Write {
            sector,
            bytes: 4096,
        };
        queue.submit(slot, request).expect("it fits");
    }
    queue.kick().expect("a kick");
    let answered = queue.wait(Duration::from_millis(200)).expect("a wait");
    assert!(!answered, "not even by an error");
    leaving.running.stop();
    let next = host.serve_file("leaving", shape(), DiskBehavior::default(), again);
    driver.connect(&next.path).expect("a connection");
    let queue = &mut driver.queues[0];
    for _ in 0..2 {
        assert!(queue.wait(LONGEST).expect("a wait"));
        let answer = queue.reap().expect("honest").expect("an answer");
        assert_eq!(answer.status, 0);
    }
    assert_eq!(read(&mut driver, 8, 4096), [6; 4096]);
    next.running.stop();
}
