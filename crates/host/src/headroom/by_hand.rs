//! What releases by hand took of each tenant: whoever tells tenants why they hold less needs to know.

use std::collections::HashMap;

use parking_lot::{Mutex, MutexGuard};
use sublet_store::{Released, Worker};
use sublet_types::{Bytes, Pages, TenantId};

use crate::observe::events::Actor;

/// Releases that are told apart, until they are taken into account: once a second.
const RELEASES_MAX: usize = 256;

/// What releases by hand took, until somebody takes that into account.
#[derive(Debug, Default)]
pub struct ByHand(Mutex<Taken>);

/// What releases by hand took since it was taken into account last, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken(Vec<OneRelease>);

/// What one release by hand took.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OneRelease {
    by: Actor,
    /// What the host got by it.
    bytes: Bytes,
    /// What each tenant lost by it.
    lost: HashMap<TenantId, Pages>,
}

/// What one tenant lost by releases by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakenOf {
    /// What it lost.
    pub lost: Pages,
    /// What the host got by those releases that took of it, from whomever.
    pub released: Bytes,
    /// Who asked for the last of these.
    pub by: Actor,
}

impl ByHand {
    /// What was taken, to be taken into account; nothing is released by hand meanwhile. `None` while a piece is being
    /// released: then it is for the next time.
    pub fn taken(&self) -> Option<MutexGuard<'_, Taken>> {
        self.0.try_lock()
    }

    /// A release by `actor`'s word begins.
    pub(super) fn begin(&self, actor: Actor) {
        self.0.lock().begin(actor);
    }

    /// Releases a piece of the release that began last, by `actor`'s word.
    pub(super) fn release(
        &self,
        actor: Actor,
        worker: &Worker,
        release: impl FnOnce() -> Released,
    ) -> Released {
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

impl Taken {
    /// A release by somebody's word begins. Where too many are told apart already, it goes on as the last one.
    pub(crate) fn begin(&mut self, by: Actor) {
        if self.0.last().is_some_and(|last| last.lost.is_empty()) {
            self.0.pop();
        }
        if self.0.len() == RELEASES_MAX {
            return;
        }
        self.0.push(OneRelease {
            by,
            bytes: Bytes::ZERO,
            lost: HashMap::new(),
        });
    }

    /// The release that began last took more.
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
    pub(crate) fn of(&self, id: TenantId) -> Option<TakenOf> {
        let its = self.0.iter().filter_map(|release| {
            Some(TakenOf {
                lost: *release.lost.get(&id)?,
                released: release.bytes,
                by: release.by,
            })
        });
        its.reduce(|sum, more| TakenOf {
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
        let mut taken = Taken::default();
        taken.begin(caller(1));
        taken.add(Bytes::mib(4), [(ann, Pages(1024))].into_iter());
        taken.add(Bytes::mib(2), [(ben, Pages(512))].into_iter());
        taken.begin(caller(2));
        taken.add(Bytes::mib(8), [(ben, Pages(2048))].into_iter());
        let of = |lost, mib, pid| {
            Some(TakenOf {
                lost: Pages(lost),
                released: Bytes::mib(mib),
                by: caller(pid),
            })
        };
        assert_eq!(taken.of(ann), of(1024, 6, 1));
        assert_eq!(taken.of(ben), of(2560, 14, 2));
        assert_eq!(taken.of(cid), None);
        assert_eq!(taken.lost(), Pages(3584));
    }

    #[test]
    fn what_nobody_takes_into_account_is_bounded() {
        let mut taken = Taken::default();
        for _ in 0..10 * RELEASES_MAX {
            taken.begin(Actor::Daemon);
            taken.begin(Actor::Daemon);
            taken.add(Bytes::mib(2), [(TenantId(1), Pages(512))].into_iter());
        }
        assert_eq!(taken.0.len(), RELEASES_MAX);
        assert_eq!(taken.lost(), Pages(512 * 10 * RELEASES_MAX as u64));
    }
}
