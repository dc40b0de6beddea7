//! The stage: pages of swap that were acknowledged and have no copy on disk yet.
//!
//! The pages are in one memfd of fixed size. A keeper process holds it open (`keeper`), so that a daemon that is killed
//! loses no page. The next daemon reads the stage and goes on. The stage never overwrites a page in place. It writes
//! the slot first and then the head, whose last word makes the page count. Then it gives the older slot up.

mod keeper;
mod layout;
mod stage_notes;

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use parking_lot::Mutex;
use rustix::fs::{MemfdFlags, memfd_create};
use sublet_types::{Bytes, DiskName, PAGE_BYTES};

pub(super) use self::keeper::KeptMemfd;
pub use self::keeper::{KeeperError, run_keeper};
pub(super) use self::layout::Preface;
use self::layout::{HEAD_BYTES, PREFACE_BYTES, SlotHead, file_bytes, head_offset, pages_from};
pub(super) use self::stage_notes::{StageId, StageNote, StageNotes};

/// A disk that is not alone has at most this many pages per free slot. So a disk that takes all it can leaves a fifth
/// free, and the next leaves a fifth of that.
const PAGES_PER_FREE_SLOT: u64 = 4;

/// A disk's number on the stage. No other disk has it while the daemon runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct StageDiskId(u32);

/// A page on the stage, as it was when a caller read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StagedPage {
    pub(super) page: u64,
    sequence: u64,
}

/// The stage did not take a page: no slot is free, the disk is unknown, or the write failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StageRefused;

/// The stage.
pub(super) struct Stage {
    id: StageId,
    file: File,
    slots: u32,
    index: Mutex<StageIndex>,
    /// Keeps the stage off the host's swap. Nothing touches this mapping.
    locked: Option<MmapRaw>,
    /// No later daemon would find the stage.
    is_lost: Arc<AtomicBool>,
    /// Why no stage that takes pages could be made.
    none_for: Option<KeeperError>,
}

struct StageIndex {
    disks: BTreeMap<StageDiskId, StageDiskEntry>,
    next: u32,
    of_page: HashMap<(StageDiskId, u64), u32>,
    slots: Vec<Option<OccupiedSlot>>,
    free: Vec<u32>,
    sequence: u64,
}

/// A disk that has pages on the stage, or may put some.
struct StageDiskEntry {
    /// Its name, and the mark of its backing.
    whose: (DiskName, u64),
    pages: u64,
    /// How many callers serve the disk.
    users: u32,
}

#[derive(Clone, Copy)]
struct OccupiedSlot {
    disk: StageDiskId,
    page: u64,
    sequence: u64,
}

impl Stage {
    /// Bytes of a stage with this many slots.
    pub(super) fn file_bytes(slots: u32) -> u64 {
        file_bytes(slots)
    }

    /// Slots of a stage that may take this much memory.
    pub(super) fn slots_within(dirty_max: Bytes) -> u32 {
        let slots = dirty_max.0.saturating_sub(PREFACE_BYTES) / (PAGE_BYTES + HEAD_BYTES as u64);
        u32::try_from(slots).unwrap_or(u32::MAX).max(1)
    }

    /// Opens a stage with every page that counts in it. If a page is there twice, the newer one counts.
    ///
    /// # Errors
    ///
    /// The memfd cannot be read, or is not a stage of this version.
    #[cfg(test)]
    pub(super) fn open(file: File) -> io::Result<Stage> {
        Stage::kept(file, Arc::default())
    }

    /// A stage that takes no page, because no other could be made. Its users write through.
    pub(super) fn none(why: KeeperError) -> io::Result<Stage> {
        let file = File::from(memfd_create("sublet-no-stage", MemfdFlags::CLOEXEC)?);
        Ok(Stage {
            id: StageId::new(file.metadata()?.ino())?,
            slots: 0,
            index: Mutex::new(StageIndex::of(0)),
            locked: None,
            is_lost: Arc::new(AtomicBool::new(true)),
            none_for: Some(why),
            file,
        })
    }

    /// Why there is no stage that takes pages, if there is none.
    pub(super) fn none_for(&self) -> Option<&KeeperError> {
        self.none_for.as_ref()
    }

    /// Opens a stage that a keeper holds, until `is_lost` says otherwise. Everything else is as for `open`.
    pub(super) fn kept(file: File, is_lost: Arc<AtomicBool>) -> io::Result<Stage> {
        let slots = Preface::read(&file)?.slots;
        let stage = Stage {
            id: StageId::new(file.metadata()?.ino())?,
            slots,
            index: Mutex::new(StageIndex::of(slots)),
            locked: lock_in_memory(&file),
            is_lost,
            none_for: None,
            file,
        };
        stage.recover()?;
        Ok(stage)
    }

