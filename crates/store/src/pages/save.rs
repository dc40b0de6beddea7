//! The pages' part of a save: a tenant's pools, and every persistent page in them exactly once (R-M1, R-M2, R-M4).
//!
//! Ephemeral pages are not in it, because they may vanish at any time. A restore makes pools of its own. They take
//! effect only when the end was read and every checksum held. Otherwise they are ended again.

use std::collections::HashSet;
use std::io::{self, Read, Write};

use sublet_types::{FileVersion, ObjectId, PageIndex, PoolFlags, PoolId, SharedName};

use super::PageStore;
use super::directory::Whereabouts;
use super::pools::Pool;
use super::rows::RowPlace;
use crate::api::{PoolEnded, RestoreError, SaveFacts, SavedGrants, SavedLimits, SavedPool};
use crate::frames::StoredKey;
use crate::pinned_thread::PinnedThread;
use crate::save::{FieldReader, SaveReader, SaveWriter};
use crate::tenants::Tenant;

/// Bytes of a pool in a head.
const POOL_BYTES: usize = 21;

/// Bytes between a page's mark and its content.
const PAGE_KEY_BYTES: usize = 16;

/// The most pools in a save.
const POOLS_MAX: u32 = crate::frames::POOLS_MAX as u32;

const PERSISTENT: u8 = 1;
const SHARED: u8 = 2;
const KEEPING: u8 = 4;

/// What a save says about its tenant before the pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SaveHead {
    pub(crate) frozen: bool,
    pub(crate) grants: SavedGrants,
    pub(crate) pools: Vec<SavedPool>,
}

impl SaveHead {
    /// The pool of a page. Only persistent pools have pages in a save.
    pub(crate) fn pool_of(&self, page: &LoadedPage) -> Result<SavedPool, RestoreError> {
        let mut pools = self.pools.iter();
        let pool = pools.find(|pool| pool.number == page.pool && pool.flags.persistent);
        pool.copied().ok_or(RestoreError::UnknownPool(page.pool))
    }

