//! A virtual machine: its own memory, its swap space and files, and the costs of reaching each.

mod files;
mod memory;
mod swap_read_ahead;
mod swapping;

use serde::Deserialize;
use sublet_types::TenantId;

use super::disk_model::{DiskAddress, DiskModel};
use super::swap::{SwapSlot, SwapSpace};
use super::tier::{PageStamp, PoolKind, Tier, TierGetOutcome, TierPage};
use crate::stable_hash::StableHashMap;
use crate::virtual_time::{VirtualDuration, VirtualInstant};
use crate::workload::{FileSpan, WorkloadStep};
use memory::{EntryIndex, EvictedPage, GuestMemory, PageHit};
use swap_read_ahead::SwapReadAhead;
pub use swap_read_ahead::SwapReadAheadMode;

/// The properties of a guest.
#[derive(Clone, Copy, Debug)]
pub struct GuestShape {
    /// Its number in the tier.
    pub tenant: TenantId,
    /// Pages of its own memory that the workload may use.
    pub memory_pages: usize,
    /// Pages of its swap space.
    pub swap_pages: u32,
    /// Pages that one fault brings in if they lie together. A power of two.
    pub read_ahead: u32,
    /// How many of them a fault on swapped memory brings in.
    pub swap_ahead: SwapReadAheadMode,
    /// What happens to a swapped page in the tier when it is read back.
    pub after_swap_in: AfterSwapIn,
    /// The costs of its operations.
    pub costs: GuestCosts,
}

/// What happens to a swapped page in the tier when it is read back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AfterSwapIn {
    /// It stays until the page is written to (frontswap), unless half of the swap space is taken.
    #[default]
    Keep,
    /// It is flushed, and the page is dirty again (frontswap with exclusive gets).
    Free,
}

/// The costs of a guest's operations in virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GuestCosts {
    /// A touch of a page in memory.
    pub touch: VirtualDuration,
    /// A fault, before anything is read.
    pub fault: VirtualDuration,
    /// A put into the tier.
    pub put: VirtualDuration,
    /// A get from the tier that hits.
    pub get: VirtualDuration,
    /// A get that misses, a put that is refused, or a flush.
    pub refusal: VirtualDuration,
    /// What a put or a get takes longer if the page lies in the memory of another host.
    pub far: VirtualDuration,
}

/// A touch costs some cache misses. A fault costs an exit and the guest's handling. As to a put or a get, Mortar's
/// hypercall path took 30 µs with its copies of 50 KB. Xen's tmem copies one page in 2 to 3 µs. vMCA adds 50 µs to each
/// access to another host's memory.
impl Default for GuestCosts {
    fn default() -> GuestCosts {
        GuestCosts {
            touch: VirtualDuration(200),
            fault: VirtualDuration(2_000),
            put: VirtualDuration(3_000),
            get: VirtualDuration(3_000),
            refusal: VirtualDuration(1_000),
            far: VirtualDuration(50_000),
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
    /// Those of the pages that were found in its own memory.
    pub memory_hits: u64,
    /// Those of the others that had to come from the tier or the disk.
    pub faults: u64,
    /// Pages asked of the tier, including read-ahead.
    pub tier_gets: u64,
    /// Those of the gets that hit.
    pub tier_hits: u64,
    /// Pages offered to the tier.
    pub puts: u64,
    /// Those of the puts that were refused.
    pub puts_refused: u64,
    /// Puts and gets of pages in the memory of another host.
    pub far_accesses: u64,
    /// Pages read from the disk.
    pub disk_pages_read: u64,
    /// Pages written to it.
    pub disk_pages_written: u64,
    /// Windows of read-ahead.
    pub windows: u64,
    /// Those of the windows that were partly in the tier, so that the disk was read all the same (read-ahead
    /// fragmentation).
    pub windows_fragmented: u64,
    /// Requests to files.
    pub requests: u64,
    /// Nanoseconds that these took in total.
    pub request_nanos: u64,
    /// Pages that came back with other content than they had. Always zero.
    pub pages_wrong: u64,
    /// Persistent pages that did not come back. Always zero.
    pub pages_lost: u64,
}

/// Why a guest cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GuestError {
    /// All its swap space is taken.
    #[error("its swap space is full; give it more (`swap`), more `memory`, or a smaller workload")]
    SwapFull,
}

/// What a guest shares with the others.
pub struct GuestBackends<'a> {
    /// The tier.
    pub tier: &'a mut dyn Tier,
    /// The host's disk.
    pub disk: &'a mut DiskModel,
}

