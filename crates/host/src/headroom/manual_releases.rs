//! What releases by hand took from each tenant. The reports on why a tenant holds less need it.

use std::collections::HashMap;

use parking_lot::{Mutex, MutexGuard};
use sublet_store::{ReleaseOutcome, Worker};
use sublet_types::{Bytes, Pages, TenantId};

use crate::observe::events::Actor;

/// The most releases that are told apart until they are taken into account, once per second.
const RELEASES_MAX: usize = 256;

/// What releases by hand took, until it is taken into account.
#[derive(Debug, Default)]
pub struct ManualReleases(Mutex<ManualReleaseList>);

/// What releases by hand took since that was last taken into account, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManualReleaseList(Vec<ManualRelease>);

/// What one release by hand took.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ManualRelease {
    by: Actor,
    /// What the host got by it.
    bytes: Bytes,
    /// What each tenant lost by it.
    lost: HashMap<TenantId, Pages>,
}

/// What one tenant lost by releases by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TenantReleaseLoss {
    /// What the tenant lost.
    pub lost: Pages,
    /// What the host got by the releases that took from the tenant, from all tenants.
    pub released: Bytes,
    /// Who asked for the last of these.
    pub by: Actor,
}

impl ManualReleases {
    /// What was taken, to take it into account. Nothing is released by hand while the lock is held. `None` while a
    /// piece is being released: take it into account next time.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, ManualReleaseList>> {
        self.0.try_lock()
    }

    /// Begins a release by `actor`'s word.
    pub(super) fn begin(&self, actor: Actor) {
        self.0.lock().begin(actor);
    }

    /// Releases a piece of the release that began last, by `actor`'s word.
    pub(super) fn release(
        &self,
        actor: Actor,
        worker: &Worker,
        release: impl FnOnce() -> ReleaseOutcome,
    ) -> ReleaseOutcome {
        let mut taken = self.0.lock();
        let before = worker.store().all_held().into_iter();
        let released = release();
        let after: HashMap<TenantId, Bytes> = worker.store().all_held().into_iter().collect();
        let lost = before.filter_map(|(id, had)| {
            let has = after.get(&id).copied().unwrap_or_default();
            (has < had).then(|| (id, Pages::of(had - has)))
        });
        // What was taken before may have been taken into account since the release began.
        if taken.0.is_empty() {
            taken.begin(actor);
        }
        taken.add(released.bytes, lost);
        released
    }
}

impl ManualReleaseList {
    /// Begins a release by an actor's word. If too many are told apart already, it counts as a part of the last one.
    pub(crate) fn begin(&mut self, by: Actor) {
        if self.0.last().is_some_and(|last| last.lost.is_empty()) {
            self.0.pop();
        }
        if self.0.len() == RELEASES_MAX {
            return;
        }
        self.0.push(ManualRelease {
            by,
            bytes: Bytes::ZERO,
            lost: HashMap::new(),
        });
    }

    /// Adds what the last release took.
    pub(crate) fn add(&mut self, bytes: Bytes, lost: impl Iterator<Item = (TenantId, Pages)>) {
        if let Some(release) = self.0.last_mut() {
            release.bytes += bytes;
            for (id, pages) in lost {
                release.lost.entry(id).or_default().0 += pages.0;
            }
        }
    }

    /// What all tenants lost together.
    pub(crate) fn lost(&self) -> Pages {
        let each = self.0.iter().flat_map(|release| release.lost.values());
        each.copied().sum()
    }

    /// What one tenant lost, if it lost anything.
    pub(crate) fn of_tenant(&self, id: TenantId) -> Option<TenantReleaseLoss> {
        let its = self.0.iter().filter_map(|release| {
            Some(TenantReleaseLoss {
                lost: *release.lost.get(&id)?,
                released: release.bytes,
                by: release.by,
            })
        });
        its.reduce(|sum, more| TenantReleaseLoss {
            lost: Pages(sum.lost.0 + more.lost.0),
            released: sum.released + more.released,
            by: more.by,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_is_told_of_the_releases_that_took_of_it_and_of_no_other() {
        let (ann, ben, cid) = (TenantId(1), TenantId(2), TenantId(3));
        let caller = |pid| Actor::Caller {
            uid: 0,
            pid: Some(pid),
        };
        let mut taken = ManualReleaseList::default();
        taken.begin(caller(1));
        taken.add(Bytes::mib(4), [(ann, Pages(1024))].into_iter());
        taken.add(Bytes::mib(2), [(ben, Pages(512))].into_iter());
        taken.begin(caller(2));
        taken.add(Bytes::mib(8), [(ben, Pages(2048))].into_iter());
        let of = |lost, mib, pid| {
            Some(TenantReleaseLoss {
                lost: Pages(lost),
                released: Bytes::mib(mib),
                by: caller(pid),
            })
        };
        assert_eq!(taken.of_tenant(ann), of(1024, 6, 1));
        assert_eq!(taken.of_tenant(ben), of(2560, 14, 2));
        assert_eq!(taken.of_tenant(cid), None);
        assert_eq!(taken.lost(), Pages(3584));
    }

    #[test]
    fn what_nobody_takes_into_account_is_bounded() {
        let mut taken = ManualReleaseList::default();
        for _ in 0..10 * RELEASES_MAX {
            taken.begin(Actor::Daemon);
            taken.begin(Actor::Daemon);
            taken.add(Bytes::mib(2), [(TenantId(1), Pages(512))].into_iter());
        }
        assert_eq!(taken.0.len(), RELEASES_MAX);
        assert_eq!(taken.lost(), Pages(512 * 10 * RELEASES_MAX as u64));
    }
}
