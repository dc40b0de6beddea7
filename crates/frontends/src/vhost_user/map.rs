//! The guest's memory, as the VMM shares it: files in memory, on ordinary or on huge pages.
//!
//! A page of a mapped file that cannot be had (it was cut, no huge page is left) ends whoever touches it (SIGBUS), and with this
//! process every other guest's disk. So each region is guarded (`guard.rs`): memory of which a page has
//! vanished is no memory from then on. Everything here is reached by the guest's addresses, checked against the
//! regions at each use. The decision record on guest memory says why, and what else was tried.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use vhost::vhost_user::message::VhostUserMemoryRegion;
use vm_memory::{
    Bytes, FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion,
    GuestRegionMmap, MmapRegion,
};

use super::guard::{self, Guard};
use super::unlocked;
use super::wire::chain::Segment;

/// The most regions of one guest's memory.
pub const REGIONS_MAX: usize = 256;

/// What file systems in memory say they are: of ordinary pages, and of huge ones.
const TMPFS_MAGIC: i64 = 0x0102_1994;
const HUGETLBFS_MAGIC: i64 = 0x9584_58f6;

/// Why memory was not taken.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// A read of it could wait for a disk, or for another program.
    #[error(
        "the guest's memory is a file on a file system that is not in memory; let QEMU use -object memory-backend-memfd,share=on, or a file in /dev/shm"
    )]
    NotInMemory,
    /// More regions than [`REGIONS_MAX`].
    #[error("the guest's memory has more than {REGIONS_MAX} regions")]
    TooMany,
    /// Regions overlap, or a file is shorter than its region.
    #[error("the regions of the guest's memory make no sense: {0}")]
    Layout(String),
    /// A region that is to go was never there.
    #[error("no region of the guest's memory begins at {0:#x}")]
    NotThere(u64),
    /// The kernel refused.
    #[error("cannot look at the guest's memory: {0}")]
    Kernel(#[from] io::Error),
}

/// There is no memory where the guest says there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the guest has no memory there")]
pub struct NoMemory;

/// All regions of a guest's memory. It never changes; another takes its place.
#[derive(Default)]
pub struct Memory {
    guest: GuestMemoryMmap<()>,
    slots: Vec<Slot>,
    /// Pages that had vanished anywhere when this memory was last found whole.
    lost: AtomicU64,
}

/// A region, by the guest's address and by the VMM's own. Its guard goes before its mapping does.
#[derive(Clone)]
struct Slot {
    vmm: u64,
    guard: Arc<Guard>,
    mapped: Arc<GuestRegionMmap<()>>,
}

impl Memory {
    /// Memory of these regions and their files.
    ///
    /// # Errors
    ///
    /// A region is not safe to touch, or they make no sense together.
    pub fn map(regions: &[VhostUserMemoryRegion], files: Vec<File>) -> Result<Memory, Refused> {
        let mapped = regions.iter().zip(files);
        let slots: Result<Vec<Slot>, Refused> =
            mapped.map(|(region, file)| slot_of(region, file)).collect();
        Memory::of(slots?)
    }

    /// This memory and one region more.
    ///
    /// # Errors
    ///
    /// As for [`map`](Memory::map).
    pub fn with(&self, region: &VhostUserMemoryRegion, file: File) -> Result<Memory, Refused> {
        let mut slots = self.slots.clone();
        slots.push(slot_of(region, file)?);
        Memory::of(slots)
    }

    /// This memory without a region.
    ///
    /// # Errors
    ///
    /// It is not there.
    pub fn without(&self, region: &VhostUserMemoryRegion) -> Result<Memory, Refused> {
        let is_it = |slot: &Slot| {
            slot.mapped.start_addr().0 == region.guest_phys_addr
                && slot.mapped.len() == region.memory_size
                && slot.vmm == region.user_addr
        };
        let mut slots = self.slots.clone();
        slots.retain(|slot| !is_it(slot));
        if slots.len() == self.slots.len() {
            return Err(Refused::NotThere(region.guest_phys_addr));
        }
        Memory::of(slots)
    }

    fn of(mut slots: Vec<Slot>) -> Result<Memory, Refused> {
        if slots.len() > REGIONS_MAX {
            return Err(Refused::TooMany);
        }
        if slots.is_empty() {
            return Ok(Memory::default());
        }
        slots.sort_by_key(|slot| slot.mapped.start_addr());
        let regions = slots.iter().map(|slot| Arc::clone(&slot.mapped)).collect();
        let guest = GuestMemoryMmap::from_arc_regions(regions)
            .map_err(|error| Refused::Layout(error.to_string()))?;
        Ok(Memory {
            guest,
            slots,
            lost: AtomicU64::default(),
        })
    }

    /// Whether a page of it has vanished: what was read since may be zeroes in its place.
    pub(crate) fn has_vanished(&self) -> bool {
        let lost = guard::lost();
        if lost == self.lost.load(Ordering::Relaxed) {
            return false;
        }
        let has_vanished = self.slots.iter().any(|slot| slot.guard.has_lost());
        if !has_vanished {
            self.lost.store(lost, Ordering::Relaxed);
        }
        has_vanished
    }

