//! What a disk's tasks do: each verb, over memory and backing, with its pages held.

use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use sublet_frontends::block::{Buffer, Extent};
use sublet_store::Blank;
use sublet_store::disk::Coming;
use sublet_types::PAGE_BYTES;

use super::answer::Answer;
use super::backed::Errand;
use super::cover::{Cover, PAGE, by_object, key};
use super::disk_thread::DiskThread;
use super::engine::{Haste, Trying};
use super::reading::Ahead;
use super::rooms::ROOM_PAGES;
use super::swap::Swap;

/// How often it is looked whether what was staged has been written.
const LOOK: Duration = Duration::from_millis(5);

/// Pages of one read or write of the backing, at the most.
const RUN_MAX: u64 = 1024;

/// Pages that are made zero by writing them, at a time.
const ZEROES_MAX: u64 = 256;

/// Pages that swap is given as zeroes at once, at the most; of more its file system makes zeroes with one call.
const STAGED_ZEROES_MAX: u64 = 256;

const ZERO_PAGE: [u8; PAGE] = [0; PAGE];

/// Extents that one question is answered with, at the most.
const EXTENTS_MAX: usize = 128;

impl DiskThread {
    pub(super) async fn read(&self, at: u64, buffer: Buffer) -> Answer {
        let cover = Cover::of(at, buffer.len());
        self.tally.reads.add(1);
        self.tally.read_bytes.add(buffer.len() as u64);
        let position = self.disk.note_read(&self.tenancy, &cover.pages);
        let _held = self.ranges.hold(cover.pages.clone()).await;
        if cover.is_exact() {
            let (result, buffer) = self.fill(&cover, buffer, position).await;
            return Answer::of_io(result, buffer);
        }
        let (mut buffer, mut done) = (buffer, 0);
        for piece in cover.pieces(self.room_pages()) {
            let room = self.rooms.take(piece.bytes());
            let position = position + (piece.pages.start - cover.pages.start);
            let (result, room) = self.fill(&piece, room, position).await;
            let bytes = &room[piece.within()];
            buffer[done..done + bytes.len()].copy_from_slice(bytes);
            done += bytes.len();
            self.rooms.give_back(room);
            if result.is_err() {
                return Answer::of_io(result, buffer);
            }
        }
        Answer::of_io(Ok(()), buffer)
    }

    /// Pages that are worked on in a room of their own, at the most: of swap as many as a room has that is there already, for
    /// its requests allocate nothing.
    fn room_pages(&self) -> u64 {
        match self.disk.swap {
            Some(_) => ROOM_PAGES,
            None => RUN_MAX,
        }
    }

    /// Reads the cover's pages into a buffer of just them: from memory, and what is not there from the backing.
    /// `position` says how far into its run the first one is.
    async fn fill(
        &self,
        cover: &Cover,
        mut room: Buffer,
        position: u64,
    ) -> (io::Result<()>, Buffer) {
        let (mut page, mut trying) = (cover.pages.start, Trying::default());
        while page < cover.pages.end {
            let run = match self.next_run(cover, page, &mut room) {
                Ok(Some(run)) => run,
                Ok(None) => break,
                Err(error) if self.engine.tries_again(&mut trying, &error).await => continue,
                Err(error) => {
                    self.disk.tell(Errand::Read, &error);
                    return (Err(error), room);
                }
            };
            let part = cover.place(run.start).start..cover.place(run.end - 1).end;
            let at = run.start * PAGE_BYTES;
            let (result, back) = self.read_backing(at, room, part).await;
            room = back;
            if let Err(error) = result {
                self.disk.tell(Errand::Read, &error);
                return (Err(error), room);
            }
            self.disk.tell_works(Errand::Read);
            self.keep_read(
                cover,
                &run,
                &room,
                position + (run.start - cover.pages.start),
            );
            page = run.end;
        }
        (Ok(()), room)
    }

    /// Copies pages from memory, and says which ones have to be read next. A page that is staged and cannot be read
    /// is an error: what the backing has of it is older.
    fn next_run(
        &self,
        cover: &Cover,
        from: u64,
        room: &mut Buffer,
    ) -> io::Result<Option<Range<u64>>> {
        let end = cover.pages.end;
        let mut first = from;
        loop {
            first = self
                .disk
                .copy(&self.tenancy, &cover.widened(), first, &mut room[..]);
            let swap = self.disk.swap.as_ref().filter(|_| first < end);
            match swap.map(|swap| swap.staged(first, &mut room[cover.place(first)])) {
                None | Some(Ok(false)) => break,
                Some(Ok(true)) => first += 1, // it was staged just now
                Some(Err(error)) => return Err(error),
            }
        }
        self.tally.hits.add(first - from);
        if first == end {
            return Ok(None);
        }
        let most = end.min(first + RUN_MAX);
        let next = (first + 1..most).find(|page| self.has_page(*page));
        let run = first..next.unwrap_or(most);
        self.tally.misses.add(run.end - run.start);
        Ok(Some(run))
    }

