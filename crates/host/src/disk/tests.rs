//! Tests of disks.

mod ailing;
mod far;
mod killed;
mod model;
mod notes;
mod sequential;
mod silent;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::fs::{MemfdFlags, SeekFrom, memfd_create};
use sublet_frontends::backend::Backend;
use sublet_frontends::block_device::{
    Buffer, Disk, DiskFastPath, DiskFault, DiskOperation, DiskOutcome, DiskRequest, Extent,
    ExtentLimit, Fua, Hole, OutcomeSink, ZeroSpeed, Zeroing,
};
use sublet_frontends::tenancy::{Clock, Ledger, StoreHandle};
use sublet_store::{PageSettings, Release, Store, StoreSettings};
use sublet_types::{
    Bytes, DiskKind, DiskSettings, Durability, FillPolicy, ReleaseMode, Second, SlowBacking,
    TenantSettings, Weight, WindowEviction,
};

use super::backing::{Backing, BackingAccess};
use super::error::DiskError;
use super::open::{DiskHistory, DiskOpenOptions, RunningDisk};
use super::stage::{Preface, Stage};
use crate::observe::events::Events;
use crate::peers::far_memory::FarMemory;
use crate::wait_until::wait_until;

/// Waits for one outcome at a time.
struct TestWaiter(Mutex<Sender<DiskOutcome>>);

impl OutcomeSink for TestWaiter {
    fn deliver(&self, outcome: DiskOutcome) {
        let _ = self.0.lock().send(outcome);
    }
}

fn backend(memory: Bytes, far_blocks: u32) -> Backend {
    let store = Store::new(StoreSettings {
        capacity: memory,
        limit: memory,
        item_max: Bytes::mib(1),
        seed: 5,
        evicts: true,
        pages: PageSettings {
            shards: 4,
            far_blocks,
            ..PageSettings::default()
        },
    });
    Backend {
        store: store.expect("a store"),
        clock: Clock::start(),
        ledger: Arc::new(Ledger::default()),
    }
}

struct Rig {
    backend: Backend,
    folder: tempfile::TempDir,
    stage: Option<Arc<Stage>>,
    settings: DiskSettings,
    open: Option<RunningDisk>,
    far: Option<FarMemory>,
}

const DISK_BYTES: u64 = 4 << 20;

fn settings(kind: DiskKind, backing: &Path) -> DiskSettings {
    DiskSettings {
        name: "db".parse().expect("a name"),
        kind,
        tenant: "t".parse().expect("a name"),
        backing: Some(backing.display().to_string()),
        size: (kind == DiskKind::Swap).then_some(Bytes(DISK_BYTES)),
        listen: Vec::new(),
        mode: 0o600,
        queues: 1,
        tls: None,
        read_only: false,
        durability: None,
        fill: None,
        windows: None,
        sequential_max: None,
        slow: None,
    }
}

fn stage(slots: u32) -> Arc<Stage> {
    let file = std::fs::File::from(memfd_create("stage", MemfdFlags::CLOEXEC).expect("a memfd"));
    file.set_len(Stage::file_bytes(slots)).expect("it grows");
    Preface::write(&file, slots).expect("written");
    Arc::new(Stage::open(file).expect("a stage"))
}

impl Rig {
    fn new(kind: DiskKind, change: impl FnOnce(&mut DiskSettings)) -> Rig {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("backing");
        if kind == DiskKind::Disk {
            std::fs::write(&path, vec![0; DISK_BYTES as usize]).expect("written");
        }
        let mut settings = settings(kind, &path);
        change(&mut settings);
        let mut rig = Rig {
            backend: backend(Bytes::mib(32), 8),
            folder,
            stage: (kind == DiskKind::Swap).then(|| stage(64)),
            settings,
            open: None,
            far: None,
        };
        rig.open();
        rig
    }

    fn open(&mut self) {
        let opened = self.try_open(DiskHistory::Written);
        self.open = Some(opened.expect("it opens"));
    }

    fn try_open(&self, history: DiskHistory) -> Result<RunningDisk, DiskError> {
        let tenant = self.backend.store.tenants().first().map(|tenant| tenant.id);
        let tenant = tenant.unwrap_or_else(|| {
            let settings = TenantSettings {
                name: "t".parse().expect("a name"),
                weight: Weight::default(),
                floor: None,
                ceiling: None,
            };
            self.backend.store.add_tenant(settings).expect("a tenant")
        });
        let opening = DiskOpenOptions {
            backend: &self.backend,
            tenant,
            stage: self.stage.clone(),
            is_own: false,
            may_make: history == DiskHistory::Written,
            mark: None,
            history,
            far: self.far.clone(),
            events: &Events::default(),
        };
        RunningDisk::start(&self.settings, &opening)
    }

