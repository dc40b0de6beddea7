//! Disks whose pages go to a lender and come back. Whatever the lender does, a read is what was written.

use sublet_store::EvictAheadScope;

use super::*;
use crate::peers::courier::Courier;
use crate::peers::page_fetcher::GoneCause;
use crate::peers::tests::{FakeLender, Lie, borrow_of};

/// More pages than there is memory for here.
const PAGES: u64 = 8192;

const PAGE: usize = 4096;

/// Blocks of 2 MiB that the lender lends: enough for all that has no room here.
const BLOCKS: u32 = 16;

/// Pages that swap may have acknowledged and not written.
const STAGE_SLOTS: u32 = 2048;

/// A backing as slow as a disk. A lender is not asked if it is slower than the backing, and a busy machine has slow ones.
const SLOW: SlowBacking = SlowBacking {
    latency: Duration::from_millis(4),
    bandwidth: None,
};

/// Rounds of 100 reads and writes after which a test gives up.
const ROUNDS_MAX: u32 = 200;

const LIES: [Lie; 10] = [
    Lie::Altered,
    Lie::Old,
    Lie::Swapped,
    Lie::Shifted,
    Lie::Absent,
    Lie::Truncated,
    Lie::Replayed,
    Lie::Silent,
    Lie::Closes,
    Lie::Refuses,
];

/// A disk beside what it must read as.
struct FarDisk {
    rig: Rig,
    lender: FakeLender,
    _courier: Courier,
    /// The content of each page: all its words are this.
    model: Vec<u64>,
    state: u64,
}

impl FarDisk {
    fn open(kind: DiskKind, change: impl FnOnce(&mut DiskSettings)) -> FarDisk {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("backing");
        let bytes: Vec<u8> = (0..PAGES).flat_map(page_of).collect();
        std::fs::write(&path, bytes).expect("written");
        let backend = backend(Bytes::mib(12), BLOCKS);
        let lender = FakeLender::start();
        let (far, courier) = borrow_of(&lender, &backend.store, BLOCKS);
        let mut settings = settings(kind, &path);
        settings.size = None;
        settings.slow = Some(SLOW);
        change(&mut settings);
        let mut rig = Rig {
            backend,
            folder,
            stage: (kind == DiskKind::Swap).then(|| stage(STAGE_SLOTS)),
            settings,
            open: None,
            far: Some(far),
        };
        rig.open();
        FarDisk {
            rig,
            lender,
            _courier: courier,
            model: (0..PAGES).collect(),
            state: 7,
        }
    }

    fn next(&mut self, below: u64) -> u64 {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.state >> 33) % below
    }

    /// Pages somewhere, most of them in a part of the disk that is read often.
    fn somewhere(&mut self, most: u64) -> (u64, u64) {
        let count = 1 + self.next(most);
        let within = match self.next(4) {
            0 => PAGES,
            _ => PAGES / 4,
        };
        (self.next(within).min(PAGES - count), count)
    }

    fn check(&self, handle: &dyn DiskFastPath, first: u64, count: u64, when: &str) {
        let bytes = self
            .rig
            .read(handle, first * PAGE as u64, count as usize * PAGE);
        for (page, bytes) in (first..).zip(bytes.chunks(PAGE)) {
            let wanted = page_of(self.model[page as usize]);
            let found = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
            let content = self.model[page as usize];
            assert!(
                bytes == wanted,
                "page {page} is {found} instead of {content}, {when}"
            );
        }
    }

    fn write(&mut self, handle: &dyn DiskFastPath, first: u64, count: u64) {
        let content = self.next(1 << 20) + PAGES;
        self.model[first as usize..(first + count) as usize].fill(content);
        let bytes: Vec<u8> = (0..count).flat_map(|_| page_of(content)).collect();
        self.rig.write(handle, first * PAGE as u64, &bytes);
    }

    /// Reads and writes at random.
    fn work(&mut self, steps: u32, when: &str) {
        let handle = self.rig.handle();
        let worker = self.rig.backend.store.worker().expect("a worker");
        for step in 0..steps {
            if step % 16 == 0 {
                worker.evict_ahead(EvictAheadScope::All, self.rig.backend.clock.now());
            }
            let (first, count) = self.somewhere(64);
            match self.next(8) {
                0 => self.write(&*handle, first, count),
                _ => self.check(&*handle, first, count, when),
            }
        }
    }

    /// Reads and writes at random until a condition holds. How soon it does depends on the machine.
    fn work_until(&mut self, what: &str, when: &str, holds: impl Fn(&FarDisk) -> bool) {
        for _ in 0..ROUNDS_MAX {
            if holds(self) {
                return;
            }
            self.work(100, when);
        }
        panic!("not in {ROUNDS_MAX} rounds: {what}");
    }

    /// Writes every page once. What has no room goes to the lender.
    fn fill(&mut self) {
        let handle = self.rig.handle();
        let worker = self.rig.backend.store.worker().expect("a worker");
        for first in (0..PAGES).step_by(32) {
            worker.evict_ahead(EvictAheadScope::All, self.rig.backend.clock.now());
            self.write(&*handle, first, 32);
        }
    }

    /// Pages that the disk's tenant has evicted, and writes that the lender was sent.
    fn evictions_and_writes(&self) -> (u64, usize) {
        let store = &self.rig.backend.store;
        let tenant = self.rig.open.as_ref().expect("open").disk.tenant;
        let evictions = store.page_figures(tenant).tally.evictions;
        (evictions, self.lender.writes())
    }

    fn far_hits(&self) -> u64 {
        let open = self.rig.open.as_ref().expect("open");
        open.disk.tallies.sum().far_hits
    }
}