    fn has_page(&self, page: u64) -> bool {
        let swap = self.disk.swap.as_ref();
        self.disk.has_page(&self.tenancy, page) || swap.is_some_and(|swap| swap.is_staged(page))
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

    /// Keeps what was read, as far as the disk keeps such pages. Swap keeps none: the guest has it now, and what
    /// it puts there next must not be overtaken.
    fn keep_read(&self, cover: &Cover, run: &Range<u64>, room: &Buffer, position: u64) {
        let reading = &self.disk.reading;
        if self.disk.swap.is_some() || !reading.came(run.clone(), position, Coming::Asked) {
            return;
        }
        for piece in by_object(run.clone()) {
            self.put_run(cover, piece, room);
        }
    }

    /// Puts pages of one object.
    fn put_run(&self, cover: &Cover, pages: Range<u64>, room: &Buffer) {
        let first = pages.start;
        let fill = |n, frame: &mut Blank<'_>| {
            frame.write(&room[cover.place(first + u64::from(n))]);
        };
        let count = (pages.end - first) as u32;
        let (worker, tenant, now) = self.tenancy.acting();
        let key = key(self.disk.pool, first);
        worker.put_run(tenant, key, count, now, fill, |_, _| ());
    }

    fn put(&self, page: u64, bytes: &[u8]) {
        self.disk.put_page(&self.tenancy, page, bytes);
    }

    fn forget(&self, pages: Range<u64>) {
        self.disk.forget(&self.tenancy, pages);
    }

    pub(super) async fn write(&self, at: u64, buffer: Buffer, lasting: bool) -> Answer {
        let cover = Cover::of(at, buffer.len());
        self.tally.writes.add(1);
        self.tally.written_bytes.add(buffer.len() as u64);
        let _held = self.ranges.hold(cover.pages.clone()).await;
        if cover.is_exact() {
            let (result, buffer) = self.write_pages(&cover, buffer, lasting).await;
            return Answer::of_io(result, buffer);
        }
        let mut result = Ok(());
        let mut done = 0;
        for piece in cover.pieces(self.room_pages()) {
            let bytes = &buffer[done..done + piece.within().len()];
            done += bytes.len();
            // The last one's makes all of them last.
            let lasting = lasting && done == buffer.len();
            let change = |part: &mut [u8]| part.copy_from_slice(bytes);
            result = self.write_part(&piece, lasting, change).await;
            if result.is_err() {
                break;
            }
        }
        Answer::of_io(result, buffer)
    }

    /// Writes what is less than its pages, together with the rest of them. Where frontends' threads stage pages they
    /// wait meanwhile.
    async fn write_part(
        &self,
        cover: &Cover,
        lasting: bool,
        change: impl FnOnce(&mut [u8]),
    ) -> io::Result<()> {
        let swap = self.disk.swap.as_ref();
        let _merging = swap.map(|swap| swap.merge(&cover.pages));
        let room = self.rooms.take(cover.bytes());
        let filled = match cover.is_exact() {
            true => (Ok(()), room),
            false => self.fill(cover, room, 0).await,
        };
        let (result, room) = match filled {
            (Ok(()), mut room) => {
                change(&mut room[cover.within()]);
                self.write_pages(cover, room, lasting).await
            }
            failed => failed,
        };
        self.rooms.give_back(room);
        result
    }

    /// Writes whole pages that are held: swap stages them, as far as it may, and all else goes through.
    async fn write_pages(
        &self,
        cover: &Cover,
        room: Buffer,
        lasting: bool,
    ) -> (io::Result<()>, Buffer) {
        let bytes = |page| &room[cover.place(page)];
        match self.stage_held(cover.pages.clone(), bytes) {
            true => (Ok(()), room),
            false => self.write_through(cover, room, lasting).await,
        }
    }

