//! How many of a shard's free frames were evicted ahead of puts, and whether more are worth it.

/// A shard's free frames that were evicted ahead.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    pub(super) frames: u32,
    /// Frames freed ahead were taken since the last look.
    taken: bool,
    /// The shard's evictions at the last look.
    seen: u64,
}

impl Ahead {
    /// Hears that so many frames were freed ahead, here or where they were borrowed.
    pub(super) fn add(&mut self, frames: u32) {
        self.frames += frames;
    }

    /// Hears that one of the shard's free frames was taken, so that `left` are left. Says whether it was one freed ahead: those are
    /// the last to be taken.
    pub(super) fn take(&mut self, left: u32) -> bool {
        let was_ahead = self.frames > left;
        self.frames = self.frames.min(left);
        self.taken |= was_ahead;
        was_ahead
    }

    /// Hears that so many free frames are left.
    pub(super) fn bound(&mut self, left: u32) {
        self.frames = self.frames.min(left);
    }

    /// Whether pages were evicted, or frames of such taken, since the last look.
    pub(super) fn is_needed(&mut self, evictions: u64) -> bool {
        let taken = std::mem::take(&mut self.taken);
        std::mem::replace(&mut self.seen, evictions) != evictions || taken
    }
}
