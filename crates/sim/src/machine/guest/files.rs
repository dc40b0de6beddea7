//! File pages of a guest. Clean ones are offered to the tier when they leave, dirty ones are written first.

use super::memory::{EntryIndex, FileContent, FilePage, GuestMemory};
use super::{Guest, GuestBackends, GuestError, PageSource, WindowPage};
use crate::machine::tier::{PageStamp, PoolKind};
use crate::virtual_time::VirtualInstant;
use crate::workload::FileSpan;

impl Guest {
    /// Reads pages of a file. It reads ahead if reads follow one another.
    pub(super) fn read(
        &mut self,
        span: FileSpan,
        now: VirtualInstant,
        backends: &mut GuestBackends<'_>,
    ) -> Result<VirtualInstant, GuestError> {
        let mut now = now;
        for index in span.indices() {
            self.counts.touches += 1;
            now += self.shape.costs.touch;
            let page = FilePage::of(&span, index);
            let entry = self.memory.file(page);
            match self.memory.touch(entry, now, self.began) {
                Some(touched) => now = self.wait_for_page(touched, now),
                None => now = self.read_window(span, index, now, backends)?,
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

    /// Brings in a page and those after it: the rest of the request, and more if reads follow one another or begin a
    /// file.
    fn read_window(
        &mut self,
        span: FileSpan,
        index: u32,
        now: VirtualInstant,
        backends: &mut GuestBackends<'_>,
    ) -> Result<VirtualInstant, GuestError> {
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
            let entry = self.memory.file(page);
            if self.memory.has(entry) {
                continue;
            }
            let (fetched, done) = self.fetch_file_page(page, entry, now, backends);
            window.push(fetched);
            now = done;
        }
        let done = self.bring_in(&window, GuestMemory::insert_file, now, backends);
        self.scratch.window = window;
        done
    }

    fn fetch_file_page(
        &mut self,
        page: FilePage,
        entry: EntryIndex,
        now: VirtualInstant,
        backends: &mut GuestBackends<'_>,
    ) -> (WindowPage, VirtualInstant) {
        let version = self.memory.note_of(entry);
        let in_tier = self.tier_page(PoolKind::File, page.object, page.index);
        let (arrived, now) = self.get(in_tier, version, now, backends);
        let fetched = WindowPage {
            entry,
            on_disk: self.disk_address(page.object, u64::from(page.index)),
            arrived: arrived.unwrap_or(PageSource::FromDisk),
        };
        (fetched, now)
    }

    /// Writes whole pages of a file. They go to the disk when they leave memory.
    pub(super) fn write(
        &mut self,
        span: FileSpan,
        now: VirtualInstant,
        backends: &mut GuestBackends<'_>,
    ) -> Result<VirtualInstant, GuestError> {
        let mut now = now;
        for index in span.indices() {
            self.counts.touches += 1;
            now += self.shape.costs.touch;
            let page = FilePage::of(&span, index);
            let entry = self.memory.file(page);
            if let Some(touched) = self.memory.touch(entry, now, self.began) {
                now = self.wait_for_page(touched, now);
                self.memory.mark_dirty(entry);
                continue;
            }
            let in_tier = self.tier_page(PoolKind::File, page.object, page.index);
            backends.tier.flush_page(in_tier, now);
            now = self.make_room(now + self.shape.costs.refusal, backends)?;
            self.memory.insert_file(entry, VirtualInstant::START);
            self.memory.mark_dirty(entry);
        }
        Ok(now)
    }

    /// Offers a page to the tier. A dirty page is written back first, which makes a new version of it.
    pub(super) fn evict_file_page(
        &mut self,
        entry: EntryIndex,
        state: FileContent,
        now: VirtualInstant,
        backends: &mut GuestBackends<'_>,
    ) -> VirtualInstant {
        let FilePage { object, index } = self.memory.file_page(entry);
        let mut now = now;
        if state == FileContent::Dirty {
            self.counts.disk_pages_written += 1;
            let on_disk = self.disk_address(object, u64::from(index));
            now = self.wait(now, backends.disk.write(now, on_disk, 1));
            self.memory
                .set_note(entry, self.memory.note_of(entry).wrapping_add(1));
        }
        let page = self.tier_page(PoolKind::File, object, index);
        let stamp = PageStamp::of(page, self.memory.note_of(entry));
        self.put(page, stamp, now, backends).1
    }

    /// Deletes a file of `pages` pages.
    pub(super) fn delete(
        &mut self,
        object: u64,
        pages: u32,
        now: VirtualInstant,
        backends: &mut GuestBackends<'_>,
    ) -> VirtualInstant {
        for index in 0..pages {
            let Some(entry) = self.memory.known_file(FilePage { object, index }) else {
                continue;
            };
            self.memory.remove(entry);
            // The next file of this name must not be mistaken for this one.
            let version = self.memory.note_of(entry);
            if version > 0 {
                self.memory.set_note(entry, version.wrapping_add(1));
            }
        }
        backends
            .tier
            .flush_object(self.shape.tenant, PoolKind::File, object, now);
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
