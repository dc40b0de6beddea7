//! What a disk's tasks do: each verb, over memory and backing, while they hold its pages.

use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use sublet_frontends::block_device::{Buffer, Extent, Fua, Hole, ZeroSpeed, Zeroing};
use sublet_store::disk_caching::ReadCause;
use sublet_store::{AccessPattern, PageRun, UnwrittenPage};
use sublet_types::PAGE_BYTES;

use super::backed_disk::BackingOperation;
use super::disk_thread::DiskThread;
use super::engine::{IoPriority, RetryState};
use super::far_fetch::FarFetch;
use super::page_span::{PAGE, PageSpan, by_object, key};
use super::read_tracker::ReadAheadRange;
use super::reply::DiskReply;
use super::scratch_buffers::ROOM_PAGES;
use super::swap::Swap;
use crate::observe::HealthState;

/// How often a wait checks whether what was staged has been written.
const LOOK: Duration = Duration::from_millis(5);

/// The most pages of one read or write of the backing.
const RUN_MAX: u64 = 1024;

/// The most pages that are made zero by one write.
const ZEROES_MAX: u64 = 256;

/// The most pages of zeroes that swap stages at once. If there are more, the file system makes zeroes with one call.
const STAGED_ZEROES_MAX: u64 = 256;

const ZERO_PAGE: [u8; PAGE] = [0; PAGE];

/// The most extents in one answer.
const EXTENTS_MAX: usize = 128;

/// Pages of which the first was not copied from this host's memory.
enum MissingRun {
    /// Memory has them, at lenders or here.
    Memory(Range<u64>),
    /// The backing has them.
    Backing(Range<u64>),
}

impl DiskThread {
    pub(super) async fn read(&self, at: u64, buffer: Buffer) -> DiskReply {
        let cover = PageSpan::of(at, buffer.len());
        self.tally.reads.add(1);
        self.tally.read_bytes.add(buffer.len() as u64);
        let position = self.disk.record_read(&self.tenancy, &cover.pages);
        let _held = self.ranges.lock(cover.pages.clone()).await;
        if cover.is_exact() {
            let (result, buffer) = self.fill(&cover, buffer, position).await;
            return DiskReply::of_io(result, buffer);
        }
        let (mut buffer, mut done) = (buffer, 0);
        for piece in cover.pieces(self.room_pages()) {
            let room = self.scratch.acquire(piece.bytes());
            let position = position + (piece.pages.start - cover.pages.start);
            let (result, room) = self.fill(&piece, room, position).await;
            let bytes = &room[piece.within()];
            buffer[done..done + bytes.len()].copy_from_slice(bytes);
            done += bytes.len();
            self.scratch.release(room);
            if result.is_err() {
                return DiskReply::of_io(result, buffer);
            }
        }
        DiskReply::of_io(Ok(()), buffer)
    }

    /// The most pages that one scratch buffer takes. For swap that is the size of the buffers that are there already,
    /// because its requests allocate nothing.
    fn room_pages(&self) -> u64 {
        match self.disk.swap {
            Some(_) => ROOM_PAGES,
            None => RUN_MAX,
        }
    }

    /// Reads the pages of the span into a buffer of just these pages: from memory, and from the backing what memory
    /// lacks. `position` says how far into its run the first page is.
    async fn fill(
        &self,
        cover: &PageSpan,
        mut room: Buffer,
        position: u64,
    ) -> (io::Result<()>, Buffer) {
        let (mut page, mut retry) = (cover.pages.start, RetryState::default());
        while page < cover.pages.end {
            let next = match self.next_run(cover, page, &mut room) {
                Ok(Some(next)) => next,
                Ok(None) => break,
                Err(error) if self.engine.should_retry(&mut retry, &error).await => continue,
                Err(error) => {
                    self.disk.report_failure(BackingOperation::Read, &error);
                    return (Err(error), room);
                }
            };
            let (backing, far, end) = match next {
                MissingRun::Backing(run) => (Some(run.clone()), None, run.end),
                MissingRun::Memory(run) => {
                    let far = self.read_far(cover, run.clone(), &mut room).await;
                    (None, Some(far), run.end)
                }
            };
            let left = far.iter().flat_map(FarFetch::missing_runs);
            for run in backing.into_iter().chain(left) {
                self.tally.misses.add(run.end - run.start);
                let position = position + (run.start - cover.pages.start);
                let (result, back) = self.read_run(cover, &run, room, position).await;
                room = back;
                if let Err(error) = result {
                    return (Err(error), room);
                }
            }
            self.release_far_fetch(far);
            page = end;
        }
        (Ok(()), room)
    }

