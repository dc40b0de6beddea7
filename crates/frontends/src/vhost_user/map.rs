//! The guest's memory, as the VMM shares it: files in memory, on ordinary or on huge pages.
//!
//! A page of a mapped file may be missing, because the file was cut or no huge page is left. The kernel then ends the
//! process that touches it (SIGBUS), and with this process every other guest's disk. So each region is guarded
//! (`guard.rs`). If a page of it has vanished, the region counts as no memory from then on. This module reaches memory
//! only by the guest's addresses, and checks them against the regions at each use. The decision record on guest memory
//! says why, and what else was tried.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use vhost::vhost_user::message::VhostUserMemoryRegion;
use vm_memory::{
    Bytes, FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion,
    GuestRegionMmap, MmapRegion,
};

use super::guard::{self, SigbusGuard};
use super::munlock;
use super::wire::chain::Segment;

/// The most regions of one guest's memory.
pub const REGIONS_MAX: usize = 256;

/// The magic numbers of file systems in memory: one of ordinary pages, one of huge pages.
const TMPFS_MAGIC: i64 = 0x0102_1994;
const HUGETLBFS_MAGIC: i64 = 0x9584_58f6;

/// Why the daemon does not take a guest's memory.
#[derive(Debug, thiserror::Error)]
pub enum GuestMemoryError {
    /// A read of the memory could wait for a disk, or for another program.
    #[error(
        "the guest's memory is a file on a file system that is not in memory; let QEMU use -object memory-backend-memfd,share=on, or a file in /dev/shm"
    )]
    NotInMemory,
    /// The guest has more regions than [`REGIONS_MAX`].
    #[error("the guest's memory has more than {REGIONS_MAX} regions")]
    TooMany,
    /// Regions overlap, or a file is shorter than its region.
    #[error("the regions of the guest's memory make no sense: {0}")]
    Layout(String),
    /// The region to remove was never there.
    #[error("no region of the guest's memory begins at {0:#x}")]
    NotThere(u64),
    /// The kernel refused a call.
    #[error("cannot look at the guest's memory: {0}")]
    Kernel(#[from] io::Error),
}

/// The guest has no memory at that address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the guest has no memory there")]
pub struct BadGuestAddress;

/// All regions of a guest's memory. It never changes. A new value takes its place.
#[derive(Default)]
pub struct GuestMemory {
    guest: GuestMemoryMmap<()>,
    regions: Vec<MappedRegion>,
    /// How many ranges had vanished anywhere when this memory was last found whole.
    lost_when_checked: AtomicU64,
}

/// A region, by the guest's address and by the VMM's. The guard is dropped before the mapping.
#[derive(Clone)]
struct MappedRegion {
    vmm_address: u64,
    guard: Arc<SigbusGuard>,
    mapped: Arc<GuestRegionMmap<()>>,
}

impl GuestMemory {
    /// Maps these regions of their files.
    ///
    /// # Errors
    ///
    /// A region is not safe to touch, or the regions make no sense together.
    pub fn map(
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
    ) -> Result<GuestMemory, GuestMemoryError> {
        let mapped = regions.iter().zip(files);
        let slots: Result<Vec<MappedRegion>, GuestMemoryError> = mapped
            .map(|(region, file)| map_region(region, file))
            .collect();
        GuestMemory::from_regions(slots?)
    }

    /// This memory with one region more.
    ///
    /// # Errors
    ///
    /// As for [`map`](GuestMemory::map).
    pub fn with(
        &self,
        region: &VhostUserMemoryRegion,
        file: File,
    ) -> Result<GuestMemory, GuestMemoryError> {
        let mut slots = self.regions.clone();
        slots.push(map_region(region, file)?);
        GuestMemory::from_regions(slots)
    }

    /// This memory without one region.
    ///
    /// # Errors
    ///
    /// The region is not there.
    pub fn without(&self, region: &VhostUserMemoryRegion) -> Result<GuestMemory, GuestMemoryError> {
        let is_it = |slot: &MappedRegion| {
            slot.mapped.start_addr().0 == region.guest_phys_addr
                && slot.mapped.len() == region.memory_size
                && slot.vmm_address == region.user_addr
        };
        let mut slots = self.regions.clone();
        slots.retain(|slot| !is_it(slot));
        if slots.len() == self.regions.len() {
            return Err(GuestMemoryError::NotThere(region.guest_phys_addr));
        }
        GuestMemory::from_regions(slots)
    }

