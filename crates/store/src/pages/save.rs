//! What pages say in a save: a tenant's pools, and every persistent page in them exactly once (R-M1, R-M2, R-M4).
//!
//! Ephemeral pages are not in it: they may vanish at any time. A save is applied to pools of its own, and these take effect
//! only when its end was read and every sum held; else they are ended again.

use std::collections::HashSet;
use std::io::{self, Read, Write};

use sublet_types::{FileVersion, ObjectId, PageIndex, PoolFlags, PoolId, SharedName};

use super::Pages;
use super::directory::Whereabouts;
use super::pools::Pool;
use crate::api::{PoolEnded, RestoreError, SaveFacts, SavedGrants, SavedLimits, SavedPool};
use crate::frames::Key;
use crate::save::{Exporter, Fields, Importer};
use crate::tenants::Tenant;
use crate::thread::Thread;

/// What a pool takes in a head.
const POOL_BYTES: usize = 21;

/// What stands between a page's mark and its bytes.
const PAGE_KEY_BYTES: usize = 16;

/// Pools in a save, at the most.
const POOLS_MAX: u32 = crate::frames::POOLS_MAX as u32;

const PERSISTENT: u8 = 1;
const SHARED: u8 = 2;
const KEEPING: u8 = 4;

/// What a save says of its tenant before the pages come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) frozen: bool,
    pub(crate) grants: SavedGrants,
    pub(crate) pools: Vec<SavedPool>,
}

impl Head {
    /// The pool of a page. Only persistent ones have pages in a save.
    pub(crate) fn pool_of(&self, page: &LoadedPage) -> Result<SavedPool, RestoreError> {
        let mut pools = self.pools.iter();
        let pool = pools.find(|pool| pool.number == page.pool && pool.flags.persistent);
        pool.copied().ok_or(RestoreError::UnknownPool(page.pool))
    }

    /// A head whose sum holds, from behind its pages' size on. What it says and this version does not know comes from a
    /// newer one.
    fn import(fields: &mut Fields<'_>, version: FileVersion) -> Result<Head, RestoreError> {
        let frozen = fields.known(|byte| match byte {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        })?;
        let grants = SavedGrants::import(fields, version)?;
        let (mut pools, mut numbers) = (Vec::new(), HashSet::new());
        for _ in 0..fields.u32() {
            let at = fields.at();
            let pool = import_pool(fields)?;
            if !numbers.insert(pool.number) {
                return Err(RestoreError::Repeated(at));
            }
            pools.push(pool);
        }
        Ok(Head {
            frozen,
            grants,
            pools,
        })
    }
}

/// A page as it was read.
pub(crate) struct LoadedPage {
    pub(crate) pool: u32,
    pub(crate) object: ObjectId,
    pub(crate) index: PageIndex,
    pub(crate) bytes: Vec<u8>,
}

fn flag_bits(flags: PoolFlags) -> u8 {
    let bit = |set, bit| if set { bit } else { 0 };
    bit(flags.persistent, PERSISTENT) | bit(flags.shared, SHARED) | bit(flags.keeping, KEEPING)
}

fn export_pool(pool: &SavedPool, head: &mut Vec<u8>) {
    head.extend_from_slice(&pool.number.to_le_bytes());
    head.push(flag_bits(pool.flags));
    head.extend_from_slice(&pool.shared.map_or(0, |name| name.0).to_le_bytes());
}

/// A pool, whose flags, and its name beside them, mean something here.
fn import_pool(fields: &mut Fields<'_>) -> Result<SavedPool, RestoreError> {
    let (number, flags_at) = (fields.u32(), fields.at());
    let bits = fields.u8();
    let flags = PoolFlags {
        persistent: bits & PERSISTENT != 0,
        shared: bits & SHARED != 0,
        keeping: bits & KEEPING != 0,
    };
    let shared = match fields.u128() {
        0 => None,
        name => Some(SharedName(name)),
    };
    let is_known = flag_bits(flags) == bits
        && flags.shared == shared.is_some()
        && !(flags.shared && flags.persistent);
    match is_known {
        true => Ok(SavedPool {
            number,
            flags,
            shared,
        }),
        false => Err(RestoreError::Unknown(flags_at)),
    }
}

