//! The thread that works on the store, as the engines see it.

use crate::arena::PinSlot;

/// A thread that is pinned to an epoch and can let go of it.
///
/// While the thread waits unpinned, no block is held back for it. Items or pages that a caller is looking at stay in
/// place all the same.
pub(crate) trait PinnedThread {
    /// The slot in which the thread publishes its epoch.
    fn pin_slot(&self) -> &PinSlot;

    /// A number that differs from call to call.
    fn next_random(&self) -> u64;

    /// Unpins the thread, waits, and lets others finish. Returns whether it waited. It does not if a caller is looking
    /// at memory.
    fn try_unpinned(&self, wait: &mut dyn FnMut()) -> bool;

    /// Runs `wait` unpinned. If a caller is looking at memory, it runs `wait` pinned.
    fn run_unpinned(&self, wait: &mut dyn FnMut()) {
        if !self.try_unpinned(wait) {
            wait();
        }
    }

    /// Unpins and pins the thread again, so that blocks that were given up become free. It waits for nobody.
    fn renew_pin(&self);
}
