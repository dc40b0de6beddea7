//! The types that the store's callers pass in and get back.

use std::ops::AddAssign;

use crate::borrowing::{AwayTicket, Borrowing};

use sublet_types::{
    Bytes, EvictionKind, Expiry, ObjectId, PageIndex, Pages, PoolFlags, PoolId, ReleaseMode,
    Second, SharedName, TenantId, TenantSettings, UnreadVersion, Weight,
};

/// The most tenants at a time.
pub const TENANTS_MAX: usize = 1024;

/// A page's key, as its client gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageKey {
    /// The pool's handle.
    pub pool: PoolId,
    /// The object in it.
    pub object: ObjectId,
    /// The page in that.
    pub index: PageIndex,
}

/// The order in which a client reads the pages that it puts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessPattern {
    /// In no order, or in none that is known.
    #[default]
    Random,
    /// One after the other, as part of a long run. A lender never gets such a page: the backing reads a run faster than
    /// a lender sends it (PUMA's filter).
    Sequential,
}

/// Whether pages of a pool that are evicted go to lenders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageSending {
    /// They do, if their tenant borrows.
    #[default]
    Allowed,
    /// They are dropped for now, because the lenders are too slow for the pool. What the lenders have stays.
    Paused,
}

/// Pages of an object, one after the other, that are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRun {
    /// The first page.
    pub first: PageKey,
    /// How many pages there are.
    pub count: u32,
    /// Whether the client reads them as part of a long run.
    pub pattern: AccessPattern,
}

/// The outcome of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutOutcome {
    /// The page was stored in a free frame.
    Stored,
    /// The page was stored in place of the one that had its key.
    Replaced,
    /// The page was stored, and another page of the tenant was evicted for it. The Memory Manager counts this put as
    /// failed.
    Displaced,
    /// The page was not stored, and the page that had its key is gone too (R-P3).
    Refused(PutRefused),
}

impl PutOutcome {
    /// Returns whether the page is there.
    pub fn is_stored(self) -> bool {
        !matches!(self, PutOutcome::Refused(_))
    }
}

/// Why a put was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PutRefused {
    /// The pool does not exist, or it belongs to another tenant.
    #[error("no such pool")]
    NoPool,
    /// No memory is free, and nothing may be evicted for the page.
    #[error("no memory for it")]
    NoMemory,
    /// No memory of the tenant is free, and the tenant has all that it may have.
    #[error("the tenant holds all that it may hold")]
    AtTarget,
    /// The pool's spill file has no slot left.
    #[error("the pool's spill file is full")]
    SpillFull,
    /// The tenant is frozen and takes no new pages.
    #[error("the tenant is frozen")]
    Frozen,
}

/// The outcome of a get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GetOutcome {
    /// The page was there, and the visitor saw it.
    Hit,
    /// The page was not there.
    Miss,
    /// The pool does not exist, or it belongs to another tenant.
    NoPool,
    /// The page is in a spill file that could not be read.
    Failed,
    /// A lender has the page. The caller fetches it by the ticket, and then calls [`Worker::arrived`] or
    /// [`Worker::gone`](crate::Worker::gone).
    ///
    /// [`Worker::arrived`]: crate::Worker::arrived
    Away(AwayTicket),
}

/// The store follows one page in this many, chosen by hash, for miss-ratio curves.
pub const SAMPLE_ONE_IN: u64 = 16;

/// What happened to a sampled page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampledUse {
    /// It was put.
    Put,
    /// A get asked for it. If it was there, it left.
    Get,
    /// A get asked for it. If it was there, it stayed.
    GetKeeping,
    /// It was flushed.
    Flush,
    /// It was evicted to make room.
    Evict,
}

/// What a shard counts since the start, or the sum over shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageTally {
    /// Puts (`puts_total`).
    pub puts: u64,
    /// Puts that found a free frame or replaced their own page (`puts_succ`).
    pub puts_succeeded: u64,
    /// Puts that were refused.
    pub puts_refused: u64,
    /// Gets.
    pub gets: u64,
    /// Gets that found the page.
    pub hits: u64,
    /// Pages that were flushed, including those that went with their pool.
    pub flushes: u64,
    /// Ephemeral pages that were evicted to make room.
    pub evictions: u64,
    /// Of these, pages of pools whose sending was not [allowed](PageSending::Allowed).
    pub unsendable: u64,
    /// Persistent pages written to their spill files.
    pub spilled: u64,
}