    /// Acknowledges pages that are held from memory. Says whether that could be done with all of them.
    fn stage_held<'b>(&self, mut pages: Range<u64>, bytes: impl Fn(u64) -> &'b [u8]) -> bool {
        let swap = self.disk.swap.as_ref();
        swap.filter(|swap| swap.takes()).is_some_and(|swap| {
            pages.all(|page| swap.put_held(page, bytes(page), || self.put(page, bytes(page))))
        })
    }

    /// Writes whole pages through to the backing, then has memory follow. If the backing fails nobody knows what
    /// it has, so memory forgets.
    async fn write_through(
        &self,
        cover: &Cover,
        room: Buffer,
        lasting: bool,
    ) -> (io::Result<()>, Buffer) {
        let at = cover.pages.start * PAGE_BYTES;
        let inside = self.disk.shape_now().bytes - at;
        let part = 0..room.len().min(inside as usize);
        let backing = &self.disk.backing;
        let haste = Haste::Awaited;
        let (mut result, room) = backing.write(&self.engine, haste, at, room, part).await;
        if result.is_ok() && lasting {
            result = backing.sync(&self.engine).await;
        }
        match &result {
            Ok(()) => {
                self.follow(cover, &room);
                self.note_written();
            }
            Err(error) => {
                self.disk.tell(Errand::Write, error);
                self.distrust(cover.pages.clone());
            }
        }
        (result, room)
    }

    /// The backing took a write. A swap's works again only when it takes what waits for it, too.
    fn note_written(&self) {
        let swap = self.disk.swap.as_ref();
        if let Some(swap) = swap.filter(|swap| swap.is_failing()) {
            if swap.dirty() > 0 {
                return;
            }
            swap.note_backing(true);
        }
        self.disk.tell_works(Errand::Write);
    }

    /// Memory has what the backing has now.
    fn follow(&self, cover: &Cover, room: &Buffer) {
        for page in cover.pages.clone() {
            let bytes = &room[cover.place(page)];
            match &self.disk.swap {
                Some(swap) => {
                    self.tally.written_through.add(1);
                    swap.wrote_through(page, || self.put(page, bytes));
                }
                None => self.put(page, bytes),
            }
        }
    }

    /// A write failed in the middle. A disk's pages are forgotten; what swap has acknowledged before stays.
    fn distrust(&self, pages: Range<u64>) {
        if self.disk.swap.is_none() {
            self.forget(pages);
        }
    }

    pub(super) async fn flush(&self, buffer: Buffer) -> Answer {
        self.tally.flushes.add(1);
        if let Err(error) = self.write_what_was_staged().await {
            return Answer::of_io(Err(error), buffer);
        }
        let synced = self.disk.backing.sync(&self.engine).await;
        match &synced {
            Ok(()) => self.disk.tell_works(Errand::Sync),
            Err(error) => self.disk.tell(Errand::Sync, error),
        }
        Answer::of_io(synced, buffer)
    }

    /// Where all is to be written through: waits for what was acknowledged from memory when it was not, by the daemon
    /// before this one.
    async fn write_what_was_staged(&self) -> io::Result<()> {
        let swap = self.disk.swap.as_ref();
        let through = swap.filter(|swap| swap.writes_through());
        let Some(swap) = through.filter(|swap| swap.dirty() > 0) else {
            return Ok(());
        };
        let failures = swap.failures();
        let hurry = swap.hurry();
        while hurry.has_some() {
            if swap.failures() > failures {
                let why = "the backing does not take what was swapped before";
                return Err(io::Error::other(why));
            }
            self.engine.sleep_until(Instant::now() + LOOK).await;
        }
        Ok(())
    }

    pub(super) async fn trim(&self, at: u64, len: u64, buffer: Buffer) -> Answer {
        self.tally.trims.add(1);
        let whole = Cover::of(at, len as usize).whole();
        if whole.is_empty() {
            return Answer::of(Ok(()), buffer);
        }
        let _held = self.ranges.hold(whole.clone()).await;
        self.forget(whole.clone());
        // Swap keeps its room on the backing; a backing without holes keeps its bytes, which a trim allows.
        if self.disk.swap.is_none() {
            let bytes = whole.start * PAGE_BYTES..whole.end * PAGE_BYTES;
            if let Err(error) = self.disk.backing.zero(&self.engine, bytes, true).await {
                self.tell_of_zeroing(&error);
            }
        }
        Answer::of(Ok(()), buffer)
    }

    /// Makes a range zero: its whole pages by staging zeroes where swap is given few, else by the file system where it
    /// can; the rest by writing.
    pub(super) async fn zero(
        &self,
        at: u64,
        len: u64,
        buffer: Buffer,
        hole: bool,
        fast: bool,
        lasting: bool,
    ) -> Answer {
        self.tally.writes.add(1);
        let cover = Cover::of(at, len as usize);
        let whole = cover.whole();
        let _held = self.ranges.hold(cover.pages.clone()).await;
        let few = whole.end - whole.start <= STAGED_ZEROES_MAX;
        let is_staged = || few && self.stage_held(whole.clone(), |_| &ZERO_PAGE);
        let made = match whole.is_empty() || is_staged() {
            true => Ok(()),
            false => self.zero_pages(whole.clone(), hole).await,
        };
        let result = match made {
            Ok(()) => {
                self.write_zeroes(at, whole.start * PAGE_BYTES, at + len, &whole)
                    .await
            }
            Err(error) if fast => Err(error),
            Err(_) => self.write_zeroes_all(at..at + len).await,
        };
        let result = match (result, lasting) {
            (Ok(()), true) if !self.lasts_already() => self.disk.backing.sync(&self.engine).await,
            (result, _) => result,
        };
        if let Err(error) = &result {
            self.tell_of_zeroing(error);
        }
        Answer::of_io(result, buffer)
    }

    /// Whether what is answered outlives the daemon without the backing's doing.
    fn lasts_already(&self) -> bool {
        self.disk.swap.as_ref().is_some_and(Swap::takes)
    }

    /// A backing that makes no holes and no zeroes does not fail.
    fn tell_of_zeroing(&self, error: &io::Error) {
        if error.kind() != io::ErrorKind::Unsupported {
            self.disk.tell(Errand::Write, error);
        }
    }

    async fn zero_pages(&self, pages: Range<u64>, hole: bool) -> io::Result<()> {
        let bytes = pages.start * PAGE_BYTES..pages.end * PAGE_BYTES;
        // Swap keeps its room on the backing. A disk's memory does not outlive a zeroing that fails in the middle.
        let hole = hole && self.disk.swap.is_none();
        self.distrust(pages.clone());
        self.disk.backing.zero(&self.engine, bytes, hole).await?;
        self.forget(pages);
        Ok(())
    }

    /// The pieces before and after the whole pages.
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

    /// Writes zeroes, pages held already.
    async fn write_zeroes_all(&self, range: Range<u64>) -> io::Result<()> {
        let len = (range.end - range.start) as usize;
        for piece in Cover::of(range.start, len).pieces(self.room_pages().min(ZEROES_MAX)) {
            self.write_part(&piece, false, |part| part.fill(0)).await?;
        }
        Ok(())
    }

    /// Promises to read ahead what is asked for, as far as there is room for the wish.
    pub(super) fn prefetch(&self, at: u64, len: u64, buffer: Buffer) -> Answer {
        let pages = Cover::of(at, len as usize).pages;
        let mut from = pages.start;
        while from < pages.end {
            let to = pages.end.min(from + RUN_MAX);
            self.disk.inbox.read_ahead(Ahead {
                pages: from..to,
                position: 0,
            });
            from = to;
        }
        Answer::of(Ok(()), buffer)
    }

    /// Reads pages that nobody waits for. What is being worked on is left to who works on it.
    pub(super) async fn read_ahead(&self, ahead: Ahead) {
        let Ahead { pages, position } = ahead;
        if self.disk.swap.is_some() {
            return;
        }
        let from = pages.start;
        let missing = |page: &u64| !self.has_page(*page);
        let (first, last) = (pages.clone().find(missing), pages.rev().find(missing));
        let Some((first, last)) = first.zip(last) else {
            return;
        };
        let Some(_held) = self.ranges.try_hold(first..last + 1) else {
            return;
        };
        let cover = Cover::of(first * PAGE_BYTES, (last + 1 - first) as usize * PAGE);
        let room = Buffer::zeroed(cover.bytes());
        let part = 0..room.len();
        let (read, room) = self.read_backing(first * PAGE_BYTES, room, part).await;
        let position = position + (first - from);
        let reading = &self.disk.reading;
        if read.is_ok() && reading.came(cover.pages.clone(), position, Coming::Ahead) {
            self.tally.read_ahead.add(cover.count());
            for page in cover.pages.clone().filter(missing) {
                self.put(page, &room[cover.place(page)]);
            }
        }
    }

    /// The first extent. Who asked from where the last one ended will want those that follow.
    pub(super) fn extent(&self, at: u64, len: u64, buffer: Buffer) -> Answer {
        if self.disk.swap.is_some() {
            return self.extents(at, len, buffer);
        }
        let (holes, backing) = (&self.disk.holes, &self.disk.backing);
        let range = at..self.disk.size().0.max(at + len);
        let found = match holes.calm() {
            None => backing.extents(range, 1),
            Some(calm) => {
                let found = backing.extents(range, holes.worth(at));
                holes.keep(calm, at, &found, Instant::now());
                found
            }
        };
        let first = found.first().map(|first| Extent {
            len: first.len.min(len),
            hole: first.hole,
        });
        Answer {
            result: Ok(()),
            buffer,
            extents: first.into_iter().collect(),
        }
    }

    /// Holes and bytes from `at` on, as far as one answer goes.
    pub(super) fn extents(&self, at: u64, len: u64, buffer: Buffer) -> Answer {
        let staged = self.disk.swap.is_some();
        let extents = match staged {
            // What has yet to be written is not in the file.
            true => vec![Extent { len, hole: false }],
            false => self.disk.backing.extents(at..at + len, EXTENTS_MAX),
        };
        Answer {
            result: Ok(()),
            buffer,
            extents,
        }
    }
}
