//! The guest of a node: it reads and writes pages of a disk and of a ring, and knows what it wrote.
//!
//! A disk's page goes to the backing first, and then to memory. What memory does not give is read from the backing. A
//! ring has no backing: what memory does not give is a miss.

use std::collections::{BTreeMap, VecDeque};

use sublet_store::{AwayTicket, GetOutcome, LeaseSlot};

use super::fetcher::{FetchOutcome, FetchedPage, Fetcher, WantedPage};
use super::memory::PageGet;
use super::state::NodeState;
use crate::cluster::content::{GuestPage, GuestPool, PageContent, STAMP_BYTES};
use crate::cluster::environment::Environment;
use crate::cluster::judges::DiskSource;
use crate::cluster::mutation::Mutation;
use crate::cluster::trace::TraceEvent;
use crate::rng::SimRng;
use crate::virtual_time::VirtualDuration;

/// The most pages that a guest reads or writes at once.
const RUN_PAGES_MAX: u64 = 8;

/// The most tickets that a read asks for one after the other, because the page changes again and again.
const ROUNDS_MAX: u32 = 4;

/// The disk of a guest. It outlives the node's crashes.
#[derive(Clone, Debug)]
pub(in crate::cluster) struct GuestDisk {
    /// The version of each page that the backing has.
    backing: Vec<u32>,
    /// How often each page was written.
    written: Vec<u32>,
}

impl GuestDisk {
    /// A disk of this many pages, all of version 0.
    pub(in crate::cluster) fn new(pages: u32) -> GuestDisk {
        GuestDisk {
            backing: vec![0; pages as usize],
            written: vec![0; pages as usize],
        }
    }

    /// Writes a page to the backing. Returns its version.
    fn write(&mut self, number: u32, mutation: Option<Mutation>) -> u32 {
        let written = &mut self.written[number as usize];
        *written += 1;
        if mutation != Some(Mutation::BackingUnwritten) {
            self.backing[number as usize] = *written;
        }
        *written
    }
}

/// How busy a guest is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cluster) struct GuestHabits {
    /// The pages that it uses of each pool.
    pub(in crate::cluster) pages: u32,
    /// The mean time between two runs of pages.
    pub(in crate::cluster) think: VirtualDuration,
}

/// The guest of a node.
pub(in crate::cluster) struct ClusterGuest {
    pub(in crate::cluster) habits: GuestHabits,
    luck: SimRng,
    /// Versions of the ring's pages so far.
    versions: u32,
}

/// What a guest works with.
pub(super) struct GuestTools<'a> {
    pub(super) state: &'a mut NodeState,
    pub(super) fetcher: &'a mut Fetcher,
    pub(super) disk: &'a mut GuestDisk,
}

/// What a guest does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GuestVerb {
    Read,
    Write,
    Flush,
}

impl ClusterGuest {
    /// A guest that has done nothing.
    pub(in crate::cluster) fn new(habits: GuestHabits, luck: SimRng) -> ClusterGuest {
        ClusterGuest {
            habits,
            luck,
            versions: 0,
        }
    }

    /// The time until it does something again.
    pub(super) fn pause(&mut self) -> VirtualDuration {
        let mean = self.habits.think.0 as f64;
        VirtualDuration((mean * self.luck.exponential()) as u64 + 1)
    }

