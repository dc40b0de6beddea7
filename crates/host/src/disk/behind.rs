//! Writing behind: giving each staged page its copy on the backing, a little later and out of the way.

use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::time::{Duration, Instant};

use sublet_frontends::block::Buffer;
use sublet_types::{Durability, PAGE_BYTES};

use super::backed::Errand;
use super::cover::PAGE;
use super::disk_thread::DiskThread;
use super::engine::Haste;
use super::stage::Staged;
use super::swap::Swap;

/// How long a page may wait for others that could be written with it.
const REST: Duration = Duration::from_millis(50);

/// How often to look whether pages that stay in memory have to leave it.
const LOOK: Duration = Duration::from_millis(250);

/// How long a backing that failed is left alone.
const PAUSE: Duration = Duration::from_secs(1);

/// Pages that are looked at together.
const BATCH: usize = 1024;

/// Pages of one write: 256 KiB.
const RUN_PAGES: usize = 64;

/// How often a backing may fail while the disk is going away.
const LAST_TRIES: u32 = 3;

/// What writing behind needs, all of it from the start.
struct Desk {
    room: Buffer,
    batch: Vec<Staged>,
    from: u32,
    failures: u32,
}

impl DiskThread {
    /// Writes staged pages until the disk's inbox has ended and none is left.
    pub(super) async fn write_behind(self: Rc<DiskThread>) {
        let Some(swap) = &self.disk.swap else {
            return;
        };
        let mut desk = Desk {
            room: Buffer::zeroed(RUN_PAGES * PAGE),
            batch: Vec::with_capacity(BATCH),
            from: 0,
            failures: 0,
        };
        loop {
            poll_fn(|turn| swap.poll_dirty(turn, &self.disk.inbox)).await;
            let ended = self.disk.inbox.has_ended();
            if ended && (swap.dirty() == 0 || desk.failures >= LAST_TRIES) {
                return;
            }
            if !ended && !self.is_due(swap) {
                self.rest(LOOK).await;
                continue;
            }
            self.write_batch(swap, &mut desk).await;
        }
    }

    async fn rest(&self, time: Duration) {
        self.engine.sleep_until(Instant::now() + time).await;
    }

    /// Whether pages are to be written now: always, but where they are to stay in memory for as long as there is room.
    fn is_due(&self, swap: &Swap) -> bool {
        swap.durability() != Durability::Memory || swap.stage.is_filling() || swap.is_hurried()
    }

    /// Whether somebody waits for the backing, or will soon.
    fn is_pressed(&self, swap: &Swap) -> bool {
        self.disk.inbox.has_ended() || swap.stage.is_filling() || swap.is_hurried()
    }

    async fn write_batch(&self, swap: &Swap, desk: &mut Desk) {
        if !self.is_pressed(swap) {
            self.rest(REST).await;
        }
        swap.some(&mut desk.from, &mut desk.batch);
        let (mut from, mut written, mut failed) = (0, 0, false);
        while from < desk.batch.len() {
            let run = run_from(&desk.batch, from);
            // A bad place keeps no other from being written.
            match self.write_run(swap, desk, run.clone()).await {
                Ok(count) => written += count,
                Err(error) => {
                    self.disk.tell(Errand::Write, &error);
                    failed = true;
                }
            }
            from = run.end;
        }
        if failed {
            swap.note_backing(false);
            desk.failures += 1;
            self.rest(PAUSE).await;
        } else if written > 0 {
            // A backing that was given nothing has not shown that it works.
            swap.note_backing(true);
            self.disk.tell_works(Errand::Write);
            desk.failures = 0;
        } else {
            // All of it changed meanwhile. Others have their turn before the next look.
            self.rest(REST).await;
        }
    }

    /// Writes pages that follow each other; those that changed meanwhile, or left, stay out of it. Says how many were
    /// written.
    async fn write_run(
        &self,
        swap: &Swap,
        desk: &mut Desk,
        run: Range<usize>,
    ) -> io::Result<usize> {
        let pages = desk.batch[run.start].page..desk.batch[run.end - 1].page + 1;
        let _held = self.ranges.hold(pages).await;
        let (mut from, mut written, mut failed) = (run.start, 0, None);
        while from < run.end {
            let readable = DiskThread::read_staged(swap, desk, from..run.end);
            let count = readable.unwrap_or_else(|(count, error)| {
                failed = Some(error);
                count
            });
            if count > 0 {
                self.write_pages_behind(swap, desk, from..from + count)
                    .await?;
            }
            written += count;
            from += count.max(1);
        }
        failed.map_or(Ok(written), Err)
    }

    /// Reads staged pages one after the other, up to the first that changed meanwhile, or that cannot be read. Says
    /// how many there are.
    fn read_staged(
        swap: &Swap,
        desk: &mut Desk,
        run: Range<usize>,
    ) -> Result<usize, (usize, io::Error)> {
        let len = run.len();
        let staged = desk.batch[run].iter();
        for (count, (staged, room)) in staged.zip(desk.room.chunks_mut(PAGE)).enumerate() {
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
        desk: &mut Desk,
        run: Range<usize>,
    ) -> io::Result<()> {
        let at = desk.batch[run.start].page * PAGE_BYTES;
        // Of the backing, not of the disk: a disk may have been larger when the pages came.
        let inside = self.disk.backing.bytes()?.saturating_sub(at);
        if inside == 0 {
            return Err(io::Error::other(
                "a staged page lies beyond the end of the backing",
            ));
        }
        let part = 0..(run.len() * PAGE).min(inside as usize);
        let run = run.start..run.start + part.end.div_ceil(PAGE);
        let room = std::mem::take(&mut desk.room);
        let haste = match self.is_pressed(swap) {
            true => Haste::Awaited,
            false => Haste::Leisurely,
        };
        let backing = &self.disk.backing;
        let (written, room) = backing.write(&self.engine, haste, at, room, part).await;
        desk.room = room;
        written?;
        if !self.disk.backing.is_direct() {
            // The page cache takes everything; whether the disk did is heard here only.
            self.disk.backing.sync(&self.engine).await?;
        }
        self.tally.written_behind.add(run.len() as u64);
        for staged in &desk.batch[run] {
            swap.stage.settle(swap.disk, *staged);
        }
        Ok(())
    }
}

/// Pages from one on that follow each other.
fn run_from(batch: &[Staged], from: usize) -> Range<usize> {
    let follows = |pair: &&[Staged]| pair[0].page + 1 == pair[1].page;
    let count = batch[from..].windows(2).take_while(follows).count() + 1;
    from..from + count.min(RUN_PAGES)
}
