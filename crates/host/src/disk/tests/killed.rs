//! A daemon that is killed in the middle of swapping, over a backing that completes what it is given in any order.
//!
//! The disk's thread is the test's own, so that one seed says everything: what the guest asks, in which order the
//! backing is done with what it has, which of its writes take effect early or late, and where the kill comes. Of what
//! the backing was not done with then each sector lands or does not. The next daemon on the same stage and backing must
//! have every page as it was acknowledged; so must the one after it.

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
use crate::disk::backed::Backed;
use crate::disk::cover::key;
use crate::disk::disk_events::DiskEvents;
use crate::disk::disk_thread::DiskThread;
use crate::disk::engine::{Carrier, Deed, Engine, Job};
use crate::disk::open::assemble;

/// Histories that are tried.
const SEEDS: u64 = 300;

/// Daemons of a history, one after the other.
const LIVES: u32 = 3;

/// Pages of the disk: few, so that they are written again and again.
const PAGES: u64 = 20;

/// Places on the stage: fewer, so that some writes go to the backing at once.
const SLOTS: u32 = 12;

const PAGE: usize = 4096;
const SECTOR: usize = 512;

/// Turns of a disk's thread until a read is answered, at the most.
const TURNS_MAX: usize = 10_000;

/// A number that follows from the seed (xorshift).
struct Luck(u64);

