//! Memory that another process reads and writes at the same time, however it likes. Every access is checked against the
//! mapping's length. It is atomic, volatile, or one instruction that the compiler does not look into. The code never
//! assumes that memory stays as it was.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

use rustix::mm::{MapFlags, ProtFlags};

use super::layout::SLOT_BYTES;

/// A mapping of a shared memory file. It is unmapped when this is dropped.
#[derive(Debug)]
pub(super) struct SharedMapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to this value alone, is plain memory, and is tied to no thread.
unsafe impl Send for SharedMapping {}
// SAFETY: as above. Through `&SharedMapping`, memory is reached by atomic accesses, volatile accesses, and copies that
// are no accesses of the language's memory model. Threads that race see torn bytes, as they do from the other process,
// and every reader expects that.
unsafe impl Sync for SharedMapping {}

impl SharedMapping {
    /// Maps the first `bytes` of `file`.
    ///
    /// The file must keep at least that length while the mapping exists. Otherwise an access ends the process. Both
    /// ends ensure it by the seal against shrinking.
    pub(super) fn new(file: impl AsFd, bytes: usize) -> io::Result<SharedMapping> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing.
        let base = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                bytes,
                access,
                MapFlags::SHARED,
                file,
                0,
            )?
        };
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(SharedMapping { base, bytes })
    }

    /// A word that both sides use.
    pub(super) fn word(&self, at: usize) -> &AtomicU32 {
        let word = self.pointer(at, size_of::<u32>());
        assert!(
            word.cast::<u32>().is_aligned(),
            "words of a ring are aligned"
        );
        // SAFETY: `pointer` has checked that the four bytes are inside, and the line above that they are aligned. They
        // live as long as `self`. All accesses to them in this process are atomic.
        unsafe { AtomicU32::from_ptr(word.cast::<u32>().as_ptr()) }
    }

    /// Reads the `N` bytes at `at`, each once. `at` and `N` are multiples of eight.
    pub(super) fn load<const N: usize>(&self, at: usize) -> [u8; N] {
        let from = self.eights(at, N);
        let mut bytes = [0; N];
        for (n, eight) in bytes.chunks_exact_mut(8).enumerate() {
            // SAFETY: `eights` has checked that all bytes are inside and aligned.
            let value = unsafe { from.add(n).read_volatile() };
            eight.copy_from_slice(&value.to_ne_bytes());
        }
        bytes
    }

    /// Writes bytes at `at`. `at` and the number of bytes are multiples of eight.
    pub(super) fn store<const N: usize>(&self, at: usize, bytes: &[u8; N]) {
        let to = self.eights(at, N);
        for (n, eight) in bytes.chunks_exact(8).enumerate() {
            let mut value = [0; 8];
            value.copy_from_slice(eight);
            // SAFETY: as in `load`.
            unsafe { to.add(n).write_volatile(u64::from_ne_bytes(value)) };
        }
    }

    /// Copies the bytes at `at` into `into`. Bytes that the other side changes meanwhile arrive old, new or mixed.
    pub(super) fn copy_out(&self, at: usize, into: &mut [u8]) {
        let from = self.pointer(at, into.len());
        // SAFETY: `pointer` has checked the source. The destination is this process's own, so the two do not overlap.
        unsafe { copy_racing(from.as_ptr(), into.as_mut_ptr(), into.len()) };
    }

    /// Copies `from` to `at`.
    pub(super) fn copy_in(&self, at: usize, from: &[u8]) {
        let to = self.pointer(at, from.len());
        // SAFETY: as in `copy_out`, the other way.
        unsafe { copy_racing(from.as_ptr(), to.as_ptr(), from.len()) };
    }

    /// `count` page slots from `at` on, in place. Only a client may use this, because it trusts the daemon with its
    /// pages in any case. The daemon writes to a slot only for an entry that names it.
    pub(super) fn pages(&self, at: usize, count: usize) -> &[[u8; SLOT_BYTES]] {
        let first = self.pointer(at, count * SLOT_BYTES).cast();
        // SAFETY: `pointer` has checked the range, and bytes need no alignment. In this process nobody writes to the
        // range while `self` is borrowed: `pages_mut` borrows it exclusively, and a client that hands out pages copies
        // nothing into slots meanwhile. The daemon does not write either, as said above.
        unsafe { std::slice::from_raw_parts(first.as_ptr(), count) }
    }

    /// The same page slots, to write to.
    pub(super) fn pages_mut(&mut self, at: usize, count: usize) -> &mut [[u8; SLOT_BYTES]] {
        let first = self.pointer(at, count * SLOT_BYTES).cast();
        // SAFETY: as in `pages`; `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(first.as_ptr(), count) }
    }

    fn eights(&self, at: usize, bytes: usize) -> NonNull<u64> {
        let first = self.pointer(at, bytes).cast::<u64>();
        assert!(
            bytes.is_multiple_of(8) && first.is_aligned(),
            "entries of a ring are whole and aligned words"
        );
        first
    }

    /// A checked pointer to bytes, valid as long as `self`.
    pub(super) fn pointer(&self, at: usize, bytes: usize) -> NonNull<u8> {
        let fits = at <= self.bytes && bytes <= self.bytes - at;
        assert!(fits, "{bytes} bytes at {at} are outside of the ring");
        // SAFETY: `at` is within the mapping or one past it, as just checked.
        unsafe { self.base.add(at) }
    }
}

