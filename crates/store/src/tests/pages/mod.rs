//! The page store against a model, and rule by rule. Tests are named after the rules of transcendent memory that they
//! check.

mod adaptive;
mod ahead;
mod far;
mod far_figures;
mod far_model;
mod far_sequential;
mod far_targets;
mod far_unused;
mod filled;
mod lender;
mod looks;
mod model;
mod rules;
mod saved;
mod shared;
mod siblings;
mod spilled;
mod together;
mod torn;
mod turnover;
mod windows;

use crate::settings::{PageSettings, StoreSettings};
use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use sublet_types::{
    Bytes, ObjectId, PageIndex, PoolFlags, PoolId, Second, TenantId, TenantSettings, Weight,
};

use crate::UnwrittenPage;
use crate::api::*;
use crate::arena::fake::{FakeMemory, FaultControls};
use crate::store::Store;
use crate::worker::Worker;

pub(super) const PAGE: usize = 4096;
pub(super) const BLOCK: usize = 16 * PAGE;
pub(super) const NOW: Second = Second(2);

/// A store of this many blocks of 16 pages.
pub(super) fn store(blocks: usize, shards: usize) -> (Arc<Store>, Arc<FaultControls>) {
    store_of(blocks, shards, PAGE)
}

/// A store of this many blocks, with pages of another size.
pub(super) fn store_of(
    blocks: usize,
    shards: usize,
    page_bytes: usize,
) -> (Arc<Store>, Arc<FaultControls>) {
    let pages = PageSettings {
        page_bytes,
        shards,
        ..PageSettings::default()
    };
    store_with(blocks, pages)
}

/// A store of this many blocks, with pages as the settings say.
pub(super) fn store_with(blocks: usize, pages: PageSettings) -> (Arc<Store>, Arc<FaultControls>) {
    let (heap, levers) = FakeMemory::new(blocks * BLOCK, BLOCK);
    let bytes = Bytes((blocks * BLOCK) as u64);
    let settings = StoreSettings {
        capacity: bytes,
        limit: bytes,
        item_max: Bytes::mib(1),
        seed: 7,
        evicts: true,
        pages,
    };
    let store = Store::over(Box::new(heap), BLOCK, settings).expect("memory for a test");
    (store, levers)
}

pub(super) fn tenant(store: &Store, name: &str, weight: u32) -> TenantId {
    let settings = TenantSettings {
        name: name.parse().expect("a name"),
        weight: Weight(weight),
        floor: None,
        ceiling: None,
    };
    store.add_tenant(settings).expect("added")
}

pub(super) const EPHEMERAL: PoolFlags = PoolFlags {
    persistent: false,
    shared: false,
    keeping: false,
};

pub(super) const KEEPING: PoolFlags = PoolFlags {
    keeping: true,
    ..EPHEMERAL
};

pub(super) const PERSISTENT: PoolFlags = PoolFlags {
    persistent: true,
    ..EPHEMERAL
};

/// A disk in memory that can be made to fail.
pub(super) struct FakeSpill {
    pages: Mutex<Vec<Option<Vec<u8>>>>,
    pub(super) broken: AtomicBool,
}

impl FakeSpill {
    pub(super) fn new(slots: usize) -> Arc<FakeSpill> {
        Arc::new(FakeSpill {
            pages: Mutex::new(vec![None; slots]),
            broken: AtomicBool::new(false),
        })
    }

    pub(super) fn written(&self) -> usize {
        self.pages.lock().iter().flatten().count()
    }

    /// Returns whether a page on it matches.
    pub(super) fn shows(&self, what: impl Fn(&[u8]) -> bool) -> bool {
        self.pages.lock().iter().flatten().any(|page| what(page))
    }

    fn works(&self) -> io::Result<()> {
        match self.broken.load(Ordering::Relaxed) {
            true => Err(io::Error::other("the disk of a test is broken")),
            false => Ok(()),
        }
    }
}

impl Spill for FakeSpill {
    fn slots(&self) -> u32 {
        self.pages.lock().len() as u32
    }

    fn write(&self, slot: u32, page: &[u8]) -> io::Result<()> {
        self.works()?;
        self.pages.lock()[slot as usize] = Some(page.to_vec());
        Ok(())
    }

    fn read(&self, slot: u32, page: &mut [u8]) -> io::Result<()> {
        self.works()?;
        let pages = self.pages.lock();
        let stored = pages[slot as usize]
            .as_ref()
            .expect("read before it was written");
        page.copy_from_slice(stored);
        Ok(())
    }
}

/// One client of one pool.
pub(super) struct PoolClient {
    pub(super) worker: Worker,
    pub(super) tenant: TenantId,
    pub(super) pool: PoolId,
}

impl PoolClient {
    pub(super) fn new(store: &Arc<Store>, tenant: TenantId, flags: PoolFlags) -> PoolClient {
        let disk = flags
            .persistent
            .then(|| FakeSpill::new(4096) as Arc<dyn Spill>);
        let pool = store.create_pool(tenant, flags, disk).expect("a pool");
        PoolClient::of(store, tenant, pool)
    }

    pub(super) fn of(store: &Arc<Store>, tenant: TenantId, pool: PoolId) -> PoolClient {
        PoolClient {
            worker: store.worker().expect("a worker"),
            tenant,
            pool,
        }
    }

    /// A client of another thread on the same pool.
    pub(super) fn again(&self) -> PoolClient {
        PoolClient::of(self.worker.store(), self.tenant, self.pool)
    }

