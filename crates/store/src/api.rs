//! What the store's callers say and hear.

use sublet_types::{Bytes, Expiry, ReleaseMode, Second, TenantId, TenantSettings};

/// How a store is made.
#[derive(Clone, Debug)]
pub struct StoreSettings {
    /// Address space to reserve: the most that the arena can ever hold.
    pub capacity: Bytes,
    /// What the arena may hold at first, index included.
    pub limit: Bytes,
    /// The largest value, head included (memcached's `-I`).
    pub item_max: Bytes,
    /// Seed of the item hashes: drawn anew at each start.
    pub seed: u64,
    /// Whether a full arena evicts (memcached) or refuses (memcached `-M`).
    pub evicts: bool,
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
    /// Of these, items that no read ever hit.
    pub evicted_unfetched: u64,
    /// Expired and flushed items whose memory was taken back, since the start.
    pub reclaimed: u64,
    /// Of these, items that no read ever hit.
    pub expired_unfetched: u64,
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
    /// Of that, blocks of the hash index.
    pub index: Bytes,
    /// Live item bytes.
    pub used: Bytes,
    /// Live items.
    pub items: u64,
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
    #[error("{0} tenants are the most a daemon serves")]
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
pub const WORKERS_MAX: usize = 128;

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