    fn from_regions(mut slots: Vec<MappedRegion>) -> Result<GuestMemory, GuestMemoryError> {
        if slots.len() > REGIONS_MAX {
            return Err(GuestMemoryError::TooMany);
        }
        if slots.is_empty() {
            return Ok(GuestMemory::default());
        }
        slots.sort_by_key(|slot| slot.mapped.start_addr());
        let regions = slots.iter().map(|slot| Arc::clone(&slot.mapped)).collect();
        let guest = GuestMemoryMmap::from_arc_regions(regions)
            .map_err(|error| GuestMemoryError::Layout(error.to_string()))?;
        Ok(GuestMemory {
            guest,
            regions: slots,
            lost_when_checked: AtomicU64::default(),
        })
    }

    /// Returns whether a page of the memory has vanished. If so, what was read since may be zeroes instead.
    pub(crate) fn has_vanished(&self) -> bool {
        let lost = guard::vanished_ranges();
        if lost == self.lost_when_checked.load(Ordering::Relaxed) {
            return false;
        }
        let has_vanished = self.regions.iter().any(|slot| slot.guard.has_vanished());
        if !has_vanished {
            self.lost_when_checked.store(lost, Ordering::Relaxed);
        }
        has_vanished
    }

    /// Turns an access into an error if the memory has vanished meanwhile.
    fn unless_vanished<E>(&self, reached: Result<(), E>) -> Result<(), BadGuestAddress> {
        match reached {
            Ok(()) if !self.has_vanished() => Ok(()),
            _ => Err(BadGuestAddress),
        }
    }

    /// The memory, for a queue's own accesses.
    pub fn guest(&self) -> &GuestMemoryMmap<()> {
        &self.guest
    }

    /// The guest's address of what the VMM has at `vmm`.
    pub(crate) fn address_of(&self, vmm: u64) -> Option<GuestAddress> {
        self.regions.iter().find_map(|slot| {
            let offset = vmm.checked_sub(slot.vmm_address)?;
            let is_in = offset < slot.mapped.len();
            is_in.then(|| GuestAddress(slot.mapped.start_addr().0 + offset))
        })
    }

    /// Returns whether a whole range is memory.
    pub fn has(&self, at: GuestAddress, len: usize) -> bool {
        self.guest.check_range(at, len)
    }

    /// Reads all of `into` at an address.
    ///
    /// # Errors
    ///
    /// Not all of the range is memory, or some of it has vanished.
    pub fn read(&self, at: u64, into: &mut [u8]) -> Result<(), BadGuestAddress> {
        let at = GuestAddress(at);
        let read = match self.guest.get_slice(at, into.len()) {
            Ok(range) => range.read_slice(into, 0).map_err(|_| BadGuestAddress),
            // It may cross from one region to the next.
            Err(_) => self.guest.read_slice(into, at).map_err(|_| BadGuestAddress),
        };
        self.unless_vanished(read)
    }

    /// Writes all of `from` at an address.
    ///
    /// # Errors
    ///
    /// Not all of the range is memory, or some of it has vanished. A part may have been written then.
    pub fn write(&self, at: u64, from: &[u8]) -> Result<(), BadGuestAddress> {
        let at = GuestAddress(at);
        let written = match self.guest.get_slice(at, from.len()) {
            Ok(range) => range.write_slice(from, 0).map_err(|_| BadGuestAddress),
            Err(_) => self
                .guest
                .write_slice(from, at)
                .map_err(|_| BadGuestAddress),
        };
        self.unless_vanished(written)
    }

    /// Reads segments into `into`. Both have the same length.
    ///
    /// # Errors
    ///
    /// Not all segments are memory.
    pub fn gather(
        &self,
        segments: impl Iterator<Item = Segment>,
        into: &mut [u8],
    ) -> Result<(), BadGuestAddress> {
        let mut rest = into;
        for segment in segments {
            let here = rest
                .split_off_mut(..segment.len as usize)
                .ok_or(BadGuestAddress)?;
            self.read(segment.at, here)?;
        }
        Ok(())
    }

