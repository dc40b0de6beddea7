//! What the store's callers say and hear.

use std::ops::AddAssign;

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

/// The outcome of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The page is there; it found a free frame.
    Stored,
    /// The page is there in place of the one that was.
    Replaced,
    /// The page is there; another of the tenant went for it. Counts as failed to the Memory Manager.
    Displaced,
    /// The page is not there, nor is the one that was (R-P3).
    Refused(PutRefused),
}

impl Put {
    /// Whether the page is there.
    pub fn is_stored(self) -> bool {
        !matches!(self, Put::Refused(_))
    }
}

/// Why a put was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PutRefused {
    /// No such pool, or not this tenant's.
    #[error("no such pool")]
    NoPool,
    /// Nothing is free, and nothing may go for it.
    #[error("no memory for it")]
    NoMemory,
    /// Nothing of it is free, and its tenant has all that it may have.
    #[error("the tenant holds all that it may hold")]
    AtTarget,
    /// The pool's spill file has no place for one page more.
    #[error("the pool's spill file is full")]
    SpillFull,
    /// The tenant is frozen: no new pages.
    #[error("the tenant is frozen")]
    Frozen,
}

/// The outcome of a get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Get {
    /// The page was there, and was shown.
    Hit,
    /// It was not.
    Miss,
    /// No such pool, or not this tenant's.
    NoPool,
    /// It is in a spill file that could not be read.
    Failed,
}

/// One page in so many, by its hash, is followed for miss-ratio curves.
pub const SAMPLE_ONE_IN: u64 = 16;

/// What happened to a sampled page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampledUse {
    /// It was put.
    Put,
    /// It was asked for, and left if it was there.
    Get,
    /// It was asked for, and stayed.
    GetKeeping,
    /// It was flushed.
    Flush,
    /// It went to make room.
    Evict,
}

/// What a shard counts, since the start; and their sums.
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
    /// Pages flushed, with their pools among them.
    pub flushes: u64,
    /// Ephemeral pages that went to make room.
    pub evictions: u64,
    /// Persistent pages written to their spill files.
    pub spilled: u64,
}

/// What the page store's own facts take, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageOverhead {
    /// Keys and whereabouts.
    pub directory: u64,
    /// The facts of frames.
    pub frames: u64,
    /// What is remembered of pages that left.
    pub ghosts: u64,
    /// Blocks that pages were moved out of, since the start (a count, not bytes).
    pub evacuated: u32,
}

/// For which tenants pages are evicted ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whom {
    /// For all that have all they may have.
    All,
    /// Of these, for those that put something between the last two looks: the others' shards are not looked at.
    Putting,
}

/// Why a pool could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// No such tenant.
    #[error("no such tenant")]
    NoTenant,
    /// The table is full.
    #[error("there are as many pools as a daemon serves")]
    TooMany,
    /// A persistent pool needs a file for what memory has no place for.
    #[error("a persistent pool needs a spill file; set `spill` to a folder")]
    NoSpill,
    /// Shared and persistent exclude each other.
    #[error("a shared pool cannot be persistent")]
    SharedPersistent,
    /// A shared pool needs a name, a private one has none.
    #[error("a pool is shared if, and only if, it has a shared name")]
    NameAndFlag,
    /// Nobody said that this tenant may share it.
    #[error("this tenant may not share that pool")]
    NotAllowed,
}

/// Where persistent pages go that memory has no place for. Slots are pages of one file; the store writes a slot only
/// while no other write of it is under way, and reads only what it wrote.
pub trait Spill: Send + Sync {
    /// How many pages fit.
    fn slots(&self) -> u32;

    /// Writes a page. When this returns well, a read of the slot gives these bytes or fails.
    fn write(&self, slot: u32, page: &[u8]) -> std::io::Result<()>;

    /// Reads a page.
    fn read(&self, slot: u32, page: &mut [u8]) -> std::io::Result<()>;
}

/// A pool as a save file tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedPool {
    /// Its number in the file.
    pub number: u32,
    /// What it promises.
    pub flags: PoolFlags,
    /// Its name, if it is shared.
    pub shared: Option<SharedName>,
}

/// Which pools of a save file are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoredPools {
    /// All of them; those that are shared are joined.
    All,
    /// Those that have pages.
    Persistent,
}

/// What the owner of the host granted a tenant when it was saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedGrants {
    /// Which of its ephemeral pages goes when another needs the frame.
    pub eviction: EvictionKind,
    /// The one that was written, where daemons have it no more: then `eviction` is the default.
    pub gone: Option<&'static str>,
    /// How much it may hold; a save file of version 1 does not say.
    pub limits: Option<SavedLimits>,
}

/// How much a tenant may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedLimits {
    /// Its share relative to the others'.
    pub weight: Weight,
    /// What the others never take from it.
    pub floor: Option<Bytes>,
    /// What it never holds more than.
    pub ceiling: Option<Bytes>,
}

/// What a whole save file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaveFacts {
    /// What its tenant was granted: for the owner of the host to grant again.
    pub grants: SavedGrants,
    /// Its pools.
    pub pools: Vec<SavedPool>,
    /// Its pages.
    pub pages: u64,
}