    /// Does something with a run of pages.
    pub(super) fn act(&mut self, tools: &mut GuestTools<'_>, env: &mut Environment) {
        let pool = GuestPool::ALL[self.luck.below(2) as usize];
        let verb = match self.luck.below(16) {
            0..8 => GuestVerb::Read,
            8..15 => GuestVerb::Write,
            _ => GuestVerb::Flush,
        };
        let count = 1 + self.luck.below(RUN_PAGES_MAX) as u32;
        let share = self.luck.share() * self.luck.share();
        let first = (share * f64::from(self.habits.pages)) as u32;
        let end = self.habits.pages.min(first + count);
        let pages = (first..end).map(|number| GuestPage { pool, number });
        let word = match verb {
            GuestVerb::Read => "reads",
            GuestVerb::Write => "writes",
            GuestVerb::Flush => "flushes",
        };
        let first = GuestPage {
            pool,
            number: first,
        };
        env.note(tools.state.node(), TraceEvent::Guest(word, first, count));
        match verb {
            GuestVerb::Read => {
                let mut reads = PageReads::default();
                for page in pages {
                    env.tally.pages_read += 1;
                    let got = tools.state.memory.get(page, tools.state.second(env.now));
                    reads.settle(tools, env, (page, got, 0));
                }
                reads.ask(tools, env);
            }
            GuestVerb::Write => pages.for_each(|page| self.write(tools, env, page)),
            GuestVerb::Flush => pages.for_each(|page| flush(tools, env, page)),
        }
    }

    /// Flushes all pages of all pools.
    pub(super) fn flush_all(&self, tools: &mut GuestTools<'_>, env: &mut Environment) {
        for pool in GuestPool::ALL {
            let pages = (0..self.habits.pages).map(|number| GuestPage { pool, number });
            pages.for_each(|page| flush(tools, env, page));
        }
    }

    fn write(&mut self, tools: &mut GuestTools<'_>, env: &mut Environment, page: GuestPage) {
        let node = tools.state.node();
        let version = match page.pool {
            GuestPool::Disk => tools.disk.write(page.number, env.mutation),
            GuestPool::Ring => {
                self.versions += 1;
                self.versions
            }
        };
        let stored = put(tools, env, page, version);
        env.tally.pages_written += 1;
        match page.pool {
            GuestPool::Disk => env.judges.content.disk_written(node, page.number, version),
            GuestPool::Ring => {
                let version = stored.then_some(version);
                env.judges.content.ring_put(node, page.number, version);
            }
        }
    }
}

/// Takes in what became of pages that were wanted of lenders.
pub(super) fn finish_reads(
    tools: &mut GuestTools<'_>,
    env: &mut Environment,
    fetched: Vec<FetchedPage>,
) {
    let mut reads = PageReads {
        fetched: fetched.into(),
        ..PageReads::default()
    };
    reads.ask(tools, env);
}

/// Puts a page into memory. Returns whether it is stored.
fn put(tools: &GuestTools<'_>, env: &Environment, page: GuestPage, version: u32) -> bool {
    let content = PageContent {
        node: tools.state.node(),
        page,
        version,
    };
    let now = tools.state.second(env.now);
    tools.state.memory.put(page, &content.stamp(), now)
}

fn flush(tools: &GuestTools<'_>, env: &mut Environment, page: GuestPage) {
    tools.state.memory.flush(page, tools.state.second(env.now));
    if page.pool == GuestPool::Ring {
        let node = tools.state.node();
        env.judges.content.ring_gone(node, page.number);
    }
}

/// Pages that are being read, and those of them that lenders have.
#[derive(Default)]
struct PageReads {
    away: BTreeMap<u16, Vec<WantedPage>>,
    fetched: VecDeque<FetchedPage>,
}

impl PageReads {
    /// Asks lenders for the pages that they have, and goes on with those of which it is known what became of them.
    fn ask(&mut self, tools: &mut GuestTools<'_>, env: &mut Environment) {
        loop {
            while let Some(fetched) = self.fetched.pop_front() {
                self.end_fetch(tools, env, fetched);
            }
            let Some((slot, pages)) = self.away.pop_first() else {
                return;
            };
            let slot = LeaseSlot(slot);
            let ended = tools.fetcher.ask(tools.state, env, slot, pages);
            self.fetched.extend(ended);
        }
    }

    /// Goes on with a get. `rounds` is how many tickets it had.
    fn settle(
        &mut self,
        tools: &mut GuestTools<'_>,
        env: &mut Environment,
        (page, (got, stamp), rounds): (GuestPage, PageGet, u32),
    ) {
        match (got, stamp) {
            (GetOutcome::Hit, Some(stamp)) => hit(tools, env, page, &stamp),
            (GetOutcome::Away(ticket), _) => {
                let node = tools.state.node();
                if page.pool == GuestPool::Ring {
                    let finding = env.judges.content.ring_away(node, page.number);
                    env.judge(node, finding);
                }
                self.want(tools, env, (page, ticket, rounds));
            }
            _ => missed(tools, env, page),
        }
    }