impl Luck {
    fn of(seed: u64) -> Luck {
        Luck((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
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

/// What a backing was given and is not done with.
struct Sea {
    luck: Luck,
    waves: Vec<Wave>,
}

struct Wave {
    token: usize,
    job: Job,
    /// It took effect when it was given.
    result: Option<io::Result<usize>>,
}

/// The disk's thread's end of it.
struct Shore(Rc<RefCell<Sea>>);

impl Carrier for Shore {
    fn carry(&mut self, token: usize, mut job: Job) -> Result<(), Job> {
        let mut sea = self.0.borrow_mut();
        let early = sea.luck.one_in(2);
        let result = early.then(|| take_effect(&mut job));
        sea.waves.push(Wave { token, job, result });
        Ok(())
    }

    fn send(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    fn reap(&mut self, done: &mut dyn FnMut(usize, io::Result<usize>, Buffer)) {
        let mut sea = self.0.borrow_mut();
        while !sea.waves.is_empty() && sea.luck.one_in(2) {
            let which = sea.waves.len() as u64;
            let which = sea.luck.below(which) as usize;
            let Wave {
                token,
                mut job,
                result,
            } = sea.waves.swap_remove(which);
            let result = result.unwrap_or_else(|| take_effect(&mut job));
            done(token, result, job.buffer);
        }
    }
}

fn take_effect(job: &mut Job) -> io::Result<usize> {
    let (part, at) = (job.part.clone(), job.at);
    match job.deed {
        Deed::Read => job.file.read_at(&mut job.buffer[part], at),
        Deed::Write(_) => job.file.write_at(&job.buffer[part], at),
        Deed::Sync => Ok(0),
        Deed::Punch(_) | Deed::Zero(_) => Err(io::ErrorKind::Unsupported.into()),
    }
}

impl Sea {
    /// Whether a write of a page is under way.
    fn has_write_of(&self, page: u64) -> bool {
        let at = page * PAGE as u64;
        self.waves.iter().any(|Wave { job, .. }| {
            let end = job.at + job.part.len() as u64;
            matches!(job.deed, Deed::Write(_)) && (job.at..end).contains(&at)
        })
    }

    /// The daemon is no more: what it left here lands, or does not, in any order, sector by sector.
    fn settle(&mut self) {
        while !self.waves.is_empty() {
            let which = self.luck.below(self.waves.len() as u64) as usize;
            let Wave { job, result, .. } = self.waves.swap_remove(which);
            if matches!(job.deed, Deed::Write(_)) && result.is_none() {
                let of_four = self.luck.below(5);
                for (n, sector) in job.buffer[job.part.clone()].chunks(SECTOR).enumerate() {
                    if self.luck.below(4) < of_four {
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
    sea: Rc<RefCell<Sea>>,
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
            sea: Rc::new(RefCell::new(Sea {
                luck: Luck::of(seed ^ 0x5ea),
                waves: Vec::new(),
            })),
        }
    }

    fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.backing.as_raw_fd())
    }
}

/// A daemon's swap disk, whose thread goes on when it is told to.
struct Life {
    sea: Rc<RefCell<Sea>>,
    disk: Arc<Backed>,
    thread: Rc<DiskThread>,
    tasks: LocalPool,
    desk: Box<dyn Desk>,
    worker: Worker,
    asked: Sender<Outcome>,
    answers: Receiver<Outcome>,
}

impl Life {
    fn begin(host: &Host) -> Life {
        let path = host.path();
        let mut settings = settings(DiskKind::Swap, Path::new(&path));
        settings.size = None;
        let backing = Backing::open(Path::new(&path), false).expect("opened");
        let stage = Stage::open(host.stage.try_clone().expect("cloned")).expect("a stage");
        let Backend {
            store,
            clock,
            ledger,
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
        // For as long as it lives somebody waits for its backing, so that writing behind does not depend on the time.
        std::mem::forget(disk.swap.as_ref().expect("swap").hurry());
        let doorman = Doorman::new(store, *clock, ledger).expect("a worker");
        let engine = Engine::of(Box::new(Shore(Rc::clone(&host.sea))), None);
        let thread = DiskThread::new(Arc::clone(&disk), &doorman, engine);
        let tasks = LocalPool::new();
        thread.begin(&tasks.spawner()).expect("tasks");
        let (asked, answers) = channel();
        Life {
            sea: Rc::clone(&host.sea),
            desk: Arc::clone(&disk).desk(&doorman),
            worker: store.worker().expect("a worker"),
            disk,
            thread,
            tasks,
            asked,
            answers,
        }
    }

    /// Has the disk's thread do what it can without waiting.
    fn turn(&mut self) {
        self.tasks.run_until_stalled();
        self.thread.engine.turn().expect("it turns");
        self.thread.wake_tasks();
        self.tasks.run_until_stalled();
    }

    fn ask(&self, verb: Verb, at: u64, len: u64, buffer: Buffer, token: u64) {
        self.disk.start(Request {
            verb,
            at,
            len,
            buffer,
            to: Arc::new(Asker(Mutex::new(self.asked.clone()))),
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
        if self.desk.read(at, &mut bytes) {
            return bytes;
        }
        // An answer that comes to somebody else meanwhile is looked at later.
        let (asked, answers) = channel();
        let to = std::mem::replace(&mut self.asked, asked);
        self.ask(Verb::Read, at, PAGE as u64, Buffer::zeroed(PAGE), at);
        self.asked = to;
        for _ in 0..TURNS_MAX {
            self.turn();
            if let Ok(outcome) = answers.try_recv() {
                assert_eq!(outcome.result, Ok(()));
                return outcome.buffer.to_vec();
            }
        }
        panic!("a read of page {page} is never answered");
    }

    /// Everything ends here and now.
    fn kill(self, host: &Host) {
        let (tenant, pool) = (self.disk.tenant, self.disk.pool);
        drop((self.tasks, self.desk, self.thread, self.disk));
        host.sea.borrow_mut().settle();
        self.worker.destroy_pool(tenant, pool, Second(1));
    }

    /// Ends when everything is on the backing.
    fn end(mut self, host: &Host) {
        self.disk.inbox.end();
        let disk = Arc::clone(&self.disk);
        let swap = disk.swap.as_ref().expect("swap");
        swap.wake();
        let until = Instant::now() + Duration::from_secs(20);
        while swap.dirty() > 0 {
            assert!(Instant::now() < until, "it never ends");
            self.turn();
        }
        drop(disk);
        self.kill(host);
    }
}

/// What is known of a page: all of its bytes, or nothing after a trim.
type Known = Option<Vec<u8>>;

/// A write that has yet to be answered, and what it makes of the page.
struct Pending {
    page: u64,
    after: Known,
}

/// How often what matters came about, in all histories.
#[derive(Debug, Default)]
struct Reach {
    /// Pages that were acknowledged again while an older write of theirs was under way.
    overtaken: u64,
    /// Writes that waited for the backing.
    written_through: u64,
    /// Kills with writes under way.
    torn: u64,
}

/// The guest: what it wrote, and what it was told.
struct Guest {
    luck: Luck,
    known: Vec<Known>,
    pending: BTreeMap<u64, Pending>,
    tokens: u64,
}

impl Guest {
    fn new(seed: u64) -> Guest {
        Guest {
            luck: Luck::of(seed),
            known: vec![Some(vec![0; PAGE]); PAGES as usize],
            pending: BTreeMap::new(),
            tokens: 0,
        }
    }

    fn is_waited_for(&self, page: u64) -> bool {
        self.pending.values().any(|pending| pending.page == page)
    }

    fn hear(&mut self, life: &Life) {
        for outcome in life.answers.try_iter() {
            assert_eq!(outcome.result, Ok(()));
            let pending = self.pending.remove(&outcome.token).expect("asked");
            self.known[pending.page as usize] = pending.after;
        }
    }

    /// Bytes that no other write has.
    fn fresh(&mut self, len: usize) -> Vec<u8> {
        let stamp = self.luck.below(u64::MAX).to_le_bytes();
        stamp.iter().copied().cycle().take(len).collect()
    }

    fn step(&mut self, life: &mut Life, reach: &mut Reach) {
        self.hear(life);
        let page = self.luck.below(PAGES);
        let choice = self.luck.below(20);
        if choice >= 14 || self.is_waited_for(page) {
            return life.turn();
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

    fn write(&mut self, life: &Life, page: u64, reach: &mut Reach) {
        let bytes = self.fresh(PAGE);
        let at = page * PAGE as u64;
        if life.desk.write(at, &bytes, false) {
            reach.overtaken += u64::from(life.sea.borrow().has_write_of(page));
            self.known[page as usize] = Some(bytes);
            return;
        }
        reach.written_through += 1;
        self.send(life, page, at, &bytes, Some(bytes.clone()));
    }

    fn write_part(&mut self, life: &Life, page: u64) {
        let from = self.luck.below((PAGE / SECTOR) as u64) as usize * SECTOR;
        let bytes = self.fresh(SECTOR);
        let at = page * PAGE as u64 + from as u64;
        let after = self.known[page as usize].clone().map(|mut page| {
            page[from..from + SECTOR].copy_from_slice(&bytes);
            page
        });
        if life.desk.write(at, &bytes, false) {
            self.known[page as usize] = after;
            return;
        }
        self.send(life, page, at, &bytes, after);
    }

    fn send(&mut self, life: &Life, page: u64, at: u64, bytes: &[u8], after: Known) {
        let mut buffer = Buffer::zeroed(bytes.len());
        buffer.copy_from_slice(bytes);
        let token = self.wait_for(page, after);
        let len = bytes.len() as u64;
        life.ask(Verb::Write { lasting: false }, at, len, buffer, token);
    }

    /// Makes a page zero, or all but its first sector.
    fn zero(&mut self, life: &Life, page: u64) {
        let from = self.luck.below(2) as usize * SECTOR;
        let after = self.known[page as usize].clone().map(|mut page| {
            page[from..].fill(0);
            page
        });
        let token = self.wait_for(page, after);
        let verb = Verb::Zero {
            hole: false,
            fast: false,
            lasting: false,
        };
        let (at, len) = (page * PAGE as u64 + from as u64, (PAGE - from) as u64);
        life.ask(verb, at, len, Buffer::default(), token);
    }

    fn wait_for(&mut self, page: u64, after: Known) -> u64 {
        self.tokens += 1;
        self.pending.insert(self.tokens, Pending { page, after });
        self.tokens
    }

    fn trim(&mut self, life: &Life, page: u64) {
        assert!(life.desk.trim(page * PAGE as u64, PAGE as u64));
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

    /// Of a write that was never answered each sector is there or is not.
    fn check_after_kill(&mut self, life: &mut Life) {
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
fn live_and_die(backend: &Backend, tenant: TenantId, seed: u64, reach: &mut Reach) {
    let host = Host::new(backend, tenant, seed);
    let mut guest = Guest::new(seed);
    for _ in 0..LIVES {
        let mut life = Life::begin(&host);
        guest.check_after_kill(&mut life);
        for _ in 0..20 + guest.luck.below(200) {
            guest.step(&mut life, reach);
        }
        guest.hear(&life);
        reach.torn += u64::from(!host.sea.borrow().waves.is_empty());
        life.kill(&host);
    }
    let mut last = Life::begin(&host);
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
    let backend = backend(Bytes::mib(32));
    let tenant = backend.store.add_tenant(TenantSettings {
        name: "t".parse().expect("a name"),
        weight: Weight::default(),
        floor: None,
        ceiling: None,
    });
    let tenant = tenant.expect("a tenant");
    let mut reach = Reach::default();
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
