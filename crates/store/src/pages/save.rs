//! Save and restore: a tenant's pools and every persistent page in them, exactly once (R-M1, R-M2, R-M4).
//!
//! ```text
//!  head      "SUBLETPG" version:u32 page_bytes:u32 frozen:u8 eviction:u8
//!            weight:u32 floor:u64 ceiling:u64 pools:u32                             (2⁶⁴ − 1: none)
//!  pools     number:u32 flags:u8 shared:u128                       (each, in the order of their making)
//!  head sum  xxh3-128 of all that came before
//!  pages     'P' number:u32 object:u64 index:u32 page… xxh3-128 of these            (each)
//!  end       'E' pages:u64 xxh3-128 of every sum before, in their order
//! ```
//!
//! Numbers are little-endian. Ephemeral pages are not saved: they may vanish at any time. A stream is applied to pools of its own, and these take effect
//! only when its end was read and every sum held; else they are ended again.

use std::collections::HashSet;
use std::io::{self, Read, Write};

use sublet_types::{
    Bytes, EvictionKind, ObjectId, PageIndex, PoolFlags, PoolId, SharedName, Weight,
};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use super::directory::Whereabouts;
use super::key::Key;
use super::pools::Pool;
use super::{Aside, Pages};
use crate::api::{PoolEnded, RestoreError, SaveFacts, SavedGrants, SavedPool};
use crate::tenants::Tenant;

const MAGIC: &[u8; 8] = b"SUBLETPG";
const VERSION: u32 = 2;
const PAGE_MARK: u8 = b'P';
const END_MARK: u8 = b'E';
const SUM_BYTES: usize = 16;

/// Where in the head its eviction, weight, floor, ceiling and number of pools are.
const EVICTION_AT: usize = 17;
const WEIGHT_AT: usize = 18;
const FLOOR_AT: usize = 22;
const CEILING_AT: usize = 30;
const POOLS_AT: usize = 38;

/// No floor, or no ceiling.
const NO_AMOUNT: u64 = u64::MAX;

/// The head before its pools, and each of these.
const HEAD_BYTES: usize = 42;
const POOL_BYTES: usize = 21;

/// What stands before a page's bytes.
const PAGE_HEAD_BYTES: usize = 17;

/// Pools in a stream, at the most.
const POOLS_MAX: u32 = super::pools::POOLS_MAX as u32;

const PERSISTENT: u8 = 1;
const SHARED: u8 = 2;
const KEEPING: u8 = 4;

/// What a stream says of its tenant before the pages come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) page_bytes: u32,
    pub(crate) frozen: bool,
    pub(crate) grants: SavedGrants,
    pub(crate) pools: Vec<SavedPool>,
}

impl Head {
    /// The pool of a page. Only persistent ones have pages in a stream.
    pub(crate) fn pool_of(&self, page: &LoadedPage) -> Result<SavedPool, RestoreError> {
        let mut pools = self.pools.iter();
        let pool = pools.find(|pool| pool.number == page.pool && pool.flags.persistent);
        pool.copied().ok_or(RestoreError::UnknownPool(page.pool))
    }
}

/// A page as it is saved.
pub(crate) struct SavedPage<'a> {
    pub(crate) pool: u32,
    pub(crate) object: ObjectId,
    pub(crate) index: PageIndex,
    pub(crate) bytes: &'a [u8],
}

/// A page as it was read.
pub(crate) struct LoadedPage {
    pub(crate) pool: u32,
    pub(crate) object: ObjectId,
    pub(crate) index: PageIndex,
    pub(crate) bytes: Vec<u8>,
}

/// Writes a stream.
pub(crate) struct Saver<W> {
    out: W,
    sums: Xxh3,
    pages: u64,
}

impl<W: Write> Saver<W> {
    pub(crate) fn begin(mut out: W, head: &Head) -> io::Result<Saver<W>> {
        let bytes = head_bytes(head);
        let sum = xxh3_128(&bytes).to_le_bytes();
        out.write_all(&bytes)?;
        out.write_all(&sum)?;
        let mut sums = Xxh3::new();
        sums.update(&sum);
        Ok(Saver {
            out,
            sums,
            pages: 0,
        })
    }