    /// What was reached is memory, unless it has vanished meanwhile.
    fn there<E>(&self, reached: Result<(), E>) -> Result<(), NoMemory> {
        match reached {
            Ok(()) if !self.has_vanished() => Ok(()),
            _ => Err(NoMemory),
        }
    }

    /// For a queue's own accesses.
    pub fn guest(&self) -> &GuestMemoryMmap<()> {
        &self.guest
    }

    /// The guest's address of what the VMM has at `vmm`.
    pub(crate) fn address_of(&self, vmm: u64) -> Option<GuestAddress> {
        self.slots.iter().find_map(|slot| {
            let offset = vmm.checked_sub(slot.vmm)?;
            let is_in = offset < slot.mapped.len();
            is_in.then(|| GuestAddress(slot.mapped.start_addr().0 + offset))
        })
    }

    /// Whether all of a range is memory.
    pub fn has(&self, at: GuestAddress, len: usize) -> bool {
        self.guest.check_range(at, len)
    }

    /// Reads all of `into` at an address.
    ///
    /// # Errors
    ///
    /// Not all of it is memory, or some has vanished.
    pub fn read(&self, at: u64, into: &mut [u8]) -> Result<(), NoMemory> {
        self.there(self.guest.read_slice(into, GuestAddress(at)))
    }

    /// Writes all of `from` at an address.
    ///
    /// # Errors
    ///
    /// Not all of it is memory, or some has vanished; a part may have been written then.
    pub fn write(&self, at: u64, from: &[u8]) -> Result<(), NoMemory> {
        self.there(self.guest.write_slice(from, GuestAddress(at)))
    }

    /// Reads segments into `into`, which is as long as they are.
    ///
    /// # Errors
    ///
    /// Not all of them are memory.
    pub fn gather(
        &self,
        segments: impl Iterator<Item = Segment>,
        into: &mut [u8],
    ) -> Result<(), NoMemory> {
        let mut rest = into;
        for segment in segments {
            let here = rest.split_off_mut(..segment.len as usize).ok_or(NoMemory)?;
            self.read(segment.at, here)?;
        }
        Ok(())
    }

    /// Writes `from` into segments, which are as long as it is or longer.
    ///
    /// # Errors
    ///
    /// Not all of them are memory.
    pub fn scatter(
        &self,
        segments: impl Iterator<Item = Segment>,
        from: &[u8],
    ) -> Result<(), NoMemory> {
        let mut rest = from;
        for segment in segments {
            let (here, after) = rest.split_at(rest.len().min(segment.len as usize));
            self.write(segment.at, here)?;
            rest = after;
        }
        Ok(())
    }
}

fn slot_of(region: &VhostUserMemoryRegion, file: File) -> Result<Slot, Refused> {
    let page_bytes = page_bytes_of(&file)?;
    let layout = |why: &str| Refused::Layout(why.to_owned());
    let end = region.mmap_offset.checked_add(region.memory_size);
    if end.is_none_or(|end| file.metadata().map_or(true, |file| file.len() < end)) {
        return Err(layout("a region is longer than its file"));
    }
    let len = usize::try_from(region.memory_size).map_err(|_| layout("a region is too large"))?;
    let is_whole = |at: u64| at.is_multiple_of(page_bytes as u64);
    if !is_whole(region.memory_size) || !is_whole(region.mmap_offset) {
        return Err(layout(
            "a region begins or ends inside of a page of its file",
        ));
    }
    let mapped = MmapRegion::from_file(FileOffset::new(file, region.mmap_offset), len)
        .map_err(|error| Refused::Layout(error.to_string()))?;
    unlocked::unlock(&mapped)?;
    let mapped = GuestRegionMmap::new(mapped, GuestAddress(region.guest_phys_addr))
        .ok_or_else(|| layout("a region passes the last address"))?;
    Ok(Slot {
        vmm: region.user_addr,
        guard: Arc::new(Guard::over(&mapped)?),
        mapped: Arc::new(mapped),
    })
}

