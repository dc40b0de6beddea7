//! The thread that works on the store, as the engines see it.

use crate::arena::PinSlot;

/// A thread that holds blocks still, and can let go of what it sees: while it waits, no block is held back for it. Where a caller looks
/// at items or pages, they are held still all the same.
pub(crate) trait Thread {
    /// Where it says which blocks it holds still.
    fn slot(&self) -> &PinSlot;

    /// A number that differs from call to call.
    fn luck(&self) -> u64;

    /// Lets go of what it sees, waits, and lets others come to an end. Says whether it did: not while a caller looks at memory, for then
    /// nothing is waited for.
    fn unpinned(&self, wait: &mut dyn FnMut()) -> bool;

    /// Runs `wait` with nothing held still, or, while a caller looks at memory, with that held.
    fn aside(&self, wait: &mut dyn FnMut()) {
        if !self.unpinned(wait) {
            wait();
        }
    }

    /// Lets go of what was seen, so that blocks that were given up are free, and holds on anew: waits for nobody.
    fn renew(&self);
}