    pub(crate) fn page(&mut self, page: &SavedPage<'_>) -> io::Result<()> {
        let mut record = Vec::with_capacity(PAGE_HEAD_BYTES + page.bytes.len() + SUM_BYTES);
        record.push(PAGE_MARK);
        record.extend_from_slice(&page.pool.to_le_bytes());
        record.extend_from_slice(&page.object.0.to_le_bytes());
        record.extend_from_slice(&page.index.0.to_le_bytes());
        record.extend_from_slice(page.bytes);
        let sum = xxh3_128(&record).to_le_bytes();
        self.sums.update(&sum);
        self.pages += 1;
        record.extend_from_slice(&sum);
        self.out.write_all(&record)
    }

    /// Writes the end mark; says how many pages there are.
    pub(crate) fn end(mut self) -> io::Result<u64> {
        self.sums.update(&self.pages.to_le_bytes());
        self.out.write_all(&[END_MARK])?;
        self.out.write_all(&self.pages.to_le_bytes())?;
        self.out.write_all(&self.sums.digest128().to_le_bytes())?;
        self.out.flush()?;
        Ok(self.pages)
    }
}

fn head_bytes(head: &Head) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&head.page_bytes.to_le_bytes());
    bytes.push(u8::from(head.frozen));
    bytes.push(eviction_number(head.grants.eviction));
    let amount = |amount: Option<Bytes>| amount.map_or(NO_AMOUNT, |amount| amount.0);
    bytes.extend_from_slice(&head.grants.weight.0.to_le_bytes());
    bytes.extend_from_slice(&amount(head.grants.floor).to_le_bytes());
    bytes.extend_from_slice(&amount(head.grants.ceiling).to_le_bytes());
    bytes.extend_from_slice(&(head.pools.len() as u32).to_le_bytes());
    for pool in &head.pools {
        bytes.extend_from_slice(&pool.number.to_le_bytes());
        bytes.push(flag_bits(pool.flags));
        bytes.extend_from_slice(&pool.shared.map_or(0, |name| name.0).to_le_bytes());
    }
    bytes
}

fn eviction_number(eviction: EvictionKind) -> u8 {
    let place = EvictionKind::ALL
        .iter()
        .position(|(kind, ..)| *kind == eviction);
    place.unwrap_or_default() as u8
}

fn flag_bits(flags: PoolFlags) -> u8 {
    let bit = |set, bit| if set { bit } else { 0 };
    bit(flags.persistent, PERSISTENT) | bit(flags.shared, SHARED) | bit(flags.keeping, KEEPING)
}

/// Reads a stream.
pub(crate) struct Loader<R> {
    input: R,
    /// Bytes that were read.
    at: u64,
    sums: Xxh3,
    page_bytes: usize,
    pages: u64,
}

impl<R: Read> Loader<R> {
    /// Reads the head. `page_bytes` is what the store's pages have.
    pub(crate) fn begin(input: R, page_bytes: usize) -> Result<(Loader<R>, Head), RestoreError> {
        let mut loader = Loader {
            input,
            at: 0,
            sums: Xxh3::new(),
            page_bytes,
            pages: 0,
        };
        // What is no save file, or one of another version, may be shorter than a head of this one.
        let mut bytes = loader.read(MAGIC.len())?;
        if bytes != MAGIC {
            return Err(RestoreError::NoSave);
        }
        let said = loader.read(size_of::<u32>())?;
        let version = number(&said);
        if version != VERSION {
            return Err(RestoreError::Version(version));
        }
        bytes.extend_from_slice(&said);
        bytes.extend_from_slice(&loader.read(HEAD_BYTES - bytes.len())?);
        let theirs = number(&bytes[12..]);
        if theirs as usize != page_bytes {
            return Err(RestoreError::PageBytes(theirs));
        }
        let pools = number(&bytes[POOLS_AT..]);
        if pools > POOLS_MAX {
            return Err(RestoreError::Damaged(loader.at));
        }
        let rest = loader.read(pools as usize * POOL_BYTES)?;
        bytes.extend_from_slice(&rest);
        loader.check(&bytes)?;
        let head = head(&bytes, &rest, theirs)?;
        Ok((loader, head))
    }

