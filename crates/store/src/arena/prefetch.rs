//! Makes the processor fetch memory that will be read soon.

use arrayvec::ArrayVec;

/// Bytes that the processor fetches at a time.
const LINE: usize = 64;

/// The most lines that are fetched together.
const PREFETCH_BATCH_MAX: usize = 144;

/// An address that will be read soon. It is never dereferenced, so it may be stale.
#[derive(Clone, Copy, Debug)]
pub struct PrefetchAddress(usize);

impl PrefetchAddress {
    /// The line in which `at` begins.
    #[inline]
    pub(crate) fn of<T>(at: &T) -> PrefetchAddress {
        PrefetchAddress(std::ptr::from_ref(at).addr())
    }

    /// The line of an address.
    #[inline]
    pub(crate) fn at(address: usize) -> PrefetchAddress {
        PrefetchAddress(address)
    }

    /// The `n`th line from here on.
    #[inline]
    pub(crate) fn offset(self, n: usize) -> PrefetchAddress {
        PrefetchAddress(self.0.wrapping_add(n * LINE))
    }

    /// Starts fetching it.
    #[inline]
    pub(crate) fn fetch(self) {
        self.fetch_run(1);
    }

    /// Starts fetching `lines` lines from here on.
    #[inline]
    pub(crate) fn fetch_run(self, lines: usize) {
        prefetch(std::ptr::without_provenance::<u8>(self.0), lines);
    }
}

/// Starts fetching everything that another thread may have changed last, to be changed here.
#[inline]
pub(crate) fn prefetch_for_write<T>(it: &T) {
    let at = std::ptr::from_ref(it).cast::<i8>();
    #[cfg(target_arch = "x86_64")]
    for from in (0..size_of::<T>()).step_by(LINE) {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        // SAFETY: a prefetch never faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(at.wrapping_add(from)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Lines to be fetched one right after the other. The processor looks up the addresses of several lines at the same
/// time. With other work between them, each look-up would wait for the one before.
pub(crate) struct PrefetchBatch(ArrayVec<PrefetchAddress, PREFETCH_BATCH_MAX>);

impl PrefetchBatch {
    pub(crate) fn new() -> PrefetchBatch {
        PrefetchBatch(ArrayVec::new_const())
    }

    /// Adds a line if there is room. It is only a hint.
    #[inline]
    pub(crate) fn add(&mut self, line: PrefetchAddress) {
        _ = self.0.try_push(line);
    }

    /// Starts fetching all lines, and clears the batch.
    #[inline]
    pub(crate) fn fetch(&mut self) {
        self.0.drain(..).for_each(PrefetchAddress::fetch);
    }
}

/// Starts fetching `lines` cache lines from `at` on. This is a hint: it reads nothing and may name any address.
#[inline]
pub(crate) fn prefetch<T>(at: *const T, lines: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in 0..lines {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch never faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast::<i8>().wrapping_add(line * LINE)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (at, lines, LINE);
}
