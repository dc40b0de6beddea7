//! Removes all pages of a pool or of objects, one piece at a time, so that the caller can do other things in between.

use sublet_types::{ObjectId, PageIndex, PoolId};

use super::PageStore;
use super::locked_shard::LockedShard;
use super::page_access::{FoundPages, PageAccess};
use super::pending_removal::{PIECE, Removal, RemovalWork};
use super::pools::Pool;
use crate::frames::StoredKey;

/// Bytes of directories that are searched in one piece.
const LOOKED_AT: u64 = 256 << 10;

impl PageStore {
    /// Ends a removal with nothing left: the slots of ended handles become free.
    pub(crate) fn end_removal(&self, removal: &mut Removal) {
        let ended = removal.ended.iter_mut().filter_map(Option::take);
        ended.for_each(|slot| self.pools.vacate(slot));
    }
}

impl PageAccess<'_> {
    /// Removes some of the pages that its tenant is charged for. Returns whether there are more.
    pub(crate) fn remove_some(&self, removal: &mut Removal, room: &mut FoundPages) -> bool {
        self.remove_piece(&mut removal.work, room)
    }

    fn remove_piece(&self, what: &mut RemovalWork, room: &mut FoundPages) -> bool {
        match what {
            RemovalWork::Nothing => false,
            RemovalWork::Pool { pool, found, next } if found.is_empty() => {
                let (shards, mut looked_at) = (self.pages.tenant_pages(self.tenant).shards(), 0);
                while found.is_empty() && looked_at < LOOKED_AT {
                    let Some(shard) = shards.get(*next) else {
                        return false;
                    };
                    looked_at += shard.lock().directory.bytes();
                    let is_of_pool = |key: StoredKey| key.pool == pool.base;
                    *found = self.pages.keys_of(self.tenant, *next, is_of_pool);
                    *next += 1;
                }
                true
            }
            RemovalWork::Pool { pool, found, .. } => {
                let piece = found.len().saturating_sub(PIECE);
                self.flush_keys(*pool, found.drain(piece..));
                true
            }
            RemovalWork::Objects {
                pool,
                begun,
                others,
            } => {
                let Some((object, from)) = begun.take() else {
                    *begun = others.pop().map(|object| (object, 0));
                    return begun.is_some();
                };
                let rest = self.flush_some(*pool, object, from, room);
                *begun = rest.map(|from| (object, from));
                begun.is_some() || !others.is_empty()
            }
        }
    }

    /// Flushes a piece of an object, from an index on. Returns where the next piece begins.
    pub(super) fn flush_some(
        &self,
        pool: PoolId,
        object: ObjectId,
        from: u32,
        room: &mut FoundPages,
    ) -> Option<u32> {
        let mut open = self.lock_page(pool, object, PageIndex(0))?;
        open.flush_part(from, &mut room.0)
    }

    /// Flushes pages of one shard. Their pool may have ended.
    fn flush_keys(&self, pool: Pool, keys: impl Iterator<Item = StoredKey>) {
        let tenant_pages = self.pages.tenant_pages(self.tenant);
        let mut keys = keys.peekable();
        let Some(first) = keys.peek().copied() else {
            return;
        };
        let object_of = |key: StoredKey| self.pages.seed.object(key.pool, key.object);
        let mut open = LockedShard {
            pages: self.pages,
            owner: self.tenant,
            tenant_pages,
            id: None,
            pool,
            object: object_of(first),
            key: first,
            shard: tenant_pages.shard(object_of(first)).lock(),
            now: self.now,
            random: self.random,
            pattern: self.pattern,
            worker: self.worker,
        };
        for key in keys {
            open.key = key;
            open.object = object_of(key);
            open.flush();
        }
    }
}
