//! File pages: clean ones are offered to the tier when they leave, dirty ones are written first.

use super::memory::{FilePage, Memory, Place};
use super::{Arrival, Fetched, Guest, GuestFault, Surroundings};
use crate::machine::tier::{Pool, Stamp};
use crate::virtual_time::Moment;
use crate::workload::FileSpan;

impl Guest {
    /// Reads pages of a file, with read-ahead where reads follow one another.
    pub(super) fn read(
        &mut self,
        span: FileSpan,
        now: Moment,
        around: &mut Surroundings<'_>,
    ) -> Result<Moment, GuestFault> {
        let mut now = now;
        for index in span.indices() {
            self.counts.touches += 1;
            now += self.shape.costs.touch;
            let page = FilePage::of(&span, index);
            let place = self.memory.file(page);
            match self.memory.touch(place, now, self.began) {
                Some(touched) => now = self.found(touched, now),
                None => now = self.read_window(span, index, now, around)?,
            }
        }
        let end = span.from.saturating_add(span.count);
        if end >= span.end {
            self.read_at.remove(&span.object);
        } else if end > span.from {
            self.read_at.insert(span.object, end - 1);
        }
        Ok(now)
    }

    /// Brings in a page and those after it: the rest of the request, and more where reads follow one
    /// another or begin a file.
    fn read_window(
        &mut self,
        span: FileSpan,
        index: u32,
        now: Moment,
        around: &mut Surroundings<'_>,
    ) -> Result<Moment, GuestFault> {
        self.counts.faults += 1;
        let follows =
            index == 0 || index > span.from || self.read_at.get(&span.object) == Some(&(index - 1));
        let end = match follows {
            true => span.end,
            false => span.from.saturating_add(span.count).min(span.end),
        };
        let window_end = index
            .saturating_add(self.shape.read_ahead)
            .min(end.max(index + 1));
        let mut now = now + self.shape.costs.fault;
        let mut window = std::mem::take(&mut self.scratch.window);
        window.clear();
        for index in index..window_end {
            let page = FilePage::of(&span, index);
            let place = self.memory.file(page);
            if self.memory.has(place) {
                continue;
            }
            let (fetched, done) = self.fetch_file_page(page, place, now, around);
            window.push(fetched);
            now = done;
        }
        let done = self.bring_in(&window, Memory::insert_file, now, around);
        self.scratch.window = window;
        done
    }

    fn fetch_file_page(
        &mut self,
        page: FilePage,
        place: Place,
        now: Moment,
        around: &mut Surroundings<'_>,
    ) -> (Fetched, Moment) {
        let version = self.memory.note(place);
        let in_tier = self.tier_page(Pool::File, page.object, page.index);
        let (arrived, now) = self.get(in_tier, version, now, around);
        let fetched = Fetched {
            place,
            on_disk: self.disk_place(page.object, u64::from(page.index)),
            arrived: arrived.unwrap_or(Arrival::FromDisk),
        };
        (fetched, now)
    }

    /// Writes whole pages of a file; they go to the disk when they leave memory.
    pub(super) fn write(
        &mut self,
        span: FileSpan,
        now: Moment,
        around: &mut Surroundings<'_>,
    ) -> Result<Moment, GuestFault> {
        let mut now = now;
        for index in span.indices() {
            self.counts.touches += 1;
            now += self.shape.costs.touch;
            let page = FilePage::of(&span, index);
            let place = self.memory.file(page);
            if let Some(touched) = self.memory.touch(place, now, self.began) {
                now = self.found(touched, now);
                self.memory.soil(place);
                continue;
            }
            let in_tier = self.tier_page(Pool::File, page.object, page.index);
            around.tier.flush_page(in_tier, now);
            now = self.make_room(now + self.shape.costs.refusal, around)?;
            self.memory.insert_file(place, Moment::START);
            self.memory.soil(place);
        }
        Ok(now)
    }

    /// Writes a page back if it is dirty, which makes a new version of it, then offers it to the tier.
    pub(super) fn evict_file_page(
        &mut self,
        place: Place,
        dirty: bool,
        now: Moment,
        around: &mut Surroundings<'_>,
    ) -> Moment {
        let FilePage { object, index } = self.memory.file_page(place);
        let mut now = now;
        if dirty {
            self.counts.disk_pages_written += 1;
            let on_disk = self.disk_place(object, u64::from(index));
            now = self.wait(now, around.disk.write(now, on_disk, 1));
            self.memory
                .set_note(place, self.memory.note(place).wrapping_add(1));
        }
        let page = self.tier_page(Pool::File, object, index);
        let stamp = Stamp::of(page, self.memory.note(place));
        self.put(page, stamp, now, around).1
    }

    /// Deletes a file of so many pages.
    pub(super) fn delete(
        &mut self,
        object: u64,
        pages: u32,
        now: Moment,
        around: &mut Surroundings<'_>,
    ) -> Moment {
        for index in 0..pages {
            let Some(place) = self.memory.known_file(FilePage { object, index }) else {
                continue;
            };
            self.memory.remove(place);
            // The next file of this name must not be taken for this one.
            let version = self.memory.note(place);
            if version > 0 {
                self.memory.set_note(place, version.wrapping_add(1));
            }
        }
        around
            .tier
            .flush_object(self.shape.tenant, Pool::File, object, now);
        now + self.shape.costs.refusal
    }
}

impl FilePage {
    fn of(span: &FileSpan, index: u32) -> FilePage {
        FilePage {
            object: span.object,
            index,
        }
    }
}
