//! A node that borrows as the daemon does, of a lender that grants everything and answers at once. It does not give
//! back and ask again in turns, and what holds nothing goes back soon.

use std::time::Duration;

use sublet_lend::wanted::{ArenaGrowth, BorrowedBlocks, WantedMeter};
use sublet_store::{EvictAheadScope, GetOutcome, LeaseSlot, SealTag, SendOutcome};
use sublet_types::{BLOCK_BYTES, PAGE_BYTES, Second};

use super::memory::{BLOCK, BLOCK_PAGES, MemoryShape, NodeMemory};
use crate::cluster::content::{GuestPage, GuestPool, STAMP_BYTES};
use crate::rng::SimRng;

const LEASE: LeaseSlot = LeaseSlot(0);
const OWN: u64 = 8;
const FAR_MAX: u32 = 32;

/// The pages that the load uses: three times as many as there is room for here.
const PAGES: u64 = 3 * OWN * BLOCK_PAGES;

/// A page of the meter stands for so many here, since blocks have fewer.
const PAGES_SCALE: u64 = BLOCK_BYTES / PAGE_BYTES / BLOCK_PAGES;

const STAMP: [u8; STAMP_BYTES] = [7; STAMP_BYTES];

struct Borrower {
    memory: NodeMemory,
    meter: WantedMeter,
    second: u32,
    borrowed: u32,
    /// Blocks that were ever granted.
    granted: u32,
    luck: SimRng,
    /// When it asked, and when it gave back.
    asked: Vec<u32>,
    gave_back: Vec<u32>,
}

impl Borrower {
    fn new(seed: u64) -> Borrower {
        let shape = MemoryShape {
            own_max: OWN,
            far_max: FAR_MAX,
            seed,
        };
        Borrower {
            memory: NodeMemory::new(shape).expect("memory for a test"),
            meter: WantedMeter::default(),
            second: 1,
            borrowed: 0,
            granted: 0,
            luck: SimRng::seeded(seed),
            asked: Vec::new(),
            gave_back: Vec::new(),
        }
    }

    fn now(&self) -> Second {
        Second(self.second)
    }

    fn page(&mut self, pool: GuestPool) -> GuestPage {
        let number = self.luck.below(PAGES) as u32;
        GuestPage { pool, number }
    }

    /// Writes pages of the disk.
    fn write(&mut self, pages: u64) {
        for _ in 0..pages {
            let page = self.page(GuestPool::Disk);
            self.put(page);
        }
    }

    fn put(&mut self, page: GuestPage) {
        let now = self.now();
        assert!(self.memory.put(page, &STAMP, now));
        self.memory.worker.evict_ahead(EvictAheadScope::All, now);
        if self.granted == 0 {
            return;
        }
        let mut sent = Vec::new();
        let worker = &self.memory.worker;
        while worker.take_outbound(LEASE, 16, |page, _| sent.push(page)) > 0 {}
        for page in sent {
            worker.settle(page, SendOutcome::Taken(SealTag::default()));
        }
    }

    /// Puts pages of the ring, and gets as many.
    fn turn_over(&mut self, pages: u64) {
        for _ in 0..pages {
            let page = self.page(GuestPool::Ring);
            self.put(page);
            let page = self.page(GuestPool::Ring);
            if let (GetOutcome::Away(ticket), _) = self.memory.get(page, self.now()) {
                self.memory.arrived(page, &ticket, &STAMP, self.now());
            }
        }
    }

    fn flush_all(&mut self) {
        for pool in GuestPool::ALL {
            let pages = (0..PAGES as u32).map(|number| GuestPage { pool, number });
            pages.for_each(|page| self.memory.flush(page, self.now()));
        }
    }

    /// Ends a second: chores, what is wanted now, and what follows from it.
    fn end_second(&mut self) {
        self.memory.do_chores(self.now());
        let store = &self.memory.store;
        let tally = store.tenants()[0].pages.tally;
        let evicted = (tally.evictions - tally.unsendable) * PAGES_SCALE;
        let now = Duration::from_secs(self.second.into());
        self.meter.record(now, evicted, ArenaGrowth::Exhausted);
        let far = store.figures().far;
        let idle = (far.idle.0 / BLOCK) as u32;
        let borrowed = BorrowedBlocks {
            all: self.borrowed,
            idle,
        };
        let wanted = self.meter.wanted(now, borrowed, FAR_MAX);
        store.give_back_idle(self.borrowed.saturating_sub(wanted));
        let returned = store.take_returned().len() as u32;
        self.borrowed -= returned;
        if returned > 0 {
            self.gave_back.push(self.second);
        }
        if wanted > self.borrowed {
            self.asked.push(self.second);
            self.borrow(wanted - self.borrowed);
        }
        self.second += 1;
    }

    fn borrow(&mut self, blocks: u32) {
        let indices = self.granted..self.granted + blocks;
        let added = self.memory.store.add_to_lease(LEASE, 0, indices);
        if added.is_ok() {
            self.granted += blocks;
            self.borrowed += blocks;
            self.memory.follow_records();
        }
    }

    /// How often it asked within five seconds after it gave back.
    fn turns(&self) -> usize {
        let follows = |asked: &u32, back: u32| (back..=back + 5).contains(asked);
        let backs = self.gave_back.iter();
        let turns = backs.filter(|back| self.asked.iter().any(|asked| follows(asked, **back)));
        turns.count()
    }
}

/// A load: what it does in a second.
type Load = fn(&mut Borrower, u32);

const LOADS: [(&str, Load); 5] = [
    ("steady", |node, _| node.write(40)),
    ("bursts", |node, second| {
        if second % 7 < 4 {
            node.write(60);
        }
    }),
    ("trickle", |node, second| match second {
        0..20 => node.write(40),
        _ if second.is_multiple_of(4) => node.write(1),
        _ => {}
    }),
    ("exclusive", |node, _| node.turn_over(40)),
    ("uneven", |node, second| {
        let pages = u64::from(second / 9).wrapping_mul(29) % 97;
        node.write(pages);
        node.turn_over(pages / 3);
    }),
];

/// What a load needs varies from second to second. A node that follows that at once would give back and ask again each
/// few seconds. Ten seconds of evictions are a want, so there is one turn in that time at most.
#[test]
fn a_node_does_not_give_back_and_ask_again_in_turns() {
    const SECONDS: u32 = 200;
    for (name, load) in LOADS {
        for seed in 0..6 {
            let mut node = Borrower::new(seed);
            for second in 0..SECONDS {
                load(&mut node, second);
                node.end_second();
            }
            let (asked, turns) = (node.asked.len(), node.turns());
            assert!(
                asked > 0 && node.borrowed > 0,
                "{name} {seed}: nothing to judge"
            );
            let most = SECONDS as usize / 10;
            assert!(turns <= most, "{name} {seed}: {turns} turns");
        }
    }
}

#[test]
fn what_holds_nothing_goes_back_within_seconds_when_evictions_are_over() {
    for (name, load) in LOADS {
        let mut node = Borrower::new(1);
        for second in 0..60 {
            load(&mut node, second);
            node.end_second();
        }
        (0..11).for_each(|_| node.end_second());
        let before = node.borrowed;
        assert!(before > 1, "{name}: pages are at the lender");
        node.flush_all();
        (0..4).for_each(|_| node.end_second());
        assert_eq!(node.borrowed, 0, "{name}: of {before}");
        let overhead = node.memory.store.figures().far;
        assert_eq!(overhead.borrowed.0, 0, "{name}: {overhead:?}");
    }
}