    /// Reads a run of pages from the backing, and keeps what the disk keeps of such.
    async fn read_run(
        &self,
        cover: &PageSpan,
        run: &Range<u64>,
        room: Buffer,
        position: u64,
    ) -> (io::Result<()>, Buffer) {
        let part = cover.page_bytes(run.start).start..cover.page_bytes(run.end - 1).end;
        let began = Instant::now();
        let read = self.read_backing(run.start * PAGE_BYTES, room, part);
        let (result, room) = read.await;
        match &result {
            Ok(()) => {
                self.disk.report_recovery(BackingOperation::Read);
                self.admit_read(cover, run, &room, position);
                if let Some(far) = &self.far {
                    far.missed(began.elapsed());
                }
            }
            Err(error) => self.disk.report_failure(BackingOperation::Read, error),
        }
        (result, room)
    }

    /// Copies pages from memory, and returns which pages to read next. A page that is staged and cannot be read is an
    /// error, because what the backing has of it is older.
    fn next_run(
        &self,
        cover: &PageSpan,
        from: u64,
        room: &mut Buffer,
    ) -> io::Result<Option<MissingRun>> {
        let end = cover.pages.end;
        let mut first = from;
        loop {
            first = self
                .disk
                .copy(&self.tenancy, &cover.widened(), first, &mut room[..]);
            let swap = self.disk.swap.as_ref().filter(|_| first < end);
            match swap.map(|swap| swap.staged(first, &mut room[cover.page_bytes(first)])) {
                None | Some(Ok(false)) => break,
                Some(Ok(true)) => first += 1, // it was staged just now
                Some(Err(error)) => return Err(error),
            }
        }
        self.tally.hits.add(first - from);
        if first == end {
            return Ok(None);
        }
        if let Some(run) = self.pages_in_memory(first, end) {
            return Ok(Some(MissingRun::Memory(run)));
        }
        // Pages at lenders are read along: one read of the backing is quicker than two, or than a lender beside it.
        let is_here =
            |page: u64| self.disk.has_page_here(&self.tenancy, page) || self.is_staged(page);
        let most = end.min(first + RUN_MAX);
        let next = (first + 1..most).find(|page| is_here(*page));
        Ok(Some(MissingRun::Backing(first..next.unwrap_or(most))))
    }

    fn has_page(&self, page: u64) -> bool {
        self.disk.has_page(&self.tenancy, page) || self.is_staged(page)
    }

    pub(super) fn is_staged(&self, page: u64) -> bool {
        let swap = self.disk.swap.as_ref();
        swap.is_some_and(|swap| swap.is_staged(page))
    }

    async fn read_backing(
        &self,
        at: u64,
        room: Buffer,
        part: Range<usize>,
    ) -> (io::Result<()>, Buffer) {
        let end = self.disk.shape_now().bytes;
        let backing = &self.disk.backing;
        backing.read(&self.engine, at, room, part, end).await
    }

