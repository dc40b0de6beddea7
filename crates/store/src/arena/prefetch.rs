//! Having the processor fetch memory that will be read soon.

/// Bytes that the processor fetches at a time.
const LINE: usize = 64;

/// Starts fetching `lines` cache lines from `at` on. A hint: it reads nothing and may name any address.
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