    fn disk(&self) -> Arc<dyn Disk> {
        self.open.as_ref().expect("open").disk.clone()
    }

    fn handle(&self) -> Box<dyn DiskFastPath> {
        let Backend {
            store,
            clock,
            ledger,
            ..
        } = &self.backend;
        let store_handle = StoreHandle::new(store, *clock, ledger).expect("a worker");
        self.disk().fast_path(&store_handle)
    }

    fn begin(
        &self,
        verb: DiskOperation,
        at: u64,
        len: u64,
        buffer: Buffer,
    ) -> Receiver<DiskOutcome> {
        let (to, answers) = channel();
        self.disk().submit(DiskRequest {
            operation: verb,
            at,
            len,
            buffer,
            outcomes: Arc::new(TestWaiter(Mutex::new(to))),
            token: at,
        });
        answers
    }

    fn request(&self, verb: DiskOperation, at: u64, len: u64, buffer: Buffer) -> DiskOutcome {
        let answers = self.begin(verb, at, len, buffer);
        let outcome = answers.recv_timeout(Duration::from_secs(20));
        outcome.unwrap_or_else(|_| panic!("unanswered {verb:?} at {at} len {len}"))
    }

    fn read(&self, handle: &dyn DiskFastPath, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0xee; len];
        if handle.read(at, &mut bytes) {
            return bytes;
        }
        let outcome = self.request(DiskOperation::Read, at, len as u64, Buffer::zeroed(len));
        assert_eq!(outcome.result, Ok(()));
        outcome.buffer.to_vec()
    }

    fn write(&self, handle: &dyn DiskFastPath, at: u64, bytes: &[u8]) {
        if handle.write(at, bytes, Fua::Off) {
            return;
        }
        let mut buffer = Buffer::zeroed(bytes.len());
        buffer.copy_from_slice(bytes);
        let verb = DiskOperation::Write { fua: Fua::Off };
        let outcome = self.request(verb, at, bytes.len() as u64, buffer);
        assert_eq!(outcome.result, Ok(()));
    }

    fn end(&mut self) {
        if let Some(open) = self.open.take() {
            open.end();
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.end();
    }
}

/// What a file has at an offset, as the kernel says.
fn first_extent(file: &std::fs::File, at: u64) -> Extent {
    let data = rustix::fs::seek(file, SeekFrom::Data(at)).unwrap_or(DISK_BYTES);
    let hole = data > at;
    let end = match hole {
        true => data,
        false => rustix::fs::seek(file, SeekFrom::Hole(at)).expect("an end"),
    };
    let len = end - at;
    Extent { len, hole }
}

/// Writes, zeroes and trims between queries for one extent. The queries go through the disk in order or begin anywhere.
/// Each answer is what the file has at that moment, and never calls bytes a hole.
#[test]
fn one_extent_is_what_the_file_has_whatever_was_changed_before() {
    let rig = Rig::new(DiskKind::Disk, |_| {});
    let handle = rig.handle();
    let path = rig.settings.backing.as_ref().expect("a path");
    let file = std::fs::File::open(path).expect("opened");
    let (mut state, mut at, mut at_once) = (7_u64, 0, 0);
    let mut next = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % below
    };
    for step in 0..4000 {
        let page = next(DISK_BYTES / 4096) * 4096;
        let hole = DiskOperation::Zero(Zeroing {
            hole: Hole::Allowed,
            speed: ZeroSpeed::Any,
            fua: Fua::Off,
        });
        match next(16) {
            0 => rig.write(&*handle, page, &[1; 4096]),
            way @ (1 | 2) => {
                let len = (8 * 4096).min(DISK_BYTES - page);
                let verb = if way == 1 { hole } else { DiskOperation::Trim };
                let outcome = rig.request(verb, page, len, Buffer::default());
                assert_eq!(outcome.result, Ok(()));
            }
            3 => at = page,
            _ => {
                let len = DISK_BYTES - at;
                let known = handle.extent(at, len);
                at_once += u32::from(known.is_some());
                let extent = known.unwrap_or_else(|| {
                    let one = DiskOperation::Extents {
                        limit: ExtentLimit::One,
                    };
                    rig.request(one, at, len, Buffer::default()).extents[0]
                });
                assert_eq!(extent, first_extent(&file, at), "at {at}, step {step}");
                at = (at + extent.len) % DISK_BYTES;
            }
        }
    }
    assert!(at_once > 500, "{at_once} of them were known");
}