    pub(super) fn key(&self, object: u64, index: u32) -> PageKey {
        PageKey {
            pool: self.pool,
            object: ObjectId(object),
            index: PageIndex(index),
        }
    }

    pub(super) fn put(&self, object: u64, index: u32, content: u64) -> PutOutcome {
        let key = self.key(object, index);
        self.worker
            .put_page(self.tenant, key, NOW, |page| page.write(&page_of(content)))
    }

    pub(super) fn get(&self, object: u64, index: u32) -> Option<u64> {
        let mut content = None;
        let key = self.key(object, index);
        let got = self.worker.get_page(self.tenant, key, NOW, |page| {
            content = Some(content_of(page))
        });
        assert_eq!(got == GetOutcome::Hit, content.is_some());
        content
    }

    /// Puts a run of pages. The contents start at `content` and grow by a thousand each.
    pub(super) fn put_run(
        &self,
        object: u64,
        index: u32,
        count: u32,
        content: u64,
    ) -> Vec<PutOutcome> {
        let run = PageRun {
            first: self.key(object, index),
            count,
            pattern: AccessPattern::Random,
        };
        self.put_run_of(run, content)
    }

    /// Puts a run of pages of any pattern, likewise.
    pub(super) fn put_run_of(&self, run: PageRun, content: u64) -> Vec<PutOutcome> {
        let mut puts = Vec::new();
        let fill = |n: u32, page: &mut UnwrittenPage<'_>| {
            page.write(&page_of(content + 1000 * u64::from(n)));
        };
        let report = |n, put| {
            assert_eq!(n as usize, puts.len(), "told in order, and once");
            puts.push(put);
        };
        self.worker.put_run(self.tenant, run, NOW, fill, report);
        puts
    }

    /// The contents of a run of pages, up to the first that is missing.
    pub(super) fn get_run(&self, object: u64, index: u32, count: u32) -> Vec<u64> {
        let mut contents = Vec::new();
        let key = self.key(object, index);
        let visit = |n, page: &[u8]| {
            assert_eq!(n as usize, contents.len(), "seen in order, and once");
            contents.push(content_of(page));
        };
        let got = self.worker.get_run(self.tenant, key, count, NOW, visit);
        assert_eq!(got as usize, contents.len());
        contents
    }

    /// Puts pages together. The contents start at `content` and grow by a thousand each.
    pub(super) fn put_pages(&self, keys: &[PageKey], content: u64) -> Vec<PutOutcome> {
        let mut puts = vec![None; keys.len()];
        let fill = |n: usize, page: &mut UnwrittenPage<'_>| {
            page.write(&page_of(content + 1000 * n as u64));
        };
        let report = |n: usize, put| assert_eq!(puts[n].replace(put), None, "told once");
        self.worker.put_pages(self.tenant, keys, NOW, fill, report);
        puts.into_iter().map(|put| put.expect("told")).collect()
    }

    /// Gets pages together. Returns the content of each.
    pub(super) fn get_pages(&self, keys: &[PageKey]) -> Vec<Option<u64>> {
        let (seen, mut contents) = (Cell::new(None), vec![None; keys.len()]);
        let visit = |n, page: &[u8]| seen.set(Some((n, content_of(page))));
        let report = |n: usize, got| {
            let content = seen.take().map(|(seen, content)| {
                assert_eq!(seen, n, "told of what was seen last");
                content
            });
            assert_eq!(content.is_some(), got == GetOutcome::Hit);
            assert_eq!(contents[n].replace(content), None, "told once");
        };
        self.worker.get_pages(self.tenant, keys, NOW, visit, report);
        contents.into_iter().map(|got| got.expect("told")).collect()
    }

    pub(super) fn flush(&self, object: u64, index: u32) -> bool {
        let key = self.key(object, index);
        self.worker.flush_page(self.tenant, key, NOW)
    }

    pub(super) fn flush_object(&self, object: u64) -> bool {
        self.worker
            .flush_object(self.tenant, self.pool, ObjectId(object), NOW)
    }

    pub(super) fn figures(&self) -> PageFigures {
        self.worker.store().page_figures(self.tenant)
    }
}

/// The contents of a model's next pages, in steps of 1000. Those of some calls are [`FILLED`].
#[derive(Debug, Default)]
pub(super) struct NextContents(u64);

impl NextContents {
    /// The first content of so many.
    pub(super) fn take(&mut self, count: u64) -> u64 {
        let first = self.0 + 1000;
        self.0 += 1000 * count;
        match (first / 1000).is_multiple_of(3) {
            true => first | FILLED,
            false => first,
        }
    }
}

/// Of contents with this bit, all words of the page are equal.
pub(super) const FILLED: u64 = 1 << 63;

/// A page that has its content in every word, and counts the words besides, unless the content is [`FILLED`].
pub(super) fn page_of(content: u64) -> Vec<u8> {
    let counts = u64::from(content & FILLED == 0);
    (0..PAGE as u64 / 8)
        .flat_map(|word| content.wrapping_add(counts * word).to_le_bytes())
        .collect()
}

/// Writes a page of any size whose words are not all equal.
pub(super) fn unlike(page: &mut UnwrittenPage<'_>) {
    page.fill(1);
    page[0] = 2;
}

/// The content of a page. Panics if the page is torn.
pub(super) fn content_of(page: &[u8]) -> u64 {
    let first = page.first_chunk().expect("a word");
    let content = u64::from_le_bytes(*first);
    assert_eq!(page, page_of(content), "a torn page");
    content
}
