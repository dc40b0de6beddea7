//! A disk against a model: an array of bytes.

mod ailing;
mod killed;
mod notes;
mod silent;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::fs::{MemfdFlags, SeekFrom, memfd_create};
use sublet_frontends::backend::Backend;
use sublet_frontends::block::{
    Buffer, Desk, Disk, Extent, Fault, Outcome, Outcomes, Request, Verb,
};
use sublet_frontends::tenancy::{Clock, Doorman, Ledger};
use sublet_store::{PageSettings, Release, Store, StoreSettings};
use sublet_types::{
    Bytes, DiskKind, DiskSettings, Durability, Fill, ReleaseMode, Second, Slow, TenantSettings,
    Weight, Windows,
};

use super::backing::Backing;
use super::error::DiskError;
use super::open::{History, OpenDisk, Opening};
use super::stage::{Preface, Stage};
use crate::observe::events::Events;

/// Somebody who waits for one outcome at a time.
struct Asker(Mutex<Sender<Outcome>>);

impl Outcomes for Asker {
    fn done(&self, outcome: Outcome) {
        let _ = self.0.lock().send(outcome);
    }
}

fn backend(memory: Bytes) -> Backend {
    let store = Store::new(StoreSettings {
        capacity: memory,
        limit: memory,
        item_max: Bytes::mib(1),
        seed: 5,
        evicts: true,
        pages: PageSettings {
            shards: 4,
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
    _folder: tempfile::TempDir,
    stage: Option<Arc<Stage>>,
    settings: DiskSettings,
    open: Option<OpenDisk>,
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
            backend: backend(Bytes::mib(32)),
            _folder: folder,
            stage: (kind == DiskKind::Swap).then(|| stage(64)),
            settings,
            open: None,
        };
        rig.open();
        rig
    }

    fn open(&mut self) {
        let opened = self.try_open(History::Written);
        self.open = Some(opened.expect("it opens"));
    }

    fn try_open(&self, history: History) -> Result<OpenDisk, DiskError> {
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
        let opening = Opening {
            backend: &self.backend,
            tenant,
            stage: self.stage.clone(),
            is_own: false,
            may_make: history == History::Written,
            mark: None,
            history,
            events: &Events::default(),
        };
        OpenDisk::start(&self.settings, &opening)
    }

    fn disk(&self) -> Arc<dyn Disk> {
        self.open.as_ref().expect("open").disk.clone()
    }

    fn desk(&self) -> Box<dyn Desk> {
        let Backend {
            store,
            clock,
            ledger,
        } = &self.backend;
        let doorman = Doorman::new(store, *clock, ledger).expect("a worker");
        self.disk().desk(&doorman)
    }

    fn begin(&self, verb: Verb, at: u64, len: u64, buffer: Buffer) -> Receiver<Outcome> {
        let (to, answers) = channel();
        self.disk().start(Request {
            verb,
            at,
            len,
            buffer,
            to: Arc::new(Asker(Mutex::new(to))),
            token: at,
        });
        answers
    }

    fn ask(&self, verb: Verb, at: u64, len: u64, buffer: Buffer) -> Outcome {
        let answers = self.begin(verb, at, len, buffer);
        let outcome = answers.recv_timeout(Duration::from_secs(20));
        outcome.unwrap_or_else(|_| panic!("unanswered {verb:?} at {at} len {len}"))
    }

    fn read(&self, desk: &dyn Desk, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0xee; len];
        if desk.read(at, &mut bytes) {
            return bytes;
        }
        let outcome = self.ask(Verb::Read, at, len as u64, Buffer::zeroed(len));
        assert_eq!(outcome.result, Ok(()));
        outcome.buffer.to_vec()
    }

    fn write(&self, desk: &dyn Desk, at: u64, bytes: &[u8]) {
        if desk.write(at, bytes, false) {
            return;
        }
        let mut buffer = Buffer::zeroed(bytes.len());
        buffer.copy_from_slice(bytes);
        let verb = Verb::Write { lasting: false };
        let outcome = self.ask(verb, at, bytes.len() as u64, buffer);
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

/// A deterministic walk of reads, writes, trims and zeroes of any alignment, beside an array.
fn a_disk_is_an_array(kind: DiskKind, change: impl FnOnce(&mut DiskSettings)) {
    let mut rig = Rig::new(kind, change);
    let mut model = vec![0u8; DISK_BYTES as usize];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut desk = rig.desk();
    for step in 0..3000 {
        let aligned = next(3) > 0;
        let unit = if aligned { 4096 } else { 512 };
        let at = next(DISK_BYTES / unit) * unit;
        let len = (1 + next(40)) * unit;
        let len = len.min(DISK_BYTES - at);
        let range = at as usize..(at + len) as usize;
        match next(10) {
            0..=4 => {
                let got = rig.read(&*desk, at, len as usize);
                assert!(
                    got == model[range],
                    "read at {at}, {len} bytes, step {step}"
                );
            }
            5..=7 => {
                model[range.clone()].fill(next(256) as u8);
                rig.write(&*desk, at, &model[range]);
            }
            8 => {
                let zero = Verb::Zero {
                    hole: next(2) == 0,
                    fast: false,
                    lasting: false,
                };
                let outcome = rig.ask(zero, at, len, Buffer::default());
                assert_eq!(outcome.result, Ok(()));
                model[range].fill(0);
            }
            _ => {
                // After a trim anything may be there: the next write says what.
                if !desk.trim(at, len) {
                    assert_eq!(
                        rig.ask(Verb::Trim, at, len, Buffer::default()).result,
                        Ok(())
                    );
                }
                rig.write(&*desk, at, &model[range]);
            }
        }
        if step % 500 == 499 {
            assert_eq!(rig.ask(Verb::Flush, 0, 0, Buffer::default()).result, Ok(()));
            drop(desk);
            rig.end();
            rig.open();
            desk = rig.desk();
        }
    }
    drop(desk);
    rig.end();
    let left = std::fs::read(rig.settings.backing.as_ref().expect("a path")).expect("read");
    assert!(left == model, "the backing has everything in the end");
}

#[test]
fn a_cached_disk_is_an_array() {
    a_disk_is_an_array(DiskKind::Disk, |_| {});
}

#[test]
fn a_disk_that_keeps_what_is_missed_twice_is_an_array() {
    a_disk_is_an_array(DiskKind::Disk, |settings| {
        settings.fill = Some(Fill::SecondMiss);
        settings.sequential_max = Some(8);
    });
}

#[test]
fn a_disk_that_drops_what_is_read_is_an_array() {
    a_disk_is_an_array(DiskKind::Disk, |settings| {
        settings.fill = Some(Fill::DropOnRead);
    });
}

/// What a file has at a place, as the kernel tells.
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

/// Writes, zeroes and trims between questions for one extent, which go through the disk in order or begin anywhere: each
/// answer is what the file has at that moment, and bytes are never called a hole.
#[test]
fn one_extent_is_what_the_file_has_whatever_was_changed_before() {
    let rig = Rig::new(DiskKind::Disk, |_| {});
    let desk = rig.desk();
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
        let hole = Verb::Zero {
            hole: true,
            fast: false,
            lasting: false,
        };
        match next(16) {
            0 => rig.write(&*desk, page, &[1; 4096]),
            way @ (1 | 2) => {
                let len = (8 * 4096).min(DISK_BYTES - page);
                let verb = if way == 1 { hole } else { Verb::Trim };
                let outcome = rig.ask(verb, page, len, Buffer::default());
                assert_eq!(outcome.result, Ok(()));
            }
            3 => at = page,
            _ => {
                let len = DISK_BYTES - at;
                let known = desk.extent(at, len);
                at_once += u32::from(known.is_some());
                let extent = known.unwrap_or_else(|| {
                    let one = Verb::Extents { one: true };
                    rig.ask(one, at, len, Buffer::default()).extents[0]
                });
                assert_eq!(extent, first_extent(&file, at), "at {at}, step {step}");
                at = (at + extent.len) % DISK_BYTES;
            }
        }
    }
    assert!(at_once > 500, "{at_once} of them were known");
}

/// Who reads in order finds the next pages in memory.
#[test]
fn what_follows_is_read_ahead() {
    let rig = Rig::new(DiskKind::Disk, |_| {});
    let desk = rig.desk();
    for page in 0..2 {
        rig.read(&*desk, page * 4096, 4096);
    }
    let until = Instant::now() + Duration::from_secs(20);
    while !desk.read(3 * 4096, &mut [0; 4096]) {
        assert!(Instant::now() < until, "nothing is read ahead");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_slow_disk_is_an_array() {
    a_disk_is_an_array(DiskKind::Disk, |settings| {
        settings.slow = Some(Slow {
            latency: Duration::from_micros(10),
            bandwidth: None,
        });
    });
}

#[test]
fn swap_is_an_array() {
    a_disk_is_an_array(DiskKind::Swap, |_| {});
}

#[test]
fn swap_in_memory_is_an_array() {
    a_disk_is_an_array(DiskKind::Swap, |settings| {
        settings.durability = Some(Durability::Memory);
    });
}

#[test]
fn swap_written_through_is_an_array() {
    a_disk_is_an_array(DiskKind::Swap, |settings| {
        settings.durability = Some(Durability::WriteThrough);
    });
}

/// Has pages on a rig's stage that a daemon before it acknowledged, and was killed: each full of its number and one.
fn leave_behind(rig: &mut Rig, pages: impl Iterator<Item = u8>) {
    rig.end();
    let path = rig.settings.backing.clone().expect("a path");
    let backing = Backing::open(Path::new(&path), false).expect("opened");
    let mark = backing.mark().expect("a mark");
    drop(backing);
    let stage = rig.stage.clone().expect("a stage");
    let killed = stage.enter(&rig.settings.name, mark);
    for page in pages {
        let put = stage.put(killed, page.into(), &[page + 1; 4096]);
        assert!(put.is_ok());
    }
    rig.open();
}

fn written(rig: &Rig) -> Vec<u8> {
    std::fs::read(rig.settings.backing.as_ref().expect("a path")).expect("read")
}

/// What was acknowledged is there for the daemon that comes after one that was killed: it finds it on the stage.
#[test]
fn swap_outlives_its_daemon() {
    let mut rig = Rig::new(DiskKind::Swap, |_| {});
    leave_behind(&mut rig, 0..20);
    let desk = rig.desk();
    for page in 0..20 {
        assert!(rig.read(&*desk, page * 4096, 4096) == [page as u8 + 1; 4096]);
    }
    drop(desk);
    rig.end();
    assert!(written(&rig)[19 * 4096..20 * 4096] == [20; 4096]);
}

/// Also what was acknowledged while it was not, by the daemon before.
#[test]
fn a_flush_of_swap_that_is_written_through_covers_all() {
    let mut rig = Rig::new(DiskKind::Swap, |settings| {
        settings.durability = Some(Durability::WriteThrough);
        settings.slow = Some(Slow {
            latency: Duration::from_millis(5),
            bandwidth: None,
        });
    });
    leave_behind(&mut rig, (0..40).step_by(2));
    let flushed = rig.ask(Verb::Flush, 0, 0, Buffer::default());
    assert_eq!(flushed.result, Ok(()));
    let written = written(&rig);
    for page in (0..40).step_by(2) {
        assert!(written[page * 4096..][..4096] == [page as u8 + 1; 4096]);
    }
}

/// A page is written as a whole while its rest is read for a part that is written: whichever comes last, the rest of
/// the page is what was written as a whole.
#[test]
fn a_part_of_a_page_takes_nothing_older_along() {
    let rig = Rig::new(DiskKind::Swap, |settings| {
        settings.slow = Some(Slow {
            latency: Duration::from_millis(5),
            bandwidth: None,
        });
    });
    let desk = rig.desk();
    for n in 0..40u8 {
        let at = u64::from(n) * 4096;
        let (to, answers) = channel();
        let mut buffer = Buffer::zeroed(512);
        buffer.fill(1);
        rig.disk().start(Request {
            verb: Verb::Write { lasting: false },
            at,
            len: 512,
            buffer,
            to: Arc::new(Asker(Mutex::new(to))),
            token: 0,
        });
        std::thread::sleep(Duration::from_micros(u64::from(n) * 200));
        rig.write(&*desk, at, &[2 + n; 4096]);
        let outcome = answers.recv_timeout(Duration::from_secs(20));
        assert_eq!(outcome.expect("answered").result, Ok(()));
        let page = rig.read(&*desk, at, 4096);
        assert!(page[512..].iter().all(|byte| *byte == 2 + n), "round {n}");
        assert!(page[..512].iter().all(|byte| [1, 2 + n].contains(byte)));
    }
}

/// Parts of pages and zeroes are acknowledged from memory as whole pages are: the backing is read for the rest of a
/// page, and written later.
#[test]
fn parts_of_pages_and_zeroes_of_swap_wait_for_no_write() {
    let rig = Rig::new(DiskKind::Swap, |settings| {
        settings.durability = Some(Durability::Memory);
    });
    let desk = rig.desk();
    let zero = |at, len| {
        let verb = Verb::Zero {
            hole: true,
            fast: true,
            lasting: true,
        };
        let outcome = rig.ask(verb, at, len, Buffer::default());
        assert_eq!(outcome.result, Ok(()));
    };
    rig.write(&*desk, 4096, &[1; 8192]);
    rig.write(&*desk, 4096 - 512, &[2; 1024]);
    zero(8192 - 512, 1024);
    zero(16384, 8192);
    let mut model = [0; 24576];
    model[4096..12288].fill(1);
    model[3584..4608].fill(2);
    model[7680..8704].fill(0);
    assert!(rig.read(&*desk, 0, model.len()) == model);

    let disk = &rig.open.as_ref().expect("open").disk;
    assert_eq!(disk.tallies.sum().written_through, 0);
    assert_eq!(disk.swap.as_ref().expect("swap").dirty(), 5);
    let path = rig.settings.backing.as_ref().expect("a path");
    let backing = std::fs::read(path).expect("read");
    assert!(backing.iter().all(|byte| *byte == 0), "nothing is written");
}

/// The end comes while requests wait and pages are staged: each is answered, all is written, nothing hangs.
#[test]
fn a_disk_ends_with_everything_done() {
    let mut rig = Rig::new(DiskKind::Swap, |settings| {
        settings.slow = Some(Slow {
            latency: Duration::from_millis(2),
            bandwidth: None,
        });
    });
    let desk = rig.desk();
    let (to, answers) = channel();
    let to = Arc::new(Asker(Mutex::new(to)));
    for n in 0..200 {
        desk.write(n % 60 * 4096, &[n as u8; 4096], false);
        rig.disk().start(Request {
            verb: Verb::Read,
            at: 2 << 20,
            len: 4096,
            buffer: Buffer::zeroed(4096),
            to: Arc::clone(&to) as Arc<dyn Outcomes>,
            token: n,
        });
    }
    let staged = rig.stage.clone().expect("a stage");
    drop(desk);
    rig.end();
    assert_eq!(answers.try_iter().count(), 200);
    assert!(staged.disks().is_empty(), "all is on the backing");
}

/// A part of a page waits for the rest of it while its disk ends: nothing is staged when nobody is left to write it.
#[test]
fn a_part_of_a_page_that_is_written_at_the_end_reaches_the_backing() {
    let mut rig = Rig::new(DiskKind::Swap, |settings| {
        settings.slow = Some(Slow {
            latency: Duration::from_millis(100),
            bandwidth: None,
        });
    });
    let mut buffer = Buffer::zeroed(512);
    buffer.fill(7);
    let answers = rig.begin(Verb::Write { lasting: false }, 512, 512, buffer);
    let staged = rig.stage.clone().expect("a stage");
    rig.end();
    let outcome = answers.recv_timeout(Duration::from_secs(20));
    assert_eq!(outcome.expect("answered").result, Ok(()));
    assert!(staged.disks().is_empty(), "it comes back");
    assert_eq!(written(&rig)[512..1024], [7; 512]);
}

/// A part of a file is nobody's disk; one that was served as so large before still is.
#[test]
fn a_backing_has_the_size_that_was_said() {
    for kind in [DiskKind::Disk, DiskKind::Swap] {
        let mut rig = Rig::new(kind, |_| {});
        rig.end();
        for wrong in [DISK_BYTES / 2, DISK_BYTES * 2] {
            rig.settings.size = Some(Bytes(wrong));
            let refused = rig.try_open(History::Written).err();
            let refused = refused.expect("refused").to_string();
            for bytes in [DISK_BYTES, wrong] {
                assert!(refused.contains(&format!("({bytes} bytes)")), "{refused}");
            }
        }
        assert!(rig.try_open(History::Served).is_err(), "it is shorter now");
        rig.settings.size = Some(Bytes(DISK_BYTES / 2));
        let served = rig.try_open(History::Served).expect("it opens");
        assert_eq!(served.disk.size(), Bytes(DISK_BYTES / 2));
        served.end();
        // One that its owner gave another size than the config.
        let served = rig.try_open(History::Resized).expect("it opens");
        assert_eq!(served.disk.size(), Bytes(DISK_BYTES / 2));
        served.end();
        rig.settings.size = Some(Bytes(2 * DISK_BYTES));
        assert!(rig.try_open(History::Resized).is_err(), "it is shorter now");
        rig.settings.size = Some(Bytes(DISK_BYTES));
        rig.open();
    }
}

/// A guest addresses sectors: what is left over at the end is not its own, and stays as it is.
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
        let desk = rig.desk();
        rig.write(&*desk, end - 512, &[8; 512]);
        assert_eq!(rig.read(&*desk, end - 512, 512), [8; 512]);
        drop(desk);
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
    let outcome = rig.ask(Verb::Read, DISK_BYTES - 512, 1024, Buffer::zeroed(1024));
    assert_eq!(outcome.result, Err(Fault::OutOfRange));
    let write = Verb::Write { lasting: false };
    let outcome = rig.ask(write, 0, 512, Buffer::zeroed(512));
    assert_eq!(outcome.result, Err(Fault::ReadOnly));
    assert!(!rig.desk().write(0, &[0; 4096], false));
}

/// What is missed a second time is answered by memory from then on.
#[test]
fn what_was_missed_twice_is_kept() {
    let rig = Rig::new(DiskKind::Disk, |_| {});
    let desk = rig.desk();
    assert!(!desk.read(8192, &mut [0; 4096]));
    rig.read(&*desk, 8192, 4096);
    assert!(!desk.read(8192, &mut [0; 4096]), "missed once");
    rig.read(&*desk, 8192, 4096);
    assert!(desk.read(8192, &mut [0; 4096]));
    assert!(desk.read(8192 + 100, &mut [0; 1000]), "a part of it too");
    let figures = rig.open.as_ref().expect("open").disk.tallies.sum();
    assert_eq!((figures.hits, figures.misses), (2, 2));
}

/// Memory is taken from a disk whose windows leave whole: of each eight pages all are left, or none.
#[test]
fn windows_leave_whole_where_a_disk_is_told_to() {
    let rig = Rig::new(DiskKind::Disk, |settings| {
        settings.fill = Some(Fill::Miss);
        settings.windows = Some(Windows::Whole);
    });
    let desk = rig.desk();
    for at in (0..DISK_BYTES).step_by(64 << 10) {
        rig.read(&*desk, at, 64 << 10);
    }
    // Pages are asked for alone now, so that some of each window are hotter than others.
    for page in (0..DISK_BYTES / 4096).step_by(5) {
        rig.read(&*desk, page * 4096, 4096);
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
    let has = |page: &u64| desk.read(page * 4096, &mut [0; 4096]);
    for window in 0..DISK_BYTES / 4096 / 8 {
        let left = (window * 8..window * 8 + 8).filter(has).count();
        assert!([0, 8].contains(&left), "{left} of window {window}");
    }
}