/// A virtual machine.
#[derive(Debug)]
pub struct Guest {
    shape: GuestShape,
    /// For an anonymous page the note is the slot that has a copy of it, plus one. For a file page that was written, it
    /// is the page's version on the disk.
    memory: GuestMemory,
    swap: SwapSpace,
    swap_outs: u32,
    swap_ahead: SwapReadAhead,
    /// The page that was read last of each file that is being read. Linux keeps it for an open file.
    read_at: StableHashMap<u64, u32>,
    scratch: ScratchLists,
    /// When its last step began. No step that touches a page begins earlier any more.
    began: VirtualInstant,
    /// The time that it waited for the disk.
    waited: VirtualDuration,
    /// What it did.
    pub counts: GuestCounts,
}

/// A page of a window, and where it came from.
#[derive(Clone, Copy, Debug)]
struct WindowPage {
    entry: EntryIndex,
    on_disk: DiskAddress,
    arrived: PageSource,
}

/// Lists that every window needs. They are kept for the next one.
#[derive(Debug, Default)]
struct ScratchLists {
    /// The slots around the requested one, which comes first.
    slots: Vec<(u32, SwapSlot)>,
    window: Vec<WindowPage>,
    /// The pages of the window that come from the disk, in the order of their places there.
    order: Vec<usize>,
    /// When each page of the window is there.
    ready: Vec<VirtualInstant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PageSource {
    FromTier,
    FromDisk,
}

impl Guest {
    /// A guest with nothing in memory.
    pub fn of(shape: GuestShape) -> Guest {
        Guest {
            shape,
            memory: GuestMemory::default(),
            swap: SwapSpace::of(shape.swap_pages),
            swap_outs: 0,
            swap_ahead: SwapReadAhead::of(shape.swap_ahead, shape.read_ahead),
            read_at: StableHashMap::default(),
            scratch: ScratchLists::default(),
            began: VirtualInstant::START,
            waited: VirtualDuration::default(),
            counts: GuestCounts::default(),
        }
    }

    /// The time that it has waited for the disk so far. Its processor served others meanwhile.
    pub fn waited(&self) -> VirtualDuration {
        self.waited
    }

    /// Waits until `until` if that is later than `now`. Returns when it goes on.
    fn wait(&mut self, now: VirtualInstant, until: VirtualInstant) -> VirtualInstant {
        self.waited += until.since(now);
        now.max(until)
    }

    /// Waits until a page in memory is there, and counts the hit.
    fn wait_for_page(&mut self, touched: PageHit, now: VirtualInstant) -> VirtualInstant {
        self.counts.memory_hits += 1;
        if touched.was_ahead {
            self.swap_ahead.hit();
        }
        self.wait(now, touched.usable_at)
    }

    /// Does one step of a workload. A step begins no earlier than the previous one. Returns when it is done.
    ///
    /// # Errors
    ///
    /// [`GuestError::SwapFull`] if its swap space is full.
    pub fn step(
        &mut self,
        step: &WorkloadStep,
        now: VirtualInstant,
        backends: &mut GuestBackends<'_>,
    ) -> Result<VirtualInstant, GuestError> {
        self.counts.steps += 1;
        self.began = now;
        match *step {
            WorkloadStep::Compute(span) => Ok(now + span),
            WorkloadStep::Until(moment) => Ok(self.wait(now, moment)),
            WorkloadStep::Touch { page, op } => self.touch(page, op, now, backends),
            WorkloadStep::Release { from, count } => Ok(self.release(from, count, now, backends)),
            WorkloadStep::Read(span) => self.request(span, now, backends, Guest::read),
            WorkloadStep::Write(span) => self.request(span, now, backends, Guest::write),
            WorkloadStep::Delete { object, pages } => Ok(self.delete(object, pages, now, backends)),
            WorkloadStep::Begin(_) | WorkloadStep::End | WorkloadStep::Done => Ok(now),
        }
    }

    fn request(
        &mut self,
        span: FileSpan,
        now: VirtualInstant,
        backends: &mut GuestBackends<'_>,
        serve: fn(
            &mut Guest,
            FileSpan,
            VirtualInstant,
            &mut GuestBackends<'_>,
        ) -> Result<VirtualInstant, GuestError>,
    ) -> Result<VirtualInstant, GuestError> {
        let done = serve(self, span, now, backends)?;
        self.counts.requests += 1;
        self.counts.request_nanos += done.since(now).0;
        Ok(done)
    }

    fn tier_page(&self, pool: PoolKind, object: u64, index: u32) -> TierPage {
        TierPage {
            tenant: self.shape.tenant,
            pool,
            object,
            index,
        }
    }

    /// The address of a page of one of this guest's regions. No two guests' regions touch.
    fn disk_address(&self, region: u64, page: u64) -> DiskAddress {
        let owner = u64::from(self.shape.tenant.0) << 48;
        DiskAddress {
            region: region.rotate_left(1) ^ owner,
            page,
        }
    }

