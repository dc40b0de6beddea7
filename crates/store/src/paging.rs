//! The store's page verbs, and how blocks come to pages and go from one engine to the other.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::sync::Arc;

use sublet_types::{
    Bytes, EvictionKind, ObjectId, PageIndex, PoolFlags, PoolId, ReleaseMode, Second, SharedName,
    TenantId, Windows,
};

use crate::api::*;
use crate::arena::PageKind;
use crate::pages::{
    Aside, Clearing, Desk, Displacing, Head, Loader, PageLoss, Renumbered, Space, Spilling, Tried,
    check_save,
};
use crate::store::{Pin, Store, Worker};
use crate::tenants::Tenant;

/// Attempts at a block before a put is refused: others may take what was freed for it.
const ATTEMPTS_MAX: u32 = 1000;

/// Attempts at a page of a save file, with a block of the tenant's pages given up after each.
const LOAD_ATTEMPTS_MAX: u32 = 8;

/// A tenant's items give a block to its pages, or the other way round, when their coldest block is colder by this
/// factor: so that blocks do not go to and fro.
const WORTH_FACTOR: u32 = 2;

impl Store {
    /// Makes a pool for a tenant. A persistent one needs a spill file.
    pub fn create_pool(
        &self,
        tenant: TenantId,
        flags: PoolFlags,
        spill: Option<Arc<dyn Spill>>,
    ) -> Result<PoolId, PoolError> {
        self.items.tenants.get(tenant).ok_or(PoolError::NoTenant)?;
        if flags.shared {
            return Err(match flags.persistent {
                true => PoolError::SharedPersistent,
                false => PoolError::NameAndFlag,
            });
        }
        let space = match (flags.persistent, spill) {
            (false, _) => None,
            (true, Some(spill)) => Some(Arc::new(Space::new(spill))),
            (true, None) => return Err(PoolError::NoSpill),
        };
        self.pages.pools.add(tenant, flags, None, space)
    }

    /// Says what leaves with a page of a pool that is evicted: nothing, unless it is said.
    pub fn set_windows(&self, pool: PoolId, windows: Windows) {
        self.pages.pools.set_windows(pool, windows);
    }

    /// Allows `members`, and nobody else, to share a pool. Its pages are charged to the tenant `account`.
    pub fn allow_sharing(
        &self,
        name: SharedName,
        account: TenantId,
        members: Vec<TenantId>,
    ) -> Result<(), PoolError> {
        self.items.tenants.get(account).ok_or(PoolError::NoTenant)?;
        self.pages.allow_sharing(name, account, members)
    }

    /// A handle for a tenant on a shared pool that it may share.
    pub fn join_pool(&self, tenant: TenantId, name: SharedName) -> Result<PoolId, PoolError> {
        self.items.tenants.get(tenant).ok_or(PoolError::NoTenant)?;
        self.pages.join(tenant, name)
    }

    /// The pools of a tenant, with what they promise.
    pub fn pools(&self, tenant: TenantId) -> Vec<(PoolId, PoolFlags)> {
        let pools = self.pages.pools.of_tenant(tenant);
        pools
            .into_iter()
            .map(|(id, pool)| (id, pool.flags))
            .collect()
    }

    /// Pages in memory of each of a tenant's private pools that has some. Looks at every frame that the tenant has:
    /// a few milliseconds for each GiB.
    pub fn pool_pages(&self, tenant: TenantId) -> HashMap<PoolId, u64> {
        let Some(owner) = self.items.tenants.get(tenant) else {
            return HashMap::new();
        };
        let pages = self.pages.pages_of_pools(owner);
        let pools = self.pages.pools.of_tenant(tenant).into_iter();
        pools
            .filter_map(|(id, pool)| Some((id, *pages.get(&pool.base)?)))
            .collect()
    }

    /// Says how much a tenant may hold from now on, by policy; `None` leaves it to its ceiling. Who holds more
    /// is brought down by the chores, unless the store was told to leave that alone.
    pub fn set_target(&self, tenant: TenantId, target: Option<Bytes>) {
        if let Some(tenant) = self.items.tenants.get(tenant) {
            tenant.set_target(target);
        }
    }

    /// Refuses a tenant's new pages from now on, or takes them again. Gets, flushes and replacements go on (R-M1).
    pub fn freeze(&self, tenant: TenantId, frozen: bool) {
        if let Some(tenant) = self.items.tenants.get(tenant) {
            self.pages.holdings(tenant).freeze(frozen);
        }
    }

