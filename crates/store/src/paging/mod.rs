//! The page store as the store's handles have it.
//!
//! `tenancy` is what a tenant is given and told, `verbs` puts, gets and flushes, and `saves` a tenant's pages in a file.

mod saves;
mod tenancy;
mod verbs;

use sublet_types::{Second, TenantId};

use crate::pages::Desk;
use crate::store::{Pin, Worker};
use crate::tenants::Tenant;

impl Worker {
    fn desk<'a>(&'a self, tenant: &'a Tenant, now: Second) -> Desk<'a> {
        Desk {
            pages: &self.store().pages,
            tenant,
            now,
            luck: self.moment(now).luck,
            worker: self,
        }
    }

    fn at_desk<R>(
        &self,
        tenant: TenantId,
        now: Second,
        work: impl FnOnce(Desk<'_>) -> R,
    ) -> Option<R> {
        let tenant = self.store().tenants.get(tenant)?;
        let _pin = Pin::new(self);
        Some(work(self.desk(tenant, now)))
    }
}
