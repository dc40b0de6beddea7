//! A daemon that dies under I/O, a daemon that is stopped, and a VMM that goes and comes back. Every request is
//! answered once, and every byte is what was written.

#[allow(dead_code, reason = "what the disk counts is for others")]
#[path = "../examples/memory_disk/mod.rs"]
mod memory_disk;

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use memory_disk::{DiskBehavior, MemoryDisk, backend};
use sublet_frontends::backend::Backend;
use sublet_frontends::block_device::DiskShape;
use sublet_frontends::vhost_user::serve::{Settings, VhostUserService, start};
use sublet_types::TenantId;
use sublet_vhost_driver::{Driver, DriverQueue, DriverRequest, DriverSettings};

/// How many kills, and how many returns of each kind.
const ROUNDS: u64 = 20;

/// How many blocks a queue's part of the disk has, and how many bytes a block has.
const BLOCKS: u64 = 96;
const BLOCK: usize = 8192;

const QUEUES: u16 = 2;
const LONGEST: Duration = Duration::from_secs(20);
const SOCKET: &str = "SUBLET_TEST_VHOST_SOCKET";
const FILE: &str = "SUBLET_TEST_VHOST_FILE";

fn shape() -> DiskShape {
    DiskShape {
        bytes: BLOCKS * u64::from(QUEUES) * BLOCK as u64,
        read_only: false,
        trims: true,
    }
}

fn serve(path: &Path, file: &Path, backend: &Backend, tenant: TenantId) -> VhostUserService {
    let behavior = DiskBehavior {
        hits: 3,
        takes_writes: false,
        delay_max: Duration::from_micros(400),
    };
    let file = OpenOptions::new().read(true).write(true).open(file);
    let file = file.expect("the disk's file");
    let settings = Settings {
        queues: QUEUES,
        ..Settings::default()
    };
    let disk = MemoryDisk::new("replayed", tenant, shape(), file, behavior);
    start(disk, path, 0o600, backend, settings).expect("it is served")
}

/// The process that the next test kills. It is no test of its own.
#[test]
#[ignore = "run by `a_killed_daemon_loses_and_repeats_nothing`"]
fn daemon() {
    let (Ok(socket), Ok(file)) = (std::env::var(SOCKET), std::env::var(FILE)) else {
        return;
    };
    let (backend, tenant) = backend();
    let _running = serve(Path::new(&socket), Path::new(&file), &backend, tenant);
    std::thread::sleep(Duration::from_secs(120));
}

/// What a queue's part of the disk must hold, and what is under way.
struct Oracle {
    first_block: u64,
    versions: Vec<u64>,
    under_way: HashMap<u16, (u64, PendingOperation)>,
    random: u64,
    written: u64,
    checked: u64,
}

#[derive(Clone, Copy)]
enum PendingOperation {
    Read,
    Write(u64),
    Zero,
    Flush,
}

/// A block's bytes: its number and its version, repeated. Version 0 is zeroes.
fn pattern(block: u64, version: u64) -> Vec<u8> {
    let word = match version {
        0 => [0; 8],
        _ => (block << 40 | version).to_le_bytes(),
    };
    word.repeat(BLOCK / 8)
}

impl Oracle {
    fn new(queue: u64) -> Oracle {
        Oracle {
            first_block: queue * BLOCKS,
            versions: vec![0; BLOCKS as usize],
            under_way: HashMap::new(),
            random: 77 + queue,
            written: 0,
            checked: 0,
        }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    /// Fills the queue. No two requests under way touch the same block.
    fn submit(&mut self, queue: &mut DriverQueue) {
        while let Some(slot) = queue.take_slot() {
            let block = self.draw(BLOCKS);
            if self.under_way.values().any(|(other, _)| *other == block) {
                queue.return_slot(slot);
                break;
            }
            let sector = (self.first_block + block) * (BLOCK / 512) as u64;
            let (request, pending) = match self.draw(16) {
                0 => (DriverRequest::Flush, PendingOperation::Flush),
                1 => {
                    let sectors = (BLOCK / 512) as u32;
                    (
                        DriverRequest::Zeroes {
                            sector,
                            sectors,
                            flags: 0,
                        },
                        PendingOperation::Zero,
                    )
                }
                2..8 => (
                    DriverRequest::Read {
                        sector,
                        bytes: BLOCK as u32,
                    },
                    PendingOperation::Read,
                ),
                _ => {
                    self.written += 1;
                    let version = self.written;
                    let bytes = pattern(self.first_block + block, version);
                    queue.write_slot(slot, &bytes).expect("it fits");
                    let request = DriverRequest::Write {
                        sector,
                        bytes: BLOCK as u32,
                    };
                    (request, PendingOperation::Write(version))
                }
            };
            self.under_way.insert(slot, (block, pending));
            queue.submit(slot, request).expect("it fits");
        }
        queue.kick().expect("a kick");
    }

    /// Checks the answers that came, and returns how many. The driver itself fails on an invalid answer.
    fn reap(&mut self, queue: &mut DriverQueue) -> u64 {
        let mut answered = 0;
        while let Some(answer) = queue.reap().expect("each is answered once") {
            assert_eq!(answer.status, 0);
            answered += 1;
            let (block, pending) = self.under_way.remove(&answer.slot).expect("it was asked");
            let version = &mut self.versions[block as usize];
            match pending {
                PendingOperation::Write(written) => *version = written,
                PendingOperation::Zero => *version = 0,
                PendingOperation::Flush => {}
                PendingOperation::Read => {
                    let mut bytes = vec![0; BLOCK];
                    queue.read_slot(answer.slot, &mut bytes).expect("they fit");
                    let wanted = pattern(self.first_block + block, *version);
                    assert!(bytes == wanted, "block {block} is not version {version}");
                    self.checked += 1;
                }
            }
        }
        answered
    }

    fn drain(&mut self, queue: &mut DriverQueue) {
        queue.kick().expect("a kick");
        while !self.under_way.is_empty() {
            assert!(queue.wait(LONGEST).expect("a wait"), "a request hangs");
            self.reap(queue);
        }
    }

    fn check_file(&self, file: &File) {
        for (block, version) in self.versions.iter().enumerate() {
            let block = self.first_block + block as u64;
            let mut bytes = vec![0; BLOCK];
            let at = block * BLOCK as u64;
            file.read_exact_at(&mut bytes, at)
                .expect("the disk's bytes");
            assert!(bytes == pattern(block, *version), "block {block} on disk");
        }
    }
}

/// Which optional features of the virtqueue a driver uses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RingFeatures {
    /// Event index and indirect tables.
    All,
    /// None of them.
    Basic,
}

