//! Removing all pages of a pool, or of objects: a piece at a time, so that whoever does it can do other things between.

use sublet_types::{ObjectId, PageIndex, PoolId};

use super::Pages;
use super::desk::{Desk, FoundPages};
use super::locked_shard::LockedShard;
use super::pools::Pool;
use super::to_remove::{PIECE, Removal, What};
use crate::frames::Key;

/// Bytes of directories that are looked through in one piece.
const LOOKED_AT: u64 = 256 << 10;

impl Pages {
    /// Nothing is left to be removed: has the places of ended handles used again.
    pub(crate) fn end_removal(&self, removal: &mut Removal) {
        let ended = removal.ended.iter_mut().filter_map(Option::take);
        ended.for_each(|slot| self.pools.vacate(slot));
    }
}

impl Desk<'_> {
    /// Removes some of the pages that its tenant is charged for. Says whether there are more.
    pub(crate) fn remove_some(&self, removal: &mut Removal, room: &mut FoundPages) -> bool {
        self.remove_piece(&mut removal.what, room)
    }

    fn remove_piece(&self, what: &mut What, room: &mut FoundPages) -> bool {
        match what {
            What::Nothing => false,
            What::Pool { pool, found, next } if found.is_empty() => {
                let (shards, mut looked_at) = (self.pages.holdings(self.tenant).shards(), 0);
                while found.is_empty() && looked_at < LOOKED_AT {
                    let Some(shard) = shards.get(*next) else {
                        return false;
                    };
                    looked_at += shard.lock().directory.bytes();
                    let is_of_pool = |key: Key| key.pool == pool.base;
                    *found = self.pages.keys_of(self.tenant, *next, is_of_pool);
                    *next += 1;
                }
                true
            }
            What::Pool { pool, found, .. } => {
                let piece = found.len().saturating_sub(PIECE);
                self.flush_keys(*pool, found.drain(piece..));
                true
            }
            What::Objects {
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

    /// Flushes a piece of an object, from an index on. Says where the next begins.
    pub(super) fn flush_some(
        &self,
        pool: PoolId,
        object: ObjectId,
        from: u32,
        room: &mut FoundPages,
    ) -> Option<u32> {
        let mut open = self.open(pool, object, PageIndex(0))?;
        open.flush_part(from, &mut room.0)
    }

    /// Flushes pages of one shard, whose pool may be ended.
    fn flush_keys(&self, pool: Pool, keys: impl Iterator<Item = Key>) {
        let holdings = self.pages.holdings(self.tenant);
        let mut keys = keys.peekable();
        let Some(first) = keys.peek().copied() else {
            return;
        };
        let object_of = |key: Key| self.pages.seed.object(key.pool, key.object);
        let mut open = LockedShard {
            pages: self.pages,
            owner: self.tenant,
            holdings,
            id: None,
            pool,
            object: object_of(first),
            key: first,
            shard: holdings.shard(object_of(first)).lock(),
            now: self.now,
            luck: self.luck,
            worker: self.worker,
        };
        for key in keys {
            open.key = key;
            open.object = object_of(key);
            open.flush();
        }
    }
}