/// Why a save is not whole: some pages of a pool are in it, and its program has ended the pool since.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a program ended one of its persistent pools meanwhile")]
pub struct PoolEnded;

/// Why a save file was refused. Nothing of it is applied.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// It does not begin as one.
    #[error("this is no save file of Sublet")]
    NoSave,
    /// A version that this release does not read.
    #[error(transparent)]
    Version(#[from] UnreadVersion),
    /// Pages of another size.
    #[error("the save file's pages have {0} bytes; this store's have other ones")]
    PageBytes(u32),
    /// It ends too early.
    #[error("the save file ends after {0} bytes, before its end mark: copy it again")]
    Truncated(u64),
    /// What this version has no meaning for.
    #[error("at byte {0} the save file says what this Sublet does not know: a newer one wrote it")]
    Unknown(u64),
    /// A checksum does not hold.
    #[error("the save file is damaged at byte {0}: copy it again")]
    Damaged(u64),
    /// Something comes after the end.
    #[error("the save file goes on after its end mark, at byte {0}")]
    Trailing(u64),
    /// It cannot be read.
    #[error("the save file cannot be read: {0}")]
    Unreadable(std::io::Error),
    /// A pool of it cannot be made here.
    #[error("a pool of the save file cannot be made: {0}")]
    Pool(PoolError),
    /// A page of it has no place here.
    #[error("there is no place for every page of the save file: {0}")]
    NoPlace(PutRefused),
    /// A page of a pool that has none in a file.
    #[error("the save file has a page of pool {0}, which is none of its persistent pools")]
    UnknownPool(u32),
    /// A pool or a page that was there already.
    #[error("the save file repeats itself at byte {0}: Sublet did not write it so")]
    Repeated(u64),
}

/// What a tenant's pages are, now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageFigures {
    /// Pages in frames.
    pub used: Pages,
    /// Persistent pages that are on disk only.
    pub on_disk: Pages,
    /// Frames without a page.
    pub free: Pages,
    /// Blocks of ephemeral pages, in pages.
    pub held_ephemeral: Pages,
    /// Blocks of persistent pages, in pages.
    pub held_persistent: Pages,
    /// What happened since the start.
    pub tally: PageTally,
}

/// The answer to a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup<R> {
    /// The item was there; what the visitor made of it.
    Hit(R),
    /// It was not.
    Miss(Absence),
}

/// Why an item is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// Never stored, deleted or evicted.
    Unknown,
    /// Its time ran out.
    Expired,
    /// A flush of the whole tenant took it.
    Flushed,
}

/// Whether a read counts as a use, which eviction hears of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// A use.
    Use,
    /// A look that leaves no trace.
    Peek,
}

/// Why nothing was stored. The old item of that key is untouched; removing it is the caller's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Larger than `item_max`.
    #[error("larger than the largest item")]
    TooLarge,
    /// No memory, and nothing may be evicted for it.
    #[error("no memory for it")]
    NoMemory,
}

/// Marks that the memcached meta protocol keeps with an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Invalidated but still served (`md I`).
    pub stale: bool,
    /// Some reader was already told to refresh it.
    pub token_sent: bool,
    /// The key was given in base64 and is returned so.
    pub binary_key: bool,
}

/// How a new item gets its cas unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewCas {
    /// A new one, which nobody is told.
    Fresh,
    /// A new one, which the client is told: it then stays until the value changes.
    Told,
    /// That of the item it replaces (touch, marks).
    Keep,
    /// This one (meta flag `E`).
    Is(u64),
}

/// An item to be stored.
#[derive(Clone, Copy, Debug)]
pub struct NewItem<'a> {
    /// Client flags, as the client gave them.
    pub flags: u32,
    /// When it ceases to be.
    pub expiry: Expiry,
    /// Marks of the meta protocol.
    pub marks: Marks,
    /// How it gets its cas unique.
    pub cas: NewCas,
    /// The value, in pieces that are put together.
    pub value: &'a [&'a [u8]],
}

/// How much to give back, and how.
#[derive(Clone, Copy, Debug)]
pub struct Release {
    /// At least this much, where there is as much.
    pub amount: Bytes,
    /// How blocks are chosen.
    pub mode: ReleaseMode,
    /// From this tenant only.
    pub tenant: Option<TenantId>,
}

/// What a release did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Released {
    /// Bytes that left the process.
    pub bytes: Bytes,
    /// Items that were lost and had not expired.
    pub items_lost: u64,
    /// Their bytes, keys and values.
    pub bytes_lost: Bytes,
    /// Bytes that were copied together to survive.
    pub bytes_kept: Bytes,
    /// Pages that were lost.
    pub pages_lost: Pages,
}

impl AddAssign for Released {
    fn add_assign(&mut self, more: Released) {
        self.bytes += more.bytes;
        self.items_lost += more.items_lost;
        self.bytes_lost += more.bytes_lost;
        self.bytes_kept += more.bytes_kept;
        self.pages_lost.0 += more.pages_lost.0;
    }
}

