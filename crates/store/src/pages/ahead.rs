//! Frames that are free before puts ask for them. Where a tenant has all that it may have, each of its puts has to evict a page
//! first; so a few are evicted for each shard that did so of late, as often as that goes on ([`Worker::evict_ahead`](crate::Worker::evict_ahead)).
//!
//! What was evicted ahead counts as displaced by the put that takes its frame, as if it had been evicted then: policies that count puts
//! without room see what they saw.

use sublet_types::Second;

use super::Pages;
use super::evict::{Patience, evict};
use super::shard::Shard;
use crate::api::Whom;
use crate::arena::PageKind;
use crate::tenants::Tenant;

/// Frames that a shard has ready, at the most: with all shards four blocks for each tenant.
const FRAMES_MAX: u32 = 16;

/// A tenant has at most one in so many of its frames ready, so that hardly a page is missed for it.
const ONE_IN: u32 = 256;

impl Pages {
    /// Evicts a few pages ahead of the puts of a tenant that has all it may have. Says whether it puts: whether any were evicted or taken
    /// since the last call. Who has a single shard is used by one thread, which would be through with them at once.
    pub(crate) fn evict_ahead(&self, tenant: &Tenant, whom: Whom, now: Second) -> bool {
        let Some(holdings) = self.known(tenant) else {
            return false;
        };
        let shards = holdings.shards();
        if shards.len() == 1 || !tenant.is_at_limit(1) {
            return false;
        }
        if whom == Whom::Putting && !holdings.is_putting() {
            return false;
        }
        let per_block = self.frames.per_block();
        let mut left = holdings.blocks(PageKind::Ephemeral) * per_block / ONE_IN;
        let mut puts = false;
        // Few shards of a small tenant have one ready: not the same ones each time.
        let first = holdings.next_to_ready();
        for n in 0..shards.len() {
            let mut shard = shards[(first + n) % shards.len()].lock();
            puts |= self.ready_frames(tenant, &mut shard, left, now);
            left = left.saturating_sub(shard.ahead.frames);
        }
        holdings.set_putting(puts);
        puts
    }

    /// Has a shard have some frames ready, `most` at the most, if it evicted pages or used such frames since the last look: says so.
    fn ready_frames(&self, tenant: &Tenant, shard: &mut Shard, most: u32, now: Second) -> bool {
        if !shard.ahead.is_needed(shard.tally.evictions.get()) {
            return false;
        }
        let kind = PageKind::Ephemeral;
        let wanted = (shard.frames() / ONE_IN).clamp(1, FRAMES_MAX).min(most);
        let patience = &mut Patience::default();
        while shard.free[kind as usize].len() < wanted
            && let Some(frame) = evict(self, tenant, shard, now, patience)
        {
            self.lose(frame);
            shard.push_free(&self.frames, frame, kind);
            shard.ahead.add(1);
        }
        // Its own doing is no reason to do so again.
        shard.ahead.is_needed(shard.tally.evictions.get());
        true
    }
}
