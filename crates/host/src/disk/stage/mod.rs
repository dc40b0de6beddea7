//! The stage: pages of swap that were acknowledged and have no copy on disk yet.
//!
//! They stand in one memfd of fixed size, which somebody else keeps open (`keeper`), so that a daemon that is killed
//! loses none of them: the next one reads the stage and goes on. A page is never written over in place. Its slot
//! is written first, then the head, whose last word makes it count; then the older slot is given up.

mod head;
mod keeper;
mod pledge;

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

pub(super) use self::head::Preface;
use self::head::{HEAD_BYTES, Head, PREFACE_BYTES, file_bytes, head_place, pages_from};
pub(super) use self::keeper::Kept;
pub use self::keeper::{KeeperError, keep};
pub(super) use self::pledge::{Pledge, Pledges, StageId};

/// A disk that is not alone has at most so many pages for each slot that is free: one that takes all it can leaves a fifth,
/// of which the next leaves a fifth again.
const PAGES_PER_FREE_SLOT: u64 = 4;

/// A disk's number on the stage. No other ever has it while the daemon runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct StageDisk(u32);

/// A page on the stage, as it was when somebody looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Staged {
    pub(super) page: u64,
    sequence: u64,
}

/// There is no free slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

/// The stage.
pub(super) struct Stage {
    id: StageId,
    file: File,
    slots: u32,
    index: Mutex<Index>,
    /// Keeps it off the host's swap. Never touched.
    locked: Option<MmapRaw>,
    /// No later daemon would find it.
    is_lost: Arc<AtomicBool>,
    /// Why nobody could make one that takes pages.
    none_for: Option<KeeperError>,
}

struct Index {
    disks: BTreeMap<StageDisk, Known>,
    next: u32,
    of_page: HashMap<(StageDisk, u64), u32>,
    slots: Vec<Option<Occupied>>,
    free: Vec<u32>,
    sequence: u64,
}

/// A disk that has pages there, or may put some.
struct Known {
    /// Its name, and the mark of its backing.
    whose: (DiskName, u64),
    pages: u64,
    /// How many serve it.
    users: u32,
}

#[derive(Clone, Copy)]
struct Occupied {
    disk: StageDisk,
    page: u64,
    sequence: u64,
}

impl Stage {
    /// Bytes of a stage with so many slots.
    pub(super) fn file_bytes(slots: u32) -> u64 {
        file_bytes(slots)
    }

    /// Slots of a stage that may take so much memory.
    pub(super) fn slots_within(dirty_max: Bytes) -> u32 {
        let slots = dirty_max.0.saturating_sub(PREFACE_BYTES) / (PAGE_BYTES + HEAD_BYTES as u64);
        u32::try_from(slots).unwrap_or(u32::MAX).max(1)
    }

    /// Opens a stage, with every page that counts in it. Of a page that stands twice the newer counts.
    ///
    /// # Errors
    ///
    /// The memfd cannot be read, or is no stage of this version.
    #[cfg(test)]
    pub(super) fn open(file: File) -> io::Result<Stage> {
        Stage::kept(file, Arc::default())
    }

    /// A stage that takes no page, since none that does could be made: whoever uses it writes through.
    pub(super) fn none(why: KeeperError) -> io::Result<Stage> {
        let file = File::from(memfd_create("sublet-no-stage", MemfdFlags::CLOEXEC)?);
        Ok(Stage {
            id: StageId::new(file.metadata()?.ino())?,
            slots: 0,
            index: Mutex::new(Index::of(0)),
            locked: None,
            is_lost: Arc::new(AtomicBool::new(true)),
            none_for: Some(why),
            file,
        })
    }

    /// Why there is none that takes pages, if that is so.
    pub(super) fn none_for(&self) -> Option<&KeeperError> {
        self.none_for.as_ref()
    }

