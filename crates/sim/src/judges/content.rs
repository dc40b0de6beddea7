//! Checks that what comes back is what was put.

use sublet_types::TenantId;

use super::{Judge, PageLabel, TierEvent, Violation};
use crate::machine::tier::{PageStamp, PoolKind, TierGetOutcome, TierPage, TierPutOutcome};
use crate::stable_hash::StableHashMap;
use crate::virtual_time::VirtualInstant;

/// Checks that a page that comes back is the page that was put last (R-P3, R-G1, R-G3, R-G4, R-F1).
#[derive(Debug, Default)]
pub(super) struct ContentJudge {
    /// Pages that may come back: by tenant, pool and object, then by index.
    pages: StableHashMap<(TenantId, PoolKind, u64), StableHashMap<u32, PageStamp>>,
}

impl ContentJudge {
    fn keep(&mut self, page: TierPage, stamp: PageStamp) {
        let object = self.pages.entry(object_of(page)).or_default();
        object.insert(page.index, stamp);
    }

    fn forget(&mut self, page: TierPage) -> Option<PageStamp> {
        let object = self.pages.get_mut(&object_of(page))?;
        let forgotten = object.remove(&page.index);
        if object.is_empty() {
            self.pages.remove(&object_of(page));
        }
        forgotten
    }

    fn put_last(&self, page: TierPage) -> Option<PageStamp> {
        let object = self.pages.get(&object_of(page))?;
        object.get(&page.index).copied()
    }

    fn outcome(&mut self, page: TierPage, outcome: TierGetOutcome) -> Option<Violation> {
        let label = PageLabel(page);
        let put_last = match (outcome, page.pool) {
            (TierGetOutcome::Miss, _) | (_, PoolKind::File) => self.forget(page),
            (_, PoolKind::Swap) => self.put_last(page),
        };
        match (outcome, put_last) {
            (TierGetOutcome::Miss, Some(_)) if page.pool == PoolKind::Swap => {
                Some(Violation::Lost(label))
            }
            (TierGetOutcome::Miss, _) => None,
            (TierGetOutcome::Hit(_) | TierGetOutcome::OnDisk(_), None) => {
                Some(Violation::StalePage(label))
            }
            (TierGetOutcome::Hit(stamp) | TierGetOutcome::OnDisk(stamp), Some(put)) => {
                (stamp != put).then_some(Violation::Content(label))
            }
        }
    }
}

fn object_of(page: TierPage) -> (TenantId, PoolKind, u64) {
    (page.tenant, page.pool, page.object)
}

impl Judge for ContentJudge {
    fn name(&self) -> &'static str {
        "content"
    }

    fn check(&mut self, _: VirtualInstant, event: &TierEvent<'_>) -> Option<Violation> {
        match *event {
            TierEvent::Put(page, stamp, TierPutOutcome::Stored) => self.keep(page, stamp),
            TierEvent::Put(page, _, TierPutOutcome::Refused) | TierEvent::FlushedPage(page) => {
                self.forget(page);
            }
            TierEvent::Get(page, outcome) => return self.outcome(page, outcome),
            TierEvent::FlushedObject(tenant, pool, object) => {
                self.pages.remove(&(tenant, pool, object));
            }
            TierEvent::Target(..) | TierEvent::Counts(_) => {}
        }
        None
    }
}
