//! Frees frames before puts ask for them. If a tenant has all that it may have, each of its puts has to evict a page
//! first. So a few pages are evicted ahead for each shard that evicted recently, as long as that goes on
//! ([`Worker::evict_ahead`](crate::Worker::evict_ahead)).
//!
//! The put that takes such a frame counts the evicted page as displaced, as if it had been evicted then. So policies
//! that count puts without room see the same numbers.

use sublet_types::Second;

use super::PageStore;
use super::evict::{SweepBudget, evict};
use super::shard::Shard;
use super::tenant_pages::PutActivity;
use crate::api::EvictAheadScope;
use crate::arena::PageKind;
use crate::tenants::Tenant;

/// The most frames that a shard keeps ready. Over all shards these are four blocks per tenant.
const FRAMES_MAX: u32 = 16;

/// A tenant keeps at most this fraction of its frames ready, so that hardly a page is missed for it.
const ONE_IN: u32 = 256;

impl PageStore {
    /// Evicts a few pages ahead of the puts of a tenant that has all it may have. Returns whether the tenant puts:
    /// whether any page was evicted or any such frame taken since the last call. A tenant with a single shard is
    /// skipped, because its one thread would use them up at once.
    pub(crate) fn evict_ahead(&self, tenant: &Tenant, whom: EvictAheadScope, now: Second) -> bool {
        let Some(tenant_pages) = self.existing_tenant_pages(tenant) else {
            return false;
        };
        let shards = tenant_pages.shards();
        if shards.len() == 1 || !tenant.is_at_limit(1) {
            return false;
        }
        if whom == EvictAheadScope::Putting && !tenant_pages.is_putting() {
            return false;
        }
        let per_block = self.frames.per_block();
        let mut left = tenant_pages.blocks(PageKind::Ephemeral) * per_block / ONE_IN;
        let mut puts = false;
        // Few shards of a small tenant have a frame ready. Start at another shard each time.
        let first = tenant_pages.next_to_ready();
        for n in 0..shards.len() {
            let mut shard = shards[(first + n) % shards.len()].lock();
            puts |= self.replenish_ahead(tenant, &mut shard, left, now);
            left = left.saturating_sub(shard.ahead.frames);
        }
        tenant_pages.set_put_activity(match puts {
            true => PutActivity::Putting,
            false => PutActivity::Idle,
        });
        puts
    }

    /// Makes a shard keep up to `most` frames ready, if it evicted pages or used such frames since the last look.
    /// Returns whether it did.
    fn replenish_ahead(&self, tenant: &Tenant, shard: &mut Shard, most: u32, now: Second) -> bool {
        if !shard.ahead.is_needed(shard.tally.evictions.get()) {
            return false;
        }
        let kind = PageKind::Ephemeral;
        let wanted = (shard.frames() / ONE_IN).clamp(1, FRAMES_MAX).min(most);
        let patience = &mut SweepBudget::default();
        while shard.free[kind as usize].len() < wanted
            && let Some(frame) = evict(self, tenant, shard, now, patience)
        {
            self.lose(frame);
            shard.push_free(&self.frames, frame, kind);
            shard.ahead.add(1);
        }
        // Evictions ahead are no reason to evict ahead again.
        shard.ahead.is_needed(shard.tally.evictions.get());
        true
    }
}