impl Drop for SharedMapping {
    fn drop(&mut self) {
        // SAFETY: the range is the one that `new` mapped, and every borrow of it has ended with `self`.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "a whole mapping can be unmapped");
    }
}

/// Copies `len` bytes while another process may write to them. The compiler's own copies must not race, but one
/// instruction that it knows nothing of may. Processors with fast short moves make it their fastest copy.
///
/// # Safety
///
/// `from` must be mapped for reading `len` bytes and `to` for writing them, and the two must not overlap. The caller
/// must have borrowed those of the bytes that belong to this process.
#[cfg(target_arch = "x86_64")]
unsafe fn copy_racing(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the instruction touches exactly the bytes that the caller vouches for. The calling convention keeps the
    // direction flag clear. The instruction touches no other flag and no stack.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rcx") len => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags),
        );
    }
}

/// Copies `len` bytes while another process may write to them. It uses volatile accesses, of eight bytes at a time if
/// both sides are aligned.
///
/// # Safety
///
/// The same as on x86-64.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn copy_racing(from: *const u8, to: *mut u8, len: usize) {
    let mut done = 0;
    if from.cast::<u64>().is_aligned() && to.cast::<u64>().is_aligned() {
        while len - done >= 8 {
            // SAFETY: `done + 8 <= len`, and the caller vouches for `len` bytes of each.
            unsafe {
                let eight = from.add(done).cast::<u64>().read_volatile();
                to.add(done).cast::<u64>().write_volatile(eight);
            }
            done += 8;
        }
    }
    while done < len {
        // SAFETY: `done < len`, as above.
        unsafe { to.add(done).write_volatile(from.add(done).read_volatile()) };
        done += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::Ordering;

    fn two_pages() -> SharedMapping {
        let file = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC);
        let file = file.expect("a file of memory");
        rustix::fs::ftruncate(&file, 8192).expect("it grows");
        SharedMapping::new(&file, 8192).expect("a mapping")
    }

    #[test]
    fn bytes_come_back_as_they_were_put() {
        let mut mapped = two_pages();
        let entry: [u8; 64] = std::array::from_fn(|n| n as u8);
        mapped.store(128, &entry);
        assert_eq!(mapped.load::<64>(128), entry);
        let mut copy = [0; 61];
        mapped.copy_out(131, &mut copy);
        assert_eq!(copy, entry[3..]);
        mapped.copy_in(4096, &[7; 4096]);
        assert_eq!(mapped.pages(4096, 1), [[7; 4096]]);
        mapped.pages_mut(4096, 1)[0][0] = 8;
        assert_eq!(mapped.load::<8>(4096)[0], 8);
        mapped.word(0).store(0x0403_0201, Ordering::Relaxed);
        assert_eq!(mapped.load::<8>(0)[..4], [1, 2, 3, 4]);
    }

    #[test]
    fn nothing_outside_is_touched() {
        let mut mapped = two_pages();
        let mut refused = |touch: &mut dyn FnMut(&mut SharedMapping)| {
            let touched = catch_unwind(AssertUnwindSafe(|| touch(&mut mapped)));
            assert!(touched.is_err(), "it is outside, or not aligned");
        };
        refused(&mut |m| _ = m.load::<64>(8192 - 56));
        refused(&mut |m| _ = m.load::<8>(4));
        refused(&mut |m| m.store(usize::MAX - 7, &[0; 8]));
        refused(&mut |m| _ = m.word(8190).load(Ordering::Relaxed));
        refused(&mut |m| m.copy_out(8191, &mut [0; 2]));
        refused(&mut |m| m.copy_in(8193, &[]));
        refused(&mut |m| drop(m.pages(4096, 2).to_vec()));
        refused(&mut |m| m.pages_mut(1, 2)[0][0] = 0);
    }
}