/// Reads a save.
pub(crate) struct Loader<R> {
    importer: Importer<R>,
    page_bytes: usize,
}

impl<R: Read> Loader<R> {
    /// Reads the head. `page_bytes` is what the store's pages have.
    pub(crate) fn begin(input: R, page_bytes: usize) -> Result<(Loader<R>, Head), RestoreError> {
        let (mut importer, version, mut bytes) = Importer::begin(input)?;
        let theirs = importer.read_u32(&mut bytes)?;
        if theirs as usize != page_bytes {
            return Err(RestoreError::PageBytes(theirs));
        }
        let from = bytes.len();
        importer.read(&mut bytes, 1 + SavedGrants::bytes(version))?;
        let pools = importer.read_u32(&mut bytes)?;
        if pools > POOLS_MAX {
            return Err(importer.damaged());
        }
        importer.read(&mut bytes, pools as usize * POOL_BYTES)?;
        importer.check(&bytes)?;
        let head = Head::import(&mut Fields::after(&bytes, from), version)?;
        let loader = Loader {
            importer,
            page_bytes,
        };
        Ok((loader, head))
    }

    /// The next page, or nothing when the end was read and all sums held.
    pub(crate) fn page(&mut self) -> Result<Option<LoadedPage>, RestoreError> {
        let record = self.importer.page(PAGE_KEY_BYTES + self.page_bytes)?;
        Ok(record.map(|mut record| {
            let bytes = record.split_off(1 + PAGE_KEY_BYTES);
            let mut fields = Fields::after(&record, 1);
            LoadedPage {
                pool: fields.u32(),
                object: ObjectId(fields.u64()),
                index: PageIndex(fields.u32()),
                bytes,
            }
        }))
    }

    /// The page that was read last was there already.
    pub(crate) fn repeated(&self) -> RestoreError {
        self.importer.repeated(PAGE_KEY_BYTES + self.page_bytes)
    }
}

/// Reads a save to its end without keeping anything of it.
pub(crate) fn check(input: impl Read, page_bytes: usize) -> Result<SaveFacts, RestoreError> {
    let (mut loader, head) = Loader::begin(input, page_bytes)?;
    while let Some(page) = loader.page()? {
        head.pool_of(&page)?;
    }
    Ok(SaveFacts {
        grants: head.grants,
        pools: head.pools,
        pages: loader.importer.pages(),
    })
}

/// Writes with nothing held still: it may take its time.
struct Patient<'a, W, A> {
    out: W,
    aside: &'a A,
}

impl<W: Write, A: Thread> Write for Patient<'_, W, A> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut written = Ok(0);
        self.aside.aside(&mut || written = self.out.write(bytes));
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut flushed = Ok(());
        self.aside.aside(&mut || flushed = self.out.flush());
        flushed
    }
}

impl Pages {
    /// Writes a tenant's pools and persistent pages. Best while it is frozen: what is put meanwhile may be in it or not.
    /// Where bytes are waited for, `aside` lets go of the pin, and no shard is locked. Fails with [`PoolEnded`] where a persistent pool ends
    /// meanwhile: what was written has some of its pages.
    pub(crate) fn export(
        &self,
        tenant: &Tenant,
        aside: &impl Thread,
        out: impl Write,
    ) -> io::Result<u64> {
        let pools = self.pools.of_tenant(tenant.id);
        let patient = Patient { out, aside };
        let mut exporter = Exporter::begin(patient, |head| self.export_head(tenant, &pools, head))?;
        let pool_of = |key: Key| {
            let mut pools = pools.iter();
            let pool = pools.find(|(id, pool)| id.slot == key.pool && pool.flags.persistent);
            pool.map(|(id, _)| *id)
        };
        let is_wanted = |key| pool_of(key).is_some_and(|pool| self.pools.is_alive(pool));
        for shard in 0..self.holdings(tenant).shards().len() {
            let mut keys = self.keys_of(tenant, shard, is_wanted);
            // The directory gives them in the order of its hashes. A restore that enters them so into one that grows, under
            // hashes that are alike, finds each place taken and passes all that came before.
            keys.sort_unstable_by_key(|key| (key.pool, key.object.0, key.index.0));
            for key in keys {
                let Some(pool) = pool_of(key) else {
                    continue;
                };
                let Some(bytes) = self.copy_of(tenant, aside, shard, pool, key)? else {
                    continue; // flushed or ended meanwhile
                };
                exporter.page(|record| {
                    record.extend_from_slice(&key.pool.to_le_bytes());
                    record.extend_from_slice(&key.object.0.to_le_bytes());
                    record.extend_from_slice(&key.index.0.to_le_bytes());
                    record.extend_from_slice(&bytes);
                })?;
            }
        }
        let has_ended =
            |(id, pool): &(PoolId, Pool)| pool.flags.persistent && !self.pools.is_alive(*id);
        if pools.iter().any(has_ended) {
            return Err(io::Error::other(PoolEnded));
        }
        exporter.end()
    }

