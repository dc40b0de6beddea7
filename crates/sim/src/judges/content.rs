//! Whether what comes back is what was put.

use sublet_types::TenantId;

use super::{Happening, Judge, PageLabel, Wrong};
use crate::machine::tier::{Get, Pool, Put, Stamp, TierPage};
use crate::table::Table;
use crate::virtual_time::Moment;

/// A page that comes back is the page that was put last (R-P3, R-G1, R-G3, R-G4, R-F1).
#[derive(Debug, Default)]
pub(super) struct Content {
    /// Pages that may come back: by tenant, pool and object, then by index.
    pages: Table<(TenantId, Pool, u64), Table<u32, Stamp>>,
}

impl Content {
    fn keep(&mut self, page: TierPage, stamp: Stamp) {
        let object = self.pages.entry(object_of(page)).or_default();
        object.insert(page.index, stamp);
    }

    fn forget(&mut self, page: TierPage) -> Option<Stamp> {
        let object = self.pages.get_mut(&object_of(page))?;
        let forgotten = object.remove(&page.index);
        if object.is_empty() {
            self.pages.remove(&object_of(page));
        }
        forgotten
    }

    fn put_last(&self, page: TierPage) -> Option<Stamp> {
        let object = self.pages.get(&object_of(page))?;
        object.get(&page.index).copied()
    }

    fn got(&mut self, page: TierPage, got: Get) -> Option<Wrong> {
        let label = PageLabel(page);
        let put_last = match (got, page.pool) {
            (Get::Miss, _) | (_, Pool::File) => self.forget(page),
            (_, Pool::Swap) => self.put_last(page),
        };
        match (got, put_last) {
            (Get::Miss, Some(_)) if page.pool == Pool::Swap => Some(Wrong::Lost(label)),
            (Get::Miss, _) => None,
            (Get::Hit(_) | Get::OnDisk(_), None) => Some(Wrong::Revenant(label)),
            (Get::Hit(stamp) | Get::OnDisk(stamp), Some(put)) => {
                (stamp != put).then_some(Wrong::Content(label))
            }
        }
    }
}

fn object_of(page: TierPage) -> (TenantId, Pool, u64) {
    (page.tenant, page.pool, page.object)
}

impl Judge for Content {
    fn name(&self) -> &'static str {
        "content"
    }

    fn hear(&mut self, _: Moment, happening: &Happening<'_>) -> Option<Wrong> {
        match *happening {
            Happening::Put(page, stamp, Put::Stored) => self.keep(page, stamp),
            Happening::Put(page, _, Put::Refused) | Happening::FlushedPage(page) => {
                self.forget(page);
            }
            Happening::Get(page, got) => return self.got(page, got),
            Happening::FlushedObject(tenant, pool, object) => {
                self.pages.remove(&(tenant, pool, object));
            }
            Happening::Target(..) | Happening::Counted(_) => {}
        }
        None
    }
}
