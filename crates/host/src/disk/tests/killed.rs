//! Tests a daemon that is killed in the middle of swapping, over a backing that completes its requests in any order.
//!
//! The disk's thread is the test's own, so that one seed determines everything: what the guest asks, in which order the
//! backing completes its requests, which of its writes take effect early or late, and when the kill comes. Of what the
//! backing had not completed then, each sector lands or does not. The next daemon on the same stage and backing must
//! have every page as it was acknowledged. So must the one after it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::mpsc::Receiver;

use futures_executor::LocalPool;
use sublet_store::Worker;
use sublet_types::{Second, TenantId};

use super::*;
use crate::disk::backed_disk::BackedDisk;
use crate::disk::disk_events::DiskEvents;
use crate::disk::disk_thread::DiskThread;
use crate::disk::engine::{IoEngine, IoExecutor, IoJob, IoOperation};
use crate::disk::open::assemble;
use crate::disk::page_span::key;

/// The number of histories to try.
const SEEDS: u64 = 300;

/// Daemons of a history, one after the other.
const LIVES: u32 = 3;

/// Pages of the disk: few, so that they are written again and again.
const PAGES: u64 = 20;

/// Slots of the stage: fewer, so that some writes go to the backing at once.
const SLOTS: u32 = 12;

const PAGE: usize = 4096;
const SECTOR: usize = 512;

/// The most turns of a disk's thread until a read is answered.
const TURNS_MAX: usize = 10_000;

/// A number that follows from the seed (xorshift).
struct SeededRng(u64);

