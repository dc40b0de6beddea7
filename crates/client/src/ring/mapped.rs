//! Memory that another process reads and writes at the same time, whatever it likes. Every access is
//! checked against the mapping's length and is atomic, volatile, or made by an instruction that the compiler does
//! not look into: nothing is ever assumed to stay as it was.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

use rustix::mm::{MapFlags, ProtFlags};

use super::layout::SLOT_BYTES;

/// A mapping of a shared file of memory; unmapped when dropped.
#[derive(Debug)]
pub(super) struct Mapped {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to this value alone, is plain memory, and is tied to no thread.
unsafe impl Send for Mapped {}
// SAFETY: as above. Through `&Mapped` memory is reached atomically, by volatile accesses and by copies
// that are no accesses of the language's memory model; threads that race see torn bytes, as they do
// from the other process, and every reader expects them.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps the first `bytes` of `file`.
    ///
    /// The file must be at least that long for as long as the mapping lives, or an access ends the
    /// process: both ends make sure of it by the seal against shrinking.
    pub(super) fn new(file: impl AsFd, bytes: usize) -> io::Result<Mapped> {
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
        Ok(Mapped { base, bytes })
    }

    /// A word that both sides use.
    pub(super) fn word(&self, at: usize) -> &AtomicU32 {
        let word = self.place(at, size_of::<u32>());
        assert!(
            word.cast::<u32>().is_aligned(),
            "words of a ring are aligned"
        );
        // SAFETY: `place` has checked that the four bytes are inside, the line above that they are
        // aligned; they live as long as `self`. All accesses to them in this process are atomic.
        unsafe { AtomicU32::from_ptr(word.cast::<u32>().as_ptr()) }
    }

    /// The `N` bytes at `at`, each read once. `at` and `N` are multiples of eight.
    pub(super) fn load<const N: usize>(&self, at: usize) -> [u8; N] {
        let from = self.eights(at, N);
        let mut bytes = [0; N];
        for (n, eight) in bytes.chunks_exact_mut(8).enumerate() {
            // SAFETY: `eights` has checked that all of them are inside and aligned.
            let value = unsafe { from.add(n).read_volatile() };
            eight.copy_from_slice(&value.to_ne_bytes());
        }
        bytes
    }

    /// Writes bytes at `at`. `at` and their number are multiples of eight.
    pub(super) fn store<const N: usize>(&self, at: usize, bytes: &[u8; N]) {
        let to = self.eights(at, N);
        for (n, eight) in bytes.chunks_exact(8).enumerate() {
            let mut value = [0; 8];
            value.copy_from_slice(eight);
            // SAFETY: as in `load`.
            unsafe { to.add(n).write_volatile(u64::from_ne_bytes(value)) };
        }
    }

    /// Copies what is at `at` into `into`. Bytes that the other side changes meanwhile come as they
    /// were, as they are, or mixed.
    pub(super) fn copy_out(&self, at: usize, into: &mut [u8]) {
        let from = self.place(at, into.len());
        // SAFETY: `place` has checked the source; the destination is this process's own, so they do not
        // overlap.
        unsafe { copy_racing(from.as_ptr(), into.as_mut_ptr(), into.len()) };
    }

    /// Copies `from` to `at`.
    pub(super) fn copy_in(&self, at: usize, from: &[u8]) {
        let to = self.place(at, from.len());
        // SAFETY: as in `copy_out`, the other way.
        unsafe { copy_racing(from.as_ptr(), to.as_ptr(), from.len()) };
    }

    /// `count` page slots from `at` on as they lie there. Only for a client, who trusts the daemon with
    /// its pages in any case: the daemon writes to a slot only for an entry that names it.
    pub(super) fn pages(&self, at: usize, count: usize) -> &[[u8; SLOT_BYTES]] {
        let first = self.place(at, count * SLOT_BYTES).cast();
        // SAFETY: `place` has checked the range; bytes need no alignment. In this process nobody writes to
        // it while `self` is borrowed, since `pages_mut` borrows it exclusively and a client that hands
        // out pages copies nothing into slots meanwhile; the daemon does not, as said above.
        unsafe { std::slice::from_raw_parts(first.as_ptr(), count) }
    }

    /// The same, to write to.
    pub(super) fn pages_mut(&mut self, at: usize, count: usize) -> &mut [[u8; SLOT_BYTES]] {
        let first = self.place(at, count * SLOT_BYTES).cast();
        // SAFETY: as in `pages`; `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(first.as_ptr(), count) }
    }

    fn eights(&self, at: usize, bytes: usize) -> NonNull<u64> {
        let first = self.place(at, bytes).cast::<u64>();
        assert!(
            bytes.is_multiple_of(8) && first.is_aligned(),
            "entries of a ring are whole and aligned words"
        );
        first
    }

    /// Where bytes lie, as long as this is there.
    pub(super) fn place(&self, at: usize, bytes: usize) -> NonNull<u8> {
        let fits = at <= self.bytes && bytes <= self.bytes - at;
        assert!(fits, "{bytes} bytes at {at} are outside of the ring");
        // SAFETY: `at` is within the mapping or one past it, as just checked.
        unsafe { self.base.add(at) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the range is the one that `new` mapped, and every borrow of it has ended with `self`.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "a whole mapping can be unmapped");
    }
}

/// Copies `len` bytes while somebody else may write to them. The compiler's own copies must not race, one
/// instruction that it knows nothing of may; processors with fast short moves make it their fastest copy.
///
/// # Safety
///
/// `from` must be mapped for `len` bytes of reading and `to` of writing, without overlap; the bytes of this
/// process among them must be borrowed by the caller.
#[cfg(target_arch = "x86_64")]
unsafe fn copy_racing(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the instruction touches exactly the bytes that the caller vouches for; the direction flag is
    // clear by the calling convention, and no other flag or stack is touched.
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

/// Copies `len` bytes while somebody else may write to them: by volatile accesses, eight bytes at a time
/// where both sides are aligned.
///
/// # Safety
///
/// As on x86-64.
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

    fn two_pages() -> Mapped {
        let file = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC);
        let file = file.expect("a file of memory");
        rustix::fs::ftruncate(&file, 8192).expect("it grows");
        Mapped::new(&file, 8192).expect("a mapping")
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
        let mut refused = |touch: &mut dyn FnMut(&mut Mapped)| {
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
