//! A virtual machine: memory of its own, swap space, files, and what it costs to reach each.

mod files;
mod memory;
mod swap_ahead;
mod swapping;

use serde::Deserialize;
use sublet_types::TenantId;

use super::disk::{Disk, DiskPlace};
use super::swap::{Slot, SwapSpace};
use super::tier::{Get, Pool, Stamp, Tier, TierPage};
use crate::table::Table;
use crate::virtual_time::{Moment, Nanos};
use crate::workload::{FileSpan, Step};
use memory::{Leaver, Memory, Place, Touched};
use swap_ahead::Ahead;
pub use swap_ahead::SwapAhead;

/// How a guest is made.
#[derive(Clone, Copy, Debug)]
pub struct GuestShape {
    /// Its number in the tier.
    pub tenant: TenantId,
    /// Pages of its own memory that the workload may use.
    pub memory_pages: usize,
    /// Pages of its swap space.
    pub swap_pages: u32,
    /// Pages that one fault brings in where they lie together; a power of two.
    pub read_ahead: u32,
    /// How many of them a fault on swapped memory brings in.
    pub swap_ahead: SwapAhead,
    /// What becomes of a swapped page in the tier when it is read back.
    pub after_swap_in: AfterSwapIn,
    /// What things cost.
    pub costs: Costs,
}

/// What becomes of a swapped page in the tier when it is read back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AfterSwapIn {
    /// It stays until the page is written to (frontswap), unless half of the swap space is taken.
    #[default]
    Keep,
    /// It is flushed, and the page is dirty again (frontswap with exclusive gets).
    Free,
}

/// What things cost a guest in virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Costs {
    /// A touch of a page in memory.
    pub touch: Nanos,
    /// A fault, before anything is read.
    pub fault: Nanos,
    /// A put into the tier.
    pub put: Nanos,
    /// A get from the tier that hits.
    pub get: Nanos,
    /// A get that misses, a put that is refused, a flush.
    pub refusal: Nanos,
}

/// A touch: some cache misses. A fault: an exit and the guest's handling. A put or get: Mortar's hypercall
/// path took 30 µs with its copies of 50 KB; Xen's tmem copies one page in 2 to 3 µs.
impl Default for Costs {
    fn default() -> Costs {
        Costs {
            touch: Nanos(200),
            fault: Nanos(2_000),
            put: Nanos(3_000),
            get: Nanos(3_000),
            refusal: Nanos(1_000),
        }
    }
}

/// What a guest did since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct GuestCounts {
    /// Steps of its workload.
    pub steps: u64,
    /// Pages touched, read and written.
    pub touches: u64,
    /// Of these, found in its own memory.
    pub memory_hits: u64,
    /// Of the others, pages that had to come from the tier or the disk.
    pub faults: u64,
    /// Pages asked of the tier, read-ahead included.
    pub tier_gets: u64,
    /// Of these, hits.
    pub tier_hits: u64,
    /// Pages offered to the tier.
    pub puts: u64,
    /// Of these, refused.
    pub puts_refused: u64,
    /// Pages read from the disk.
    pub disk_pages_read: u64,
    /// Pages written to it.
    pub disk_pages_written: u64,
    /// Windows of read-ahead.
    pub windows: u64,
    /// Of these, partly in the tier, so that the disk was read all the same (read-ahead fragmentation).
    pub windows_fragmented: u64,
    /// Requests to files.
    pub requests: u64,
    /// Nanoseconds that these took together.
    pub request_nanos: u64,
    /// Pages that came back with another content than they had: always zero.
    pub pages_wrong: u64,
    /// Persistent pages that did not come back: always zero.
    pub pages_lost: u64,
}

/// Why a guest cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GuestFault {
    /// All its swap space is taken.
    #[error("its swap space is full; give it more (`swap`), more `memory`, or a smaller workload")]
    SwapFull,
}

/// What a guest shares with the others.
pub struct Surroundings<'a> {
    /// The tier.
    pub tier: &'a mut dyn Tier,
    /// The host's disk.
    pub disk: &'a mut Disk,
}