    /// Reads what an earlier daemon left.
    fn recover(&self) -> io::Result<()> {
        let mut page = vec![0; PAGE_BYTES as usize];
        for slot in (0..self.slots).rev() {
            let Some(head) = SlotHead::read(&self.file, slot)? else {
                self.index.lock().free.push(slot);
                continue;
            };
            self.file.read_exact_at(&mut page, self.place(slot))?;
            if !head.matches(&page) {
                tracing::error!(disk = %head.disk, page = head.page, slot, "a page of swap in the stage is damaged; the daemon drops it, and the guest may read an older one from the backing: restart the guest");
                self.clear_head(slot);
                self.index.lock().free.push(slot);
                continue;
            }
            let disk = self.index.lock().number(&head.disk, head.mark);
            self.publish(disk, head.page, head.sequence, slot);
        }
        Ok(())
    }

    /// A disk's number, for a caller that serves it. The same name and backing get the same number.
    pub(super) fn register(&self, name: &DiskName, mark: u64) -> StageDiskId {
        let mut index = self.index.lock();
        let disk = index.number(name, mark);
        if let Some(known) = index.disks.get_mut(&disk) {
            known.users += 1;
        }
        disk
    }

    /// Call this when a caller no longer serves a disk. A number without pages and users is free.
    pub(super) fn unregister(&self, disk: StageDiskId) {
        let mut index = self.index.lock();
        if let Some(known) = index.disks.get_mut(&disk) {
            known.users -= 1;
        }
        index.update_count(disk, |pages| pages);
    }

    /// Puts a page. After `Ok` the page outlives this process.
    pub(super) fn put(
        &self,
        disk: StageDiskId,
        page: u64,
        bytes: &[u8],
    ) -> Result<(), StageRefused> {
        let mut index = self.index.lock();
        let sequence = index.sequence + 1;
        let known = index.disks.get(&disk).ok_or(StageRefused)?;
        let is_there = index.of_page.contains_key(&(disk, page));
        if !is_there && !index.has_room_for(known) {
            return Err(StageRefused);
        }
        let head = SlotHead::bytes(&known.whose, page, sequence, bytes);
        let slot = index.free.pop().ok_or(StageRefused)?;
        index.sequence = sequence;
        drop(index);
        let written = self
            .file
            .write_all_at(bytes, self.place(slot))
            .and_then(|()| self.file.write_all_at(&head, head_offset(slot)));
        match written {
            Ok(()) => {
                self.publish(disk, page, sequence, slot);
                Ok(())
            }
            Err(error) => {
                // The kernel has no memory for the page, so the backing takes it.
                tracing::debug!(page, slot, bytes = bytes.len(), %error, "the daemon cannot write a page of swap to the stage; the disk's backing takes it instead");
                self.clear_head(slot);
                self.index.lock().free.push(slot);
                Err(StageRefused)
            }
        }
    }

    /// Enters a written slot. If two slots hold one page, the newer stays.
    fn publish(&self, disk: StageDiskId, page: u64, sequence: u64, slot: u32) {
        let mut index = self.index.lock();
        index.sequence = index.sequence.max(sequence);
        let before = index.of_page.get(&(disk, page)).copied();
        let newer = before.and_then(|before| index.slots[before as usize]);
        let has_left = !index.disks.contains_key(&disk);
        if has_left || newer.is_some_and(|newer| newer.sequence > sequence) {
            self.free_slot(&mut index, slot);
            return;
        }
        index.slots[slot as usize] = Some(OccupiedSlot {
            disk,
            page,
            sequence,
        });
        index.of_page.insert((disk, page), slot);
        match before {
            Some(before) => self.free_slot(&mut index, before),
            None => index.update_count(disk, |pages| pages + 1),
        }
    }

    fn free_slot(&self, index: &mut StageIndex, slot: u32) {
        self.clear_head(slot);
        index.slots[slot as usize] = None;
        index.free.push(slot);
    }

    /// Marks a slot as not counting.
    fn clear_head(&self, slot: u32) {
        // A memfd refuses this only if it has no memory for the page. Then nothing is there.
        let _ = self.file.write_all_at(&SlotHead::NONE, head_offset(slot));
    }

    /// Reads a page. Returns whether it is there.
    ///
    /// # Errors
    ///
    /// The page is there and cannot be read. What the backing has is older.
    pub(super) fn read(&self, disk: StageDiskId, page: u64, into: &mut [u8]) -> io::Result<bool> {
        self.read_if(disk, page, None, into)
    }