    /// Whether a tenant's new pages are refused.
    pub fn is_frozen(&self, tenant: TenantId) -> bool {
        let tenant = self.items.tenants.get(tenant);
        let holdings = tenant.and_then(|tenant| tenant.pages.get());
        holdings.is_some_and(|holdings| holdings.is_frozen())
    }

    /// Gives a tenant's ephemeral pages another eviction.
    pub fn set_eviction(&self, tenant: TenantId, kind: EvictionKind, now: Second) {
        if let Some(tenant) = self.items.tenants.get(tenant) {
            self.pages.set_eviction(tenant, kind, now);
        }
    }

    /// Moves what was noted of a tenant's followed pages since the last call to the end of `into`: one page in
    /// [`SAMPLE_ONE_IN`], by its hash.
    pub fn drain_samples(&self, tenant: TenantId, into: &mut Vec<(u64, SampledUse)>) {
        let tenant = self.items.tenants.get(tenant);
        if let Some(holdings) = tenant.and_then(|tenant| tenant.pages.get()) {
            for shard in holdings.shards() {
                shard.lock().drain_samples(into);
            }
        }
    }

    /// What a tenant's pages are, now.
    pub fn page_figures(&self, tenant: TenantId) -> PageFigures {
        let tenant = self.items.tenants.get(tenant);
        tenant.map_or_else(PageFigures::default, |tenant| self.pages.figures(tenant))
    }

