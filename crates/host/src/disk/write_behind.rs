//! The write-behind task: it gives each staged page its copy on the backing, a little later and out of the way.

use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::time::{Duration, Instant};

use sublet_frontends::block_device::Buffer;
use sublet_types::{Durability, PAGE_BYTES};

use super::backed_disk::BackingOperation;
use super::disk_thread::DiskThread;
use super::engine::IoPriority;
use super::page_span::PAGE;
use super::stage::StagedPage;
use super::swap::Swap;
use crate::observe::HealthState;

/// How long a page may wait for others that could be written with it.
const REST: Duration = Duration::from_millis(50);

/// How often to check whether pages that stay in memory have to leave it.
const LOOK: Duration = Duration::from_millis(250);

/// How long a backing that failed is left alone.
const PAUSE: Duration = Duration::from_secs(1);

/// Pages that are looked at together.
const BATCH: usize = 1024;

/// Pages of one write: 256 KiB.
const RUN_PAGES: usize = 64;

/// How often a backing may fail while the disk is going away.
const LAST_TRIES: u32 = 3;

/// What the task needs, all of it from the start.
struct WriteBehindState {
    room: Buffer,
    batch: Vec<StagedPage>,
    from: u32,
    failures: u32,
}

impl DiskThread {
    /// Writes staged pages until the disk's queue has ended and none is left.
    pub(super) async fn write_behind(self: Rc<DiskThread>) {
        let Some(swap) = &self.disk.swap else {
            return;
        };
        let mut state = WriteBehindState {
            room: Buffer::zeroed(RUN_PAGES * PAGE),
            batch: Vec::with_capacity(BATCH),
            from: 0,
            failures: 0,
        };
        loop {
            poll_fn(|turn| swap.poll_dirty(turn, &self.disk.queue)).await;
            let ended = self.disk.queue.has_ended();
            if ended && (swap.dirty() == 0 || state.failures >= LAST_TRIES) {
                return;
            }
            if !ended && !self.is_due(swap) {
                self.sleep(LOOK).await;
                continue;
            }
            self.write_batch(swap, &mut state).await;
        }
    }

    async fn sleep(&self, time: Duration) {
        self.engine.sleep_until(Instant::now() + time).await;
    }

    /// Returns whether to write pages now. The answer is no only if pages are to stay in memory for as long as there is
    /// room.
    fn is_due(&self, swap: &Swap) -> bool {
        swap.durability() != Durability::Memory
            || swap.stage.is_filling()
            || swap.is_drain_requested()
    }

    /// Returns whether somebody waits for the backing, or will soon.
    fn is_pressed(&self, swap: &Swap) -> bool {
        self.disk.queue.has_ended() || swap.stage.is_filling() || swap.is_drain_requested()
    }

    async fn write_batch(&self, swap: &Swap, state: &mut WriteBehindState) {
        if !self.is_pressed(swap) {
            self.sleep(REST).await;
        }
        swap.next_batch(&mut state.from, &mut state.batch);
        let (mut from, mut written, mut failed) = (0, 0, false);
        while from < state.batch.len() {
            let run = run_from(&state.batch, from);
            // A bad place on the backing keeps no other place from being written.
            match self.write_run(swap, state, run.clone()).await {
                Ok(count) => written += count,
                Err(error) => {
                    self.disk.report_failure(BackingOperation::Write, &error);
                    failed = true;
                }
            }
            from = run.end;
        }
        if failed {
            swap.record_backing(HealthState::Failing);
            state.failures += 1;
            self.sleep(PAUSE).await;
        } else if written > 0 {
            // A backing that got no write has not shown that it works.
            swap.record_backing(HealthState::Working);
            self.disk.report_recovery(BackingOperation::Write);
            state.failures = 0;
        } else {
            // All pages changed meanwhile. Other tasks have their turn before the next try.
            self.sleep(REST).await;
        }
    }

    /// Writes consecutive pages, without those that changed or left meanwhile. Returns how many were written.
    async fn write_run(
        &self,
        swap: &Swap,
        state: &mut WriteBehindState,
        run: Range<usize>,
    ) -> io::Result<usize> {
        let pages = state.batch[run.start].page..state.batch[run.end - 1].page + 1;
        let _held = self.ranges.lock(pages).await;
        let (mut from, mut written, mut failed) = (run.start, 0, None);
        while from < run.end {
            let readable = DiskThread::read_staged(swap, state, from..run.end);
            let count = readable.unwrap_or_else(|(count, error)| {
                failed = Some(error);
                count
            });
            if count > 0 {
                self.write_pages_behind(swap, state, from..from + count)
                    .await?;
            }
            written += count;
            from += count.max(1);
        }
        failed.map_or(Ok(written), Err)
    }

    /// Reads consecutive staged pages, up to the first that changed meanwhile or cannot be read. Returns how many there
    /// are.
    fn read_staged(
        swap: &Swap,
        state: &mut WriteBehindState,
        run: Range<usize>,
    ) -> Result<usize, (usize, io::Error)> {
        let len = run.len();
        let staged = state.batch[run].iter();
        for (count, (staged, room)) in staged.zip(state.room.chunks_mut(PAGE)).enumerate() {
            match swap.stage.read_same(swap.disk, *staged, room) {
                Ok(true) => {}
                Ok(false) => return Ok(count),
                Err(error) => return Err((count, error)),
            }
        }
        Ok(len)
    }

    async fn write_pages_behind(
        &self,
        swap: &Swap,
        state: &mut WriteBehindState,
        run: Range<usize>,
    ) -> io::Result<()> {
        let at = state.batch[run.start].page * PAGE_BYTES;
        // The size of the backing, not of the disk: a disk may have been larger when the pages came.
        let inside = self.disk.backing.bytes()?.saturating_sub(at);
        if inside == 0 {
            return Err(io::Error::other(
                "a staged page lies beyond the end of the backing",
            ));
        }
        let part = 0..(run.len() * PAGE).min(inside as usize);
        let run = run.start..run.start + part.end.div_ceil(PAGE);
        let room = std::mem::take(&mut state.room);
        let priority = match self.is_pressed(swap) {
            true => IoPriority::Awaited,
            false => IoPriority::Background,
        };
        let backing = &self.disk.backing;
        let (written, room) = backing.write(&self.engine, priority, at, room, part).await;
        state.room = room;
        written?;
        if !self.disk.backing.is_direct() {
            // The page cache takes everything. Only the sync says whether the device did.
            self.disk.backing.sync(&self.engine).await?;
        }
        self.tally.written_behind.add(run.len() as u64);
        for staged in &state.batch[run] {
            swap.stage.remove_written(swap.disk, *staged);
        }
        Ok(())
    }
}

/// The range of consecutive pages from one on.
fn run_from(batch: &[StagedPage], from: usize) -> Range<usize> {
    let follows = |pair: &&[StagedPage]| pair[0].page + 1 == pair[1].page;
    let count = batch[from..].windows(2).take_while(follows).count() + 1;
    from..from + count.min(RUN_PAGES)
}