    /// Evicts until one more page fits. Returns when the last evicted page has left.
    fn make_room(
        &mut self,
        now: VirtualInstant,
        backends: &mut GuestBackends<'_>,
    ) -> Result<VirtualInstant, GuestError> {
        let mut now = now;
        while self.memory.len() >= self.shape.memory_pages {
            now = match self.memory.pop_coldest() {
                Some(EvictedPage::Anonymous(entry)) if self.slot_of(entry).is_some() => now,
                Some(EvictedPage::Anonymous(entry)) => self.swap_out(entry, now, backends)?,
                Some(EvictedPage::File { entry, state }) => {
                    self.evict_file_page(entry, state, now, backends)
                }
                None => return Ok(now),
            };
        }
        Ok(now)
    }

    /// Offers a page to the tier. Returns whether the tier took it, and when that is known.
    fn put(
        &mut self,
        page: TierPage,
        stamp: PageStamp,
        now: VirtualInstant,
        backends: &mut GuestBackends<'_>,
    ) -> (bool, VirtualInstant) {
        self.counts.puts += 1;
        match backends.tier.put(page, stamp, now) {
            super::tier::TierPutOutcome::Stored => {
                let done = now + self.shape.costs.put;
                match backends.tier.is_far(page) {
                    true => (true, self.reach_far(done)),
                    false => (true, done),
                }
            }
            super::tier::TierPutOutcome::Refused => {
                self.counts.puts_refused += 1;
                (false, now + self.shape.costs.refusal)
            }
        }
    }

    /// Asks the tier for a page, and checks what comes back.
    fn get(
        &mut self,
        page: TierPage,
        version: u32,
        now: VirtualInstant,
        backends: &mut GuestBackends<'_>,
    ) -> (Option<PageSource>, VirtualInstant) {
        self.counts.tier_gets += 1;
        let is_far = backends.tier.is_far(page);
        let (stamp, arrived) = match backends.tier.get(page, now) {
            TierGetOutcome::Hit(stamp) => (stamp, PageSource::FromTier),
            TierGetOutcome::OnDisk(stamp) => (stamp, PageSource::FromDisk),
            TierGetOutcome::Miss => return (None, now + self.shape.costs.refusal),
        };
        self.counts.tier_hits += u64::from(arrived == PageSource::FromTier);
        self.counts.pages_wrong += u64::from(stamp != PageStamp::of(page, version));
        let done = now + self.shape.costs.get;
        match is_far && arrived == PageSource::FromTier {
            true => (Some(arrived), self.reach_far(done)),
            false => (Some(arrived), done),
        }
    }

    /// Reaches into the memory of another host. Returns when that is done.
    fn reach_far(&mut self, now: VirtualInstant) -> VirtualInstant {
        self.counts.far_accesses += 1;
        now + self.shape.costs.far
    }

    /// Reads those pages of a window from the disk that were not in the tier, neighbours together, and enters all of
    /// them. The first page is the requested one. Returns when that one is there.
    fn bring_in(
        &mut self,
        window: &[WindowPage],
        insert: fn(&mut GuestMemory, EntryIndex, VirtualInstant),
        now: VirtualInstant,
        backends: &mut GuestBackends<'_>,
    ) -> Result<VirtualInstant, GuestError> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let read = scratch.read_runs(window, now, backends.disk);
        self.counts.disk_pages_read += read as u64;
        self.counts.windows += u64::from(window.len() > 1);
        self.counts.windows_fragmented += u64::from(read > 0 && read < window.len());
        let asked_ready = scratch.ready.first().copied();
        let mut now = now;
        // The requested page comes last, so that it is the hottest.
        for (page, ready_at) in window.iter().zip(&scratch.ready).rev() {
            now = self.make_room(now, backends)?;
            insert(&mut self.memory, page.entry, *ready_at);
        }
        self.scratch = scratch;
        Ok(self.wait(now, asked_ready.unwrap_or(now)))
    }
}

impl ScratchLists {
    /// Sets when each page of a window is there. It makes one request per run of neighbours, the first page's run
    /// first. Returns how many come from the disk.
    fn read_runs(
        &mut self,
        window: &[WindowPage],
        now: VirtualInstant,
        disk: &mut DiskModel,
    ) -> usize {
        let ScratchLists { order, ready, .. } = self;
        ready.clear();
        ready.resize(window.len(), now);
        order.clear();
        let is_on_disk = |n: &usize| window[*n].arrived == PageSource::FromDisk;
        order.extend((0..window.len()).filter(is_on_disk));
        order.sort_unstable_by_key(|n| (window[*n].on_disk.region, window[*n].on_disk.page));
        let follows = |a: &usize, b: &usize| window[*a].on_disk.plus(1) == window[*b].on_disk;
        let runs = || order.chunk_by(follows);
        let requested = runs().filter(|run| run.contains(&0));
        for run in requested.chain(runs().filter(|run| !run.contains(&0))) {
            let done = disk.read(now, window[run[0]].on_disk, run.len() as u64);
            run.iter().for_each(|n| ready[*n] = done);
        }
        order.len()
    }
}

#[cfg(test)]
mod tests;