/// Bytes that the page store takes for its own bookkeeping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageOverhead {
    /// Keys and whereabouts.
    pub directory: u64,
    /// Records of frames.
    pub frames: u64,
    /// What evictions remember of pages that left.
    pub ghosts: u64,
    /// Blocks that pages were moved out of since the start. This is a count, not bytes.
    pub evacuated: u32,
}

/// The tenants for which pages are evicted ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictAheadScope {
    /// Every tenant that has all it may have.
    All,
    /// Of these, the tenants that put something between the last two looks. The shards of the others are not looked at.
    Putting,
}

/// Why a pool could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreatePoolError {
    /// The tenant does not exist.
    #[error("no such tenant")]
    NoTenant,
    /// The table of pools is full.
    #[error("there are as many pools as a daemon serves")]
    TooMany,
    /// A persistent pool needs a spill file for pages that do not fit into memory.
    #[error("a persistent pool needs a spill file; set `spill` to a folder")]
    NoSpill,
    /// A pool cannot be both shared and persistent.
    #[error("a shared pool cannot be persistent")]
    SharedPersistent,
    /// A shared pool needs a name, and a private pool has none.
    #[error("a pool is shared if, and only if, it has a shared name")]
    NameAndFlag,
    /// The owner has not allowed this tenant to share the pool.
    #[error("this tenant may not share that pool")]
    NotAllowed,
}

/// The file for persistent pages that do not fit into memory.
///
/// A slot is one page of the file. The store writes a slot only while no other write of that slot is under way. It
/// reads only what it wrote.
pub trait Spill: Send + Sync {
    /// The number of pages that fit.
    fn slots(&self) -> u32;

    /// Writes a page. If this succeeds, a later read of the slot gives these bytes or fails.
    fn write(&self, slot: u32, page: &[u8]) -> std::io::Result<()>;

    /// Reads a page.
    fn read(&self, slot: u32, page: &mut [u8]) -> std::io::Result<()>;
}

/// A pool as a save file describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedPool {
    /// Its number in the file.
    pub number: u32,
    /// What it promises.
    pub flags: PoolFlags,
    /// Its shared name, if it has one.
    pub shared: Option<SharedName>,
}

/// The pools of a save file that a restore makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoredPools {
    /// All of them. The shared ones are joined.
    All,
    /// Those that have pages.
    Persistent,
}

/// What the owner of the host granted a tenant when it was saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedGrants {
    /// The eviction of its ephemeral pages.
    pub eviction: EvictionKind,
    /// The name of the saved eviction if daemons no longer have it. `eviction` is the default then.
    pub gone: Option<&'static str>,
    /// How much it may hold. A save file of version 1 does not say.
    pub limits: Option<SavedLimits>,
}

/// How much a tenant may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedLimits {
    /// Its share relative to the others'.
    pub weight: Weight,
    /// What other tenants never take from it.
    pub floor: Option<Bytes>,
    /// The most that it ever holds.
    pub ceiling: Option<Bytes>,
}

/// What a whole save file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaveFacts {
    /// What the owner of the host granted its tenant, so that the owner can grant it again.
    pub grants: SavedGrants,
    /// Its pools.
    pub pools: Vec<SavedPool>,
    /// Its pages.
    pub pages: u64,
}

/// Why a save is incomplete: some pages of a pool are in it, and the pool's program has ended the pool since.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a program ended one of its persistent pools meanwhile")]
pub struct PoolEnded;

