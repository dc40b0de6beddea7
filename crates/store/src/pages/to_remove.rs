//! Pages that are yet to be removed: all of a pool, or those of some objects.

use sublet_types::{ObjectId, PoolId, TenantId};

use super::pools::Pool;
use crate::frames::Key;

/// Pages that are flushed in one piece, while their shard stays locked.
pub(super) const PIECE: usize = 1024;

/// Pages that are yet to be removed: see [`Worker::remove_some`](crate::Worker::remove_some).
#[must_use = "until it is done its pages keep their frames"]
#[derive(Debug)]
pub struct Removal {
    /// Who is charged for them.
    tenant: TenantId,
    pub(super) what: What,
    /// Places of handles that are ended, which may be used again when none of the pages is left.
    pub(super) ended: [Option<u32>; 2],
}

#[derive(Debug)]
pub(super) enum What {
    Nothing,
    /// All of a pool: some that were found in a shard, and what is in the shards from `next` on.
    Pool {
        pool: Pool,
        found: Vec<Key>,
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
            what: What::Nothing,
            ended: [None; 2],
        }
    }

    pub(super) fn of_pool(tenant: TenantId, pool: Pool) -> Removal {
        let found = Vec::new();
        let what = What::Pool {
            pool,
            found,
            next: 0,
        };
        Removal {
            what,
            ..Removal::of_nothing(tenant)
        }
    }

    /// Needs no memory for one object (R-F3).
    pub(super) fn of_objects(
        tenant: TenantId,
        pool: PoolId,
        first: Option<ObjectId>,
        others: Vec<ObjectId>,
    ) -> Removal {
        let begun = first.map(|object| (object, 0));
        let what = What::Objects {
            pool,
            begun,
            others,
        };
        Removal {
            what,
            ..Removal::of_nothing(tenant)
        }
    }

    /// Who is charged for them.
    pub(crate) fn tenant(&self) -> TenantId {
        self.tenant
    }

    /// The place of that handle is free when this is done.
    pub(super) fn then_vacate(mut self, slot: u32) -> Removal {
        if let Some(free) = self.ended.iter_mut().find(|ended| ended.is_none()) {
            *free = Some(slot);
        }
        self
    }
}
