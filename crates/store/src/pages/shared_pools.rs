//! Which pools tenants share, and which handle touched an object last.

use std::collections::HashMap;

use sublet_types::{ObjectId, PoolId, SharedName, TenantId};

/// Every pool that tenants were allowed to share.
#[derive(Default)]
pub(crate) struct SharedPools {
    pub(super) pools: HashMap<SharedName, SharedPool>,
    /// The pool of each handle.
    pub(super) of_handle: HashMap<PoolId, SharedName>,
}

pub(super) struct SharedPool {
    pub(super) account: TenantId,
    pub(super) members: Vec<TenantId>,
    /// The pool itself, while a tenant shares it.
    pub(super) base: Option<PoolId>,
    pub(super) handles: Vec<PoolId>,
    /// The handle that touched an object last.
    pub(super) touched: HashMap<ObjectId, u32>,
    /// Whether more objects were touched than are tracked.
    pub(super) lost_track: bool,
}

impl SharedPool {
    /// Starts tracking anew.
    pub(super) fn forget(&mut self) {
        self.touched.clear();
        self.lost_track = false;
    }
}