/// Bytes of a page of a file in memory.
fn page_bytes_of(file: &File) -> Result<usize, Refused> {
    let system = rustix::fs::fstatfs(file).map_err(io::Error::from)?;
    match system.f_type {
        TMPFS_MAGIC => Ok(rustix::param::page_size()),
        HUGETLBFS_MAGIC => Ok(system.f_bsize as usize),
        _ => Err(Refused::NotInMemory),
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{MemfdFlags, SealFlags};

    use super::*;

    const LEN: u64 = 1 << 16;

    fn memfd(flags: MemfdFlags, seals: SealFlags) -> File {
        let file = rustix::fs::memfd_create("guest", flags).expect("a memfd");
        let file = File::from(file);
        file.set_len(LEN).expect("its length");
        if !seals.is_empty() {
            rustix::fs::fcntl_add_seals(&file, seals).expect("seals");
        }
        file
    }

    fn region(gpa: u64) -> VhostUserMemoryRegion {
        VhostUserMemoryRegion::new(gpa, LEN, 0x7000_0000 + gpa, 0)
    }

    fn map(file: File) -> Result<Memory, Refused> {
        Memory::map(&[region(0)], vec![file])
    }

    #[test]
    fn memory_is_taken_whether_it_is_sealed_or_not_and_no_file_on_a_disk() {
        let sealable = MemfdFlags::ALLOW_SEALING;
        assert!(map(memfd(sealable, SealFlags::SHRINK)).is_ok());
        assert!(map(memfd(sealable, SealFlags::empty())).is_ok());
        assert!(map(memfd(MemfdFlags::empty(), SealFlags::empty())).is_ok());
        let shared = tempfile::tempfile_in("/dev/shm").expect("a file");
        shared.set_len(LEN).expect("its length");
        assert!(map(shared).is_ok());
        let elsewhere = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).expect("a file");
        elsewhere.set_len(LEN).expect("its length");
        assert!(matches!(map(elsewhere), Err(Refused::NotInMemory)));
    }

    #[test]
    fn memory_that_was_cut_is_none_and_other_memory_stays() {
        let file = memfd(MemfdFlags::empty(), SealFlags::empty());
        let cut = map(file.try_clone().expect("a handle")).expect("taken");
        let whole = map(memfd(MemfdFlags::empty(), SealFlags::empty())).expect("taken");
        let mut bytes = [0; 3];
        cut.write(LEN - 3, b"far").expect("memory");
        file.set_len(LEN / 2).expect("cut");
        cut.read(0, &mut bytes).expect("this half is there");
        assert_eq!(cut.read(LEN - 3, &mut bytes), Err(NoMemory));
        assert!(cut.has_vanished());
        assert_eq!(
            cut.read(0, &mut bytes),
            Err(NoMemory),
            "nothing of it is believed"
        );
        assert_eq!(cut.write(0, &bytes), Err(NoMemory));
        whole.write(0, b"yes").expect("memory");
        assert!(!whole.has_vanished());
    }

    /// Nobody set huge pages aside here: each is missing when it is touched.
    #[test]
    fn huge_pages_that_are_missing_are_no_memory() {
        let is_none = |what: &str| {
            let count = format!("/sys/kernel/mm/hugepages/hugepages-2048kB/{what}");
            std::fs::read_to_string(count).is_ok_and(|count| count.trim() == "0")
        };
        if !is_none("nr_hugepages") || !is_none("nr_overcommit_hugepages") {
            eprintln!("skipped: this host has or makes huge pages of 2 MiB, or knows none");
            return;
        }
        let file = rustix::fs::memfd_create("guest", MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB);
        let file = File::from(file.expect("no page is needed"));
        file.set_len(4 << 20).expect("nor for its length");
        let region = |len| VhostUserMemoryRegion::new(0, len, 0, 0);
        let again = file.try_clone().expect("a handle");
        let inside = Memory::map(&[region(3 << 20)], vec![again]);
        assert!(matches!(inside, Err(Refused::Layout(_))));
        let huge = Memory::map(&[region(4 << 20)], vec![file]).expect("taken");
        assert_eq!(huge.read(0, &mut [0; 8]), Err(NoMemory));
        assert_eq!(huge.write(3 << 20, &[1; 8]), Err(NoMemory));
    }

    #[test]
    fn a_region_beyond_its_file_or_over_another_is_refused() {
        let sealed = || memfd(MemfdFlags::ALLOW_SEALING, SealFlags::SHRINK);
        let longer = VhostUserMemoryRegion::new(0, LEN * 2, 0, 0);
        let refused = Memory::map(&[longer], vec![sealed()]);
        assert!(matches!(refused, Err(Refused::Layout(_))));
        let twice = Memory::map(&[region(0), region(LEN / 2)], vec![sealed(), sealed()]);
        assert!(matches!(twice, Err(Refused::Layout(_))));
    }

    #[test]
    fn regions_come_and_go() {
        let sealed = || memfd(MemfdFlags::ALLOW_SEALING, SealFlags::SHRINK);
        let one = map(sealed()).expect("one");
        let two = one.with(&region(LEN), sealed()).expect("two");
        let across = [
            Segment {
                at: LEN - 2,
                len: 2,
            },
            Segment { at: LEN, len: 3 },
        ];
        two.scatter(across.into_iter(), b"hello").expect("memory");
        let mut back = [0; 5];
        two.gather(across.into_iter(), &mut back).expect("memory");
        assert_eq!(&back, b"hello");
        assert_eq!(
            two.address_of(0x7000_0000 + LEN + 7),
            Some(GuestAddress(LEN + 7))
        );
        let again = two.without(&region(LEN)).expect("it was there");
        assert_eq!(again.read(LEN, &mut back), Err(NoMemory));
        assert_eq!(again.address_of(0x7000_0000 + LEN), None);
        assert!(matches!(
            again.without(&region(LEN)),
            Err(Refused::NotThere(_))
        ));
    }
}
