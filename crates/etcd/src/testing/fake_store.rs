//! A [`ClusterStore`] in memory, whose clock and faults a test moves.

use std::io::ErrorKind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::store::{
    Change, ClusterStore, Entry, LeaseGrant, LeaseId, PrefixSnapshot, Renewal, Revision,
    StoreError, StoreWatch, Term, WatchEnd,
};

use super::{FakeEtcd, unreachable};

/// A store in memory. Its clones are the same store.
#[derive(Clone, Default)]
pub struct FakeStore {
    shared: Arc<SharedStore>,
}

#[derive(Default)]
struct SharedStore {
    state: Mutex<FakeState>,
    /// Something changed that a watch or a delayed call waits for.
    changed: Notify,
}

#[derive(Default)]
struct FakeState {
    etcd: FakeEtcd,
    is_cut: bool,
    /// How long a request is on its way.
    delay: Duration,
    /// How many answers are still to be lost.
    answers_to_lose: usize,
    /// It rises when all watches are cut.
    watch_generation: u64,
}

/// A watch of a [`FakeStore`].
pub struct FakeWatch {
    store: FakeStore,
    prefix: String,
    next: Revision,
    opened_at: Revision,
    generation: u64,
}

impl FakeStore {
    /// A store without keys.
    pub fn new() -> FakeStore {
        FakeStore::default()
    }

    /// Looks at the store itself, or changes it.
    pub fn with<T>(&self, act: impl FnOnce(&mut FakeEtcd) -> T) -> T {
        let result = act(&mut self.lock().etcd);
        self.shared.changed.notify_waiters();
        result
    }

    /// Lets time pass.
    pub fn advance(&self, by: Duration) {
        self.with(|etcd| etcd.advance_to(etcd.now() + by));
    }

    /// Lets every call fail, and ends all watches, until [`FakeStore::heal`].
    pub fn cut(&self) {
        self.lock().is_cut = true;
        self.cut_watches();
    }

    /// Lets calls succeed again.
    pub fn heal(&self) {
        self.lock().is_cut = false;
    }

    /// Ends all watches. New ones may begin.
    pub fn cut_watches(&self) {
        self.lock().watch_generation += 1;
        self.shared.changed.notify_waiters();
    }

    /// Lets every later request be on its way for so long, by the store's clock.
    pub fn set_delay(&self, delay: Duration) {
        self.lock().delay = delay;
    }

    /// Lets the next calls take effect, and fail all the same.
    pub fn lose_answers(&self, count: usize) {
        self.lock().answers_to_lose = count;
    }

    fn lock(&self) -> MutexGuard<'_, FakeState> {
        self.shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    async fn call<T>(&self, act: impl FnOnce(&mut FakeEtcd) -> T) -> Result<T, StoreError> {
        let due = {
            let state = self.lock();
            state.etcd.now() + state.delay
        };
        self.wait_for(|state| (state.etcd.now() >= due).then_some(()))
            .await;
        let result = {
            let mut state = self.lock();
            if state.is_cut {
                return Err(unreachable(ErrorKind::ConnectionRefused));
            }
            let result = act(&mut state.etcd);
            if state.answers_to_lose > 0 {
                state.answers_to_lose -= 1;
                self.shared.changed.notify_waiters();
                return Err(unreachable(ErrorKind::ConnectionReset));
            }
            result
        };
        self.shared.changed.notify_waiters();
        Ok(result)
    }

    /// Waits until the state has what is looked for.
    async fn wait_for<T>(&self, mut look: impl FnMut(&mut FakeState) -> Option<T>) -> T {
        loop {
            let mut changed = std::pin::pin!(self.shared.changed.notified());
            changed.as_mut().enable();
            if let Some(found) = look(&mut self.lock()) {
                return found;
            }
            changed.await;
        }
    }
}

impl ClusterStore for FakeStore {
    type Watch = FakeWatch;

    async fn grant(&self, ttl: Duration) -> Result<LeaseGrant, StoreError> {
        self.call(|etcd| etcd.grant(ttl)).await
    }

    async fn renew(&self, lease: LeaseId) -> Result<Renewal, StoreError> {
        self.call(|etcd| etcd.renew(lease)).await
    }

    async fn revoke(&self, lease: LeaseId) -> Result<(), StoreError> {
        self.call(|etcd| etcd.revoke(lease)).await
    }

    async fn put(&self, key: &str, value: &[u8], lease: LeaseId) -> Result<Revision, StoreError> {
        self.call(|etcd| etcd.put(key, value, Some(lease))).await?
    }

    async fn read(&self, prefix: &str) -> Result<PrefixSnapshot, StoreError> {
        self.call(|etcd| etcd.read(prefix)).await
    }

    async fn watch(&self, prefix: &str, from: Revision) -> Result<FakeWatch, WatchEnd> {
        let (opened_at, is_remembered) = self
            .call(|etcd| (etcd.revision(), etcd.changes_from(prefix, from).is_some()))
            .await
            .map_err(WatchEnd::Cut)?;
        match is_remembered {
            true => Ok(FakeWatch {
                prefix: prefix.to_owned(),
                next: from,
                opened_at,
                generation: self.lock().watch_generation,
                store: self.clone(),
            }),
            false => Err(WatchEnd::Compacted),
        }
    }

    async fn campaign(&self, key: &str, value: &[u8], lease: LeaseId) -> Result<Entry, StoreError> {
        self.call(|etcd| etcd.campaign(key, value, lease)).await?
    }

    async fn resign(&self, key: &str, term: Term) -> Result<(), StoreError> {
        self.call(|etcd| etcd.resign(key, term)).await
    }
}

impl StoreWatch for FakeWatch {
    fn opened_at(&self) -> Revision {
        self.opened_at
    }

    async fn next(&mut self) -> Result<Vec<Change>, WatchEnd> {
        let (prefix, generation) = (&self.prefix, self.generation);
        let next = &mut self.next;
        let told = self.store.wait_for(|state| {
            if state.watch_generation != generation {
                return Some(Err(WatchEnd::Cut(unreachable(ErrorKind::ConnectionReset))));
            }
            let changes = state.etcd.changes_from(prefix, *next);
            // A compaction forgets nothing that an open watch has passed.
            *next = state.etcd.revision().next().max(*next);
            match changes {
                None => Some(Err(WatchEnd::Compacted)),
                Some(changes) if changes.is_empty() => None,
                Some(changes) => Some(Ok(changes)),
            }
        });
        told.await
    }
}