impl SeededRng {
    fn of(seed: u64) -> SeededRng {
        SeededRng((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Requests that a backing has not completed.
struct PendingIo {
    rng: SeededRng,
    waves: Vec<PendingJob>,
}

struct PendingJob {
    token: usize,
    job: IoJob,
    /// The request took effect when it was submitted.
    result: Option<io::Result<usize>>,
}

/// The disk's thread's end of it.
struct ReorderingExecutor(Rc<RefCell<PendingIo>>);

impl IoExecutor for ReorderingExecutor {
    fn enqueue(&mut self, token: usize, mut job: IoJob) -> Result<(), IoJob> {
        let mut sea = self.0.borrow_mut();
        let early = sea.rng.one_in(2);
        let result = early.then(|| take_effect(&mut job));
        sea.waves.push(PendingJob { token, job, result });
        Ok(())
    }

    fn submit(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    fn reap(&mut self, done: &mut dyn FnMut(usize, io::Result<usize>, Buffer)) {
        let mut sea = self.0.borrow_mut();
        while !sea.waves.is_empty() && sea.rng.one_in(2) {
            let which = sea.waves.len() as u64;
            let which = sea.rng.below(which) as usize;
            let PendingJob {
                token,
                mut job,
                result,
            } = sea.waves.swap_remove(which);
            let result = result.unwrap_or_else(|| take_effect(&mut job));
            done(token, result, job.buffer);
        }
    }
}

fn take_effect(job: &mut IoJob) -> io::Result<usize> {
    let (part, at) = (job.part.clone(), job.at);
    match job.operation {
        IoOperation::Read => job.file.read_at(&mut job.buffer[part], at),
        IoOperation::Write(_) => job.file.write_at(&job.buffer[part], at),
        IoOperation::Sync => Ok(0),
        IoOperation::Punch(_) | IoOperation::Zero(_) => Err(io::ErrorKind::Unsupported.into()),
    }
}

impl PendingIo {
    /// Returns whether a write of a page is under way.
    fn has_write_of(&self, page: u64) -> bool {
        let at = page * PAGE as u64;
        self.waves.iter().any(|PendingJob { job, .. }| {
            let end = job.at + job.part.len() as u64;
            matches!(job.operation, IoOperation::Write(_)) && (job.at..end).contains(&at)
        })
    }

    /// The daemon is gone. What it left here lands or does not, in any order, sector by sector.
    fn apply_at_random(&mut self) {
        while !self.waves.is_empty() {
            let which = self.rng.below(self.waves.len() as u64) as usize;
            let PendingJob { job, result, .. } = self.waves.swap_remove(which);
            if matches!(job.operation, IoOperation::Write(_)) && result.is_none() {
                let of_four = self.rng.below(5);
                for (n, sector) in job.buffer[job.part.clone()].chunks(SECTOR).enumerate() {
                    if self.rng.below(4) < of_four {
                        let at = job.at + (n * SECTOR) as u64;
                        job.file.write_all_at(sector, at).expect("it lands");
                    }
                }
            }
        }
    }
}

/// What outlives a daemon.
struct Host {
    backend: Backend,
    tenant: TenantId,
    stage: File,
    backing: File,
    sea: Rc<RefCell<PendingIo>>,
}

impl Host {
    fn new(backend: &Backend, tenant: TenantId, seed: u64) -> Host {
        let memfd = || File::from(memfd_create("killed", MemfdFlags::CLOEXEC).expect("a memfd"));
        let (stage, backing) = (memfd(), memfd());
        stage
            .set_len(Stage::file_bytes(SLOTS))
            .and_then(|()| Preface::write(&stage, SLOTS))
            .and_then(|()| backing.set_len(PAGES * PAGE as u64))
            .expect("it grows");
        Host {
            backend: backend.clone(),
            tenant,
            stage,
            backing,
            sea: Rc::new(RefCell::new(PendingIo {
                rng: SeededRng::of(seed ^ 0x5ea),
                waves: Vec::new(),
            })),
        }
    }

    fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.backing.as_raw_fd())
    }
}

/// A daemon's swap disk, whose thread goes on when it is told to.
struct DaemonRun {
    sea: Rc<RefCell<PendingIo>>,
    disk: Arc<BackedDisk>,
    thread: Rc<DiskThread>,
    tasks: LocalPool,
    handle: Box<dyn DiskFastPath>,
    worker: Worker,
    asked: Sender<DiskOutcome>,
    answers: Receiver<DiskOutcome>,
}

impl DaemonRun {
    fn begin(host: &Host) -> DaemonRun {
        let path = host.path();
        let mut settings = settings(DiskKind::Swap, Path::new(&path));
        settings.size = None;
        let backing = Backing::open(Path::new(&path), BackingAccess::ReadWrite).expect("opened");
        let stage = Stage::open(host.stage.try_clone().expect("cloned")).expect("a stage");
        let Backend {
            store,
            clock,
            ledger,
            ..
        } = &host.backend;
        let disk = assemble(
            backing,
            settings,
            host.tenant,
            Some(Arc::new(stage)),
            store,
            DiskEvents::of_none(),
        );
        let disk = Arc::new(disk.expect("a disk"));
        // A caller waits for the backing as long as the disk lives, so that writing behind does not depend on the time.
        std::mem::forget(disk.swap.as_ref().expect("swap").request_drain());
        let store_handle = StoreHandle::new(store, *clock, ledger).expect("a worker");
        let engine = IoEngine::of(Box::new(ReorderingExecutor(Rc::clone(&host.sea))), None);
        let thread = DiskThread::new(Arc::clone(&disk), &store_handle, engine, None);
        let tasks = LocalPool::new();
        thread.spawn_tasks(&tasks.spawner()).expect("tasks");
        let (asked, answers) = channel();
        DaemonRun {
            sea: Rc::clone(&host.sea),
            handle: Arc::clone(&disk).fast_path(&store_handle),
            worker: store.worker().expect("a worker"),
            disk,
            thread,
            tasks,
            asked,
            answers,
        }
    }

    /// Runs the disk's thread as far as it can go without waiting.
    fn run_until_stalled(&mut self) {
        self.tasks.run_until_stalled();
        self.thread.engine.poll().expect("it turns");
        self.thread.wake_tasks();
        self.tasks.run_until_stalled();
    }

    fn submit_request(&self, verb: DiskOperation, at: u64, len: u64, buffer: Buffer, token: u64) {
        self.disk.submit(DiskRequest {
            operation: verb,
            at,
            len,
            buffer,
            outcomes: Arc::new(TestWaiter(Mutex::new(self.asked.clone()))),
            token,
        });
    }

    /// Memory may drop a page at any time.
    fn drop_from_memory(&self, page: u64) {
        let key = key(self.disk.pool, page);
        self.worker.flush_page(self.disk.tenant, key, Second(1));
    }

    fn read(&mut self, page: u64) -> Vec<u8> {
        let mut bytes = vec![0xee; PAGE];
        let at = page * PAGE as u64;
        if self.handle.read(at, &mut bytes) {
            return bytes;
        }
        // An answer to another request that comes meanwhile is read later.
        let (asked, answers) = channel();
        let to = std::mem::replace(&mut self.asked, asked);
        self.submit_request(
            DiskOperation::Read,
            at,
            PAGE as u64,
            Buffer::zeroed(PAGE),
            at,
        );
        self.asked = to;
        for _ in 0..TURNS_MAX {
            self.run_until_stalled();
            if let Ok(outcome) = answers.try_recv() {
                assert_eq!(outcome.result, Ok(()));
                return outcome.buffer.to_vec();
            }
        }
        panic!("a read of page {page} is never answered");
    }

    /// Ends everything at once.
    fn kill(self, host: &Host) {
        let (tenant, pool) = (self.disk.tenant, self.disk.pool);
        drop((self.tasks, self.handle, self.thread, self.disk));
        host.sea.borrow_mut().apply_at_random();
        self.worker.destroy_pool(tenant, pool, Second(1));
    }

    /// Ends when everything is on the backing.
    fn end(mut self, host: &Host) {
        self.disk.queue.end();
        let disk = Arc::clone(&self.disk);
        let swap = disk.swap.as_ref().expect("swap");
        swap.wake();
        wait_until("everything is on the backing", || {
            self.run_until_stalled();
            swap.dirty() == 0
        });
        drop(disk);
        self.kill(host);
    }
}

/// What is known of a page: all of its bytes, or nothing after a trim.
type PageContent = Option<Vec<u8>>;

/// A write that is not answered yet, and what it makes of the page.
struct PendingWrite {
    page: u64,
    after: PageContent,
}

/// How often the interesting cases came about, in all histories.
#[derive(Debug, Default)]
struct Coverage {
    /// Pages that were acknowledged again while an older write of theirs was under way.
    overtaken: u64,
    /// Writes that waited for the backing.
    written_through: u64,
    /// Kills with writes under way.
    torn: u64,
}

/// The guest: what it wrote, and which answers it got.
struct Guest {
    rng: SeededRng,
    known: Vec<PageContent>,
    pending: BTreeMap<u64, PendingWrite>,
    tokens: u64,
}

impl Guest {
    fn new(seed: u64) -> Guest {
        Guest {
            rng: SeededRng::of(seed),
            known: vec![Some(vec![0; PAGE]); PAGES as usize],
            pending: BTreeMap::new(),
            tokens: 0,
        }
    }

    fn is_waited_for(&self, page: u64) -> bool {
        self.pending.values().any(|pending| pending.page == page)
    }

    fn receive_outcomes(&mut self, life: &DaemonRun) {
        for outcome in life.answers.try_iter() {
            assert_eq!(outcome.result, Ok(()));
            let pending = self.pending.remove(&outcome.token).expect("asked");
            self.known[pending.page as usize] = pending.after;
        }
    }

    /// Bytes that no other write has.
    fn fresh(&mut self, len: usize) -> Vec<u8> {
        let stamp = self.rng.below(u64::MAX).to_le_bytes();
        stamp.iter().copied().cycle().take(len).collect()
    }

    fn step(&mut self, life: &mut DaemonRun, reach: &mut Coverage) {
        self.receive_outcomes(life);
        let page = self.rng.below(PAGES);
        let choice = self.rng.below(20);
        if choice >= 14 || self.is_waited_for(page) {
            return life.run_until_stalled();
        }
        match choice {
            0..=8 => self.write(life, page, reach),
            9 => self.write_part(life, page),
            10 => self.trim(life, page),
            11 => life.drop_from_memory(page),
            12 => self.zero(life, page),
            _ => {
                let got = life.read(page);
                self.check(page, &got, "is read");
            }
        }
    }

    fn write(&mut self, life: &DaemonRun, page: u64, reach: &mut Coverage) {
        let bytes = self.fresh(PAGE);
        let at = page * PAGE as u64;
        if life.handle.write(at, &bytes, Fua::Off) {
            reach.overtaken += u64::from(life.sea.borrow().has_write_of(page));
            self.known[page as usize] = Some(bytes);
            return;
        }
        reach.written_through += 1;
        self.send(life, page, at, &bytes, Some(bytes.clone()));
    }

    fn write_part(&mut self, life: &DaemonRun, page: u64) {
        let from = self.rng.below((PAGE / SECTOR) as u64) as usize * SECTOR;
        let bytes = self.fresh(SECTOR);
        let at = page * PAGE as u64 + from as u64;
        let after = self.known[page as usize].clone().map(|mut page| {
            page[from..from + SECTOR].copy_from_slice(&bytes);
            page
        });
        if life.handle.write(at, &bytes, Fua::Off) {
            self.known[page as usize] = after;
            return;
        }
        self.send(life, page, at, &bytes, after);
    }

    fn send(&mut self, life: &DaemonRun, page: u64, at: u64, bytes: &[u8], after: PageContent) {
        let mut buffer = Buffer::zeroed(bytes.len());
        buffer.copy_from_slice(bytes);
        let token = self.wait_for(page, after);
        let len = bytes.len() as u64;
        life.submit_request(
            DiskOperation::Write { fua: Fua::Off },
            at,
            len,
            buffer,
            token,
        );
    }

    /// Makes a page zero, or all but its first sector.
    fn zero(&mut self, life: &DaemonRun, page: u64) {
        let from = self.rng.below(2) as usize * SECTOR;
        let after = self.known[page as usize].clone().map(|mut page| {
            page[from..].fill(0);
            page
        });
        let token = self.wait_for(page, after);
        let verb = DiskOperation::Zero(Zeroing {
            hole: Hole::Forbidden,
            speed: ZeroSpeed::Any,
            fua: Fua::Off,
        });
        let (at, len) = (page * PAGE as u64 + from as u64, (PAGE - from) as u64);
        life.submit_request(verb, at, len, Buffer::default(), token);
    }

    fn wait_for(&mut self, page: u64, after: PageContent) -> u64 {
        self.tokens += 1;
        self.pending
            .insert(self.tokens, PendingWrite { page, after });
        self.tokens
    }

    fn trim(&mut self, life: &DaemonRun, page: u64) {
        assert!(life.handle.trim(page * PAGE as u64, PAGE as u64));
        self.known[page as usize] = None;
    }

    fn check(&self, page: u64, got: &[u8], what: &str) {
        if let Some(known) = &self.known[page as usize] {
            assert!(
                got == *known,
                "page {page} {what} otherwise than it was acknowledged"
            );
        }
    }

    /// Of a write that was never answered, each sector is there or is not.
    fn check_after_kill(&mut self, life: &mut DaemonRun) {
        for page in 0..PAGES {
            let got = life.read(page);
            let mut pending = self.pending.values();
            let asked = pending.find(|pending| pending.page == page);
            match (
                asked.map(|pending| &pending.after),
                &self.known[page as usize],
            ) {
                (Some(Some(new)), Some(old)) => {
                    let sectors = got.chunks(SECTOR);
                    let both = old.chunks(SECTOR).zip(new.chunks(SECTOR));
                    let mut each = sectors.zip(both);
                    let is_either = each.all(|(got, (old, new))| got == old || got == new);
                    assert!(
                        is_either,
                        "page {page} is neither what it was nor what it was to be"
                    );
                }
                (Some(_), _) => {}
                (None, _) => self.check(page, &got, "is found after a kill"),
            }
            self.known[page as usize] = Some(got);
        }
        self.pending.clear();
    }
}

/// One history: some daemons that are killed, and one that ends.
fn live_and_die(backend: &Backend, tenant: TenantId, seed: u64, reach: &mut Coverage) {
    let host = Host::new(backend, tenant, seed);
    let mut guest = Guest::new(seed);
    for _ in 0..LIVES {
        let mut life = DaemonRun::begin(&host);
        guest.check_after_kill(&mut life);
        for _ in 0..20 + guest.rng.below(200) {
            guest.step(&mut life, reach);
        }
        guest.receive_outcomes(&life);
        reach.torn += u64::from(!host.sea.borrow().waves.is_empty());
        life.kill(&host);
    }
    let mut last = DaemonRun::begin(&host);
    guest.check_after_kill(&mut last);
    last.end(&host);
    for page in 0..PAGES {
        let mut got = vec![0; PAGE];
        let at = page * PAGE as u64;
        host.backing.read_exact_at(&mut got, at).expect("read");
        guest.check(page, &got, "is on the backing");
    }
}

#[test]
fn swap_outlives_a_kill_whatever_order_its_backing_writes_in() {
    let backend = backend(Bytes::mib(32), 0);
    let tenant = backend.store.add_tenant(TenantSettings {
        name: "t".parse().expect("a name"),
        weight: Weight::default(),
        floor: None,
        ceiling: None,
    });
    let tenant = tenant.expect("a tenant");
    let mut reach = Coverage::default();
    for seed in 0..SEEDS {
        let history = || live_and_die(&backend, tenant, seed, &mut reach);
        let lived = std::panic::catch_unwind(std::panic::AssertUnwindSafe(history));
        if let Err(why) = lived {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(why);
        }
    }
    let histories = SEEDS;
    assert!(reach.overtaken > histories, "{reach:?}");
    assert!(reach.written_through > histories, "{reach:?}");
    assert!(reach.torn > histories, "{reach:?}");
}