struct ReplayTest {
    driver: Driver,
    oracles: Vec<Oracle>,
    folder: tempfile::TempDir,
}

impl ReplayTest {
    fn new(features: RingFeatures) -> ReplayTest {
        let folder = tempfile::tempdir().expect("a folder");
        let file = File::create(folder.path().join("file")).expect("a file");
        file.set_len(shape().bytes).expect("its length");
        let layout = DriverSettings {
            queues: QUEUES,
            slots: 24,
            slot_bytes: BLOCK as u32,
            event_index: features == RingFeatures::All,
            indirect: features == RingFeatures::All,
            ..DriverSettings::default()
        };
        ReplayTest {
            driver: Driver::new(layout).expect("a driver"),
            oracles: (0..u64::from(QUEUES)).map(Oracle::new).collect(),
            folder,
        }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("file")
    }

    fn connect(&mut self) {
        let (socket, started) = (self.socket(), Instant::now());
        while let Err(error) = self.driver.connect(&socket) {
            assert!(started.elapsed() < LONGEST, "nobody listens: {error}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Keeps all queues full until so many requests were answered.
    fn drive(&mut self, answers: u64) {
        let (mut answered, started) = (0, Instant::now());
        while answered < answers {
            assert!(started.elapsed() < LONGEST, "requests hang");
            for (oracle, queue) in self.oracles.iter_mut().zip(&mut self.driver.queues) {
                answered += oracle.reap(queue);
                oracle.submit(queue);
            }
            std::thread::yield_now();
        }
    }

    fn under_way(&self) -> usize {
        self.oracles
            .iter()
            .map(|oracle| oracle.under_way.len())
            .sum()
    }

    fn finish(mut self) {
        for (oracle, queue) in self.oracles.iter_mut().zip(&mut self.driver.queues) {
            oracle.drain(queue);
        }
        let file = File::open(self.file()).expect("the disk's file");
        for oracle in &self.oracles {
            oracle.check_file(&file);
            assert!(oracle.written > 100 && oracle.checked > 50);
        }
    }
}

struct DaemonProcess(Child);

impl Drop for DaemonProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start_daemon(test: &ReplayTest) -> DaemonProcess {
    let program = std::env::current_exe().expect("this program");
    let child = Command::new(program)
        .args(["daemon", "--exact", "--ignored", "--quiet"])
        .env(SOCKET, test.socket())
        .env(FILE, test.file())
        .stdout(std::process::Stdio::null())
        .spawn();
    DaemonProcess(child.expect("another process"))
}

#[test]
fn a_killed_daemon_loses_and_repeats_nothing() {
    let mut test = ReplayTest::new(RingFeatures::All);
    let mut unanswered = 0;
    for round in 0..ROUNDS {
        let daemon = start_daemon(&test);
        test.connect();
        test.drive(60 + round * 7);
        drop(daemon);
        unanswered += test.under_way();
    }
    assert!(
        unanswered > 200,
        "it was killed under I/O, {unanswered} requests at once"
    );
    let _last = start_daemon(&test);
    test.connect();
    test.finish();
}

#[test]
fn a_stopped_daemon_loses_and_repeats_nothing() {
    let mut test = ReplayTest::new(RingFeatures::Basic);
    let (backend, tenant) = backend();
    let mut unanswered = 0;
    for round in 0..ROUNDS {
        let running = serve(&test.socket(), &test.file(), &backend, tenant);
        test.connect();
        test.drive(40 + round * 5);
        running.stop();
        unanswered += test.under_way();
    }
    assert!(unanswered > 200, "it was stopped under I/O");
    let running = serve(&test.socket(), &test.file(), &backend, tenant);
    test.connect();
    test.finish();
    running.stop();
}

#[test]
fn a_vmm_that_comes_back_finds_its_queues_as_it_left_them() {
    let mut test = ReplayTest::new(RingFeatures::All);
    let (backend, tenant) = backend();
    let running = serve(&test.socket(), &test.file(), &backend, tenant);
    for round in 0..ROUNDS {
        test.connect();
        test.drive(30 + round * 5);
        test.driver.hang_up();
    }
    test.connect();
    test.finish();
    assert_eq!(running.figures().connections_made.get(), ROUNDS + 1);
    running.stop();
}