    /// What the head says of a tenant behind the version.
    fn export_head(&self, tenant: &Tenant, pools: &[(PoolId, Pool)], head: &mut Vec<u8>) {
        let (settings, holdings) = (tenant.settings(), self.holdings(tenant));
        let limits = SavedLimits {
            weight: settings.weight,
            floor: settings.floor,
            ceiling: settings.ceiling,
        };
        let saved = pools
            .iter()
            .filter_map(|(id, pool)| self.saved_as(*id, pool.flags));
        let saved: Vec<SavedPool> = saved.collect();
        head.extend_from_slice(&(self.page_bytes() as u32).to_le_bytes());
        head.push(u8::from(holdings.is_frozen()));
        SavedGrants::export(holdings.eviction().chosen, &limits, head);
        head.extend_from_slice(&(saved.len() as u32).to_le_bytes());
        saved.iter().for_each(|pool| export_pool(pool, head));
    }

    /// A pool as a file knows it. Nothing of a shared one that is no sharer's: its pages are nobody's to take along, and
    /// who leaves it meanwhile has no more part in it.
    fn saved_as(&self, id: PoolId, flags: PoolFlags) -> Option<SavedPool> {
        let shared = self.shared_name(id);
        (flags.shared == shared.is_some()).then_some(SavedPool {
            number: id.slot,
            flags,
            shared,
        })
    }

    /// The keys of a shard for which `is_wanted`.
    pub(crate) fn keys_of(
        &self,
        tenant: &Tenant,
        shard: usize,
        is_wanted: impl Fn(Key) -> bool,
    ) -> Vec<Key> {
        let shard = self.holdings(tenant).shards()[shard].lock();
        let mut keys = Vec::new();
        shard.directory.visit(&shard.keys(&self.frames), |key, _| {
            if is_wanted(key) {
                keys.push(key);
            }
        });
        keys
    }

    /// A persistent page's bytes, wherever it is; nothing where it is not any more, or where its pool was ended: the
    /// pool's place may be another's by then.
    fn copy_of(
        &self,
        tenant: &Tenant,
        aside: &impl Thread,
        shard: usize,
        pool: PoolId,
        key: Key,
    ) -> io::Result<Option<Vec<u8>>> {
        let shard = &self.holdings(tenant).shards()[shard];
        let object = self.seed.object(key.pool, key.object);
        // What was read from the disk, and of which state of the page.
        let mut read: Option<(u32, u32, io::Result<Vec<u8>>)> = None;
        loop {
            let (number, facts) = {
                let shard = shard.lock();
                if !self.pools.is_alive(pool) {
                    return Ok(None);
                }
                match shard.find(&self.frames, object, key) {
                    None => return Ok(None),
                    Some(Whereabouts::Here(frame)) => return Ok(Some(self.bytes(frame).to_vec())),
                    Some(Whereabouts::OnDisk(number)) => (number, shard.rows.get(number)),
                }
            };
            match read {
                Some((of, sequence, page)) if (of, sequence) == (number, facts.sequence) => {
                    return page.map(Some);
                }
                _ => {}
            }
            let Some(space) = self.pools.space(key.pool) else {
                return Ok(None);
            };
            let mut page = vec![0; self.page_bytes()];
            let mut done = Ok(());
            aside.aside(&mut || done = space.spill.read(facts.slot, &mut page));
            read = Some((number, facts.sequence, done.map(|()| page)));
        }
    }
}

/// Which pool of this store stands for a pool of a save.
pub(crate) type Renumbered = std::collections::HashMap<u32, PoolId>;
