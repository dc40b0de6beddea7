//! Counts how many of a shard's free frames were evicted ahead of puts, and whether more are worthwhile.

/// A shard's free frames that were evicted ahead.
#[derive(Debug, Default)]
pub(super) struct FreedAhead {
    pub(super) frames: u32,
    /// Whether frames freed ahead were taken since the last look.
    taken: bool,
    /// The shard's evictions at the last look.
    seen: u64,
}

impl FreedAhead {
    /// Counts frames that were freed ahead, here or in the shard that lent them.
    pub(super) fn add(&mut self, frames: u32) {
        self.frames += frames;
    }

    /// Records that one of the shard's free frames was taken and `left` remain. Returns whether it was freed ahead;
    /// such frames are taken last.
    pub(super) fn record_taken(&mut self, left: u32) -> bool {
        let was_ahead = self.frames > left;
        self.frames = self.frames.min(left);
        self.taken |= was_ahead;
        was_ahead
    }

    /// Records that this many free frames are left.
    pub(super) fn cap(&mut self, left: u32) {
        self.frames = self.frames.min(left);
    }

    /// Returns whether pages were evicted, or frames freed ahead were taken, since the last look.
    pub(super) fn is_needed(&mut self, evictions: u64) -> bool {
        let taken = std::mem::take(&mut self.taken);
        std::mem::replace(&mut self.seen, evictions) != evictions || taken
    }
}
