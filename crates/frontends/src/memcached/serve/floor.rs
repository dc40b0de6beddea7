//! The tenancies that one worker acts for: one a tenant, opened when first needed.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use sublet_types::TenantId;

use crate::tenancy::{Doorman, Tenancy};

/// One worker's tenancies.
pub(super) struct Floor {
    doorman: Doorman,
    first: OnceCell<Tenancy>,
    others: RefCell<HashMap<TenantId, Rc<Tenancy>>>,
}

impl Floor {
    pub(super) fn new(doorman: Doorman) -> Floor {
        Floor {
            doorman,
            first: OnceCell::new(),
            others: RefCell::default(),
        }
    }

    /// Acts for a tenant. The first one asked for, often the only one, is found without a search.
    pub(super) fn act<R>(&self, tenant: TenantId, work: impl FnOnce(&Tenancy) -> R) -> R {
        let first = self.first.get_or_init(|| self.doorman.open(tenant));
        if first.tenant() == tenant {
            return work(first);
        }
        let mut others = self.others.borrow_mut();
        let other = others
            .entry(tenant)
            .or_insert_with(|| Rc::new(self.doorman.open(tenant)));
        let other = Rc::clone(other);
        drop(others);
        work(&other)
    }
}