/// A client that reads in order finds the next pages in memory.
#[test]
fn what_follows_is_read_ahead() {
    let rig = Rig::new(DiskKind::Disk, |_| {});
    let handle = rig.handle();
    for page in 0..2 {
        rig.read(&*handle, page * 4096, 4096);
    }
    wait_until("it is read ahead", || handle.read(3 * 4096, &mut [0; 4096]));
}

/// Puts pages on a rig's stage, as an earlier daemon that acknowledged them and was killed. Each page is full of its
/// number plus one.
fn leave_behind(rig: &mut Rig, pages: impl Iterator<Item = u8>) {
    rig.end();
    let path = rig.settings.backing.clone().expect("a path");
    let backing = Backing::open(Path::new(&path), BackingAccess::ReadWrite).expect("opened");
    let mark = backing.mark().expect("a mark");
    drop(backing);
    let stage = rig.stage.clone().expect("a stage");
    let killed = stage.register(&rig.settings.name, mark);
    for page in pages {
        let put = stage.put(killed, page.into(), &[page + 1; 4096]);
        assert!(put.is_ok());
    }
    rig.open();
}

/// Makes all pages of a backing such that their words differ. Otherwise they would take no frames.
fn scribble(rig: &Rig) {
    let bytes: Vec<u8> = (0..DISK_BYTES).map(|n| (n % 251) as u8).collect();
    let path = rig.settings.backing.as_ref().expect("a path");
    std::fs::write(path, bytes).expect("written");
}

fn written(rig: &Rig) -> Vec<u8> {
    std::fs::read(rig.settings.backing.as_ref().expect("a path")).expect("read")
}

/// The daemon that follows a killed one finds on the stage what was acknowledged.
#[test]
fn swap_outlives_its_daemon() {
    let mut rig = Rig::new(DiskKind::Swap, |_| {});
    leave_behind(&mut rig, 0..20);
    let handle = rig.handle();
    for page in 0..20 {
        assert!(rig.read(&*handle, page * 4096, 4096) == [page as u8 + 1; 4096]);
    }
    drop(handle);
    rig.end();
    assert!(written(&rig)[19 * 4096..20 * 4096] == [20; 4096]);
}

/// This includes what an earlier daemon acknowledged while the durability allowed it.
#[test]
fn a_flush_of_swap_that_is_written_through_covers_all() {
    let mut rig = Rig::new(DiskKind::Swap, |settings| {
        settings.durability = Some(Durability::WriteThrough);
        settings.slow = Some(SlowBacking {
            latency: Duration::from_millis(5),
            bandwidth: None,
        });
    });
    leave_behind(&mut rig, (0..40).step_by(2));
    let flushed = rig.request(DiskOperation::Flush, 0, 0, Buffer::default());
    assert_eq!(flushed.result, Ok(()));
    let written = written(&rig);
    for page in (0..40).step_by(2) {
        assert!(written[page * 4096..][..4096] == [page as u8 + 1; 4096]);
    }
}

/// A page is written as a whole while its rest is read for a write of a part. Whichever comes last, the rest of the
/// page is what was written as a whole.
#[test]
fn a_part_of_a_page_takes_nothing_older_along() {
    let rig = Rig::new(DiskKind::Swap, |settings| {
        settings.slow = Some(SlowBacking {
            latency: Duration::from_millis(5),
            bandwidth: None,
        });
    });
    let handle = rig.handle();
    for n in 0..40u8 {
        let at = u64::from(n) * 4096;
        let (to, answers) = channel();
        let mut buffer = Buffer::zeroed(512);
        buffer.fill(1);
        rig.disk().submit(DiskRequest {
            operation: DiskOperation::Write { fua: Fua::Off },
            at,
            len: 512,
            buffer,
            outcomes: Arc::new(TestWaiter(Mutex::new(to))),
            token: 0,
        });
        std::thread::sleep(Duration::from_micros(u64::from(n) * 200));
        rig.write(&*handle, at, &[2 + n; 4096]);
        let outcome = answers.recv_timeout(Duration::from_secs(20));
        assert_eq!(outcome.expect("answered").result, Ok(()));
        let page = rig.read(&*handle, at, 4096);
        assert!(page[512..].iter().all(|byte| *byte == 2 + n), "round {n}");
        assert!(page[..512].iter().all(|byte| [1, 2 + n].contains(byte)));
    }
}