    /// Keeps what was read, as far as the disk keeps such pages. Swap keeps none: the guest has the page now, and what
    /// it puts there next must not be overtaken.
    fn admit_read(&self, cover: &PageSpan, run: &Range<u64>, room: &Buffer, position: u64) {
        if self.disk.swap.is_some() {
            return;
        }
        let reading = &self.disk.reading;
        if let Some(pattern) = reading.admit(run.clone(), position, ReadCause::Demand) {
            for piece in by_object(run.clone()) {
                self.put_run(cover, piece, pattern, room);
            }
        }
    }

    /// Puts pages of one object.
    fn put_run(&self, cover: &PageSpan, pages: Range<u64>, pattern: AccessPattern, room: &Buffer) {
        let first = pages.start;
        let fill = |n, frame: &mut UnwrittenPage<'_>| {
            frame.write(&room[cover.page_bytes(first + u64::from(n))]);
        };
        let run = PageRun {
            first: key(self.disk.pool, first),
            count: (pages.end - first) as u32,
            pattern,
        };
        let (worker, tenant, now) = self.tenancy.worker_tenant_now();
        worker.put_run(tenant, run, now, fill, |_, _| ());
    }

    fn put(&self, page: u64, bytes: &[u8]) {
        self.disk.put_page(&self.tenancy, page, bytes);
    }

    fn forget(&self, pages: Range<u64>) {
        self.disk.forget(&self.tenancy, pages);
    }

    pub(super) async fn write(&self, at: u64, buffer: Buffer, fua: Fua) -> DiskReply {
        let cover = PageSpan::of(at, buffer.len());
        self.tally.writes.add(1);
        self.tally.written_bytes.add(buffer.len() as u64);
        let _held = self.ranges.lock(cover.pages.clone()).await;
        if cover.is_exact() {
            let (result, buffer) = self.write_pages(&cover, buffer, fua).await;
            return DiskReply::of_io(result, buffer);
        }
        let mut result = Ok(());
        let mut done = 0;
        for piece in cover.pieces(self.room_pages()) {
            let bytes = &buffer[done..done + piece.within().len()];
            done += bytes.len();
            // A sync after the last piece makes all pieces durable.
            let fua = match done == buffer.len() {
                true => fua,
                false => Fua::Off,
            };
            let change = |part: &mut [u8]| part.copy_from_slice(bytes);
            result = self.write_part(&piece, fua, change).await;
            if result.is_err() {
                break;
            }
        }
        DiskReply::of_io(result, buffer)
    }

    /// Writes a part of its pages, merged with the rest of them. Frontends' threads that stage such pages wait
    /// meanwhile.
    async fn write_part(
        &self,
        cover: &PageSpan,
        fua: Fua,
        change: impl FnOnce(&mut [u8]),
    ) -> io::Result<()> {
        let swap = self.disk.swap.as_ref();
        let _merging = swap.map(|swap| swap.begin_partial_write(&cover.pages));
        let room = self.scratch.acquire(cover.bytes());
        let filled = match cover.is_exact() {
            true => (Ok(()), room),
            false => self.fill(cover, room, 0).await,
        };
        let (result, room) = match filled {
            (Ok(()), mut room) => {
                change(&mut room[cover.within()]);
                self.write_pages(cover, room, fua).await
            }
            failed => failed,
        };
        self.scratch.release(room);
        result
    }

    /// Writes whole pages that are held. Swap stages them as far as it may, and everything else is written through.
    async fn write_pages(
        &self,
        cover: &PageSpan,
        room: Buffer,
        fua: Fua,
    ) -> (io::Result<()>, Buffer) {
        let bytes = |page| &room[cover.page_bytes(page)];
        match self.stage_held(cover.pages.clone(), bytes) {
            true => (Ok(()), room),
            false => self.write_through(cover, room, fua).await,
        }
    }

    /// Acknowledges held pages from memory. Returns whether that could be done with all of them.
    fn stage_held<'b>(&self, mut pages: Range<u64>, bytes: impl Fn(u64) -> &'b [u8]) -> bool {
        let swap = self.disk.swap.as_ref();
        swap.filter(|swap| swap.acknowledges_early())
            .is_some_and(|swap| {
                pages.all(|page| swap.put_held(page, bytes(page), || self.put(page, bytes(page))))
            })
    }

    /// Writes whole pages through to the backing, then updates memory. If the backing fails, nobody knows what it has,
    /// so memory drops the pages.
    async fn write_through(
        &self,
        cover: &PageSpan,
        room: Buffer,
        fua: Fua,
    ) -> (io::Result<()>, Buffer) {
        let at = cover.pages.start * PAGE_BYTES;
        let inside = self.disk.shape_now().bytes - at;
        let part = 0..room.len().min(inside as usize);
        let backing = &self.disk.backing;
        let priority = IoPriority::Awaited;
        let (mut result, room) = backing.write(&self.engine, priority, at, room, part).await;
        if result.is_ok() && fua == Fua::On {
            result = backing.sync(&self.engine).await;
        }
        match &result {
            Ok(()) => {
                self.update_memory(cover, &room);
                self.record_write();
            }
            Err(error) => {
                self.disk.report_failure(BackingOperation::Write, error);
                self.invalidate(cover.pages.clone());
            }
        }
        (result, room)
    }

    /// Records that the backing took a write. The backing of swap works again only when it also takes what waits for
    /// it.
    fn record_write(&self) {
        let swap = self.disk.swap.as_ref();
        if let Some(swap) = swap.filter(|swap| swap.is_failing()) {
            if swap.dirty() > 0 {
                return;
            }
            swap.record_backing(HealthState::Working);
        }
        self.disk.report_recovery(BackingOperation::Write);
    }

    /// Updates memory to what the backing has now.
    fn update_memory(&self, cover: &PageSpan, room: &Buffer) {
        for page in cover.pages.clone() {
            let bytes = &room[cover.page_bytes(page)];
            match &self.disk.swap {
                Some(swap) => {
                    self.tally.written_through.add(1);
                    swap.wrote_through(page, || self.put(page, bytes));
                }
                None => self.put(page, bytes),
            }
        }
    }

    /// Call this if a write failed in the middle. A disk's pages are dropped. What swap has acknowledged before stays.
    fn invalidate(&self, pages: Range<u64>) {
        if self.disk.swap.is_none() {
            self.forget(pages);
        }
    }

    pub(super) async fn flush(&self, buffer: Buffer) -> DiskReply {
        self.tally.flushes.add(1);
        if let Err(error) = self.drain_stage().await {
            return DiskReply::of_io(Err(error), buffer);
        }
        let synced = self.disk.backing.sync(&self.engine).await;
        match &synced {
            Ok(()) => self.disk.report_recovery(BackingOperation::Sync),
            Err(error) => self.disk.report_failure(BackingOperation::Sync, error),
        }
        DiskReply::of_io(synced, buffer)
    }

    /// If everything is to be written through, waits for what the daemon before this one acknowledged from memory.
    async fn drain_stage(&self) -> io::Result<()> {
        let swap = self.disk.swap.as_ref();
        let through = swap.filter(|swap| swap.writes_through());
        let Some(swap) = through.filter(|swap| swap.dirty() > 0) else {
            return Ok(());
        };
        let failures = swap.failures();
        let hurry = swap.request_drain();
        while hurry.is_pending() {
            if swap.failures() > failures {
                let why = "the backing does not take what was swapped before";
                return Err(io::Error::other(why));
            }
            self.engine.sleep_until(Instant::now() + LOOK).await;
        }
        Ok(())
    }

    pub(super) async fn trim(&self, at: u64, len: u64, buffer: Buffer) -> DiskReply {
        self.tally.trims.add(1);
        let whole = PageSpan::of(at, len as usize).whole();
        if whole.is_empty() {
            return DiskReply::of(Ok(()), buffer);
        }
        let _held = self.ranges.lock(whole.clone()).await;
        self.forget(whole.clone());
        // Swap keeps its space on the backing. A backing without holes keeps its bytes, which a trim allows.
        if self.disk.swap.is_none() {
            let bytes = whole.start * PAGE_BYTES..whole.end * PAGE_BYTES;
            if let Err(error) = self
                .disk
                .backing
                .zero(&self.engine, bytes, Hole::Allowed)
                .await
            {
                self.report_zeroing_failure(&error);
            }
        }
        DiskReply::of(Ok(()), buffer)
    }

    /// Makes a range zero. Swap stages zeroes for a few whole pages. Otherwise the file system zeroes the whole pages
    /// if it can. The rest is written.
    pub(super) async fn zero(
        &self,
        at: u64,
        len: u64,
        buffer: Buffer,
        zeroing: Zeroing,
    ) -> DiskReply {
        self.tally.writes.add(1);
        let cover = PageSpan::of(at, len as usize);
        let whole = cover.whole();
        let _held = self.ranges.lock(cover.pages.clone()).await;
        let few = whole.end - whole.start <= STAGED_ZEROES_MAX;
        let is_staged = || few && self.stage_held(whole.clone(), |_| &ZERO_PAGE);
        let made = match whole.is_empty() || is_staged() {
            true => Ok(()),
            false => self.zero_pages(whole.clone(), zeroing.hole).await,
        };
        let result = match made {
            Ok(()) => {
                self.write_zeroes(at, whole.start * PAGE_BYTES, at + len, &whole)
                    .await
            }
            Err(error) if zeroing.speed == ZeroSpeed::FastOnly => Err(error),
            Err(_) => self.write_zeroes_all(at..at + len).await,
        };
        let result = match (result, zeroing.fua) {
            (Ok(()), Fua::On) if !self.is_durable_already() => {
                self.disk.backing.sync(&self.engine).await
            }
            (result, _) => result,
        };
        if let Err(error) = &result {
            self.report_zeroing_failure(error);
        }
        DiskReply::of_io(result, buffer)
    }

    /// Returns whether what is answered outlives the daemon without the backing's doing.
    fn is_durable_already(&self) -> bool {
        self.disk
            .swap
            .as_ref()
            .is_some_and(Swap::acknowledges_early)
    }

    /// Reports the error. A backing that makes no holes and no zeroes does not fail.
    fn report_zeroing_failure(&self, error: &io::Error) {
        if error.kind() != io::ErrorKind::Unsupported {
            self.disk.report_failure(BackingOperation::Write, error);
        }
    }

    async fn zero_pages(&self, pages: Range<u64>, hole: Hole) -> io::Result<()> {
        let bytes = pages.start * PAGE_BYTES..pages.end * PAGE_BYTES;
        // Swap keeps its space on the backing. If a zeroing fails in the middle, the pages that memory has are not
        // valid any more.
        let hole = match self.disk.swap {
            Some(_) => Hole::Forbidden,
            None => hole,
        };
        self.invalidate(pages.clone());
        self.disk.backing.zero(&self.engine, bytes, hole).await?;
        self.forget(pages);
        Ok(())
    }

    /// Writes zeroes to the pieces before and after the whole pages.
    async fn write_zeroes(
        &self,
        at: u64,
        first: u64,
        end: u64,
        whole: &Range<u64>,
    ) -> io::Result<()> {
        if whole.is_empty() {
            return self.write_zeroes_all(at..end).await;
        }
        self.write_zeroes_all(at..first).await?;
        self.write_zeroes_all(whole.end * PAGE_BYTES..end).await
    }

    /// Writes zeroes to pages that are held already.
    async fn write_zeroes_all(&self, range: Range<u64>) -> io::Result<()> {
        let len = (range.end - range.start) as usize;
        for piece in PageSpan::of(range.start, len).pieces(self.room_pages().min(ZEROES_MAX)) {
            self.write_part(&piece, Fua::Off, |part| part.fill(0))
                .await?;
        }
        Ok(())
    }

    /// Accepts a request to read ahead, as far as the queue has room.
    pub(super) fn prefetch(&self, at: u64, len: u64, buffer: Buffer) -> DiskReply {
        let pages = PageSpan::of(at, len as usize).pages;
        let mut from = pages.start;
        while from < pages.end {
            let to = pages.end.min(from + RUN_MAX);
            self.disk.queue.push_read_ahead(ReadAheadRange {
                pages: from..to,
                position: 0,
            });
            from = to;
        }
        DiskReply::of(Ok(()), buffer)
    }

    /// Reads pages that nobody waits for. Pages that another task works on are left to that task.
    pub(super) async fn read_ahead(&self, ahead: ReadAheadRange) {
        let ReadAheadRange { pages, position } = ahead;
        if self.disk.swap.is_some() {
            return;
        }
        let from = pages.start;
        let is_elsewhere = |page: &u64| !self.disk.has_page_here(&self.tenancy, *page);
        let Some(elsewhere) = ends(pages, is_elsewhere) else {
            return;
        };
        let Some(_held) = self.ranges.try_lock(elsewhere.clone()) else {
            return;
        };
        let missing = |page: &u64| !self.has_page(*page);
        let position = position + (elsewhere.start - from);
        let reading = &self.disk.reading;
        let stays = reading.admit(elsewhere.clone(), position, ReadCause::ReadAhead);
        if let Some(pattern) = stays {
            self.bring_home_ahead(elsewhere.clone(), pattern).await;
        }
        let Some(pages) = ends(elsewhere, missing) else {
            return;
        };
        let bytes = (pages.end - pages.start) as usize * PAGE;
        let cover = PageSpan::of(pages.start * PAGE_BYTES, bytes);
        let room = Buffer::zeroed(cover.bytes());
        let part = 0..room.len();
        let (read, room) = self
            .read_backing(pages.start * PAGE_BYTES, room, part)
            .await;
        if read.is_ok()
            && let Some(pattern) = stays
        {
            self.tally.read_ahead.add(cover.count());
            for page in pages.filter(missing) {
                self.put_run(&cover, page..page + 1, pattern, &room);
            }
        }
    }

    /// Answers with the first extent. A caller that asked from where the last extent ended will want those that follow.
    pub(super) fn extent(&self, at: u64, len: u64, buffer: Buffer) -> DiskReply {
        if self.disk.swap.is_some() {
            return self.extents(at, len, buffer);
        }
        let (holes, backing) = (&self.disk.holes, &self.disk.backing);
        let range = at..self.disk.size().0.max(at + len);
        let found = match holes.quiet_epoch() {
            None => backing.extents(range, 1),
            Some(calm) => {
                let found = backing.extents(range, holes.extents_to_find(at));
                holes.record(calm, at, &found, Instant::now());
                found
            }
        };
        let first = found.first().map(|first| Extent {
            len: first.len.min(len),
            hole: first.hole,
        });
        DiskReply {
            result: Ok(()),
            buffer,
            extents: first.into_iter().collect(),
        }
    }

    /// Answers with holes and bytes from `at` on, as far as one answer goes.
    pub(super) fn extents(&self, at: u64, len: u64, buffer: Buffer) -> DiskReply {
        let staged = self.disk.swap.is_some();
        let extents = match staged {
            // What has yet to be written is not in the file.
            true => vec![Extent { len, hole: false }],
            false => self.disk.backing.extents(at..at + len, EXTENTS_MAX),
        };
        DiskReply {
            result: Ok(()),
            buffer,
            extents,
        }
    }
}

/// The pages from the first to the last of which something holds. `None` if it holds of none.
fn ends(mut pages: Range<u64>, holds: impl Fn(&u64) -> bool) -> Option<Range<u64>> {
    let first = pages.find(&holds)?;
    let last = pages.rev().find(&holds).unwrap_or(first);
    Some(first..last + 1)
}