    /// Opens a stage that somebody keeps, until `is_lost` says otherwise; like that.
    pub(super) fn kept(file: File, is_lost: Arc<AtomicBool>) -> io::Result<Stage> {
        let slots = Preface::read(&file)?.slots;
        let stage = Stage {
            id: StageId::new(file.metadata()?.ino())?,
            slots,
            index: Mutex::new(Index::of(slots)),
            locked: lock_in_memory(&file),
            is_lost,
            none_for: None,
            file,
        };
        stage.adopt()?;
        Ok(stage)
    }

    /// Reads what an earlier daemon left.
    fn adopt(&self) -> io::Result<()> {
        let mut page = vec![0; PAGE_BYTES as usize];
        for slot in (0..self.slots).rev() {
            let Some(head) = Head::read(&self.file, slot)? else {
                self.index.lock().free.push(slot);
                continue;
            };
            self.file.read_exact_at(&mut page, self.place(slot))?;
            if !head.is_of(&page) {
                tracing::error!(disk = %head.disk, page = head.page, "a page of swap in the stage is damaged; it is lost");
                self.clear(slot);
                self.index.lock().free.push(slot);
                continue;
            }
            let disk = self.index.lock().number(&head.disk, head.mark);
            self.publish(disk, head.page, head.sequence, slot);
        }
        Ok(())
    }

    /// A disk's number, for who serves it; the same for the same name and backing.
    pub(super) fn enter(&self, name: &DiskName, mark: u64) -> StageDisk {
        let mut index = self.index.lock();
        let disk = index.number(name, mark);
        if let Some(known) = index.disks.get_mut(&disk) {
            known.users += 1;
        }
        disk
    }

    /// One who served a disk does so no more. Without pages and users its number is nobody's.
    pub(super) fn leave(&self, disk: StageDisk) {
        let mut index = self.index.lock();
        if let Some(known) = index.disks.get_mut(&disk) {
            known.users -= 1;
        }
        index.count(disk, |pages| pages);
    }

    /// Puts a page. When this returns well the page outlives this process.
    pub(super) fn put(&self, disk: StageDisk, page: u64, bytes: &[u8]) -> Result<(), Full> {
        let mut index = self.index.lock();
        let sequence = index.sequence + 1;
        let known = index.disks.get(&disk).ok_or(Full)?;
        let is_there = index.of_page.contains_key(&(disk, page));
        if !is_there && !index.has_place_for(known) {
            return Err(Full);
        }
        let head = Head::bytes(&known.whose, page, sequence, bytes);
        let slot = index.free.pop().ok_or(Full)?;
        index.sequence = sequence;
        drop(index);
        let written = self
            .file
            .write_all_at(bytes, self.place(slot))
            .and_then(|()| self.file.write_all_at(&head, head_place(slot)));
        match written {
            Ok(()) => {
                self.publish(disk, page, sequence, slot);
                Ok(())
            }
            Err(error) => {
                // The kernel has no memory for it: then the backing takes the page.
                tracing::debug!(%error, "the stage cannot be written to");
                self.clear(slot);
                self.index.lock().free.push(slot);
                Err(Full)
            }
        }
    }

    /// Enters a written slot; of two of one page the newer stays.
    fn publish(&self, disk: StageDisk, page: u64, sequence: u64, slot: u32) {
        let mut index = self.index.lock();
        index.sequence = index.sequence.max(sequence);
        let before = index.of_page.get(&(disk, page)).copied();
        let newer = before.and_then(|before| index.slots[before as usize]);
        let has_left = !index.disks.contains_key(&disk);
        if has_left || newer.is_some_and(|newer| newer.sequence > sequence) {
            self.give_up(&mut index, slot);
            return;
        }
        index.slots[slot as usize] = Some(Occupied {
            disk,
            page,
            sequence,
        });
        index.of_page.insert((disk, page), slot);
        match before {
            Some(before) => self.give_up(&mut index, before),
            None => index.count(disk, |pages| pages + 1),
        }
    }

    fn give_up(&self, index: &mut Index, slot: u32) {
        self.clear(slot);
        index.slots[slot as usize] = None;
        index.free.push(slot);
    }

