//! Gives back to the kernel what clients' buffers leave with the allocator.
//!
//! Large buffers are mappings of their own, and go when they are freed. The allocator keeps freed small buffers in the
//! middle of its heap. There is one heap, so that its place is known. If the process is locked in memory for swap, the
//! kernel takes nothing of the heap. So the heap is unlocked for the moment that it takes to give the freed pages back.

#![allow(unsafe_code)]

use std::fs;
use std::ops::Range;

use sublet_types::Bytes;

use crate::memory_lock::is_process_locked;
use crate::observe::process;

/// What the process may have beside the store's memory before a search for what could go is worth its cost.
const SLACK: Bytes = Bytes::mib(64);

/// What the heap may have free if the process is locked, because nobody else can use it then.
const SLACK_LOCKED: Bytes = Bytes::mib(4);

/// How many checks in a row are skipped after one. The walk takes the allocator's locks, and finds what clients still
/// hold each time.
const RARELY: u32 = 2;

/// Memory of the process that is not the store's.
#[derive(Debug, Default)]
pub(crate) struct HeapTrimmer {
    skips: u32,
    /// What was free after the last check, if the process is locked.
    left: Bytes,
}

impl HeapTrimmer {
    /// Gives back what was freed, if there may be much. `held` is what the store has. Call this once per second.
    pub(crate) fn trim(&mut self, held: Bytes) {
        if self.skips > 0 {
            self.skips -= 1;
        } else if is_process_locked() {
            self.trim_locked();
        } else if memory_beside_store(held) > SLACK {
            trim_allocator();
            self.skips = RARELY;
        }
    }

    /// What was given back of the heap's middle still counts as free. Only a change says that there is more to give.
    fn trim_locked(&mut self) {
        let free = heap_free();
        if free > SLACK_LOCKED && free.0.abs_diff(self.left.0) > SLACK_LOCKED.0 / 4 {
            with_heap_unlocked(trim_allocator);
            self.left = heap_free();
            self.skips = RARELY;
        }
    }
}

/// From this many bytes on a buffer is a mapping of its own, whatever was freed before. Otherwise the allocator would
/// raise the limit up to 32 MiB, and then keep clients' old buffers.
#[cfg(target_env = "gnu")]
const MAPPED_FROM: libc::c_int = 128 << 10;

/// What may be free at the heap's end.
#[cfg(target_env = "gnu")]
const END_FREE_MAX: libc::c_int = 1 << 20;

/// Makes the allocator keep little of clients' old buffers. Call this before threads begin.
#[cfg(target_env = "gnu")]
pub(crate) fn configure_allocator() {
    let settings = [
        (libc::M_MMAP_THRESHOLD, MAPPED_FROM),
        (libc::M_TRIM_THRESHOLD, END_FREE_MAX),
        (libc::M_ARENA_MAX, 1),
    ];
    for (setting, value) in settings {
        // SAFETY: it takes the allocator's own locks, and changes only what the allocator does from now on.
        unsafe { libc::mallopt(setting, value) };
    }
}

/// This allocator has no such settings.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn bound() {}

/// Bytes of the heap that are not in use. The kernel may have some of them already.
#[cfg(target_env = "gnu")]
fn heap_free() -> Bytes {
    // SAFETY: it takes the allocator's own locks, and only counts.
    Bytes(unsafe { libc::mallinfo2() }.fordblks as u64)
}

#[cfg(not(target_env = "gnu"))]
fn heap_free() -> Bytes {
    Bytes::default()
}

/// Runs `act` while the heap is not locked in memory. What the heap grows by meanwhile is locked anyhow.
fn with_heap_unlocked(act: fn()) {
    let ranges = heap_ranges();
    for range in &ranges {
        // SAFETY: whether memory is locked does not change its content.
        unsafe { libc::munlock(range.start as *const libc::c_void, range.len()) };
    }
    act();
    for range in ranges {
        let (from, len) = (range.start as *const libc::c_void, range.len());
        // If the heap's end was given back, nothing is left to lock there. The rest was locked before that is found.
        // SAFETY: as above.
        unsafe { libc::mlock2(from, len, libc::MLOCK_ONFAULT) };
    }
}

/// The ranges of the heap. There are several mappings if they are not locked alike.
fn heap_ranges() -> Vec<Range<usize>> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().filter_map(heap_range).collect()
}

fn heap_range(line: &str) -> Option<Range<usize>> {
    let (range, _) = line.strip_suffix("[heap]")?.split_once(' ')?;
    let (from, to) = range.split_once('-')?;
    let parse = |text| usize::from_str_radix(text, 16).ok();
    Some(parse(from)?..parse(to)?)
}

/// The kernel's memory that the allocator holds: what is in use, and also what is free if the kernel would take nothing
/// back.
#[cfg(target_env = "gnu")]
pub(crate) fn allocated() -> Bytes {
    // SAFETY: it takes the allocator's own locks, and only counts.
    let counted = unsafe { libc::mallinfo2() };
    let beside_maps = match is_process_locked() {
        true => counted.arena,
        false => counted.uordblks,
    };
    Bytes((beside_maps + counted.hblkhd) as u64)
}

/// Unknown, with this allocator.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn allocated() -> Bytes {
    Bytes::default()
}

fn memory_beside_store(held: Bytes) -> Bytes {
    process::resident().unwrap_or_default() - held
}

#[cfg(target_env = "gnu")]
fn trim_allocator() {
    // SAFETY: it takes the allocator's own locks, and touches nothing that is in use.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
fn give_back() {}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;

    #[test]
    fn what_a_buffer_takes_is_counted() {
        const BUFFER: Bytes = Bytes::mib(512);
        let before = allocated();
        let buffer = vec![0_u8; BUFFER.0 as usize];
        let with_it = allocated();
        drop(buffer);
        // Other tests allocate and free meanwhile, but not so much.
        assert!(with_it - before > Bytes::mib(256), "{before} {with_it}");
        assert!(with_it - allocated() > Bytes::mib(256));
    }
}