/// Parts of pages and zeroes are acknowledged from memory, as whole pages are. The backing is read for the rest of a
/// page, and written later.
#[test]
fn parts_of_pages_and_zeroes_of_swap_wait_for_no_write() {
    let rig = Rig::new(DiskKind::Swap, |settings| {
        settings.durability = Some(Durability::Memory);
    });
    let handle = rig.handle();
    let zero = |at, len| {
        let verb = DiskOperation::Zero(Zeroing {
            hole: Hole::Allowed,
            speed: ZeroSpeed::FastOnly,
            fua: Fua::On,
        });
        let outcome = rig.request(verb, at, len, Buffer::default());
        assert_eq!(outcome.result, Ok(()));
    };
    rig.write(&*handle, 4096, &[1; 8192]);
    rig.write(&*handle, 4096 - 512, &[2; 1024]);
    zero(8192 - 512, 1024);
    zero(16384, 8192);
    let mut model = [0; 24576];
    model[4096..12288].fill(1);
    model[3584..4608].fill(2);
    model[7680..8704].fill(0);
    assert!(rig.read(&*handle, 0, model.len()) == model);

    let disk = &rig.open.as_ref().expect("open").disk;
    assert_eq!(disk.tallies.sum().written_through, 0);
    assert_eq!(disk.swap.as_ref().expect("swap").dirty(), 5);
    let path = rig.settings.backing.as_ref().expect("a path");
    let backing = std::fs::read(path).expect("read");
    assert!(backing.iter().all(|byte| *byte == 0), "nothing is written");
}

/// The end comes while requests wait and pages are staged. Each request is answered, all is written, nothing hangs.
#[test]
fn a_disk_ends_with_everything_done() {
    let mut rig = Rig::new(DiskKind::Swap, |settings| {
        settings.slow = Some(SlowBacking {
            latency: Duration::from_millis(2),
            bandwidth: None,
        });
    });
    let handle = rig.handle();
    let (to, answers) = channel();
    let to = Arc::new(TestWaiter(Mutex::new(to)));
    for n in 0..200 {
        handle.write(n % 60 * 4096, &[n as u8; 4096], Fua::Off);
        rig.disk().submit(DiskRequest {
            operation: DiskOperation::Read,
            at: 2 << 20,
            len: 4096,
            buffer: Buffer::zeroed(4096),
            outcomes: Arc::clone(&to) as Arc<dyn OutcomeSink>,
            token: n,
        });
    }
    let staged = rig.stage.clone().expect("a stage");
    drop(handle);
    rig.end();
    assert_eq!(answers.try_iter().count(), 200);
    assert!(staged.disks().is_empty(), "all is on the backing");
}

/// A part of a page waits for its rest while its disk ends. Nothing is staged when no task is left to write it.
#[test]
fn a_part_of_a_page_that_is_written_at_the_end_reaches_the_backing() {
    let mut rig = Rig::new(DiskKind::Swap, |settings| {
        settings.slow = Some(SlowBacking {
            latency: Duration::from_millis(100),
            bandwidth: None,
        });
    });
    let mut buffer = Buffer::zeroed(512);
    buffer.fill(7);
    let answers = rig.begin(DiskOperation::Write { fua: Fua::Off }, 512, 512, buffer);
    let staged = rig.stage.clone().expect("a stage");
    rig.end();
    let outcome = answers.recv_timeout(Duration::from_secs(20));
    assert_eq!(outcome.expect("answered").result, Ok(()));
    assert!(staged.disks().is_empty(), "it comes back");
    assert_eq!(written(&rig)[512..1024], [7; 512]);
}

/// A part of a file is not served as a disk. A disk that was served at that size before still is.
#[test]
fn a_backing_has_the_size_that_was_said() {
    for kind in [DiskKind::Disk, DiskKind::Swap] {
        let mut rig = Rig::new(kind, |_| {});
        rig.end();
        for wrong in [DISK_BYTES / 2, DISK_BYTES * 2] {
            rig.settings.size = Some(Bytes(wrong));
            let refused = rig.try_open(DiskHistory::Written).err();
            let refused = refused.expect("refused").to_string();
            for bytes in [DISK_BYTES, wrong] {
                assert!(refused.contains(&format!("({bytes} bytes)")), "{refused}");
            }
        }
        assert!(
            rig.try_open(DiskHistory::Served).is_err(),
            "it is shorter now"
        );
        rig.settings.size = Some(Bytes(DISK_BYTES / 2));
        let served = rig.try_open(DiskHistory::Served).expect("it opens");
        assert_eq!(served.disk.size(), Bytes(DISK_BYTES / 2));
        served.end();
        // A disk that its owner gave another size than the config.
        let served = rig.try_open(DiskHistory::Resized).expect("it opens");
        assert_eq!(served.disk.size(), Bytes(DISK_BYTES / 2));
        served.end();
        rig.settings.size = Some(Bytes(2 * DISK_BYTES));
        assert!(
            rig.try_open(DiskHistory::Resized).is_err(),
            "it is shorter now"
        );
        rig.settings.size = Some(Bytes(DISK_BYTES));
        rig.open();
    }
}