/// Why a save file was refused. The store applies nothing of a refused file.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// It does not begin like a save file.
    #[error("this is no save file of Sublet")]
    NoSave,
    /// This release does not read its version.
    #[error(transparent)]
    Version(#[from] UnreadVersion),
    /// Its pages have another size.
    #[error("the save file's pages have {0} bytes; this store's have other ones")]
    PageBytes(u32),
    /// It ends too early.
    #[error("the save file ends after {0} bytes, before its end mark: copy it again")]
    Truncated(u64),
    /// It has a value that this version does not know.
    #[error("at byte {0} the save file says what this Sublet does not know: a newer one wrote it")]
    Unknown(u64),
    /// A checksum does not hold.
    #[error("the save file is damaged at byte {0}: copy it again")]
    Damaged(u64),
    /// Bytes follow its end mark.
    #[error("the save file goes on after its end mark, at byte {0}")]
    Trailing(u64),
    /// It cannot be read.
    #[error("the save file cannot be read: {0}")]
    Unreadable(std::io::Error),
    /// One of its pools cannot be made here.
    #[error("a pool of the save file cannot be made: {0}")]
    Pool(CreatePoolError),
    /// The store has no room for one of its pages.
    #[error("there is no place for every page of the save file: {0}")]
    NoPlace(PutRefused),
    /// It has a page of a pool that is none of its persistent pools.
    #[error("the save file has a page of pool {0}, which is none of its persistent pools")]
    UnknownPool(u32),
    /// It has a pool or a page twice.
    #[error("the save file repeats itself at byte {0}: Sublet did not write it so")]
    Repeated(u64),
}

/// The pages of a tenant at this moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageFigures {
    /// Pages in frames.
    pub used: Pages,
    /// Persistent pages that are on disk only.
    pub on_disk: Pages,
    /// Pages whose words are all equal. They are in no frame.
    pub same_filled: Pages,
    /// Ephemeral pages that lenders have, or that are on their way there.
    pub at_lenders: Pages,
    /// Frames without a page.
    pub free: Pages,
    /// Blocks of ephemeral pages, counted in pages.
    pub held_ephemeral: Pages,
    /// Blocks of persistent pages, counted in pages.
    pub held_persistent: Pages,
    /// Blocks of lenders, counted in pages.
    pub held_at_lenders: Pages,
    /// What happened since the start.
    pub tally: PageTally,
}

/// The answer to a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup<R> {
    /// The item was there. This is what the visitor returned.
    Hit(R),
    /// The item was not there.
    Miss(Absence),
}

/// Why an item is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// It was never stored, or it was deleted or evicted.
    Unknown,
    /// It expired.
    Expired,
    /// A flush of the whole tenant removed it.
    Flushed,
}

/// Whether eviction counts a read as a use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadKind {
    /// The read counts as a use.
    Use,
    /// The read leaves no trace.
    Peek,
}

/// Why nothing was stored. The old item of that key is untouched. The caller decides whether to remove it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ItemRefused {
    /// The item is larger than `item_max`.
    #[error("larger than the largest item")]
    TooLarge,
    /// No memory is free, and nothing may be evicted for the item.
    #[error("no memory for it")]
    NoMemory,
}

/// Marks that the memcached meta protocol keeps with an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// The item is invalidated but still served (`md I`).
    pub stale: bool,
    /// A reader has already been told to refresh the item.
    pub token_sent: bool,
    /// The client gave the key in base64 and gets it back in base64.
    pub binary_key: bool,
}

/// How a new item gets its cas unique (memcached's version number of a value).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewCas {
    /// The store makes a new one, and no client learns it.
    Fresh,
    /// The store makes a new one, and the client learns it. It then stays until the value changes.
    Reported,
    /// The item keeps that of the item it replaces (touch, marks).
    Keep,
    /// The item gets this one (meta flag `E`).
    Is(u64),
}

/// An item to be stored.
#[derive(Clone, Copy, Debug)]
pub struct NewItem<'a> {
    /// Client flags, unchanged.
    pub flags: u32,
    /// When it expires.
    pub expiry: Expiry,
    /// Marks of the meta protocol.
    pub marks: Marks,
    /// How it gets its cas unique.
    pub cas: NewCas,
    /// The value, as pieces that the store joins.
    pub value: &'a [&'a [u8]],
}

/// How much memory to release, and how.
#[derive(Clone, Copy, Debug)]
pub struct Release {
    /// Release at least this much, if there is as much.
    pub amount: Bytes,
    /// How the store chooses blocks.
    pub mode: ReleaseMode,
    /// Release memory of this tenant only.
    pub tenant: Option<TenantId>,
}

