//! File pages: clean ones are offered to the tier when they leave, dirty ones are written first.

use super::{Arrival, Fetched, Guest, GuestFault, PageName, Resident, Surroundings};
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
            let name = PageName::File(span.object, index);
            match self.memory.touch(&name) {
                Some(resident) => {
                    self.counts.memory_hits += 1;
                    now = now.max(resident.ready_at);
                }
                None => now = self.read_window(span, index, now, around)?,
            }
            self.read_at.insert(span.object, index);
        }
        if span.from.saturating_add(span.count) >= span.end {
            self.read_at.remove(&span.object);
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
        let follows = index == 0 || self.read_at.get(&span.object) == Some(&(index - 1));
        let end = match follows {
            true => span.end,
            false => span.from.saturating_add(span.count).min(span.end),
        };
        let window_end = index
            .saturating_add(self.shape.read_ahead)
            .min(end.max(index + 1));
        let mut now = now + self.shape.costs.fault;
        let mut window = Vec::with_capacity((window_end - index) as usize);
        for index in index..window_end {
            if self.memory.contains(&PageName::File(span.object, index)) {
                continue;
            }
            let (fetched, done) = self.fetch_file_page(span.object, index, now, around);
            window.push(fetched);
            now = done;
        }
        let resident = |guest: &Guest, name| match name {
            PageName::File(object, index) => clean(guest.version_on_disk(object, index)),
            PageName::Anonymous(_) => clean(0),
        };
        self.bring_in(&window, resident, now, around)
    }

    fn fetch_file_page(
        &mut self,
        object: u64,
        index: u32,
        now: Moment,
        around: &mut Surroundings<'_>,
    ) -> (Fetched, Moment) {
        let version = self.version_on_disk(object, index);
        let page = self.tier_page(Pool::File, object, index);
        let (arrived, now) = self.get(page, version, now, around);
        let fetched = Fetched {
            name: PageName::File(object, index),
            place: self.disk_place(object, u64::from(index)),
            arrived: arrived.unwrap_or(Arrival::FromDisk),
        };
        (fetched, now)
    }

    fn version_on_disk(&self, object: u64, index: u32) -> u32 {
        self.written.get(&(object, index)).copied().unwrap_or(0)
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
            let name = PageName::File(span.object, index);
            let version = self.version_on_disk(span.object, index).wrapping_add(1);
            if let Some(resident) = self.memory.touch(&name) {
                self.counts.memory_hits += 1;
                now = now.max(resident.ready_at);
                resident.dirty = true;
                resident.version = version;
                continue;
            }
            let page = self.tier_page(Pool::File, span.object, index);
            around.tier.flush_page(page, now);
            now = self.make_room(now + self.shape.costs.refusal, around)?;
            let resident = Resident {
                dirty: true,
                ..clean(version)
            };
            self.memory.insert(name, resident);
        }
        Ok(now)
    }

    /// Writes a page back if it is dirty, then offers it to the tier.
    pub(super) fn evict_file_page(
        &mut self,
        object: u64,
        index: u32,
        resident: Resident,
        now: Moment,
        around: &mut Surroundings<'_>,
    ) -> Moment {
        let mut now = now;
        if resident.dirty {
            self.counts.disk_pages_written += 1;
            let place = self.disk_place(object, u64::from(index));
            now = around.disk.write(now, place, 1);
            self.written.insert((object, index), resident.version);
        }
        let page = self.tier_page(Pool::File, object, index);
        let stamp = Stamp::of(page, resident.version);
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
            self.memory.remove(&PageName::File(object, index));
            // The next file of this name must not be taken for this one.
            if let Some(version) = self.written.get_mut(&(object, index)) {
                *version = version.wrapping_add(1);
            }
        }
        around
            .tier
            .flush_object(self.shape.tenant, Pool::File, object, now);
        now + self.shape.costs.refusal
    }
}

fn clean(version: u32) -> Resident {
    Resident {
        dirty: false,
        has_slot: false,
        version,
        ready_at: Moment::START,
    }
}
