//! What the arena needs from the system: one reserved range, and memory moved in and out of it.

use std::ffi::c_void;
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, MlockFlags, ProtFlags};

/// The kernel has no memory to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the kernel has no memory to give")]
pub struct KernelOutOfMemory;

/// One range of address space, and the operations that move memory into and out of it.
///
/// # Safety
///
/// `base` must stay valid for reads and writes of `len` bytes for as long as the value lives. It must be aligned to a
/// block and belong to nobody else.
#[expect(clippy::len_without_is_empty, reason = "no arena is empty")]
pub unsafe trait Memory: Send + Sync {
    /// The start of the range.
    fn base(&self) -> NonNull<u8>;

    /// The length of the range in bytes.
    fn len(&self) -> usize;

    /// Makes the kernel back `len` bytes at `at` with memory now, in huge pages if it can.
    fn populate(&self, at: usize, len: usize) -> Result<(), KernelOutOfMemory>;

    /// Gives `len` bytes at `at` back. Their content is lost.
    fn release(&self, at: usize, len: usize);

    /// Keeps what is populated, now or later, off the host's swap. It does not populate anything.
    ///
    /// # Errors
    ///
    /// The process may not lock this much memory.
    fn lock(&self) -> std::io::Result<()>;
}

/// Bytes of a huge page.
pub(super) const HUGE_PAGE: usize = 2 << 20;

/// Private anonymous memory of this process.
#[derive(Debug)]
pub struct MappedMemory {
    start: NonNull<u8>,
    mapped_len: usize,
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to this value alone and is plain memory.
unsafe impl Send for MappedMemory {}
// SAFETY: as above. The arena decides who may read and write which bytes.
unsafe impl Sync for MappedMemory {}

impl MappedMemory {
    /// Reserves `len` bytes aligned to `align`. This costs address space only; nothing is held until it is populated.
    ///
    /// # Errors
    ///
    /// The error of `mmap`. Under strict overcommit the kernel counts the range and may refuse it.
    pub fn reserve(len: usize, align: usize) -> std::io::Result<MappedMemory> {
        let mapped_len = len + align;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice overlaps nothing.
        let start = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                mapped_len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )?
        };
        let start = NonNull::new(start.cast::<u8>()).ok_or(std::io::ErrorKind::OutOfMemory)?;
        let skip = start.as_ptr().align_offset(align);
        // SAFETY: `skip` is less than `align`, so `skip + len` stays inside the mapping.
        let base = unsafe { start.add(skip) };
        // One huge page over several small ranges would be held for all of them as soon as one is written.
        if len >= HUGE_PAGE {
            // SAFETY: the range lies in the mapping just made; huge pages change no content.
            let huge =
                unsafe { rustix::mm::madvise(base.as_ptr().cast(), len, Advice::LinuxHugepage) };
            // A kernel without huge pages serves small ones: slower, not wrong (`sublet doctor` says so).
            let _ = huge;
        }
        Ok(MappedMemory {
            start,
            mapped_len,
            base,
            len,
        })
    }

    /// The address of `at`, for calls to the kernel.
    fn place(&self, at: usize, len: usize) -> *mut c_void {
        assert!(at + len <= self.len, "outside the range");
        // SAFETY: in bounds by the assertion.
        unsafe { self.base.as_ptr().add(at).cast() }
    }

    /// Releases locked memory on kernels that do not drop it, before Linux 5.18. Afterwards none of it is locked.
    fn release_unlocked(&self, at: usize, len: usize) -> rustix::io::Result<()> {
        // SAFETY: in bounds. Locks change no content, and the caller gives the content up.
        unsafe {
            rustix::mm::munlock(self.place(0, self.len), self.len)?;
            rustix::mm::madvise(self.place(at, len), len, Advice::LinuxDontNeed)
        }
    }
}

// SAFETY: the mapping lives as long as `MappedMemory`, is readable and writable, and `base` was aligned.
unsafe impl Memory for MappedMemory {
    fn base(&self) -> NonNull<u8> {
        self.base
    }

    fn len(&self) -> usize {
        self.len
    }

    fn populate(&self, at: usize, len: usize) -> Result<(), KernelOutOfMemory> {
        let place = self.place(at, len);
        // SAFETY: in bounds; populating changes no content.
        match unsafe { rustix::mm::madvise(place, len, Advice::LinuxPopulateWrite) } {
            // Before Linux 5.14 there is no such advice: the first write populates.
            Ok(()) | Err(rustix::io::Errno::INVAL) => Ok(()),
            Err(_) => Err(KernelOutOfMemory),
        }
    }