/// What a release did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReleaseOutcome {
    /// Bytes that left the process.
    pub bytes: Bytes,
    /// Items that were lost and had not expired.
    pub items_lost: u64,
    /// Their bytes, keys and values.
    pub bytes_lost: Bytes,
    /// Bytes that the store copied together, so that they survive.
    pub bytes_kept: Bytes,
    /// Pages that were lost.
    pub pages_lost: Pages,
}

impl AddAssign for ReleaseOutcome {
    fn add_assign(&mut self, more: ReleaseOutcome) {
        self.bytes += more.bytes;
        self.items_lost += more.items_lost;
        self.bytes_lost += more.bytes_lost;
        self.bytes_kept += more.bytes_kept;
        self.pages_lost.0 += more.pages_lost.0;
    }
}

/// One tenant at this moment.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantFigures {
    /// Its number.
    pub id: TenantId,
    /// What the owner grants to it.
    pub settings: TenantSettings,
    /// Bytes of the blocks that it owns.
    pub held: Bytes,
    /// Bytes of its live items: heads, keys and values.
    pub used: Bytes,
    /// Live items.
    pub items: u64,
    /// Items that were evicted to make room, since the start.
    pub evictions: u64,
    /// Of these, items evicted for items that the tenant itself stored. Evictions for a shrink or for other tenants do
    /// not count.
    pub displaced: u64,
    /// Of these, items that no read ever hit.
    pub evicted_unfetched: u64,
    /// Expired and flushed items whose memory was reclaimed, since the start.
    pub reclaimed: u64,
    /// Of these, items that no read ever hit.
    pub expired_unfetched: u64,
    /// What the policy allows it now. `None` if no policy has set a target.
    pub target: Option<Bytes>,
    /// Its pages.
    pub pages: PageFigures,
    /// Its pools, including its handles on shared pools.
    pub pools: u32,
    /// Which eviction was chosen for its ephemeral pages.
    pub eviction: EvictionKind,
    /// The eviction that its ephemeral pages have. This is never [`EvictionKind::Auto`].
    pub ruling_eviction: EvictionKind,
    /// Whether its pages may go to lenders.
    pub borrowing: Borrowing,
    /// Whether its new pages are refused.
    pub is_frozen: bool,
    /// Bytes that it gave up for other tenants' puts, since the start.
    pub gave: Bytes,
    /// Bytes that it got from other tenants for its own puts, since the start.
    pub got: Bytes,
    /// Mortar's fairness f = (held ÷ limit) ÷ (weight ÷ sum of weights).
    pub fairness: f64,
}

/// The whole store, now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreFigures {
    /// What the arena may hold.
    pub limit: Bytes,
    /// What the arena holds: tenants' blocks, the index and the free list.
    pub held: Bytes,
    /// Of that, blocks on the free list.
    pub free: Bytes,
    /// Of that, blocks that nobody owns any more and that a reader may still see.
    pub limbo: Bytes,
    /// Of that, blocks of the hash index.
    pub index: Bytes,
    /// Of the limit, the part that no tenant may take, so that eviction always can run.
    pub reserve: Bytes,
    /// Live item bytes.
    pub used: Bytes,
    /// Live items.
    pub items: u64,
    /// What lenders have lent to this host. The arena's figures leave it out.
    pub far: FarFigures,
}

impl StoreFigures {
    /// What nobody uses of all that the arena may hold: what it does not hold, and its free list.
    pub fn vacant(&self) -> Bytes {
        self.limit - (self.held - self.free) - self.far.overhead
    }
}

/// What lenders have lent to this host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FarFigures {
    /// Blocks of all leases.
    pub borrowed: Bytes,
    /// Of these, blocks that no tenant uses.
    pub ready: Bytes,
    /// Of these, blocks that tenants use. The rest was dropped and is not swept yet.
    pub used: Bytes,
    /// Blocks that hold nothing and into which nothing came for a second or two, less those that stay ready for tenants
    /// that evict. They can go back.
    pub idle: Bytes,
    /// What the records of these blocks and of their frames take here, and from the first lease on the outbox. The
    /// arena may hold so much less, in whole blocks.
    pub overhead: Bytes,
}

