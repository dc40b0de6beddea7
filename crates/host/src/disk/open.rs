//! Opening a disk, and its end.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use sublet_frontends::memcached::serve::Premises;
use sublet_frontends::tenancy::Doorman;
use sublet_types::{Bytes, DiskKind, DiskSettings, Fill, PAGE_BYTES, PoolFlags, TenantId};

use super::backed::Backed;
use super::backing::{Backing, BackingError};
use super::bell::Bell;
use super::figures::Tallies;
use super::floor::Floor;
use super::inbox::Inbox;
use super::reading::Reading;
use super::stage::Stage;
use super::swap::Swap;
use super::{DiskError, History};
use crate::observe::Seldom;

/// A disk whose thread runs.
pub(super) struct OpenDisk {
    pub(super) disk: Arc<Backed>,
    thread: JoinHandle<()>,
}

/// What a disk is opened with.
pub(super) struct Opening<'a> {
    pub(super) premises: &'a Premises,
    pub(super) tenant: TenantId,
    /// Where pages of swap are staged; disks need none.
    pub(super) stage: Option<Arc<Stage>>,
    /// The backing is a file that nobody named: it is made, and grown, as it is needed.
    pub(super) is_own: bool,
    pub(super) history: History,
}

/// A disk's pages are ephemeral: the backing has them, or the stage. They stay when they are read, unless the disk
/// wants them to go then.
fn pool_flags(settings: &DiskSettings) -> PoolFlags {
    let goes = settings.kind == DiskKind::Disk && settings.fill == Some(Fill::DropOnRead);
    PoolFlags {
        persistent: false,
        shared: false,
        keeping: !goes,
    }
}

impl OpenDisk {
    pub(super) fn start(
        settings: &DiskSettings,
        opening: &Opening<'_>,
    ) -> Result<OpenDisk, DiskError> {
        let backing = open_backing(settings, opening)?;
        let has = backing.bytes().map_err(DiskError::System)?;
        // It may have been larger for a while.
        let bytes = settings.size.map_or(has, |said| said.0.min(has));
        let mark = backing.mark().map_err(DiskError::System)?;
        let bell = Arc::new(Bell::new().map_err(DiskError::System)?);
        let store = &opening.premises.store;
        let pool = store.create_pool(opening.tenant, pool_flags(settings), None);
        let durability = settings.durability();
        let swap = opening.stage.as_ref().map(|stage| {
            let (stage, bell) = (Arc::clone(stage), Arc::clone(&bell));
            Swap::new(stage, (&settings.name, mark), durability, bell)
        });
        let disk = Arc::new(Backed {
            tenant: opening.tenant,
            pool: pool?,
            inbox: Inbox::new(Arc::clone(&bell)),
            slow: settings.slow,
            settings: settings.clone(),
            reading: Reading::new(
                bytes / PAGE_BYTES,
                settings.fill.unwrap_or_default(),
                settings.sequential_max,
                RandomState::new().hash_one(&settings.name),
            ),
            tallies: Tallies::default(),
            bytes: AtomicU64::new(bytes),
            failing: Seldom::new(),
            backing,
            bell,
            swap,
        });
        let thread = employ(Arc::clone(&disk), opening.premises.clone())?;
        Ok(OpenDisk { disk, thread })
    }

    /// Answers what was asked, writes what is staged, and ends. Nobody asks any more.
    pub(super) fn end(self) {
        self.disk.inbox.end();
        if let Some(swap) = &self.disk.swap {
            swap.wake();
        }
        let _ = self.thread.join();
    }
}

fn open_backing(settings: &DiskSettings, opening: &Opening<'_>) -> Result<Backing, DiskError> {
    let none = || DiskError::NoBacking(settings.name.clone());
    let path = PathBuf::from(settings.backing.as_ref().ok_or_else(none)?);
    let backing = match (settings.kind, settings.size) {
        (DiskKind::Swap, Some(size)) if opening.history == History::Unknown => {
            Backing::make(&path, size)?
        }
        _ => Backing::open(&path, settings.read_only)?,
    };
    let has = backing.bytes().map_err(|source| BackingError::Open {
        path: path.clone(),
        source,
    })?;
    match settings.size {
        Some(said) if opening.is_own && said.0 > has => {
            backing.grow(said, true).map_err(DiskError::System)?;
            Ok(backing)
        }
        // One that is larger was made so while its disk ran; no more is served than was said.
        Some(said) if said.0 > has => Err(DiskError::Backing(BackingError::OtherSize {
            path,
            has: Bytes(has),
            said,
        })),
        _ => Ok(backing),
    }
}

/// Starts the disk's thread. What belongs to it is made there.
fn employ(disk: Arc<Backed>, premises: Premises) -> Result<JoinHandle<()>, DiskError> {
    let (ready, made) = mpsc::channel();
    let body = move || {
        let Premises {
            store,
            clock,
            ledger,
        } = &premises;
        let (tenant, pool) = (disk.tenant, disk.pool);
        let doorman = match Doorman::new(store, *clock, ledger) {
            Ok(doorman) => doorman,
            Err(error) => {
                let _ = ready.send(Err(DiskError::TooManyWorkers(error)));
                return;
            }
        };
        let floor = Floor::new(disk, &doorman);
        let floor = match floor {
            Ok(floor) => floor,
            Err(error) => {
                let _ = ready.send(Err(DiskError::System(error)));
                return;
            }
        };
        let _ = ready.send(Ok(()));
        if let Err(error) = floor.run() {
            tracing::error!(%error, "a disk's thread failed: the daemon ends, so that guests find the next one");
            std::process::abort();
        }
        doorman.open(tenant).destroy_pool(pool);
    };
    let thread = thread::Builder::new()
        .name("disk".to_owned())
        .spawn(body)
        .map_err(DiskError::System)?;
    let began = made.recv();
    began.map_err(|_| DiskError::System(io::Error::other("the disk's thread did not begin")))??;
    Ok(thread)
}
