//! A tenancy for tests: a `HashMap` that follows the verbs' rules, and a daemon that serves it.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sublet_client::ring::{GetOutcome, Key, Page, PutOutcome, Refusal};
use sublet_store::{PageKey, Spill, UnwrittenPage};
use sublet_types::{ObjectId, PoolFlags, PoolId, SharedName, TenantId};

use crate::clock::MonotonicClock;
use crate::ring::page_operations::{PageOperations, TenancyFactory, page_key};
use crate::ring::serve::{Group, RingService, bind, start_with};
use crate::ring::{Settings, SpillFactory};

/// A store for all tenants. Clones share it.
#[derive(Clone, Default)]
pub(super) struct FakePages(Arc<Mutex<FakeState>>);

#[derive(Default)]
struct FakeState {
    pages: HashMap<PageKey, Page>,
    pools: HashMap<PoolId, (TenantId, PoolFlags)>,
    names: HashMap<SharedName, PoolId>,
    made: u32,
    /// How many pages each batch put or got.
    together: Vec<usize>,
}

/// One tenant's part of the store.
pub(super) struct FakeTenancy {
    kept: FakePages,
    tenant: TenantId,
}

/// An object whose pages are refused.
pub(super) const REFUSED: ObjectId = ObjectId(0xdead);

/// An object whose pages are on a slow disk.
pub(super) const SLOW: ObjectId = ObjectId(0x510);

impl FakePages {
    pub(super) fn pools(&self) -> HashSet<PoolId> {
        self.0.lock().pools.keys().copied().collect()
    }

    /// How many pages each batch put or got since the last call.
    pub(super) fn take_batch_sizes(&self) -> Vec<usize> {
        std::mem::take(&mut self.0.lock().together)
    }

    pub(super) fn pages(&self) -> usize {
        self.0.lock().pages.len()
    }
}

impl TenancyFactory for FakePages {
    type Tenancy = FakeTenancy;

    fn open(&self, tenant: TenantId) -> FakeTenancy {
        let kept = self.clone();
        FakeTenancy { kept, tenant }
    }
}

impl FakeTenancy {
    fn flags(&self, kept: &FakeState, pool: PoolId) -> Option<PoolFlags> {
        let (tenant, flags) = kept.pools.get(&pool)?;
        (*tenant == self.tenant).then_some(*flags)
    }