    /// The next page, or nothing when the end was read and all sums held.
    pub(crate) fn page(&mut self) -> Result<Option<LoadedPage>, RestoreError> {
        let mark = self.read(1)?;
        match mark[0] {
            PAGE_MARK => {}
            END_MARK => return self.end().map(|()| None),
            _ => return Err(RestoreError::Damaged(self.at - 1)),
        }
        let mut record = mark;
        record.extend_from_slice(&self.read(PAGE_HEAD_BYTES - 1 + self.page_bytes)?);
        self.check(&record)?;
        self.pages += 1;
        let object = u64::from_le_bytes(first(&record[5..]));
        let (pool, index) = (number(&record[1..]), number(&record[13..]));
        let bytes = record.split_off(PAGE_HEAD_BYTES);
        Ok(Some(LoadedPage {
            pool,
            object: ObjectId(object),
            index: PageIndex(index),
            bytes,
        }))
    }

    /// The page that was read last was there already.
    pub(crate) fn repeated(&self) -> RestoreError {
        RestoreError::Repeated(self.at - (PAGE_HEAD_BYTES + self.page_bytes + SUM_BYTES) as u64)
    }

    fn end(&mut self) -> Result<(), RestoreError> {
        let at = self.at;
        let said = self.read(8 + SUM_BYTES)?;
        self.sums.update(&said[..8]);
        let pages = u64::from_le_bytes(first(&said));
        let sum = self.sums.digest128().to_le_bytes();
        if pages != self.pages || said[8..] != sum {
            return Err(RestoreError::Damaged(at));
        }
        match self.input.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(RestoreError::Trailing(self.at)),
            Err(error) => Err(RestoreError::Unreadable(error)),
        }
    }

    /// Reads the sum of `bytes` and compares it.
    fn check(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        let at = self.at - bytes.len() as u64;
        let said = self.read(SUM_BYTES)?;
        self.sums.update(&said);
        match said[..] == xxh3_128(bytes).to_le_bytes() {
            true => Ok(()),
            false => Err(RestoreError::Damaged(at)),
        }
    }

    fn read(&mut self, len: usize) -> Result<Vec<u8>, RestoreError> {
        let mut bytes = Vec::new();
        let read = self.input.by_ref().take(len as u64).read_to_end(&mut bytes);
        self.at += bytes.len() as u64;
        match read {
            Err(error) => Err(RestoreError::Unreadable(error)),
            Ok(read) if read < len => Err(RestoreError::Truncated(self.at)),
            Ok(_) => Ok(bytes),
        }
    }
}

fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[..N]);
    array
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(first(bytes))
}

/// A head whose sum holds. What it says and this version does not know comes from a newer one.
fn head(bytes: &[u8], pools: &[u8], page_bytes: u32) -> Result<Head, RestoreError> {
    let frozen = match bytes[16] {
        0 => false,
        1 => true,
        _ => return Err(RestoreError::Unknown(16)),
    };
    let grants = grants(bytes)?;
    let pools = pools.chunks_exact(POOL_BYTES).enumerate().map(|(n, pool)| {
        let at = HEAD_BYTES + n * POOL_BYTES + 4;
        saved_pool(pool).ok_or(RestoreError::Unknown(at as u64))
    });
    let pools = pools.collect::<Result<Vec<_>, _>>()?;
    let mut numbers = HashSet::new();
    if let Some(n) = pools.iter().position(|pool| !numbers.insert(pool.number)) {
        return Err(RestoreError::Repeated((HEAD_BYTES + n * POOL_BYTES) as u64));
    }
    Ok(Head {
        page_bytes,
        frozen,
        grants,
        pools,
    })
}

