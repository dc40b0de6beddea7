//! A tenancy for tests: a `HashMap` that keeps the verbs' rules, and a daemon that serves it.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sublet_client::ring::{Get, Key, Page, Put, Refusal};
use sublet_store::{Blank, PageKey, Spill};
use sublet_types::{ObjectId, PoolFlags, PoolId, SharedName, TenantId};

use crate::ring::pages::{Desk, Pages, page_key};
use crate::ring::serve::{Group, Running, bind, start_at};
use crate::ring::{Settings, Spills};

/// A store for all tenants; clones share it.
#[derive(Clone, Default)]
pub(super) struct Double(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    pages: HashMap<PageKey, Page>,
    pools: HashMap<PoolId, (TenantId, PoolFlags)>,
    names: HashMap<SharedName, PoolId>,
    made: u32,
    /// How many pages were put or got together, time after time.
    together: Vec<usize>,
}

/// What of it belongs to a tenant.
pub(super) struct Tenancy {
    kept: Double,
    tenant: TenantId,
}

/// An object whose pages are refused.
pub(super) const REFUSED: ObjectId = ObjectId(0xdead);

/// An object whose pages are on a slow disk.
pub(super) const SLOW: ObjectId = ObjectId(0x510);

impl Double {
    pub(super) fn pools(&self) -> HashSet<PoolId> {
        self.0.lock().pools.keys().copied().collect()
    }

    /// How many pages were put or got together, each time since it was last asked.
    pub(super) fn take_together(&self) -> Vec<usize> {
        std::mem::take(&mut self.0.lock().together)
    }

    pub(super) fn pages(&self) -> usize {
        self.0.lock().pages.len()
    }
}

impl Desk for Double {
    type Tenancy = Tenancy;

    fn open(&self, tenant: TenantId) -> Tenancy {
        let kept = self.clone();
        Tenancy { kept, tenant }
    }
}

impl Tenancy {
    fn flags(&self, kept: &Kept, pool: PoolId) -> Option<PoolFlags> {
        let (tenant, flags) = kept.pools.get(&pool)?;
        (*tenant == self.tenant).then_some(*flags)
    }

    fn put_page(&self, key: PageKey, fill: impl FnOnce(&mut Blank<'_>)) -> Put {
        let mut kept = self.kept.0.lock();
        if self.flags(&kept, key.pool).is_none() {
            return Put::Refused(Refusal::Failed);
        }
        if key.object == REFUSED {
            kept.pages.remove(&key);
            return Put::Refused(Refusal::AtTarget);
        }
        let mut page = [0; 4096];
        fill(&mut Blank::from(&mut page[..]));
        match kept.pages.insert(key, page) {
            Some(_) => Put::Replaced,
            None => Put::Stored,
        }
    }

    fn get_page(&self, key: PageKey, visit: impl FnOnce(&[u8])) -> Get {
        if key.object == SLOW {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut kept = self.kept.0.lock();
        let Some(flags) = self.flags(&kept, key.pool) else {
            return Get::Refused(Refusal::Failed);
        };
        let Some(page) = kept.pages.get(&key) else {
            return Get::Miss;
        };
        visit(page);
        if !flags.keeping && !flags.persistent {
            kept.pages.remove(&key);
        }
        Get::Hit
    }
}

impl Pages for Tenancy {
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

    /// One page.
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
        mut fill: impl FnMut(usize, &mut Blank<'_>),
        mut told: impl FnMut(usize, Put),
    ) {
        self.kept.0.lock().together.push(keys.len());
        for (n, key) in keys.iter().enumerate() {
            told(n, self.put_page(*key, |page| fill(n, page)));
        }
    }

    fn get_pages(
        &self,
        keys: &[PageKey],
        mut visit: impl FnMut(usize, &[u8]),
        mut told: impl FnMut(usize, Get),
    ) {
        self.kept.0.lock().together.push(keys.len());
        for (n, key) in keys.iter().enumerate() {
            told(n, self.get_page(*key, |page| visit(n, page)));
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

/// Serves rings out of a `Double`.
pub(super) struct Daemon {
    folder: tempfile::TempDir,
    pub(super) kept: Double,
    pub(super) group: Arc<Group>,
    running: Option<Running>,
}

impl Daemon {
    pub(super) fn start(settings: Settings, threads: usize) -> Daemon {
        let folder = tempfile::tempdir().expect("a folder");
        let group = Arc::new(Group::new(TenantId(3), settings));
        let listener = bind(&folder.path().join("ring"), 0o600).expect("a socket");
        let kept = Double::default();
        let desk = kept.clone();
        let doors = vec![(Arc::clone(&group), listener)];
        let failed = Arc::new(|| panic!("serving failed"));
        let running = start_at(doors, threads, move || Ok(desk.clone()), failed);
        Daemon {
            folder,
            kept,
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
pub(super) struct Empty;

impl Spills for Empty {
    fn make(&self) -> std::io::Result<Arc<dyn Spill>> {
        Ok(Arc::new(Empty))
    }
}

impl Spill for Empty {
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