    fn want(
        &mut self,
        tools: &mut GuestTools<'_>,
        env: &mut Environment,
        (page, ticket, rounds): (GuestPage, AwayTicket, u32),
    ) {
        let wanted = WantedPage {
            page,
            ticket,
            rounds,
        };
        match rounds < ROUNDS_MAX {
            true => {
                let of_lease = self.away.entry(ticket.address.lease.0).or_default();
                of_lease.push(wanted);
            }
            false => self.leave(tools, env, wanted),
        }
    }

    fn end_fetch(
        &mut self,
        tools: &mut GuestTools<'_>,
        env: &mut Environment,
        FetchedPage { wanted, outcome }: FetchedPage,
    ) {
        let WantedPage {
            page,
            ticket,
            rounds,
        } = wanted;
        let now = tools.state.second(env.now);
        let got = match outcome {
            FetchOutcome::Page(stamp) => {
                env.tally.far_hits += 1;
                tools.state.memory.arrived(page, &ticket, &stamp, now)
            }
            FetchOutcome::Gone => {
                env.tally.far_lost += 1;
                if env.leaves_out(Mutation::WhereaboutsKept) {
                    return missed(tools, env, page);
                }
                tools.state.memory.gone(page, &ticket, now)
            }
            FetchOutcome::NotAsked => return self.leave(tools, env, wanted),
        };
        self.settle(tools, env, (page, got, rounds + 1));
    }

    /// Ends a get without asking the lender. A disk reads its backing, and the page stays where it is. A ring forgets the
    /// page, whatever ticket it has by now.
    fn leave(&mut self, tools: &mut GuestTools<'_>, env: &mut Environment, wanted: WantedPage) {
        let WantedPage { page, rounds, .. } = wanted;
        if page.pool == GuestPool::Disk {
            read_backing(tools, env, page);
            return;
        }
        let now = tools.state.second(env.now);
        let mut ticket = wanted.ticket;
        loop {
            match tools.state.memory.gone(page, &ticket, now) {
                (GetOutcome::Away(newer), _) => ticket = newer,
                got => return self.settle(tools, env, (page, got, rounds + 1)),
            }
        }
    }
}

fn hit(tools: &GuestTools<'_>, env: &mut Environment, page: GuestPage, stamp: &[u8; STAMP_BYTES]) {
    let node = tools.state.node();
    if let Some(content) = PageContent::read(stamp) {
        let finding = env.judges.owner.hit(node, content);
        env.judge(node, finding);
    }
    let content = &mut env.judges.content;
    let finding = match page.pool {
        GuestPool::Disk => content.disk_read(node, page.number, stamp, DiskSource::Memory),
        GuestPool::Ring => content.ring_hit(node, page.number, stamp),
    };
    env.judge(node, finding);
}

fn missed(tools: &mut GuestTools<'_>, env: &mut Environment, page: GuestPage) {
    match page.pool {
        GuestPool::Disk => {
            let version = read_backing(tools, env, page);
            put(tools, env, page, version);
        }
        GuestPool::Ring => {
            let node = tools.state.node();
            env.judges.content.ring_gone(node, page.number);
        }
    }
}

/// Reads a page of the disk from its backing. Returns its version.
fn read_backing(tools: &mut GuestTools<'_>, env: &mut Environment, page: GuestPage) -> u32 {
    let node = tools.state.node();
    let version = tools.disk.backing[page.number as usize];
    let content = PageContent {
        node,
        page,
        version,
    };
    let stamp = content.stamp();
    let ledger = &env.judges.content;
    let finding = ledger.disk_read(node, page.number, &stamp, DiskSource::Backing);
    env.judge(node, finding);
    tools.fetcher.missed();
    version
}
