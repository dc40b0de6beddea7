//! The guest's memory, as the VMM shares it: only such as can never fault under this process.
//!
//! A mapping of a file that shrinks afterwards kills whoever touches it (SIGBUS), and with this process every other
//! guest's disk. So each region must be a memfd that is sealed against shrinking, on ordinary pages; the decision
//! record on guest memory says why, and what else was tried. Everything here is reached by the guest's addresses,
//! checked against the regions at each use.

use std::fs::File;
use std::io;
use std::sync::Arc;

use rustix::fs::SealFlags;
use vhost::vhost_user::message::VhostUserMemoryRegion;
use vm_memory::{
    Bytes, FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion,
    GuestRegionMmap, MmapRegion,
};

use super::chain::Segment;
use super::unlocked;

/// The most regions of one guest's memory.
pub const REGIONS_MAX: usize = 256;

/// What a file system of huge pages says it is.
const HUGETLBFS_MAGIC: i64 = 0x9584_58f6;

/// Why memory was not taken.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// It could shrink.
    #[error(
        "the guest's memory is no memfd sealed against shrinking; let QEMU use -object memory-backend-memfd,share=on"
    )]
    Unsealed,
    /// It could run out of pages.
    #[error(
        "the guest's memory is on hugetlb pages, which can be missing when they are touched; use memory-backend-memfd without hugetlb=on"
    )]
    HugePages,
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
}

/// A region, by the guest's address and by the VMM's own.
#[derive(Clone)]
struct Slot {
    vmm: u64,
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
        Ok(Memory { guest, slots })
    }

    /// For a queue's own accesses.
    pub fn guest(&self) -> &GuestMemoryMmap<()> {
        &self.guest
    }

    /// The guest's address of what the VMM has at `vmm`.
    pub fn address_of(&self, vmm: u64) -> Option<GuestAddress> {
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
    /// Not all of it is memory.
    pub fn read(&self, at: u64, into: &mut [u8]) -> Result<(), NoMemory> {
        let read = self.guest.read_slice(into, GuestAddress(at));
        read.map_err(|_| NoMemory)
    }

    /// Writes all of `from` at an address.
    ///
    /// # Errors
    ///
    /// Not all of it is memory; a part may have been written then.
    pub fn write(&self, at: u64, from: &[u8]) -> Result<(), NoMemory> {
        let written = self.guest.write_slice(from, GuestAddress(at));
        written.map_err(|_| NoMemory)
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
    check(&file)?;
    let end = region.mmap_offset.checked_add(region.memory_size);
    if end.is_none_or(|end| file.metadata().map_or(true, |file| file.len() < end)) {
        return Err(Refused::Layout(
            "a region is longer than its file".to_owned(),
        ));
    }
    let len = usize::try_from(region.memory_size)
        .map_err(|_| Refused::Layout("a region is too large".to_owned()))?;
    let mapped = MmapRegion::from_file(FileOffset::new(file, region.mmap_offset), len)
        .map_err(|error| Refused::Layout(error.to_string()))?;
    unlocked::unlock(&mapped)?;
    let mapped = GuestRegionMmap::new(mapped, GuestAddress(region.guest_phys_addr))
        .ok_or_else(|| Refused::Layout("a region passes the last address".to_owned()))?;
    Ok(Slot {
        vmm: region.user_addr,
        mapped: Arc::new(mapped),
    })
}

/// A seal cannot be taken back, so what is checked here holds for as long as the mapping does.
fn check(file: &File) -> Result<(), Refused> {
    let Ok(seals) = rustix::fs::fcntl_get_seals(file) else {
        return Err(Refused::Unsealed);
    };
    if !seals.contains(SealFlags::SHRINK) {
        return Err(Refused::Unsealed);
    }
    let system = rustix::fs::fstatfs(file).map_err(io::Error::from)?;
    match system.f_type {
        HUGETLBFS_MAGIC => Err(Refused::HugePages),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::MemfdFlags;

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
    fn only_memory_that_cannot_shrink_is_taken() {
        let sealable = MemfdFlags::ALLOW_SEALING;
        assert!(map(memfd(sealable, SealFlags::SHRINK)).is_ok());
        let unsealed = map(memfd(sealable, SealFlags::GROW));
        assert!(matches!(unsealed, Err(Refused::Unsealed)));
        let unsealable = map(memfd(MemfdFlags::empty(), SealFlags::empty()));
        assert!(matches!(unsealable, Err(Refused::Unsealed)));
        let file = tempfile::tempfile().expect("a file");
        file.set_len(LEN).expect("its length");
        assert!(matches!(map(file), Err(Refused::Unsealed)));
    }

    #[test]
    fn huge_pages_that_may_be_missing_are_refused() {
        let flags = MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB;
        let file = File::from(rustix::fs::memfd_create("guest", flags).expect("no page is needed"));
        file.set_len(2 << 20).expect("nor for its length");
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK).expect("seals");
        assert!(matches!(map(file), Err(Refused::HugePages)));
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
