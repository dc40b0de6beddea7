//! What clients' buffers leave with the allocator goes back to the kernel.
//!
//! Large buffers are mappings of their own, and go when they are freed. Of small ones the allocator keeps what was freed in
//! the middle of its heap. There is one heap, so that its place is known: where the process is locked in memory for swap
//! the kernel takes nothing of it, and its lock is opened for the moment that it takes to give the freed pages back.

#![allow(unsafe_code)]

use std::fs;
use std::ops::Range;

use sublet_types::Bytes;

use crate::locked::is_process_locked;
use crate::observe::process;

/// What the process may have beside the store's memory before it pays to look for what could go.
const SLACK: Bytes = Bytes::mib(64);

/// What the heap may have free where the process is locked: there it is nobody else's.
const SLACK_LOCKED: Bytes = Bytes::mib(4);

/// Looks in a row that are skipped after one: the walk takes the allocator's locks, and what clients still hold is there
/// each time.
const RARELY: u32 = 2;

/// Memory of the process that is not the store's.
#[derive(Debug, Default)]
pub(crate) struct Heap {
    skips: u32,
    /// What was free after the last look, where the process is locked.
    left: Bytes,
}

impl Heap {
    /// Gives back what was freed, if there may be much. `held` is what the store has. Called once a second.
    pub(crate) fn tidy(&mut self, held: Bytes) {
        if self.skips > 0 {
            self.skips -= 1;
        } else if is_process_locked() {
            self.tidy_locked();
        } else if beside(held) > SLACK {
            give_back();
            self.skips = RARELY;
        }
    }

    /// What was given back of the heap's middle still counts as free: only a change says that there is more to give.
    fn tidy_locked(&mut self) {
        let free = heap_free();
        if free > SLACK_LOCKED && free.0.abs_diff(self.left.0) > SLACK_LOCKED.0 / 4 {
            unlocked(give_back);
            self.left = heap_free();
            self.skips = RARELY;
        }
    }
}

/// From so many bytes on a buffer is a mapping of its own, whatever was freed before. The allocator would raise it up to
/// 32 MiB, and then keep what clients' buffers were.
#[cfg(target_env = "gnu")]
const MAPPED_FROM: libc::c_int = 128 << 10;

/// What may be free at the heap's end.
#[cfg(target_env = "gnu")]
const END_FREE_MAX: libc::c_int = 1 << 20;

/// Has the allocator keep little of what clients' buffers were. To be called before threads begin.
#[cfg(target_env = "gnu")]
pub(crate) fn bound() {
    let settings = [
        (libc::M_MMAP_THRESHOLD, MAPPED_FROM),
        (libc::M_TRIM_THRESHOLD, END_FREE_MAX),
        (libc::M_ARENA_MAX, 1),
    ];
    for (setting, value) in settings {
        // SAFETY: it takes the allocator's own locks, and changes what it does from now on.
        unsafe { libc::mallopt(setting, value) };
    }
}

/// This allocator has no such settings.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn bound() {}

/// Bytes of the heap that are not in use; some of them may be the kernel's already.
#[cfg(target_env = "gnu")]
fn heap_free() -> Bytes {
    // SAFETY: it takes the allocator's own locks, and only counts.
    Bytes(unsafe { libc::mallinfo2() }.fordblks as u64)
}

#[cfg(not(target_env = "gnu"))]
fn heap_free() -> Bytes {
    Bytes::default()
}

/// Does something while the heap is not locked in memory. What the heap grows by meanwhile is locked anyhow.
fn unlocked(act: fn()) {
    let ranges = heap_ranges();
    for range in &ranges {
        // SAFETY: whether memory is locked changes nothing of what is in it.
        unsafe { libc::munlock(range.start as *const libc::c_void, range.len()) };
    }
    act();
    for range in ranges {
        let (from, len) = (range.start as *const libc::c_void, range.len());
        // Where the heap's end was given back nothing is left to lock: the rest was locked before that is found.
        // SAFETY: as above.
        unsafe { libc::mlock2(from, len, libc::MLOCK_ONFAULT) };
    }
}

/// Where the heap is: in several mappings, if they are not locked alike.
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

/// What the allocator holds of the kernel's memory: what is in use, and where the kernel would take nothing back, what is
/// free, too.
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

fn beside(held: Bytes) -> Bytes {
    process::resident().unwrap_or_default() - held
}

#[cfg(target_env = "gnu")]
fn give_back() {
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
