//! Which pools tenants share, and who touched what of them last.

use std::collections::HashMap;

use sublet_types::{ObjectId, PoolId, SharedName, TenantId};

/// Every pool that tenants were allowed to share.
#[derive(Default)]
pub(crate) struct SharedPools {
    pub(super) pools: HashMap<SharedName, SharedPool>,
    /// Which pool each handle is on.
    pub(super) of_handle: HashMap<PoolId, SharedName>,
}

pub(super) struct SharedPool {
    pub(super) account: TenantId,
    pub(super) members: Vec<TenantId>,
    /// The pool itself, while somebody shares it.
    pub(super) base: Option<PoolId>,
    pub(super) handles: Vec<PoolId>,
    /// Which handle touched an object last.
    pub(super) touched: HashMap<ObjectId, u32>,
    /// More objects were touched than are followed.
    pub(super) lost_track: bool,
}

impl SharedPool {
    /// Begins to follow objects anew.
    pub(super) fn forget(&mut self) {
        self.touched.clear();
        self.lost_track = false;
    }
}