    /// The slot counts no more.
    fn clear(&self, slot: u32) {
        // A memfd refuses this only where it has no memory for the page, and then nothing stands there.
        let _ = self.file.write_all_at(&Head::NONE, head_place(slot));
    }

    /// Reads a page; says whether it is there.
    ///
    /// # Errors
    ///
    /// It is there and cannot be read: what the backing has is older.
    pub(super) fn read(&self, disk: StageDisk, page: u64, into: &mut [u8]) -> io::Result<bool> {
        self.read_if(disk, page, None, into)
    }

    /// Reads a page; says whether it has not changed since somebody looked. Errors as for [`read`](Stage::read).
    pub(super) fn read_same(
        &self,
        disk: StageDisk,
        staged: Staged,
        into: &mut [u8],
    ) -> io::Result<bool> {
        self.read_if(disk, staged.page, Some(staged.sequence), into)
    }

    fn read_if(
        &self,
        disk: StageDisk,
        page: u64,
        same: Option<u64>,
        into: &mut [u8],
    ) -> io::Result<bool> {
        // Locked, so that the slot is not given to another page meanwhile.
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

    /// Whether a page is there.
    pub(super) fn has(&self, disk: StageDisk, page: u64) -> bool {
        self.index.lock().of_page.contains_key(&(disk, page))
    }

    /// Removes a page, whatever it is.
    pub(super) fn remove(&self, disk: StageDisk, page: u64) {
        self.remove_if(disk, page, None);
    }

    /// Removes all pages of the disks of a name, whatever their backing. Says how many there were.
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
                index.count(page.disk, |pages| pages - 1);
                self.give_up(&mut index, slot);
                removed += 1;
            }
        }
        removed
    }

    /// Removes a page that is on disk now, unless it has changed since.
    pub(super) fn settle(&self, disk: StageDisk, staged: Staged) {
        self.remove_if(disk, staged.page, Some(staged.sequence));
    }

    fn remove_if(&self, disk: StageDisk, page: u64, same: Option<u64>) {
        let mut index = self.index.lock();
        let Some(slot) = index.of_page.get(&(disk, page)).copied() else {
            return;
        };
        let occupied = index.slots[slot as usize];
        let is_same = |sequence| occupied.is_some_and(|occupied| occupied.sequence == sequence);
        if same.is_none_or(is_same) {
            index.of_page.remove(&(disk, page));
            index.count(disk, |pages| pages - 1);
            self.give_up(&mut index, slot);
        }
    }

    /// Some of a disk's pages, in order, as many as fit into `found`; goes on behind `from` each time.
    pub(super) fn some(&self, disk: StageDisk, from: &mut u32, found: &mut Vec<Staged>) {
        found.clear();
        let index = self.index.lock();
        for _ in 0..self.slots {
            if found.len() == found.capacity() {
                break;
            }
            *from = (*from + 1) % self.slots;
            match index.slots[*from as usize] {
                Some(slot) if slot.disk == disk => found.push(Staged {
                    page: slot.page,
                    sequence: slot.sequence,
                }),
                _ => {}
            }
        }
        drop(index);
        found.sort_unstable();
    }

    /// A moment: what is put later has a higher one.
    pub(super) fn now(&self) -> u64 {
        self.index.lock().sequence
    }

    /// Whether a page of a disk is there that was put until a moment.
    pub(super) fn has_before(&self, disk: StageDisk, moment: u64) -> bool {
        let index = self.index.lock();
        let mut pages = index.slots.iter().flatten();
        pages.any(|page| page.disk == disk && page.sequence <= moment)
    }

    /// Pages of a disk that are there.
    pub(super) fn count(&self, disk: StageDisk) -> u64 {
        let index = self.index.lock();
        index.disks.get(&disk).map_or(0, |known| known.pages)
    }

    /// Pages that are there under a name, whatever their backing.
    pub(super) fn count_of(&self, name: &DiskName) -> u64 {
        let disks = self.disks().into_iter();
        let named = disks.filter(|(disk, _)| disk == name);
        named.map(|(_, pages)| pages).sum()
    }

    /// Pages that are there under a name, but for those of one of its disks.
    pub(super) fn count_beside(&self, name: &DiskName, disk: Option<StageDisk>) -> u64 {
        let index = self.index.lock();
        let mut beside = 0;
        for (other, known) in &index.disks {
            if known.whose.0 == *name && Some(*other) != disk {
                beside += known.pages;
            }
        }
        beside
    }

    /// Whether more than half of it is taken.
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

    /// Whether a disk has pages there.
    pub(super) fn has_pages_of(&self, disk: &DiskName) -> bool {
        let index = self.index.lock();
        let mut known = index.disks.values();
        known.any(|known| known.whose.0 == *disk && known.pages > 0)
    }

    /// Whether nobody serves a disk of it and it has no pages.
    pub(super) fn is_idle(&self) -> bool {
        self.index.lock().disks.is_empty()
    }

    /// Pages of disks that nobody serves, by name.
    pub(super) fn deserted(&self) -> BTreeMap<DiskName, u64> {
        let index = self.index.lock();
        let mut deserted = BTreeMap::new();
        for known in index.disks.values().filter(|known| known.users == 0) {
            *deserted.entry(known.whose.0.clone()).or_default() += known.pages;
        }
        deserted
    }

    /// Whether no later daemon would find it, so that nothing on it outlives this one.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// Whether all of it is in memory, taken or not.
    pub(super) fn is_locked(&self) -> bool {
        self.locked.is_some()
    }

    /// Which one it is.
    pub(super) fn id(&self) -> &StageId {
        &self.id
    }

    /// What it takes of the host's memory.
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