/// A virtual machine.
#[derive(Debug)]
pub struct Guest {
    shape: GuestShape,
    /// Of an anonymous page, the slot that has a copy of it is noted, plus one; of a file page, its version on the
    /// disk, where it was written.
    memory: Memory,
    swap: SwapSpace,
    swap_outs: u32,
    swap_ahead: Ahead,
    /// The page that was read last of each file that is being read, as Linux keeps it for an open file.
    read_at: Table<u64, u32>,
    scratch: Scratch,
    /// When its last step began; none that touches a page begins earlier any more.
    began: Moment,
    /// Time that it waited for the disk.
    waited: Nanos,
    /// What it did.
    pub counts: GuestCounts,
}

/// A page of a window and how it came.
#[derive(Clone, Copy, Debug)]
struct Fetched {
    place: Place,
    on_disk: DiskPlace,
    arrived: Arrival,
}

/// Lists that are made for every window, kept for the next one.
#[derive(Debug, Default)]
struct Scratch {
    /// Slots around the one that is asked for, that one first.
    slots: Vec<(u32, Slot)>,
    window: Vec<Fetched>,
    /// Of the window, what comes from the disk, in its order there.
    order: Vec<usize>,
    /// When each page of the window is there.
    ready: Vec<Moment>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrival {
    FromTier,
    FromDisk,
}

impl Guest {
    /// A guest with nothing in memory.
    pub fn of(shape: GuestShape) -> Guest {
        Guest {
            shape,
            memory: Memory::default(),
            swap: SwapSpace::of(shape.swap_pages),
            swap_outs: 0,
            swap_ahead: Ahead::of(shape.swap_ahead, shape.read_ahead),
            read_at: Table::default(),
            scratch: Scratch::default(),
            began: Moment::START,
            waited: Nanos::default(),
            counts: GuestCounts::default(),
        }
    }

    /// Time that it has waited for the disk so far, while its processor was another's.
    pub fn waited(&self) -> Nanos {
        self.waited
    }

    /// Waits until `until`, where that is later than `now`; returns when it goes on.
    fn wait(&mut self, now: Moment, until: Moment) -> Moment {
        self.waited += until.since(now);
        now.max(until)
    }

    /// Waits for a page in memory to be there, and counts that it was.
    fn found(&mut self, touched: Touched, now: Moment) -> Moment {
        self.counts.memory_hits += 1;
        if touched.was_ahead {
            self.swap_ahead.hit();
        }
        self.wait(now, touched.usable_at)
    }

    /// Does one step of a workload, which begins no earlier than the one before; returns when it is done.
    ///
    /// # Errors
    ///
    /// Its swap space is full.
    pub fn step(
        &mut self,
        step: &Step,
        now: Moment,
        around: &mut Surroundings<'_>,
    ) -> Result<Moment, GuestFault> {
        self.counts.steps += 1;
        self.began = now;
        match *step {
            Step::Compute(span) => Ok(now + span),
            Step::Until(moment) => Ok(self.wait(now, moment)),
            Step::Touch { page, write } => self.touch(page, write, now, around),
            Step::Release { from, count } => Ok(self.release(from, count, now, around)),
            Step::Read(span) => self.request(span, now, around, Guest::read),
            Step::Write(span) => self.request(span, now, around, Guest::write),
            Step::Delete { object, pages } => Ok(self.delete(object, pages, now, around)),
            Step::Begin(_) | Step::End | Step::Done => Ok(now),
        }
    }

    fn request(
        &mut self,
        span: FileSpan,
        now: Moment,
        around: &mut Surroundings<'_>,
        serve: fn(
            &mut Guest,
            FileSpan,
            Moment,
            &mut Surroundings<'_>,
        ) -> Result<Moment, GuestFault>,
    ) -> Result<Moment, GuestFault> {
        let done = serve(self, span, now, around)?;
        self.counts.requests += 1;
        self.counts.request_nanos += done.since(now).0;
        Ok(done)
    }

    fn tier_page(&self, pool: Pool, object: u64, index: u32) -> TierPage {
        TierPage {
            tenant: self.shape.tenant,
            pool,
            object,
            index,
        }
    }

    /// Where a region of this guest's lies: no two guests' regions touch.
    fn disk_place(&self, region: u64, page: u64) -> DiskPlace {
        let owner = u64::from(self.shape.tenant.0) << 48;
        DiskPlace {
            region: region.rotate_left(1) ^ owner,
            page,
        }
    }