    /// Reads a page. Returns whether it is unchanged since the caller read its entry. Errors are as for
    /// [`read`](Stage::read).
    pub(super) fn read_same(
        &self,
        disk: StageDiskId,
        staged: StagedPage,
        into: &mut [u8],
    ) -> io::Result<bool> {
        self.read_if(disk, staged.page, Some(staged.sequence), into)
    }

    fn read_if(
        &self,
        disk: StageDiskId,
        page: u64,
        same: Option<u64>,
        into: &mut [u8],
    ) -> io::Result<bool> {
        // The lock keeps the slot from another page meanwhile.
        let index = self.index.lock();
        let Some(slot) = index.of_page.get(&(disk, page)) else {
            return Ok(false);
        };
        let occupied = index.slots[*slot as usize];
        let is_same = |sequence| occupied.is_some_and(|occupied| occupied.sequence == sequence);
        if !same.is_none_or(is_same) {
            return Ok(false);
        }
        self.file.read_exact_at(into, self.place(*slot))?;
        Ok(true)
    }

    /// Returns whether a page is there.
    pub(super) fn has(&self, disk: StageDiskId, page: u64) -> bool {
        self.index.lock().of_page.contains_key(&(disk, page))
    }

    /// Removes a page, whatever its content.
    pub(super) fn remove(&self, disk: StageDiskId, page: u64) {
        self.remove_if(disk, page, None);
    }

    /// Removes all pages of the disks of a name, whatever their backing. Returns how many there were.
    pub(super) fn remove_all(&self, name: &DiskName) -> u64 {
        let mut index = self.index.lock();
        let mut removed = 0;
        for slot in 0..self.slots {
            let Some(page) = index.slots[slot as usize] else {
                continue;
            };
            let known = index.disks.get(&page.disk);
            if known.is_some_and(|known| known.whose.0 == *name) {
                index.of_page.remove(&(page.disk, page.page));
                index.update_count(page.disk, |pages| pages - 1);
                self.free_slot(&mut index, slot);
                removed += 1;
            }
        }
        removed
    }

    /// Removes a page that is on disk now, unless it has changed.
    pub(super) fn remove_written(&self, disk: StageDiskId, staged: StagedPage) {
        self.remove_if(disk, staged.page, Some(staged.sequence));
    }

    fn remove_if(&self, disk: StageDiskId, page: u64, same: Option<u64>) {
        let mut index = self.index.lock();
        let Some(slot) = index.of_page.get(&(disk, page)).copied() else {
            return;
        };
        let occupied = index.slots[slot as usize];
        let is_same = |sequence| occupied.is_some_and(|occupied| occupied.sequence == sequence);
        if same.is_none_or(is_same) {
            index.of_page.remove(&(disk, page));
            index.update_count(disk, |pages| pages - 1);
            self.free_slot(&mut index, slot);
        }
    }

    /// Some of a disk's pages, in order, as many as fit into `found`. Each call continues after `from`.
    pub(super) fn next_batch(
        &self,
        disk: StageDiskId,
        from: &mut u32,
        found: &mut Vec<StagedPage>,
    ) {
        found.clear();
        let index = self.index.lock();
        for _ in 0..self.slots {
            if found.len() == found.capacity() {
                break;
            }
            *from = (*from + 1) % self.slots;
            match index.slots[*from as usize] {
                Some(slot) if slot.disk == disk => found.push(StagedPage {
                    page: slot.page,
                    sequence: slot.sequence,
                }),
                _ => {}
            }
        }
        drop(index);
        found.sort_unstable();
    }

    /// A moment. What is put later has a higher one.
    pub(super) fn now(&self) -> u64 {
        self.index.lock().sequence
    }

    /// Returns whether a page of a disk is there that was put before a moment.
    pub(super) fn has_before(&self, disk: StageDiskId, moment: u64) -> bool {
        let index = self.index.lock();
        let mut pages = index.slots.iter().flatten();
        pages.any(|page| page.disk == disk && page.sequence <= moment)
    }

    /// Pages of a disk that are there.
    pub(super) fn count(&self, disk: StageDiskId) -> u64 {
        let index = self.index.lock();
        index.disks.get(&disk).map_or(0, |known| known.pages)
    }

    /// Pages that are there under a name, whatever their backing.
    pub(super) fn count_of(&self, name: &DiskName) -> u64 {
        let disks = self.disks().into_iter();
        let named = disks.filter(|(disk, _)| disk == name);
        named.map(|(_, pages)| pages).sum()
    }