/// A guest addresses sectors. What is left over at the end is not its own, and stays as it is.
#[test]
fn a_backing_of_any_size_is_served_in_whole_sectors() {
    for (kind, said) in [
        (DiskKind::Disk, None),
        (DiskKind::Disk, Some(Bytes(DISK_BYTES + 700))),
        (DiskKind::Swap, Some(Bytes(DISK_BYTES + 700))),
    ] {
        let mut rig = Rig::new(kind, |_| {});
        rig.end();
        let path = rig.settings.backing.clone().expect("a backing");
        let mut file = written(&rig);
        file.extend_from_slice(&[7; 700]);
        std::fs::write(&path, &file).expect("written");
        rig.settings.size = said;
        rig.open();
        let end = DISK_BYTES + 512;
        assert_eq!(rig.disk().shape().bytes, end);
        let handle = rig.handle();
        rig.write(&*handle, end - 512, &[8; 512]);
        assert_eq!(rig.read(&*handle, end - 512, 512), [8; 512]);
        drop(handle);
        rig.end();
        let file = written(&rig);
        assert_eq!(file.len() as u64, DISK_BYTES + 700);
        assert_eq!(file[end as usize - 512..end as usize], [8; 512]);
        assert_eq!(file[end as usize..], [7; 188]);
    }
}

#[test]
fn what_is_out_of_range_or_read_only_is_refused() {
    let rig = Rig::new(DiskKind::Disk, |settings| settings.read_only = true);
    let outcome = rig.request(
        DiskOperation::Read,
        DISK_BYTES - 512,
        1024,
        Buffer::zeroed(1024),
    );
    assert_eq!(outcome.result, Err(DiskFault::OutOfRange));
    let write = DiskOperation::Write { fua: Fua::Off };
    let outcome = rig.request(write, 0, 512, Buffer::zeroed(512));
    assert_eq!(outcome.result, Err(DiskFault::ReadOnly));
    assert!(!rig.handle().write(0, &[0; 4096], Fua::Off));
}

/// Memory answers for a page from its second miss on.
#[test]
fn what_was_missed_twice_is_kept() {
    let rig = Rig::new(DiskKind::Disk, |_| {});
    let handle = rig.handle();
    assert!(!handle.read(8192, &mut [0; 4096]));
    rig.read(&*handle, 8192, 4096);
    assert!(!handle.read(8192, &mut [0; 4096]), "missed once");
    rig.read(&*handle, 8192, 4096);
    assert!(handle.read(8192, &mut [0; 4096]));
    assert!(handle.read(8192 + 100, &mut [0; 1000]), "a part of it too");
    let figures = rig.open.as_ref().expect("open").disk.tallies.sum();
    assert_eq!((figures.hits, figures.misses), (2, 2));
}

/// Memory is taken from a disk whose windows leave as a whole. Of each eight pages all stay, or none.
#[test]
fn windows_leave_whole_where_a_disk_is_told_to() {
    let rig = Rig::new(DiskKind::Disk, |settings| {
        settings.fill = Some(FillPolicy::Miss);
        settings.windows = Some(WindowEviction::Whole);
    });
    scribble(&rig);
    let handle = rig.handle();
    for at in (0..DISK_BYTES).step_by(64 << 10) {
        rig.read(&*handle, at, 64 << 10);
    }
    // Single pages are read now, so that some of each window are hotter than others.
    for page in (0..DISK_BYTES / 4096).step_by(5) {
        rig.read(&*handle, page * 4096, 4096);
    }
    let store = &rig.backend.store;
    let release = Release {
        amount: store.held() - Bytes::mib(2),
        mode: ReleaseMode::Ordered,
        tenant: None,
    };
    let worker = store.worker().expect("a worker");
    let released = worker.release(release, Second(1));
    assert!(released.pages_lost.0 > 0, "{released:?}");
    let has = |page: &u64| handle.read(page * 4096, &mut [0; 4096]);
    for window in 0..DISK_BYTES / 4096 / 8 {
        let left = (window * 8..window * 8 + 8).filter(has).count();
        assert!([0, 8].contains(&left), "{left} of window {window}");
    }
}