/// One pool of pages at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolFigures {
    /// The pool.
    pub id: PoolId,
    /// Its tenant. A shared pool belongs to the tenant that is charged for it.
    pub tenant: TenantId,
    /// Its pages in memory. A handle on a shared pool counts none. Pages of memory that was just released may count
    /// until the store has swept it.
    pub pages: Pages,
    /// Handles that tenants have on it, if it is shared.
    pub sharers: u32,
}

/// The store at this moment, with its tenants and pools.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AllFigures {
    /// The store as a whole.
    pub store: StoreFigures,
    /// Each tenant.
    pub tenants: Vec<TenantFigures>,
    /// Each pool, in the order of their slots.
    pub pools: Vec<PoolFigures>,
}

/// Why a tenant could not be added or changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TenantError {
    /// Another tenant has the name.
    #[error("a tenant of that name exists already")]
    Exists,
    /// No tenant has that number.
    #[error("no such tenant")]
    Unknown,
    /// The table of tenants is full.
    #[error("{0} tenants are the most a daemon serves at a time: remove one that nobody needs")]
    TooMany(usize),
    /// The floor is above the ceiling.
    #[error("the floor is above the ceiling")]
    FloorAboveCeiling,
    /// The weight is zero.
    #[error("a weight is at least 1")]
    NoWeight,
}

/// The smallest arena. It has one block each for the index, for eviction and for writes, and a few to choose among.
pub const ARENA_MIN: Bytes = Bytes::mib(16);

/// The most keys that a worker can prefetch at once.
pub const PREFETCHED_KEYS_MAX: usize = 16;

/// The most threads that may read or write at once.
pub(crate) const WORKERS_MAX: usize = 512;

/// The store has no room for another worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{WORKERS_MAX} workers are the most a store serves")]
pub struct TooManyWorkers;

/// One item, while its worker is pinned and the item stays in place.
pub struct Item<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) value: Value<'a>,
    pub(crate) flags: u32,
    pub(crate) expiry: Expiry,
    pub(crate) marks: Marks,
    pub(crate) cas: &'a dyn Fn() -> u64,
    pub(crate) fetched: bool,
    pub(crate) last_access: Second,
}

impl<'a> Item<'a> {
    /// Its key.
    pub fn key(&self) -> &'a [u8] {
        self.key
    }

    /// Its value.
    pub fn value(&self) -> &Value<'a> {
        &self.value
    }

    /// The client flags.
    pub fn flags(&self) -> u32 {
        self.flags
    }

    /// When it expires.
    pub fn expiry(&self) -> Expiry {
        self.expiry
    }

    /// The marks of the meta protocol.
    pub fn marks(&self) -> Marks {
        self.marks
    }

    /// Its cas unique. A caller that asks makes it stay until the value changes.
    pub fn cas(&self) -> u64 {
        (self.cas)()
    }

    /// Returns whether a read counted as a use before this one.
    pub fn fetched(&self) -> bool {
        self.fetched
    }

    /// When it was last used or stored.
    pub fn last_access(&self) -> Second {
        self.last_access
    }
}

/// A value: one piece, or the chunks of a large value.
pub enum Value<'a> {
    /// One piece.
    Whole(&'a [u8]),
    /// The chunks, in order.
    Chunks(Vec<&'a [u8]>),
}

impl<'a> Value<'a> {
    /// The length in bytes.
    pub fn len(&self) -> usize {
        self.pieces().iter().map(|piece| piece.len()).sum()
    }

    /// Returns whether it has no byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The pieces, in order.
    pub fn pieces(&self) -> &[&'a [u8]] {
        match self {
            Value::Whole(piece) => std::slice::from_ref(piece),
            Value::Chunks(pieces) => pieces,
        }
    }

    /// Appends the whole value to `out`.
    pub fn copy_to(&self, out: &mut Vec<u8>) {
        for piece in self.pieces() {
            out.extend_from_slice(piece);
        }
    }
}
