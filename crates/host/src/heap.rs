//! What clients' buffers leave with the allocator goes back to the kernel.
//!
//! The allocator keeps what was freed in the middle of its arenas. After a storm of large replies that can be more than
//! the buffers were ever allowed to hold at once. Where the process is locked in memory for swap the kernel takes none of it.

#![allow(unsafe_code)]

use sublet_types::Bytes;

use crate::locked::is_process_locked;
use crate::observe::process;

/// What the process may have beside the store's memory before it pays to look for what could go.
const SLACK: Bytes = Bytes::mib(64);

/// Looks in a row that are skipped after one: the walk takes the allocator's locks, and what clients still hold is there
/// each time.
const RARELY: u32 = 5;

/// Memory of the process that is not the store's.
#[derive(Debug, Default)]
pub(crate) struct Heap {
    skips: u32,
}

impl Heap {
    /// Gives back what was freed, if there may be much. `held` is what the store has. Called once a second.
    pub(crate) fn tidy(&mut self, held: Bytes) {
        if is_process_locked() {
            // Nothing of it would be taken.
        } else if self.skips > 0 {
            self.skips -= 1;
        } else if beside(held) > SLACK {
            give_back();
            self.skips = RARELY;
        }
    }
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
