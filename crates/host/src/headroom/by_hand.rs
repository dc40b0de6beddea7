//! What releases by hand took of each tenant: whoever tells tenants why they hold less needs to know.

use std::collections::HashMap;

use parking_lot::{Mutex, MutexGuard};
use sublet_store::{Released, Worker};
use sublet_types::{Bytes, Pages, TenantId};

use crate::observe::events::Actor;

/// What releases by hand took, until somebody takes that into account.
#[derive(Debug, Default)]
pub struct ByHand(Mutex<Taken>);

/// What releases by hand took since it was taken into account last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// What the host got by them.
    pub bytes: Bytes,
    /// What each tenant lost by them.
    pub lost: HashMap<TenantId, Pages>,
    /// Who asked for the last of them.
    pub by: Option<Actor>,
}

impl ByHand {
    /// What was taken, to be taken into account; nothing is released by hand meanwhile. `None` while a piece is being
    /// released: then it is for the next time.
    pub fn taken(&self) -> Option<MutexGuard<'_, Taken>> {
        self.0.try_lock()
    }

    /// Releases a piece by `actor`'s word.
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
        for (id, pages) in lost {
            taken.lost.entry(id).or_default().0 += pages.0;
        }
        taken.bytes += released.bytes;
        taken.by = Some(actor);
        released
    }
}
