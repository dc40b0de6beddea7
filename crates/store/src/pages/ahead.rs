//! Frames that are free before puts ask for them. Where a tenant has all that it may have, each of its puts has to evict a page
//! first; so the chores evict a few for each shard that did so of late.
//!
//! What was evicted ahead counts as displaced by the put that takes its frame, as if it had been evicted then: policies that count puts
//! without room see what they saw.

use sublet_types::Second;

use super::Pages;
use super::evict::{Patience, evict};
use super::shard::Shard;
use crate::arena::PageKind;
use crate::tenants::Tenant;

/// Frames that a shard has ready, at the most: with all shards a block for each tenant.
const FRAMES_MAX: u32 = 4;

/// And at most one in so many of its frames, so that hardly a page is missed for it.
const ONE_IN: u32 = 256;

/// A shard's free frames that were evicted ahead.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    frames: u32,
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
        was_ahead
    }

    /// Whether pages were evicted since the last look.
    fn is_needed(&mut self, evictions: u64) -> bool {
        std::mem::replace(&mut self.seen, evictions) != evictions
    }
}

impl Pages {
    /// Evicts a few pages ahead of the puts of a tenant that has all it may have. Who has a single shard is used by one thread, which
    /// would be through with them at once.
    pub(crate) fn evict_ahead(&self, tenant: &Tenant, now: Second) {
        let Some(holdings) = tenant.pages.get() else {
            return;
        };
        let shards = holdings.shards();
        if shards.len() == 1 || !tenant.is_at_limit(1) {
            return;
        }
        for shard in shards {
            self.ready_frames(tenant, &mut shard.lock(), now);
        }
    }

    fn ready_frames(&self, tenant: &Tenant, shard: &mut Shard, now: Second) {
        let wanted = (shard.frames() / ONE_IN).min(FRAMES_MAX);
        let evictions = shard.tally.evictions;
        if wanted == 0 || !shard.ahead.is_needed(evictions) {
            return;
        }
        let kind = PageKind::Ephemeral;
        let patience = &mut Patience::default();
        while shard.free[kind as usize].len() < wanted
            && let Some(frame) = evict(self, tenant, shard, now, patience)
        {
            self.lose(frame);
            shard.push_free(&self.frames, frame, kind);
            shard.ahead.add(1);
        }
        // Its own doing is no reason to do so again.
        shard.ahead.is_needed(shard.tally.evictions);
    }
}
