//! Keys in the form in which the page store keeps them, and their hashes.

use std::hash::{BuildHasher, Hasher};

use sublet_types::{ObjectId, PageIndex};

/// Pages of an extent: an aligned run of an object that the directory may keep in one leaf.
pub(crate) const EXTENT_PAGES: u32 = 128;

/// A page's key in the store. It names the pool by its slot, because pages of dead pools are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredKey {
    pub(crate) pool: u32,
    pub(crate) object: ObjectId,
    pub(crate) index: PageIndex,
}

impl StoredKey {
    /// The number of its extent in the object.
    pub(crate) fn extent(self) -> u32 {
        self.index.0 / EXTENT_PAGES
    }

    /// Its index in the extent.
    pub(crate) fn place(self) -> u32 {
        self.index.0 % EXTENT_PAGES
    }

    /// Returns whether it is a key of the same extent.
    pub(crate) fn is_beside(self, other: StoredKey) -> bool {
        (self.pool, self.object, self.extent()) == (other.pool, other.object, other.extent())
    }

    /// The key of another page of that object.
    pub(crate) fn at(self, index: PageIndex) -> StoredKey {
        StoredKey { index, ..self }
    }
}

/// The seed of hashes. It differs from one start to the next, so that nobody can target a shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HashSeed(pub(crate) u64);

const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
const STIR: u64 = 0xe703_7ed1_a0b4_28db;

/// Multiplies and folds, so that every bit of the factors reaches every bit of the product.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

impl HashSeed {
    /// The hash of an object, which chooses its shard.
    pub(crate) fn object(self, pool: u32, object: ObjectId) -> u64 {
        fold(
            fold(object.0 ^ self.0, MIX) ^ u64::from(pool),
            STIR ^ self.0,
        )
    }

    /// The hash of an extent of the object whose hash is given. It is the extent's place in the directory.
    pub(crate) fn extent(self, object: u64, extent: u32) -> u64 {
        fold(object ^ u64::from(extent), MIX ^ self.0)
    }

    /// The hash of a page, which is its name among ghosts and samples.
    pub(crate) fn page(self, key: StoredKey) -> u64 {
        self.page_of(self.object(key.pool, key.object), key.index)
    }

    /// The hash of a page of the object whose hash is given.
    pub(crate) fn page_of(self, object: u64, index: PageIndex) -> u64 {
        fold(object ^ u64::from(index.0).rotate_left(32), STIR)
    }
}

/// Hashes the keys of maps without drawing randomness. What a tenant can choose is hashed with the store's seed
/// already.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SeededHasher(u64);

impl SeededHasher {
    pub(crate) fn new(seed: HashSeed) -> SeededHasher {
        SeededHasher(seed.0)
    }
}

impl BuildHasher for SeededHasher {
    type Hasher = SeededHasher;
    fn build_hasher(&self) -> SeededHasher {
        *self
    }
}

impl Hasher for SeededHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|byte| self.write_u64(u64::from(*byte)));
    }
    fn write_u32(&mut self, n: u32) {
        self.write_u64(u64::from(n));
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = fold(self.0 ^ n, MIX);
    }
    fn finish(&self) -> u64 {
        fold(self.0, STIR)
    }
}