    /// Pages that are there under a name, without those of one of its disks.
    pub(super) fn count_beside(&self, name: &DiskName, disk: Option<StageDiskId>) -> u64 {
        let index = self.index.lock();
        let mut beside = 0;
        for (other, known) in &index.disks {
            if known.whose.0 == *name && Some(*other) != disk {
                beside += known.pages;
            }
        }
        beside
    }

    /// Returns whether more than half of the stage is taken.
    pub(super) fn is_filling(&self) -> bool {
        self.index.lock().free.len() < self.slots as usize / 2
    }

    /// Disks that have pages there.
    pub(super) fn disks(&self) -> Vec<(DiskName, u64)> {
        let index = self.index.lock();
        let known = index.disks.values().filter(|known| known.pages > 0);
        known
            .map(|known| (known.whose.0.clone(), known.pages))
            .collect()
    }

    /// Returns whether a disk has pages there.
    pub(super) fn has_pages_of(&self, disk: &DiskName) -> bool {
        let index = self.index.lock();
        let mut known = index.disks.values();
        known.any(|known| known.whose.0 == *disk && known.pages > 0)
    }

    /// Returns whether nobody serves a disk of it and it has no pages.
    pub(super) fn is_idle(&self) -> bool {
        self.index.lock().disks.is_empty()
    }

    /// Pages of disks that nobody serves, by name.
    pub(super) fn unserved(&self) -> BTreeMap<DiskName, u64> {
        let index = self.index.lock();
        let mut deserted = BTreeMap::new();
        for known in index.disks.values().filter(|known| known.users == 0) {
            *deserted.entry(known.whose.0.clone()).or_default() += known.pages;
        }
        deserted
    }

    /// Returns whether no later daemon would find the stage. Nothing on it outlives this daemon then.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// Returns whether all of the stage is in memory, taken or not.
    pub(super) fn is_locked(&self) -> bool {
        self.locked.is_some()
    }

    /// The identity of the stage.
    pub(super) fn id(&self) -> &StageId {
        &self.id
    }

    /// Memory of the host that the stage takes.
    pub(super) fn bytes(&self) -> Bytes {
        match self.none_for {
            Some(_) => Bytes::ZERO,
            None => Bytes(Stage::file_bytes(self.slots)),
        }
    }

    fn place(&self, slot: u32) -> u64 {
        pages_from(self.slots) + u64::from(slot) * PAGE_BYTES
    }
}

impl StageIndex {
    fn of(slots: u32) -> StageIndex {
        let slots = slots as usize;
        StageIndex {
            disks: BTreeMap::new(),
            next: 0,
            // Twice as many: the map then tidies what comes and goes in place, and never allocates.
            of_page: HashMap::with_capacity(2 * slots),
            slots: vec![None; slots],
            free: Vec::with_capacity(slots),
            sequence: 0,
        }
    }

    /// Returns whether a disk may take one more slot. Some slots are left to others, so that a backing that stands
    /// still troubles only its own disk.
    fn has_room_for(&self, known: &StageDiskEntry) -> bool {
        let is_alone = self.disks.len() == 1;
        is_alone || known.pages < PAGES_PER_FREE_SLOT * self.free.len() as u64
    }

    fn number(&mut self, name: &DiskName, mark: u64) -> StageDiskId {
        let whose = (name.clone(), mark);
        let known = self.disks.iter().find(|(_, known)| known.whose == whose);
        if let Some((disk, _)) = known {
            return *disk;
        }
        let disk = StageDiskId(self.next);
        self.next += 1;
        let (pages, users) = (0, 0);
        self.disks.insert(
            disk,
            StageDiskEntry {
                whose,
                pages,
                users,
            },
        );
        disk
    }

    /// Counts a disk's pages again. A disk without pages and users is forgotten.
    fn update_count(&mut self, disk: StageDiskId, now: impl FnOnce(u64) -> u64) {
        let Some(known) = self.disks.get_mut(&disk) else {
            return;
        };
        known.pages = now(known.pages);
        if known.pages == 0 && known.users == 0 {
            self.disks.remove(&disk);
        }
    }
}

/// Swap that lands in the host's swap would help nobody, so the stage is locked.
fn lock_in_memory(file: &File) -> Option<MmapRaw> {
    let mapped = MmapOptions::new().map_raw(file);
    let locked = mapped.and_then(|mapped| mapped.lock().map(|()| mapped));
    if let Err(error) = &locked {
        let bytes = Bytes(file.metadata().map_or(0, |facts| facts.len()));
        tracing::warn!(%bytes, %error, "the daemon cannot lock the stage of swap pages in memory, and the host may swap it out; raise `ulimit -l` (LimitMEMLOCK=)");
    }
    locked.ok()
}

#[cfg(test)]
mod tests;