    /// Evicts until a page more fits; returns when the last of them has left.
    fn make_room(
        &mut self,
        now: Moment,
        around: &mut Surroundings<'_>,
    ) -> Result<Moment, GuestFault> {
        let mut now = now;
        while self.memory.len() >= self.shape.memory_pages {
            now = match self.memory.pop_coldest() {
                Some(Leaver::Anonymous(place)) if self.slot_of(place).is_some() => now,
                Some(Leaver::Anonymous(place)) => self.swap_out(place, now, around)?,
                Some(Leaver::File { place, dirty }) => {
                    self.evict_file_page(place, dirty, now, around)
                }
                None => return Ok(now),
            };
        }
        Ok(now)
    }

    /// Offers a page to the tier; whether it took it, and when that is known.
    fn put(
        &mut self,
        page: TierPage,
        stamp: Stamp,
        now: Moment,
        around: &mut Surroundings<'_>,
    ) -> (bool, Moment) {
        self.counts.puts += 1;
        match around.tier.put(page, stamp, now) {
            super::tier::Put::Stored => (true, now + self.shape.costs.put),
            super::tier::Put::Refused => {
                self.counts.puts_refused += 1;
                (false, now + self.shape.costs.refusal)
            }
        }
    }

    /// Asks the tier for a page and checks what comes back.
    fn get(
        &mut self,
        page: TierPage,
        version: u32,
        now: Moment,
        around: &mut Surroundings<'_>,
    ) -> (Option<Arrival>, Moment) {
        self.counts.tier_gets += 1;
        let (stamp, arrived) = match around.tier.get(page, now) {
            Get::Hit(stamp) => (stamp, Arrival::FromTier),
            Get::OnDisk(stamp) => (stamp, Arrival::FromDisk),
            Get::Miss => return (None, now + self.shape.costs.refusal),
        };
        self.counts.tier_hits += u64::from(arrived == Arrival::FromTier);
        self.counts.pages_wrong += u64::from(stamp != Stamp::of(page, version));
        (Some(arrived), now + self.shape.costs.get)
    }

    /// Reads from the disk what a window's pages did not find in the tier, neighbours together, and enters
    /// all of them; the first is the one that was asked for. Returns when that one is there.
    fn bring_in(
        &mut self,
        window: &[Fetched],
        insert: fn(&mut Memory, Place, Moment),
        now: Moment,
        around: &mut Surroundings<'_>,
    ) -> Result<Moment, GuestFault> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let read = scratch.read_runs(window, now, around.disk);
        self.counts.disk_pages_read += read as u64;
        self.counts.windows += u64::from(window.len() > 1);
        self.counts.windows_fragmented += u64::from(read > 0 && read < window.len());
        let asked_ready = scratch.ready.first().copied();
        let mut now = now;
        // The one that was asked for comes last, so that it is the hottest.
        for (page, ready_at) in window.iter().zip(&scratch.ready).rev() {
            now = self.make_room(now, around)?;
            insert(&mut self.memory, page.place, *ready_at);
        }
        self.scratch = scratch;
        Ok(self.wait(now, asked_ready.unwrap_or(now)))
    }
}

impl Scratch {
    /// Notes when each page of a window is there: one request for each run of neighbours, the first page's
    /// first. Returns how many come from the disk.
    fn read_runs(&mut self, window: &[Fetched], now: Moment, disk: &mut Disk) -> usize {
        let Scratch { order, ready, .. } = self;
        ready.clear();
        ready.resize(window.len(), now);
        order.clear();
        let is_on_disk = |n: &usize| window[*n].arrived == Arrival::FromDisk;
        order.extend((0..window.len()).filter(is_on_disk));
        order.sort_unstable_by_key(|n| (window[*n].on_disk.region, window[*n].on_disk.page));
        let follows = |a: &usize, b: &usize| window[*a].on_disk.plus(1) == window[*b].on_disk;
        let runs = || order.chunk_by(follows);
        let asked = runs().filter(|run| run.contains(&0));
        for run in asked.chain(runs().filter(|run| !run.contains(&0))) {
            let done = disk.read(now, window[run[0]].on_disk, run.len() as u64);
            run.iter().for_each(|n| ready[*n] = done);
        }
        order.len()
    }
}

#[cfg(test)]
mod tests;
