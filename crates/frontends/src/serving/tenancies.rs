//! The tenancies of one worker. It opens one per tenant, when it first needs it.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use sublet_types::TenantId;

/// One worker's tenancies.
pub(crate) struct Tenancies<T> {
    open: Box<dyn Fn(TenantId) -> T>,
    first: OnceCell<(TenantId, Rc<T>)>,
    others: RefCell<HashMap<TenantId, Rc<T>>>,
}

impl<T> Tenancies<T> {
    /// Makes an empty set. `open` opens the tenancy of a tenant.
    pub(crate) fn new(open: impl Fn(TenantId) -> T + 'static) -> Tenancies<T> {
        Tenancies {
            open: Box::new(open),
            first: OnceCell::new(),
            others: RefCell::default(),
        }
    }

    /// Returns the tenancy of a tenant. The tenant of the first call, often the only one, is found without a search.
    pub(crate) fn of(&self, tenant: TenantId) -> Rc<T> {
        let open = || Rc::new((self.open)(tenant));
        let (whose, first) = self.first.get_or_init(|| (tenant, open()));
        if *whose == tenant {
            return Rc::clone(first);
        }
        let mut others = self.others.borrow_mut();
        Rc::clone(others.entry(tenant).or_insert_with(open))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_opened_once() {
        let opened = Rc::new(RefCell::new(Vec::new()));
        let all = Rc::clone(&opened);
        let tenancies = Tenancies::new(move |tenant| {
            all.borrow_mut().push(tenant);
            tenant
        });
        for tenant in [7, 3, 7, 5, 3, 5].map(TenantId) {
            assert_eq!(*tenancies.of(tenant), tenant);
        }
        assert_eq!(*opened.borrow(), [7, 3, 5].map(TenantId));
    }
}
