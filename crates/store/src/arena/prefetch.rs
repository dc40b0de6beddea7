//! Having the processor fetch memory that will be read soon.

use arrayvec::ArrayVec;

/// Bytes that the processor fetches at a time.
const LINE: usize = 64;

/// Lines that are fetched together, at the most.
const WANTED_MAX: usize = 144;

/// A place in memory that will be read soon. It is never followed, so it may be out of date.
#[derive(Clone, Copy, Debug)]
pub struct Line(usize);

impl Line {
    /// The line in which `at` begins.
    #[inline]
    pub(crate) fn of<T>(at: &T) -> Line {
        Line(std::ptr::from_ref(at).addr())
    }

    /// The line of an address.
    #[inline]
    pub(crate) fn at(address: usize) -> Line {
        Line(address)
    }

    /// The `n`th line from here on.
    #[inline]
    pub(crate) fn beyond(self, n: usize) -> Line {
        Line(self.0.wrapping_add(n * LINE))
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

/// Starts fetching all of what others may have changed last, to be changed here.
#[inline]
pub(crate) fn claim<T>(it: &T) {
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

/// Lines to be fetched one right after the other. Where the processor must look up where each lies, it does so for
/// several side by side; with other work between them each would wait for the one before.
pub(crate) struct Wanted(ArrayVec<Line, WANTED_MAX>);

impl Wanted {
    pub(crate) fn new() -> Wanted {
        Wanted(ArrayVec::new_const())
    }

    /// Adds a line, if there is room: it is a hint.
    #[inline]
    pub(crate) fn add(&mut self, line: Line) {
        _ = self.0.try_push(line);
    }

    /// Starts fetching all of them, and forgets them.
    #[inline]
    pub(crate) fn fetch(&mut self) {
        self.0.drain(..).for_each(Line::fetch);
    }
}

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