/// One tenant, now.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantFigures {
    /// Its number.
    pub id: TenantId,
    /// What the owner grants to it.
    pub settings: TenantSettings,
    /// Blocks it owns, in bytes.
    pub held: Bytes,
    /// Live item bytes: heads, keys and values.
    pub used: Bytes,
    /// Live items.
    pub items: u64,
    /// Items evicted to make room, since the start.
    pub evictions: u64,
    /// Of these, evicted for items that the tenant itself stored: not when it was shrunk, nor for others.
    pub displaced: u64,
    /// Of these, items that no read ever hit.
    pub evicted_unfetched: u64,
    /// Expired and flushed items whose memory was taken back, since the start.
    pub reclaimed: u64,
    /// Of these, items that no read ever hit.
    pub expired_unfetched: u64,
    /// What the policy allows it now, if it says so.
    pub target: Option<Bytes>,
    /// Its pages.
    pub pages: PageFigures,
    /// Its pools, handles on shared ones among them.
    pub pools: u32,
    /// Which eviction was chosen for its ephemeral pages.
    pub eviction: EvictionKind,
    /// Which one they have: never [`EvictionKind::Auto`].
    pub ruling_eviction: EvictionKind,
    /// Whether its new pages are refused.
    pub is_frozen: bool,
    /// What it gave for others' puts, since the start.
    pub gave: Bytes,
    /// What it got from others for its own puts, since the start.
    pub got: Bytes,
    /// Mortar's fairness f = (held ÷ limit) ÷ (weight ÷ sum of weights).
    pub fairness: f64,
}

/// The whole store, now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreFigures {
    /// What the arena may hold.
    pub limit: Bytes,
    /// What it holds: tenants' blocks, index and free list.
    pub held: Bytes,
    /// Of that, blocks on the free list.
    pub free: Bytes,
    /// Of that, blocks that nobody owns any more and somebody may still read.
    pub limbo: Bytes,
    /// Of that, blocks of the hash index.
    pub index: Bytes,
    /// Of the limit, what no tenant may take, so that eviction always can.
    pub reserve: Bytes,
    /// Live item bytes.
    pub used: Bytes,
    /// Live items.
    pub items: u64,
}

/// One pool of pages, now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolFigures {
    /// Which.
    pub id: PoolId,
    /// Whose it is. A shared pool is its account's.
    pub tenant: TenantId,
    /// Its pages in memory; of a handle on a shared pool none. Those of memory that was released just now may count until it is swept.
    pub pages: Pages,
    /// Handles on it, of tenants that share it.
    pub sharers: u32,
}

/// The store, now, with its tenants and pools.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AllFigures {
    /// The whole of it.
    pub store: StoreFigures,
    /// Each tenant.
    pub tenants: Vec<TenantFigures>,
    /// Each pool, in the order of their places.
    pub pools: Vec<PoolFigures>,
}

/// Why a tenant could not be added or changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TenantError {
    /// The name is taken.
    #[error("a tenant of that name exists already")]
    Exists,
    /// No tenant of that number.
    #[error("no such tenant")]
    Unknown,
    /// The table is full.
    #[error("{0} tenants are the most a daemon serves at a time: remove one that nobody needs")]
    TooMany(usize),
    /// A floor above the ceiling.
    #[error("the floor is above the ceiling")]
    FloorAboveCeiling,
    /// A weight of zero.
    #[error("a weight is at least 1")]
    NoWeight,
}

/// The smallest arena: a block each for the index, eviction and what is written, and some to choose among.
pub const ARENA_MIN: Bytes = Bytes::mib(16);

/// Keys that a worker can expect at once.
pub const EXPECTED_MAX: usize = 16;

/// The most threads that may read or write at once.
pub(crate) const WORKERS_MAX: usize = 512;

/// No place for one more worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{WORKERS_MAX} workers are the most a store serves")]
pub struct TooManyWorkers;

/// One item, for as long as its worker holds it still.
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

    /// Client flags.
    pub fn flags(&self) -> u32 {
        self.flags
    }

    /// When it ceases to be.
    pub fn expiry(&self) -> Expiry {
        self.expiry
    }

    /// Marks of the meta protocol.
    pub fn marks(&self) -> Marks {
        self.marks
    }

    /// Its cas unique. Asking makes it lasting: it stays until the value changes.
    pub fn cas(&self) -> u64 {
        (self.cas)()
    }

    /// Whether a read counted as a use before this one.
    pub fn fetched(&self) -> bool {
        self.fetched
    }

    /// When it was last used or stored.
    pub fn last_access(&self) -> Second {
        self.last_access
    }
}

/// A value: one piece, or the chunks of a large one.
pub enum Value<'a> {
    /// In one piece.
    Whole(&'a [u8]),
    /// In chunks, in their order.
    Chunks(Vec<&'a [u8]>),
}

impl<'a> Value<'a> {
    /// Bytes in all.
    pub fn len(&self) -> usize {
        self.pieces().iter().map(|piece| piece.len()).sum()
    }

    /// Whether it has no byte.
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
