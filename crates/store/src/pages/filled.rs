//! Pages whose words are all equal: how many a shard keeps.
//!
//! Such a page takes a row and an entry of the directory, and no frame. Both kinds are bounded, because nothing else
//! limits them. If there are too many, an ephemeral one leaves, and a persistent one lies in a frame and has a place on
//! disk like others.
//!
//! No put allocates for a row. Where a shard has no room for one, such a page stays in a frame, and within a second there
//! is room for the next ones.

use super::PageStore;
use super::shard::Shard;
use crate::arena::PageKind;
use crate::tenants::Tenant;

/// A shard keeps so many at least.
const FILLED_MIN: u32 = 1024;

/// So many for each of its frames. They take 4 % of the memory of those.
const FILLED_PER_FRAME: u32 = 4;

impl PageStore {
    /// Makes room for rows in shards of a tenant that lacked it. Call it once per second.
    pub(super) fn make_room_for_rows(&self, tenant: &Tenant) {
        let Some(tenant_pages) = self.existing_tenant_pages(tenant) else {
            return;
        };
        for shard in tenant_pages.shards() {
            let wanted = shard.lock().rows.room_wanted();
            if let Some(allocate) = wanted {
                let room = allocate();
                let left = shard.lock().rows.move_into(room);
                drop(left);
            }
        }
    }

    /// Returns whether a shard takes one more of a kind, without an allocation.
    pub(super) fn takes_filled(&self, shard: &mut Shard, kind: PageKind) -> bool {
        let is_bounded =
            kind == PageKind::Ephemeral || shard.rows.filled(kind) < filled_most(shard);
        is_bounded && shard.rows.has_room()
    }

    /// If a shard has more ephemeral ones than it may, some leave.
    pub(super) fn limit_filled(&self, shard: &mut Shard) {
        let most = filled_most(shard);
        while shard.rows.filled(PageKind::Ephemeral) > most
            && let Some((number, key)) = shard.rows.next_filled_ephemeral()
        {
            let object = self.seed.object(key.pool, key.object);
            if shard.remove(&self.frames, object, key).is_none() {
                return;
            }
            shard.rows.forget(number);
            shard.tally.evictions.bump();
        }
    }
}

/// How many of a kind a shard keeps.
fn filled_most(shard: &mut Shard) -> u32 {
    FILLED_MIN.max(shard.frames().saturating_mul(FILLED_PER_FRAME))
}
