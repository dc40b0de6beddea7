//! Pages that are still to be removed: all of a pool, or those of some objects.

use sublet_types::{ObjectId, PoolId, TenantId};

use super::pools::Pool;
use crate::frames::StoredKey;

/// Pages that are flushed at once, while their shard stays locked.
pub(super) const PIECE: usize = 1024;

/// Pages that are still to be removed; see [`Worker::remove_some`](crate::Worker::remove_some).
#[must_use = "until it is done its pages keep their frames"]
#[derive(Debug)]
pub struct Removal {
    /// The tenant that is charged for them.
    tenant: TenantId,
    pub(super) work: RemovalWork,
    /// Slots of ended handles. They may be reused when none of the pages is left.
    pub(super) ended: [Option<u32>; 2],
}

#[derive(Debug)]
pub(super) enum RemovalWork {
    Nothing,
    /// All of a pool: pages that were found in a shard, and everything in the shards from `next` on.
    Pool {
        pool: Pool,
        found: Vec<StoredKey>,
        next: usize,
    },
    /// Some objects of a pool: one from an index on, and others.
    Objects {
        pool: PoolId,
        begun: Option<(ObjectId, u32)>,
        others: Vec<ObjectId>,
    },
}

impl Removal {
    pub(super) fn of_nothing(tenant: TenantId) -> Removal {
        Removal {
            tenant,
            work: RemovalWork::Nothing,
            ended: [None; 2],
        }
    }

    pub(super) fn of_pool(tenant: TenantId, pool: Pool) -> Removal {
        let found = Vec::new();
        let what = RemovalWork::Pool {
            pool,
            found,
            next: 0,
        };
        Removal {
            work: what,
            ..Removal::of_nothing(tenant)
        }
    }

    /// A removal of objects. It needs no memory for one object (R-F3).
    pub(super) fn of_objects(
        tenant: TenantId,
        pool: PoolId,
        first: Option<ObjectId>,
        others: Vec<ObjectId>,
    ) -> Removal {
        let begun = first.map(|object| (object, 0));
        let what = RemovalWork::Objects {
            pool,
            begun,
            others,
        };
        Removal {
            work: what,
            ..Removal::of_nothing(tenant)
        }
    }

    /// The tenant that is charged for them.
    pub(crate) fn tenant(&self) -> TenantId {
        self.tenant
    }

    /// Makes the slot of that handle free when the removal is done.
    pub(super) fn then_vacate(mut self, slot: u32) -> Removal {
        if let Some(free) = self.ended.iter_mut().find(|ended| ended.is_none()) {
            *free = Some(slot);
        }
        self
    }
}