    /// Writes `from` into segments. The segments are at least as long as `from`.
    ///
    /// # Errors
    ///
    /// Not all segments are memory.
    pub fn scatter(
        &self,
        segments: impl Iterator<Item = Segment>,
        from: &[u8],
    ) -> Result<(), BadGuestAddress> {
        let mut rest = from;
        for segment in segments {
            let (here, after) = rest.split_at(rest.len().min(segment.len as usize));
            self.write(segment.at, here)?;
            rest = after;
        }
        Ok(())
    }
}

fn map_region(
    region: &VhostUserMemoryRegion,
    file: File,
) -> Result<MappedRegion, GuestMemoryError> {
    let page_bytes = page_bytes_of(&file)?;
    let layout = |why: &str| GuestMemoryError::Layout(why.to_owned());
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
        .map_err(|error| GuestMemoryError::Layout(error.to_string()))?;
    munlock::unlock(&mapped)?;
    let mapped = GuestRegionMmap::new(mapped, GuestAddress(region.guest_phys_addr))
        .ok_or_else(|| layout("a region passes the last address"))?;
    Ok(MappedRegion {
        vmm_address: region.user_addr,
        guard: Arc::new(SigbusGuard::over(&mapped)?),
        mapped: Arc::new(mapped),
    })
}

/// The page size of a file in memory.
fn page_bytes_of(file: &File) -> Result<usize, GuestMemoryError> {
    let system = rustix::fs::fstatfs(file).map_err(io::Error::from)?;
    match system.f_type {
        TMPFS_MAGIC => Ok(rustix::param::page_size()),
        HUGETLBFS_MAGIC => Ok(system.f_bsize as usize),
        _ => Err(GuestMemoryError::NotInMemory),
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

    fn map(file: File) -> Result<GuestMemory, GuestMemoryError> {
        GuestMemory::map(&[region(0)], vec![file])
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
        assert!(matches!(map(elsewhere), Err(GuestMemoryError::NotInMemory)));
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
        assert_eq!(cut.read(LEN - 3, &mut bytes), Err(BadGuestAddress));
        assert!(cut.has_vanished());
        assert_eq!(
            cut.read(0, &mut bytes),
            Err(BadGuestAddress),
            "nothing of it is believed"
        );
        assert_eq!(cut.write(0, &bytes), Err(BadGuestAddress));
        whole.write(0, b"yes").expect("memory");
        assert!(!whole.has_vanished());
    }

    /// This needs a host without huge pages set aside: each page is missing when it is touched.
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
        let inside = GuestMemory::map(&[region(3 << 20)], vec![again]);
        assert!(matches!(inside, Err(GuestMemoryError::Layout(_))));
        let huge = GuestMemory::map(&[region(4 << 20)], vec![file]).expect("taken");
        assert_eq!(huge.read(0, &mut [0; 8]), Err(BadGuestAddress));
        assert_eq!(huge.write(3 << 20, &[1; 8]), Err(BadGuestAddress));
    }

    #[test]
    fn a_region_beyond_its_file_or_over_another_is_refused() {
        let sealed = || memfd(MemfdFlags::ALLOW_SEALING, SealFlags::SHRINK);
        let longer = VhostUserMemoryRegion::new(0, LEN * 2, 0, 0);
        let refused = GuestMemory::map(&[longer], vec![sealed()]);
        assert!(matches!(refused, Err(GuestMemoryError::Layout(_))));
        let twice = GuestMemory::map(&[region(0), region(LEN / 2)], vec![sealed(), sealed()]);
        assert!(matches!(twice, Err(GuestMemoryError::Layout(_))));
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
        assert_eq!(again.read(LEN, &mut back), Err(BadGuestAddress));
        assert_eq!(again.address_of(0x7000_0000 + LEN), None);
        assert!(matches!(
            again.without(&region(LEN)),
            Err(GuestMemoryError::NotThere(_))
        ));
    }
}