    /// Reads a head whose checksum holds, from after the page size on. A value that this version does not know comes
    /// from a newer one.
    fn import(
        fields: &mut FieldReader<'_>,
        version: FileVersion,
    ) -> Result<SaveHead, RestoreError> {
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
        Ok(SaveHead {
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

/// Reads a pool, and checks that its flags and name make sense.
fn import_pool(fields: &mut FieldReader<'_>) -> Result<SavedPool, RestoreError> {
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
    reader: SaveReader<R>,
    page_bytes: usize,
}

impl<R: Read> Loader<R> {
    /// Reads the head. `page_bytes` is the page size of the store.
    pub(crate) fn begin(
        input: R,
        page_bytes: usize,
    ) -> Result<(Loader<R>, SaveHead), RestoreError> {
        let (mut reader, version, mut bytes) = SaveReader::begin(input)?;
        let theirs = reader.read_u32(&mut bytes)?;
        if theirs as usize != page_bytes {
            return Err(RestoreError::PageBytes(theirs));
        }
        let from = bytes.len();
        reader.read(&mut bytes, 1 + SavedGrants::bytes(version))?;
        let pools = reader.read_u32(&mut bytes)?;
        if pools > POOLS_MAX {
            return Err(reader.damaged());
        }
        reader.read(&mut bytes, pools as usize * POOL_BYTES)?;
        reader.check(&bytes)?;
        let head = SaveHead::import(&mut FieldReader::after(&bytes, from), version)?;
        let loader = Loader { reader, page_bytes };
        Ok((loader, head))
    }

    /// Reads the next page. Returns `None` after the end if all checksums held.
    pub(crate) fn page(&mut self) -> Result<Option<LoadedPage>, RestoreError> {
        let record = self.reader.page(PAGE_KEY_BYTES + self.page_bytes)?;
        Ok(record.map(|mut record| {
            let bytes = record.split_off(1 + PAGE_KEY_BYTES);
            let mut fields = FieldReader::after(&record, 1);
            LoadedPage {
                pool: fields.u32(),
                object: ObjectId(fields.u64()),
                index: PageIndex(fields.u32()),
                bytes,
            }
        }))
    }

    /// The error for a page that was read before.
    pub(crate) fn repeated(&self) -> RestoreError {
        self.reader.repeated(PAGE_KEY_BYTES + self.page_bytes)
    }
}

/// Reads a save to its end and keeps nothing of it.
pub(crate) fn check(input: impl Read, page_bytes: usize) -> Result<SaveFacts, RestoreError> {
    let (mut loader, head) = Loader::begin(input, page_bytes)?;
    while let Some(page) = loader.page()? {
        head.pool_of(&page)?;
    }
    Ok(SaveFacts {
        grants: head.grants,
        pools: head.pools,
        pages: loader.reader.pages(),
    })
}

/// Writes without a pin, so that the write may take its time.
struct UnpinnedWriter<'a, W, A> {
    out: W,
    thread: &'a A,
}

impl<W: Write, A: PinnedThread> Write for UnpinnedWriter<'_, W, A> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut written = Ok(0);
        self.thread
            .run_unpinned(&mut || written = self.out.write(bytes));
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut flushed = Ok(());
        self.thread.run_unpinned(&mut || flushed = self.out.flush());
        flushed
    }
}

impl PageStore {
    /// Writes a tenant's pools and persistent pages. Freeze the tenant first; otherwise pages that are put meanwhile
    /// may or may not be in the save. While the output blocks, `thread` is unpinned and no shard is locked.
    ///
    /// # Errors
    ///
    /// [`PoolEnded`] if a persistent pool ends meanwhile. The output then has some of its pages.
    pub(crate) fn export(
        &self,
        tenant: &Tenant,
        thread: &impl PinnedThread,
        out: impl Write,
    ) -> io::Result<u64> {
        let pools = self.pools.of_tenant(tenant.id);
        let patient = UnpinnedWriter { out, thread };
        let mut writer = SaveWriter::begin(patient, |head| self.export_head(tenant, &pools, head))?;
        let pool_of = |key: StoredKey| {
            let mut pools = pools.iter();
            let pool = pools.find(|(id, pool)| id.slot == key.pool && pool.flags.persistent);
            pool.map(|(id, _)| *id)
        };
        let is_wanted = |key| pool_of(key).is_some_and(|pool| self.pools.is_alive(pool));
        for shard in 0..self.tenant_pages(tenant).shards().len() {
            let mut keys = self.keys_of(tenant, shard, is_wanted);
            // The directory yields them in the order of its hashes. A restore into a growing directory with similar
            // hashes would then find each place taken and pass all pages before it.
            keys.sort_unstable_by_key(|key| (key.pool, key.object.0, key.index.0));
            for key in keys {
                let Some(pool) = pool_of(key) else {
                    continue;
                };
                let Some(bytes) = self.copy_of(tenant, thread, shard, pool, key)? else {
                    continue; // flushed or ended meanwhile
                };
                writer.page(|record| {
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
        writer.end()
    }

    /// Writes what the head says about a tenant, after the version.
    fn export_head(&self, tenant: &Tenant, pools: &[(PoolId, Pool)], head: &mut Vec<u8>) {
        let (settings, tenant_pages) = (tenant.settings(), self.tenant_pages(tenant));
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
        head.push(u8::from(tenant_pages.is_frozen()));
        SavedGrants::export(tenant_pages.eviction().chosen, &limits, head);
        head.extend_from_slice(&(saved.len() as u32).to_le_bytes());
        saved.iter().for_each(|pool| export_pool(pool, head));
    }

    /// A pool as a file describes it. A shared pool without a sharer is left out, because its pages belong to nobody. A
    /// tenant that leaves it meanwhile has no part in it any more.
    fn saved_as(&self, id: PoolId, flags: PoolFlags) -> Option<SavedPool> {
        let shared = self.shared_name(id);
        (flags.shared == shared.is_some()).then_some(SavedPool {
            number: id.slot,
            flags,
            shared,
        })
    }

    /// The keys of a shard for which `is_wanted` holds.
    pub(crate) fn keys_of(
        &self,
        tenant: &Tenant,
        shard: usize,
        is_wanted: impl Fn(StoredKey) -> bool,
    ) -> Vec<StoredKey> {
        let shard = self.tenant_pages(tenant).shards()[shard].lock();
        let mut keys = Vec::new();
        shard.directory.visit(&shard.keys(&self.frames), |key, _| {
            if is_wanted(key) {
                keys.push(key);
            }
        });
        keys
    }

    /// A persistent page's bytes, wherever it is. `None` if it is gone or its pool was ended; the pool's slot may be
    /// another's by then.
    fn copy_of(
        &self,
        tenant: &Tenant,
        thread: &impl PinnedThread,
        shard: usize,
        pool: PoolId,
        key: StoredKey,
    ) -> io::Result<Option<Vec<u8>>> {
        let shard = &self.tenant_pages(tenant).shards()[shard];
        let object = self.seed.object(key.pool, key.object);
        // The bytes that were read from the disk, and the state of the page that they belong to.
        let mut read: Option<(u32, u32, io::Result<Vec<u8>>)> = None;
        loop {
            let (number, row) = {
                let shard = shard.lock();
                if !self.pools.is_alive(pool) {
                    return Ok(None);
                }
                match shard.find(&self.frames, object, key) {
                    None | Some(Whereabouts::There(_)) => return Ok(None),
                    Some(Whereabouts::Here(frame)) => return Ok(Some(self.bytes(frame).to_vec())),
                    Some(Whereabouts::Row(number)) => (number, shard.rows.get(number)),
                }
            };
            let slot = match row.place {
                RowPlace::Disk(slot) => slot.number,
                RowPlace::Filled(word, _) => {
                    let mut page = vec![0; self.page_bytes()];
                    word.fill(&mut page);
                    return Ok(Some(page));
                }
                RowPlace::Vacant => return Ok(None),
            };
            match read {
                Some((of, sequence, page)) if (of, sequence) == (number, row.sequence) => {
                    return page.map(Some);
                }
                _ => {}
            }
            let Some(space) = self.pools.space(key.pool) else {
                return Ok(None);
            };
            let mut page = vec![0; self.page_bytes()];
            let mut done = Ok(());
            thread.run_unpinned(&mut || done = space.spill.read(slot, &mut page));
            read = Some((number, row.sequence, done.map(|()| page)));
        }
    }
}

/// The pool of this store that stands for a pool of a save.
pub(crate) type RestoredPoolIds = std::collections::HashMap<u32, PoolId>;