    fn put_page(&self, key: PageKey, fill: impl FnOnce(&mut UnwrittenPage<'_>)) -> PutOutcome {
        let mut kept = self.kept.0.lock();
        if self.flags(&kept, key.pool).is_none() {
            return PutOutcome::Refused(Refusal::Failed);
        }
        if key.object == REFUSED {
            kept.pages.remove(&key);
            return PutOutcome::Refused(Refusal::AtTarget);
        }
        let mut page = [0; 4096];
        fill(&mut UnwrittenPage::from(&mut page[..]));
        match kept.pages.insert(key, page) {
            Some(_) => PutOutcome::Replaced,
            None => PutOutcome::Stored,
        }
    }

    fn get_page(&self, key: PageKey, visit: impl FnOnce(&[u8])) -> GetOutcome {
        if key.object == SLOW {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut kept = self.kept.0.lock();
        let Some(flags) = self.flags(&kept, key.pool) else {
            return GetOutcome::Refused(Refusal::Failed);
        };
        let Some(page) = kept.pages.get(&key) else {
            return GetOutcome::Miss;
        };
        visit(page);
        if !flags.keeping && !flags.persistent {
            kept.pages.remove(&key);
        }
        GetOutcome::Hit
    }
}

impl PageOperations for FakeTenancy {
    type Removal = Vec<PageKey>;

    fn pinned<R>(&self, work: impl FnOnce() -> R) -> R {
        work()
    }

    fn create_pool(
        &self,
        flags: PoolFlags,
        shared: Option<SharedName>,
        spill: Option<Arc<dyn Spill>>,
    ) -> Result<PoolId, Refusal> {
        assert_eq!(flags.persistent, spill.is_some());
        let mut kept = self.kept.0.lock();
        if let Some(pool) = shared.and_then(|name| kept.names.get(&name)) {
            return Ok(*pool);
        }
        if shared == Some(SharedName(13)) {
            return Err(Refusal::NotPermitted);
        }
        kept.made += 1;
        let pool = PoolId {
            slot: kept.made % 8,
            generation: kept.made,
        };
        kept.pools.insert(pool, (self.tenant, flags));
        if let Some(name) = shared {
            kept.names.insert(name, pool);
        }
        Ok(pool)
    }

    fn end_pool(&self, pool: PoolId) -> Option<Self::Removal> {
        let mut kept = self.kept.0.lock();
        kept.pools.remove(&pool);
        kept.names.retain(|_, named| *named != pool);
        let of_pool = kept.pages.keys().filter(|key| key.pool == pool);
        Some(of_pool.copied().collect())
    }

    /// Removes one page.
    fn remove_some(&self, removal: &mut Vec<PageKey>) -> bool {
        let Some(key) = removal.pop() else {
            return false;
        };
        if key.object == SLOW {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.kept.0.lock().pages.remove(&key);
        true
    }

    fn put_pages(
        &self,
        keys: &[PageKey],
        mut fill: impl FnMut(usize, &mut UnwrittenPage<'_>),
        mut on_outcome: impl FnMut(usize, PutOutcome),
    ) {
        self.kept.0.lock().together.push(keys.len());
        for (n, key) in keys.iter().enumerate() {
            on_outcome(n, self.put_page(*key, |page| fill(n, page)));
        }
    }

    fn get_pages(
        &self,
        keys: &[PageKey],
        mut visit: impl FnMut(usize, &[u8]),
        mut on_outcome: impl FnMut(usize, GetOutcome),
    ) {
        self.kept.0.lock().together.push(keys.len());
        for (n, key) in keys.iter().enumerate() {
            on_outcome(n, self.get_page(*key, |page| visit(n, page)));
        }
    }

    fn flush_page(&self, key: Key) {
        self.kept.0.lock().pages.remove(&page_key(key));
    }

    fn begin_flush_object(&self, pool: PoolId, object: ObjectId) -> Option<Self::Removal> {
        let kept = self.kept.0.lock();
        let is_of_it = |key: &&PageKey| (key.pool, key.object) == (pool, object);
        Some(kept.pages.keys().filter(is_of_it).copied().collect())
    }
}

/// Serves rings out of a `FakePages`.
pub(super) struct Daemon {
    folder: tempfile::TempDir,
    pub(super) pages: FakePages,
    pub(super) group: Arc<Group>,
    running: Option<RingService>,
}

impl Daemon {
    pub(super) fn start(settings: Settings, threads: usize) -> Daemon {
        Daemon::start_by(&MonotonicClock::default(), settings, threads)
    }

    /// Starts a daemon whose deadlines follow `clock`.
    pub(super) fn start_by(clock: &MonotonicClock, settings: Settings, threads: usize) -> Daemon {
        let folder = tempfile::tempdir().expect("a folder");
        let group = Arc::new(Group::new(TenantId(3), settings));
        let listener = bind(&folder.path().join("ring"), 0o600).expect("a socket");
        let kept = FakePages::default();
        let factory = kept.clone();
        let doors = vec![(Arc::clone(&group), listener)];
        let failed = Arc::new(|| panic!("serving failed"));
        let running = start_with(doors, threads, move || Ok(factory.clone()), clock, failed);
        Daemon {
            folder,
            pages: kept,
            group,
            running: Some(running.expect("it serves")),
        }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.path().join("ring")
    }

    pub(super) fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop();
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Spill files that hold nothing.
#[derive(Debug)]
pub(super) struct EmptySpill;

impl SpillFactory for EmptySpill {
    fn create(&self) -> std::io::Result<Arc<dyn Spill>> {
        Ok(Arc::new(EmptySpill))
    }
}

impl Spill for EmptySpill {
    fn slots(&self) -> u32 {
        0
    }

    fn write(&self, _: u32, _: &[u8]) -> std::io::Result<()> {
        Err(std::io::ErrorKind::StorageFull.into())
    }

    fn read(&self, _: u32, _: &mut [u8]) -> std::io::Result<()> {
        Err(std::io::ErrorKind::NotFound.into())
    }
}
