//! The host's memory figures, from which the daemon judges headroom.

use std::time::Duration;

use serde::Serialize;

use crate::Bytes;

/// The host's memory at one instant. Counters count since boot, or since their cgroup was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HostFigures {
    /// The time since the daemon's start, monotonic.
    pub at: Duration,
    /// All memory (`MemTotal`).
    pub memory: Bytes,
    /// Memory that nobody uses (`MemFree`).
    pub free: Bytes,
    /// The kernel's own estimate of what a program could get (`MemAvailable`).
    pub available: Bytes,
    /// File pages that were not used lately (`Inactive(file)`).
    pub inactive_file: Bytes,
    /// File pages that must be written before they can be dropped (`Dirty` and `Writeback`).
    pub unwritten: Bytes,
    /// What the kernel keeps free for itself (the zones' high watermarks).
    pub watermark: Bytes,
    /// Swap space (`SwapTotal`).
    pub swap: Bytes,
    /// Swap space that is unused (`SwapFree`).
    pub swap_free: Bytes,
    /// File pages that were evicted and soon read again (`workingset_refault_file`).
    pub refaults: u64,
    /// Allocations that had to reclaim memory themselves (`allocstall_*`).
    pub stalls: u64,
    /// Pages written to swap (`pswpout`) while the host itself reclaimed memory.
    pub swapped_out: u64,
    /// Programs that were killed for want of memory (`oom_kill`).
    pub oom_kills: u64,
    /// Time lost for want of memory. `None` if the kernel does not count it.
    pub pressure: Option<PressureTotals>,
    /// The tightest memory limit that binds this process.
    pub cgroup: Option<CgroupFigures>,
}

impl HostFigures {
    /// File pages that the kernel could drop at once.
    pub fn droppable_file(&self) -> Bytes {
        self.inactive_file - self.unwritten
    }
}

/// Pressure-stall totals (`/proc/pressure/memory`, `total=`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PressureTotals {
    /// Some task waited for memory.
    pub some: Duration,
    /// Every runnable task did.
    pub full: Duration,
}

/// A cgroup with a memory limit: this process's own, or one above it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CgroupFigures {
    /// What its members may use together.
    pub limit: Bytes,
    /// What they use, this process included.
    pub usage: Bytes,
    /// Of that, file pages that were not used lately.
    pub inactive_file: Bytes,
    /// File pages of its members that were evicted and soon read again.
    pub refaults: u64,
}

impl CgroupFigures {
    /// What its members could use besides: what is unused or held by old file pages.
    pub fn idle(&self) -> Bytes {
        self.limit - self.usage + self.inactive_file
    }
}