    /// What the page store's own facts take.
    pub fn page_overhead(&self) -> PageOverhead {
        self.pages.overhead()
    }
}

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

    /// Getting pages out of a tenant's blocks.
    pub(crate) fn clearing<'a>(&'a self, tenant: &'a Tenant, now: Second) -> Clearing<'a> {
        Clearing {
            pages: &self.store().pages,
            tenant,
            now,
            worker: self,
            loss: PageLoss::default(),
        }
    }

    fn at_desk<R>(
        &self,
        tenant: TenantId,
        now: Second,
        work: impl FnOnce(Desk<'_>) -> R,
    ) -> Option<R> {
        let tenant = self.items().tenants.get(tenant)?;
        let _pin = Pin::new(self);
        Some(work(self.desk(tenant, now)))
    }

    /// Puts a page: `fill` writes all its bytes, once, if it is stored. It must not wait for anything.
    pub fn put_page(
        &self,
        tenant: TenantId,
        key: PageKey,
        now: Second,
        fill: impl FnOnce(&mut [u8]),
    ) -> Put {
        let Some(tenant) = self.items().tenants.get(tenant) else {
            return Put::Refused(PutRefused::NoPool);
        };
        let _pin = Pin::new(self);
        let fill = |page: &mut [u8]| self.lending(|| fill(page));
        self.put_at(&self.desk(tenant, now), key, Displacing::IfBound, fill)
    }

    /// Puts a page, with blocks found for it where that is needed.
    fn put_at<F: FnOnce(&mut [u8])>(
        &self,
        desk: &Desk<'_>,
        key: PageKey,
        mut displacing: Displacing,
        mut fill: F,
    ) -> Put {
        for _ in 0..ATTEMPTS_MAX {
            match desk.try_put(key, displacing, fill) {
                Tried::Done(put) => return put,
                Tried::NeedsBlock(owner, kind, again) => {
                    displacing = self.page_block(owner, kind, desk.now);
                    fill = again;
                }
            }
        }
        match desk.try_put(key, Displacing::Always, fill) {
            Tried::Done(put) => put,
            Tried::NeedsBlock(..) => Put::Refused(PutRefused::NoMemory),
        }
    }

    /// Gets a page: `visit` sees its bytes, once, if it is there. It must not wait for anything.
    pub fn get_page(
        &self,
        tenant: TenantId,
        key: PageKey,
        now: Second,
        visit: impl FnOnce(&[u8]),
    ) -> Get {
        let visit = |page: &[u8]| self.lending(|| visit(page));
        self.at_desk(tenant, now, |desk| desk.get(key, visit))
            .unwrap_or(Get::NoPool)
    }

    /// Has the processor fetch what the next gets or puts will touch: up to [`LOOK_AHEAD`] keys, in any order and of any
    /// objects. Worth it from two pages on; a hint, which changes nothing.
    pub fn look_ahead(
        &self,
        tenant: TenantId,
        verb: PageVerb,
        keys: impl Iterator<Item = PageKey>,
    ) {
        if let Some(tenant) = self.items().tenants.get(tenant) {
            self.store().pages.look_ahead(tenant, verb, keys);
        }
    }

    /// Whether a get would find a page. No use of it: nothing is counted, and its eviction hears nothing.
    pub fn has_page(&self, tenant: TenantId, key: PageKey, now: Second) -> bool {
        self.at_desk(tenant, now, |desk| desk.has(key)) == Some(true)
    }

    /// Puts `count` pages of an object, from `key` on: `fill` writes the nth, if it is stored, and `told` hears what
    /// became of it. Neither may wait for anything. Cheaper than as many single puts.
    pub fn put_run(
        &self,
        tenant: TenantId,
        key: PageKey,
        count: u32,
        now: Second,
        mut fill: impl FnMut(u32, &mut [u8]),
        mut told: impl FnMut(u32, Put),
    ) {
        let Some(charged) = self.items().tenants.get(tenant) else {
            return (0..count).for_each(|n| told(n, Put::Refused(PutRefused::NoPool)));
        };
        let within = run_len(key, count);
        let _pin = Pin::new(self);
        let mut fill = |n, page: &mut [u8]| self.lending(|| fill(n, page));
        let mut next = 0;
        while next < within {
            let desk = self.desk(charged, now);
            let (came_to, needs) = desk.put_part(key, next..within, &mut fill, &mut told);
            next = came_to;
            if let Some((owner, kind)) = needs {
                let displacing = self.page_block(owner, kind, now);
                let put = self.put_at(&desk, at(key, next), displacing, |page| fill(next, page));
                told(next, put);
                next += 1;
            }
        }
        (within..count).for_each(|n| told(n, Put::Refused(PutRefused::NoPool)));
    }

    /// Gets up to `count` pages of an object in their order, from `key` on, until one is not there; says how many it
    /// got. `visit` sees the nth; it must not wait for anything. Cheaper than as many single gets.
    pub fn get_run(
        &self,
        tenant: TenantId,
        key: PageKey,
        count: u32,
        now: Second,
        mut visit: impl FnMut(u32, &[u8]),
    ) -> u32 {
        let count = run_len(key, count);
        let visit = |n, page: &[u8]| self.lending(|| visit(n, page));
        self.at_desk(tenant, now, |desk| desk.get_run(key, count, visit))
            .unwrap_or(0)
    }

    /// Flushes a page: from the answer on it cannot be had. Finding none is as good. Says whether the pool is there.
    pub fn flush_page(&self, tenant: TenantId, key: PageKey, now: Second) -> bool {
        self.at_desk(tenant, now, |desk| desk.flush_page(key)) == Some(true)
    }

    /// Flushes an object's pages. Says whether the pool is there.
    pub fn flush_object(
        &self,
        tenant: TenantId,
        pool: PoolId,
        object: ObjectId,
        now: Second,
    ) -> bool {
        self.at_desk(tenant, now, |desk| desk.flush_object(pool, object)) == Some(true)
    }

    /// Ends a pool, or a handle on a shared one. Says whether it was there.
    pub fn destroy_pool(&self, tenant: TenantId, pool: PoolId, now: Second) -> bool {
        self.at_desk(tenant, now, |desk| desk.destroy_pool(pool)) == Some(true)
    }

    /// Finds a block for a tenant's pages, or says that the put may displace one.
    fn page_block(&self, tenant: &Tenant, kind: PageKind, now: Second) -> Displacing {
        let pages = &self.store().pages;
        let arena = &pages.arena;
        if tenant.is_at_limit(1, arena.block_bytes()) {
            return match kind == PageKind::Ephemeral && self.trade(tenant, now) {
                true => Displacing::IfBound,
                false => Displacing::Always,
            };
        }
        if pages.open_block(tenant, kind, now) || matches!(arena.grow(), Ok(true)) {
            return Displacing::IfBound;
        }
        if arena.in_limbo() > 0 {
            self.unpinned(|| arena.settle());
            return Displacing::IfBound;
        }
        let giver = pages.tenants.gives_way(tenant, arena.block_bytes());
        let gave = match giver.id == tenant.id {
            // One's own ephemeral pages are displaced singly, not a block at a time.
            true if kind == PageKind::Ephemeral => self.trade(tenant, now),
            _ => self.give_block(giver, now) > 0,
        };
        match gave {
            true => {
                self.unpinned(|| arena.settle());
                Displacing::IfBound
            }
            false => Displacing::Always,
        }
    }

    /// Has a tenant's items give a block to its pages, if it is worth much less than theirs, or if pages have none.
    fn trade(&self, tenant: &Tenant, now: Second) -> bool {
        let items = self.items().coldest(tenant);
        let trades = items.is_some_and(|items| {
            let pages = self.store().pages.coldest(tenant);
            pages.is_none_or(|pages| items.saturating_mul(WORTH_FACTOR) < pages)
        });
        trades
            && self
                .shrink_items(tenant, 1, ReleaseMode::Ordered, now)
                .blocks
                > 0
    }

    /// Has a tenant give up a block of whichever engine has the colder one. Says how many it gave.
    pub(crate) fn give_block(&self, tenant: &Tenant, now: Second) -> u32 {
        let items = self.items().coldest(tenant);
        let pages = self.store().pages.coldest(tenant);
        let from_pages = match (items, pages) {
            (Some(items), Some(pages)) => pages <= items,
            (items, _) => items.is_none(),
        };
        let given = match from_pages {
            true => self.evict_block(tenant, now),
            false => {
                self.shrink_items(tenant, 1, ReleaseMode::Ordered, now)
                    .blocks
            }
        };
        match (given, from_pages) {
            (0, true) => {
                self.shrink_items(tenant, 1, ReleaseMode::Ordered, now)
                    .blocks
            }
            (0, false) => self.evict_block(tenant, now),
            (given, _) => given,
        }
    }

    /// Whether the tenant that must give way for items of `tenant` has pages that are colder than its items.
    pub(crate) fn pages_are_colder(&self, tenant: &Tenant, blocks: u32) -> bool {
        let giver = self.items().giver(tenant, blocks);
        if giver.pages.get().is_none() || self.items().arena.may_grow() {
            return false;
        }
        match (
            self.items().coldest(giver),
            self.store().pages.coldest(giver),
        ) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(items), Some(pages)) => pages.saturating_mul(WORTH_FACTOR) < items,
        }
    }

    /// Has the tenant that must give way for items of `tenant` give up a block of pages.
    pub(crate) fn pages_give_way(&self, tenant: &Tenant, now: Second) -> bool {
        let giver = self.items().giver(tenant, 1);
        self.evict_block(giver, now) > 0
    }

    /// Has a tenant's pages give up blocks.
    pub(crate) fn shrink_pages(
        &self,
        tenant: &Tenant,
        blocks: u32,
        mode: ReleaseMode,
        now: Second,
    ) -> PageLoss {
        if blocks == 0 || tenant.pages.get().is_none() {
            return PageLoss::default();
        }
        self.clear(tenant, blocks, mode, Spilling::Allowed, now)
    }

    fn clear(
        &self,
        tenant: &Tenant,
        blocks: u32,
        mode: ReleaseMode,
        spilling: Spilling,
        now: Second,
    ) -> PageLoss {
        let luck = self.moment(now).luck;
        let _pin = Pin::new(self);
        let mut clearing = self.clearing(tenant, now);
        clearing.shrink(blocks, mode, spilling, luck);
        clearing.loss
    }

    /// Has a tenant's ephemeral pages give up a block for a put. Says how many they gave.
    fn evict_block(&self, tenant: &Tenant, now: Second) -> u32 {
        if tenant.pages.get().is_none() {
            return 0;
        }
        let (mode, spilling) = (ReleaseMode::Ordered, Spilling::Never);
        self.clear(tenant, 1, mode, spilling, now).blocks
    }

    /// Writes a tenant's pools and every persistent page in them, see `docs/pages.md`. Freeze it before, so that
    /// nothing is added meanwhile. No block is held back while `out` takes its time. Says how many pages were written.
    pub fn save(&self, tenant: TenantId, out: impl Write) -> std::io::Result<u64> {
        let tenant = self.items().tenants.get(tenant);
        let tenant = tenant.ok_or(std::io::ErrorKind::NotFound)?;
        let _pin = Pin::new(self);
        self.store().pages.save(tenant, self, out)
    }

    /// Reads a save file to its end, and says what it holds or what is wrong with it. Nothing is changed.
    pub fn check_save(&self, input: impl Read) -> Result<SaveFacts, RestoreError> {
        check_save(input, self.store().pages.page_bytes())
    }

    /// Makes the pools of a save file for a tenant, with all their pages. `spill` gives the file of a persistent one.
    /// Returns each pool of the file and the one that stands for it now.
    ///
    /// # Errors
    ///
    /// Nothing was changed: the file is wrong, or there is no place for all of it.
    pub fn restore(
        &self,
        tenant: TenantId,
        input: impl Read,
        now: Second,
        spill: &mut dyn FnMut(&SavedPool) -> Option<Arc<dyn Spill>>,
    ) -> Result<Vec<(SavedPool, PoolId)>, RestoreError> {
        let page_bytes = self.store().pages.page_bytes();
        let (mut loader, head) = Loader::begin(input, page_bytes)?;
        let mut made = Vec::new();
        let result = self
            .make_pools(tenant, &head.pools, spill, &mut made)
            .and_then(|pools| self.load_pages(tenant, &mut loader, &head, &pools, now));
        if let Err(error) = result {
            for (_, pool) in made {
                self.destroy_pool(tenant, pool, now);
            }
            return Err(error);
        }
        self.store().set_eviction(tenant, head.eviction, now);
        // Its owner may have frozen it meanwhile, and only they thaw it.
        if head.frozen {
            self.store().freeze(tenant, true);
        }
        Ok(made)
    }

    fn make_pools(
        &self,
        tenant: TenantId,
        pools: &[SavedPool],
        spill: &mut dyn FnMut(&SavedPool) -> Option<Arc<dyn Spill>>,
        made: &mut Vec<(SavedPool, PoolId)>,
    ) -> Result<Renumbered, RestoreError> {
        for pool in pools {
            let store = self.store();
            let id = match pool.shared {
                Some(name) => store.join_pool(tenant, name),
                None => store.create_pool(tenant, pool.flags, spill(pool)),
            };
            made.push((*pool, id.map_err(RestoreError::Pool)?));
        }
        Ok(made.iter().map(|(pool, id)| (pool.number, *id)).collect())
    }

    fn load_pages<R: Read>(
        &self,
        tenant: TenantId,
        loader: &mut Loader<R>,
        head: &Head,
        pools: &Renumbered,
        now: Second,
    ) -> Result<(), RestoreError> {
        while let Some(loaded) = loader.page()? {
            let key = PageKey {
                pool: pools[&head.pool_of(&loaded)?.number],
                object: loaded.object,
                index: loaded.index,
            };
            if !self.load_page(tenant, key, &loaded.bytes, now)? {
                return Err(loader.repeated());
            }
        }
        Ok(())
    }

    /// Puts a page; where memory is short, pages of the tenant go to disk for it. Says whether it is new.
    fn load_page(
        &self,
        id: TenantId,
        key: PageKey,
        bytes: &[u8],
        now: Second,
    ) -> Result<bool, RestoreError> {
        let tenant = self.items().tenants.get(id);
        let tenant = tenant.ok_or(RestoreError::Pool(PoolError::NoTenant))?;
        for _ in 0..LOAD_ATTEMPTS_MAX {
            let refused = match self.put_page(id, key, now, |page| page.copy_from_slice(bytes)) {
                Put::Refused(refused) => refused,
                Put::Stored | Put::Displaced => return Ok(true),
                Put::Replaced => return Ok(false),
            };
            if refused != PutRefused::NoMemory {
                return Err(RestoreError::NoPlace(refused));
            }
            self.shrink_pages(tenant, 1, ReleaseMode::Ordered, now);
        }
        Err(RestoreError::NoPlace(PutRefused::NoMemory))
    }
}

impl Aside for Worker {
    fn aside(&self, wait: &mut dyn FnMut()) {
        match self.keeps_its_pin() {
            true => wait(),
            false => self.unpinned(wait),
        }
    }
}

/// How many of a run's pages have an index.
fn run_len(first: PageKey, count: u32) -> u32 {
    count.min((u32::MAX - first.index.0).saturating_add(1))
}

/// The key of a run's nth page.
fn at(first: PageKey, n: u32) -> PageKey {
    PageKey {
        index: PageIndex(first.index.0 + n),
        ..first
    }
}
