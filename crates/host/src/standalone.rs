//! A store with one tenant and no daemon around it, for `sublet memcached`.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;

use sublet_frontends::backend::Backend;
use sublet_frontends::tenancy::{Clock, Ledger};
use sublet_store::{Release, Store, StoreSettings, TenantError};
use sublet_types::{
    BLOCK_BYTES, Bytes, ReleaseMode, TenantId, TenantName, TenantNameError, TenantSettings, Weight,
};

/// How such a store is made.
#[derive(Clone, Copy, Debug)]
pub struct StandaloneStoreSettings {
    /// The most that it may hold at first, index included.
    pub limit: Bytes,
    /// The largest item.
    pub item_max: Bytes,
    /// Whether it evicts when it is full, or refuses.
    pub evicts: bool,
}

/// Why the store could not be made.
#[derive(Debug, thiserror::Error)]
pub enum StandaloneError {
    /// The kernel does not give that much address space.
    #[error("cannot reserve memory: {0}")]
    Memory(#[from] io::Error),
    /// The tenant could not be added.
    #[error(transparent)]
    Tenant(#[from] TenantError),
    /// Nor named.
    #[error(transparent)]
    TenantName(#[from] TenantNameError),
}

/// A store, its clock and its ledger, and the one tenant in it.
#[derive(Clone)]
pub struct StandaloneStore {
    backend: Backend,
    tenant: TenantId,
    capacity: Bytes,
}

impl StandaloneStore {
    /// Makes a store. It can grow up to what the host has, or to `GROWS_MAX` times its first limit.
    pub fn open(settings: StandaloneStoreSettings) -> Result<StandaloneStore, StandaloneError> {
        let block = block_of(settings.limit);
        let grown = Bytes(settings.limit.0.saturating_mul(GROWS_MAX));
        let capacity = settings.limit.max(host_memory().min(grown));
        let store = Store::in_blocks(
            block,
            StoreSettings {
                capacity,
                limit: settings.limit,
                item_max: settings.item_max,
                seed: RandomState::new().hash_one(std::process::id()),
                evicts: settings.evicts,
                pages: sublet_store::PageSettings::default(),
            },
        )?;
        let name: TenantName = "default".parse()?;
        let tenant = store.add_tenant(TenantSettings {
            name,
            weight: Weight::default(),
            floor: None,
            ceiling: None,
        })?;
        let backend = Backend {
            store,
            clock: Clock::start(),
            ledger: Arc::new(Ledger::default()),
        };
        Ok(StandaloneStore {
            backend,
            tenant,
            capacity,
        })
    }

    /// What the store's workers need.
    pub fn backend(&self) -> &Backend {
        &self.backend
    }

    /// The tenant.
    pub fn tenant(&self) -> TenantId {
        self.tenant
    }

    /// The most that the store can ever be allowed to hold.
    pub fn capacity(&self) -> Bytes {
        self.capacity
    }

    /// The most that the store may hold now.
    pub fn limit(&self) -> Bytes {
        self.backend.store.limit()
    }

    /// Sets the most that the store may hold from now on. What it holds beyond that goes with
    /// [`StandaloneStore::shrink`].
    pub fn set_limit(&self, limit: Bytes) {
        self.backend.store.set_limit(limit);
    }

    /// Gives back what the store holds above its limit. Takes milliseconds.
    pub fn shrink(&self) {
        let figures = self.backend.store.figures();
        let excess = figures.held.saturating_sub(figures.limit);
        if excess == Bytes::ZERO {
            return;
        }
        if let Ok(worker) = self.backend.store.worker() {
            let release = Release {
                amount: excess,
                mode: ReleaseMode::Ordered,
                tenant: None,
            };
            worker.release(release, self.backend.clock.now());
        }
    }
}

/// The number of blocks into which a store's first limit is cut, if possible. Blocks that are open, spare or half empty
/// are then a small part.
const BLOCKS_WANTED: u64 = 128;

/// The smallest block. An item that is larger than a quarter of it is cut into chunks.
const BLOCK_MIN: u64 = 128 << 10;

/// The most times its first limit that a store may ever hold. Some 80 bytes are resident for each block that it may
/// get.
const GROWS_MAX: u64 = 256;

/// The size of blocks: a power of two.
fn block_of(limit: Bytes) -> Bytes {
    let wanted = (limit.0 / BLOCKS_WANTED).clamp(BLOCK_MIN, BLOCK_BYTES);
    Bytes(1 << wanted.ilog2())
}

/// All the memory of this machine.
fn host_memory() -> Bytes {
    let system = rustix::system::sysinfo();
    Bytes((system.totalram as u64).saturating_mul(u64::from(system.mem_unit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_store_has_small_blocks() {
        let cases = [
            (1, 128),
            (16, 128),
            (64, 512),
            (100, 512),
            (256, 2048),
            (1 << 20, 2048),
        ];
        for (mib, kib) in cases {
            assert_eq!(block_of(Bytes::mib(mib)), Bytes::kib(kib), "{mib} MiB");
        }
    }
}