    fn release(&self, at: usize, len: usize) {
        let place = self.place(at, len);
        // SAFETY: in bounds; the arena releases only blocks that nobody can read.
        let released = unsafe { rustix::mm::madvise(place, len, Advice::LinuxDontneedLocked) };
        released
            .or_else(|_| self.release_unlocked(at, len))
            .expect("the kernel takes back memory of our own mapping");
    }

    fn lock(&self) -> std::io::Result<()> {
        let place = self.place(0, self.len);
        // SAFETY: in bounds; locks change no content.
        Ok(unsafe { rustix::mm::mlock_with(place, self.len, MlockFlags::ONFAULT) }?)
    }
}

impl Drop for MappedMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `reserve` and nobody refers to it any more.
        let unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.mapped_len) };
        debug_assert!(unmapped.is_ok());
    }
}

/// Heap memory with the same operations, for tests. It counts calls, can be made to fail, and poisons what is released,
/// so that a read of it shows.
#[cfg(any(test, feature = "fake"))]
pub mod fake {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::{KernelOutOfMemory, Memory, NonNull};

    /// The value of released bytes.
    pub(crate) const POISON: u8 = 0xdb;

    /// What a test can observe and break.
    #[derive(Debug, Default)]
    pub struct FaultControls {
        /// Whether the next populations fail.
        pub exhausted: AtomicBool,
        /// Bytes populated now.
        pub populated: AtomicUsize,
        /// Calls of `release`.
        pub releases: AtomicUsize,
    }

    /// Heap memory that a test controls.
    pub struct FakeMemory {
        base: NonNull<u8>,
        layout: Layout,
        levers: Arc<FaultControls>,
    }

    // SAFETY: plain memory owned by this value.
    unsafe impl Send for FakeMemory {}
    // SAFETY: as for `MappedMemory`.
    unsafe impl Sync for FakeMemory {}

    impl FakeMemory {
        /// `len` bytes aligned to `align`, and the controls for them.
        pub fn new(len: usize, align: usize) -> (FakeMemory, Arc<FaultControls>) {
            let layout = Layout::from_size_align(len, align).expect("a sensible size");
            // SAFETY: the layout is not empty.
            let base = NonNull::new(unsafe { alloc_zeroed(layout) }).expect("memory for a test");
            let levers = Arc::new(FaultControls::default());
            let heap = FakeMemory {
                base,
                layout,
                levers: Arc::clone(&levers),
            };
            (heap, levers)
        }
    }

    // SAFETY: the allocation lives as long as `FakeMemory` and is aligned as asked.
    unsafe impl Memory for FakeMemory {
        fn base(&self) -> NonNull<u8> {
            self.base
        }

        fn len(&self) -> usize {
            self.layout.size()
        }

        fn populate(&self, at: usize, len: usize) -> Result<(), KernelOutOfMemory> {
            assert!(at + len <= self.len());
            if self.levers.exhausted.load(Ordering::Relaxed) {
                return Err(KernelOutOfMemory);
            }
            self.levers.populated.fetch_add(len, Ordering::Relaxed);
            Ok(())
        }

        fn release(&self, at: usize, len: usize) {
            assert!(at + len <= self.len());
            // SAFETY: in bounds; the arena releases only what nobody can read.
            unsafe { self.base.as_ptr().add(at).write_bytes(POISON, len) };
            self.levers.populated.fetch_sub(len, Ordering::Relaxed);
            self.levers.releases.fetch_add(1, Ordering::Relaxed);
        }

        fn lock(&self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Drop for FakeMemory {
        fn drop(&mut self) {
            // SAFETY: allocated in `new` with this layout.
            unsafe { dealloc(self.base.as_ptr(), self.layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = 4 << 20;

    fn fill(memory: &MappedMemory, byte: u8) {
        memory.populate(0, LEN).expect("memory");
        // SAFETY: the range is this test's alone.
        unsafe { memory.base().as_ptr().write_bytes(byte, LEN) };
    }

    fn is_empty(memory: &MappedMemory) -> bool {
        // SAFETY: as above.
        let bytes = unsafe { std::slice::from_raw_parts(memory.base().as_ptr(), LEN) };
        bytes.iter().all(|byte| *byte == 0)
    }

    #[test]
    fn locked_memory_is_given_back_as_any_other() {
        let memory = MappedMemory::reserve(LEN, 2 << 20).expect("address space");
        if let Err(error) = memory.lock() {
            eprintln!("skipped: memory cannot be locked here: {error}");
            return;
        }
        fill(&memory, 7);
        memory.release(0, LEN);
        assert!(is_empty(&memory));
        fill(&memory, 8);
        memory.release_unlocked(0, LEN).expect("older kernels' way");
        assert!(is_empty(&memory));
    }
}