impl Index {
    fn of(slots: u32) -> Index {
        let slots = slots as usize;
        Index {
            disks: BTreeMap::new(),
            next: 0,
            // Twice as many: what comes and goes is then tidied in place, and nothing is ever allocated.
            of_page: HashMap::with_capacity(2 * slots),
            slots: vec![None; slots],
            free: Vec::with_capacity(slots),
            sequence: 0,
        }
    }

    /// Whether a disk may take one more slot: some are left to others, so that a backing that stands still stays one
    /// disk's trouble.
    fn has_place_for(&self, known: &Known) -> bool {
        let is_alone = self.disks.len() == 1;
        is_alone || known.pages < PAGES_PER_FREE_SLOT * self.free.len() as u64
    }

    fn number(&mut self, name: &DiskName, mark: u64) -> StageDisk {
        let whose = (name.clone(), mark);
        let known = self.disks.iter().find(|(_, known)| known.whose == whose);
        if let Some((disk, _)) = known {
            return *disk;
        }
        let disk = StageDisk(self.next);
        self.next += 1;
        let (pages, users) = (0, 0);
        self.disks.insert(
            disk,
            Known {
                whose,
                pages,
                users,
            },
        );
        disk
    }

    /// Counts a disk's pages anew; one without pages and users is forgotten.
    fn count(&mut self, disk: StageDisk, now: impl FnOnce(u64) -> u64) {
        let Some(known) = self.disks.get_mut(&disk) else {
            return;
        };
        known.pages = now(known.pages);
        if known.pages == 0 && known.users == 0 {
            self.disks.remove(&disk);
        }
    }
}

/// Swap that lands in the host's swap would help nobody.
fn lock_in_memory(file: &File) -> Option<MmapRaw> {
    let mapped = MmapOptions::new().map_raw(file);
    let locked = mapped.and_then(|mapped| mapped.lock().map(|()| mapped));
    if let Err(error) = &locked {
        tracing::warn!(%error, "the stage of swap pages cannot be locked in memory; raise `ulimit -l` (LimitMEMLOCK=)");
    }
    locked.ok()
}

#[cfg(test)]
mod tests;
