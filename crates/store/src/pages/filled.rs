//! Pages whose words are all equal: how many a shard keeps.
//!
//! Such a page takes a row and an entry of the directory, and no frame. Ephemeral ones are bounded, because nothing else
//! would make them leave.

use super::PageStore;
use super::shard::Shard;

/// A shard keeps so many at least.
const FILLED_MIN: u32 = 1024;

/// So many for each of its frames. They take 4 % of the memory of those.
const FILLED_PER_FRAME: u32 = 4;

impl PageStore {
    /// If a shard has more of them than it may, some leave.
    pub(super) fn limit_filled(&self, shard: &mut Shard) {
        let most = FILLED_MIN.max(shard.frames().saturating_mul(FILLED_PER_FRAME));
        while shard.rows.filled_ephemeral() > most
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
