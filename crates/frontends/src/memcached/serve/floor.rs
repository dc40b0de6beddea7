//! The tenancies that one worker acts for: one a tenant, opened when first needed.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use sublet_types::TenantId;

use crate::tenancy::{Doorman, Tenancy};

/// One worker's tenancies.
pub(super) struct Floor {
    doorman: Doorman,
    first: OnceCell<Rc<Tenancy>>,
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

    /// The tenancy for a tenant. The first one asked for, often the only one, is found without a search.
    pub(super) fn tenancy(&self, tenant: TenantId) -> Rc<Tenancy> {
        let open = || Rc::new(self.doorman.open(tenant));
        let first = self.first.get_or_init(open);
        if first.tenant() == tenant {
            return Rc::clone(first);
        }
        let mut others = self.others.borrow_mut();
        Rc::clone(others.entry(tenant).or_insert_with(open))
    }
}