fn page_of(content: u64) -> Vec<u8> {
    let words = (0..PAGE as u64 / 8).map(|n| content + (n << 40));
    words.flat_map(u64::to_le_bytes).collect()
}

fn lies_cost_nothing_but_time(mut disk: FarDisk) {
    disk.fill();
    disk.work_until(
        "pages come from the lender",
        "with an honest lender",
        |disk| disk.far_hits() > 1000,
    );
    for lie in LIES {
        disk.lender.lie(lie);
        disk.work(120, &format!("while the lender is {lie:?}"));
        disk.lender.lie(Lie::Honest);
        disk.work(60, &format!("after the lender was {lie:?}"));
    }
}

#[test]
fn a_disk_reads_what_was_written_whatever_its_lender_does() {
    lies_cost_nothing_but_time(FarDisk::open(DiskKind::Disk, |_| {}));
}

#[test]
fn a_disk_whose_pages_leave_when_they_are_read_does_so_too() {
    lies_cost_nothing_but_time(FarDisk::open(DiskKind::Disk, |settings| {
        settings.fill = Some(FillPolicy::DropOnRead);
    }));
}

#[test]
fn swap_reads_what_was_written_whatever_its_lender_does() {
    lies_cost_nothing_but_time(FarDisk::open(DiskKind::Swap, |_| {}));
}

/// Pages that a lender lost are on the stage, and the backing has older ones.
#[test]
fn swap_that_stays_in_memory_does_so_too() {
    lies_cost_nothing_but_time(FarDisk::open(DiskKind::Swap, |settings| {
        settings.durability = Some(Durability::Memory);
    }));
}

/// A lender that takes pages and then says nothing is asked a few times, and then no more until it is quick again.
#[test]
fn a_lender_that_hangs_is_left_alone() {
    let mut disk = FarDisk::open(DiskKind::Disk, |_| {});
    disk.fill();
    disk.work_until(
        "pages come from the lender",
        "with an honest lender",
        |disk| disk.far_hits() > 100,
    );
    disk.lender.lie(Lie::Silent);
    disk.work_until("it is left alone", "while the lender hangs", |disk| {
        let far = disk.rig.far.as_ref().expect("it borrows");
        let figures = far.ledger().figures();
        let of_lender = figures.values().next().copied().unwrap_or_default();
        let gave_up = of_lender.gone[GoneCause::Late as usize];
        gave_up > 0 && of_lender.not_asked > gave_up
    });
}

/// A page at the lender beside one that only the backing has is read with it: the client waits for the backing anyway.
#[test]
fn a_read_that_needs_the_backing_asks_no_lender() {
    let mut disk = FarDisk::open(DiskKind::Disk, |_| {});
    disk.fill();
    disk.work_until("pages come from the lender", "before", |disk| {
        disk.far_hits() > 100
    });
    let backend = &disk.rig.backend;
    let store_handle = StoreHandle::new(&backend.store, backend.clock, &backend.ledger);
    let backed = Arc::clone(&disk.rig.open.as_ref().expect("open").disk);
    let tenancy = store_handle.expect("a handle").open(backed.tenant);
    let is_away = |page| backed.has_page(&tenancy, page) && !backed.has_page_here(&tenancy, page);
    let is_absent = |page| !backed.has_page(&tenancy, page);
    let mixed = |page: &u64| {
        is_away(*page) && is_absent(*page + 1) || is_absent(*page) && is_away(*page + 1)
    };
    let away_pairs = (0..PAGES)
        .step_by(16)
        .filter(|page| is_away(*page) && is_away(*page + 1));
    let pairs: Vec<u64> = away_pairs.collect();
    for (nth, first) in (0..).zip(&pairs) {
        let forgotten = first + nth % 2;
        backed.forget(&tenancy, forgotten..forgotten + 1);
    }
    let handle = disk.rig.handle();
    let (mut reads, mut far_hits) = (0, 0);
    for first in pairs {
        if !mixed(&first) {
            continue; // A read before has changed it.
        }
        let before = backed.tallies.sum();
        disk.check(&*handle, first, 2, "beside an absent page");
        reads += 1;
        far_hits += backed.tallies.sum().far_hits - before.far_hits;
    }
    // What is read ahead meanwhile may make one page of a pair present.
    assert!(
        reads >= 16 && far_hits <= reads / 8,
        "{far_hits} of {reads}"
    );
}

/// A lender that is too slow for a disk gets no page that the disk evicts. Its pings go on with those that it has.
#[test]
fn a_lender_that_is_left_alone_gets_no_pages() {
    let mut disk = FarDisk::open(DiskKind::Disk, |_| {});
    disk.fill();
    disk.lender.lie(Lie::Unread);
    let mut unsent = 0;
    let mut before = disk.evictions_and_writes();
    for _ in 0..ROUNDS_MAX {
        disk.work(100, "while no read is answered");
        let now = disk.evictions_and_writes();
        unsent = match now.0 > before.0 && now.1 == before.1 {
            true => unsent + 1,
            false => 0,
        };
        if unsent == 5 {
            return;
        }
        before = now;
    }
    panic!("in no 5 of {ROUNDS_MAX} rounds was nothing sent of what was evicted");
}