/// What a head says that its tenant was granted.
fn grants(bytes: &[u8]) -> Result<SavedGrants, RestoreError> {
    let amount = |at: usize| match u64::from_le_bytes(first(&bytes[at..])) {
        NO_AMOUNT => None,
        amount => Some(Bytes(amount)),
    };
    let eviction = EvictionKind::ALL.get(usize::from(bytes[EVICTION_AT]));
    let eviction = eviction.ok_or(RestoreError::Unknown(EVICTION_AT as u64))?;
    let grants = SavedGrants {
        weight: Weight(number(&bytes[WEIGHT_AT..])),
        floor: amount(FLOOR_AT),
        ceiling: amount(CEILING_AT),
        eviction: eviction.0,
    };
    match (grants.floor, grants.ceiling) {
        _ if grants.weight.0 == 0 => Err(RestoreError::Unknown(WEIGHT_AT as u64)),
        (Some(floor), Some(ceiling)) if floor > ceiling => {
            Err(RestoreError::Unknown(FLOOR_AT as u64))
        }
        _ => Ok(grants),
    }
}

/// A pool; nothing where its flags, or its name beside them, mean nothing here.
fn saved_pool(bytes: &[u8]) -> Option<SavedPool> {
    let flags = PoolFlags {
        persistent: bytes[4] & PERSISTENT != 0,
        shared: bytes[4] & SHARED != 0,
        keeping: bytes[4] & KEEPING != 0,
    };
    let shared = match u128::from_le_bytes(first(&bytes[5..])) {
        0 => None,
        name => Some(SharedName(name)),
    };
    let known = flag_bits(flags) == bytes[4]
        && flags.shared == shared.is_some()
        && !(flags.shared && flags.persistent);
    known.then_some(SavedPool {
        number: number(bytes),
        flags,
        shared,
    })
}

/// Reads a stream to its end without keeping anything of it.
pub(crate) fn check(input: impl Read, page_bytes: usize) -> Result<SaveFacts, RestoreError> {
    let (mut loader, head) = Loader::begin(input, page_bytes)?;
    while let Some(page) = loader.page()? {
        head.pool_of(&page)?;
    }
    Ok(SaveFacts {
        grants: head.grants,
        pools: head.pools,
        pages: loader.pages,
    })
}

/// Writes with nothing held still: it may take its time.
struct Patient<'a, W, A> {
    out: W,
    aside: &'a A,
}

impl<W: Write, A: Aside> Write for Patient<'_, W, A> {
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
    pub(crate) fn save(
        &self,
        tenant: &Tenant,
        aside: &impl Aside,
        out: impl Write,
    ) -> io::Result<u64> {
        let pools = self.pools.of_tenant(tenant.id);
        let settings = tenant.settings();
        let head = Head {
            page_bytes: self.page_bytes() as u32,
            frozen: self.holdings(tenant).is_frozen(),
            grants: SavedGrants {
                weight: settings.weight,
                floor: settings.floor,
                ceiling: settings.ceiling,
                eviction: self.holdings(tenant).eviction(),
            },
            pools: pools
                .iter()
                .filter_map(|(id, pool)| self.saved_as(*id, pool.flags))
                .collect(),
        };
        let mut saver = Saver::begin(Patient { out, aside }, &head)?;
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
                saver.page(&SavedPage {
                    pool: key.pool,
                    object: key.object,
                    index: key.index,
                    bytes: &bytes,
                })?;
            }
        }
        let has_ended =
            |(id, pool): &(PoolId, Pool)| pool.flags.persistent && !self.pools.is_alive(*id);
        if pools.iter().any(has_ended) {
            return Err(io::Error::other(PoolEnded));
        }
        saver.end()
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
        aside: &impl Aside,
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
                    Some(Whereabouts::OnDisk(number)) => (number, shard.disk.get(number)),
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

/// Which pool of this store stands for a pool of a stream.
pub(crate) type Renumbered = std::collections::HashMap<u32, PoolId>;
