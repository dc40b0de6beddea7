//! Opening a disk, and its end.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sublet_frontends::backend::Backend;
use sublet_frontends::tenancy::Doorman;
use sublet_store::Store;
use sublet_types::{Bytes, DiskKind, DiskSettings, Fill, PAGE_BYTES, PoolFlags, TenantId};

use super::backed::Backed;
use super::backing::{Backing, BackingError, whole_sectors};
use super::bell::Bell;
use super::disk_events::DiskEvents;
use super::disk_thread::DiskThread;
use super::engine::Engine;
use super::error::DiskError;
use super::figures::Tallies;
use super::holes::Holes;
use super::inbox::Inbox;
use super::plight::Plight;
use super::reading::Reading;
use super::stage::Stage;
use super::swap::Swap;
use crate::observe::events::Events;
use crate::patience::patiently;

/// What is known of a disk before it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum History {
    /// Its owner names it now: a file that is not there may be made, and what another disk of that name left keeps it
    /// out.
    New,
    /// The config names it: a file that is not there may be made, unless the disk was served since the host's start.
    Written,
    /// The same, and its owner gave it another size since: its backing may be larger.
    Resized,
    /// It was served: a file that is not there is lost, and an empty one in its place would be worse than none.
    Served,
    /// It was served, and its owner does without what was lost of it.
    GivenUp,
}

/// How often it is looked whether a thread has ended.
const LOOK: Duration = Duration::from_millis(5);

/// A disk whose thread runs.
pub(super) struct OpenDisk {
    pub(super) disk: Arc<Backed>,
    thread: JoinHandle<()>,
}

/// What a disk is opened with.
pub(super) struct Opening<'a> {
    pub(super) backend: &'a Backend,
    pub(super) tenant: TenantId,
    /// Where pages of swap are staged; disks need none.
    pub(super) stage: Option<Arc<Stage>>,
    /// The backing is a file that nobody named: it is made, and grown, as it is needed.
    pub(super) is_own: bool,
    /// The file is made where it is not there.
    pub(super) may_make: bool,
    /// The mark of the backing that it was served from since the host's start, where it comes back from there.
    pub(super) mark: Option<u64>,
    pub(super) history: History,
    /// Where it is told what befalls it.
    pub(super) events: &'a Events,
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
        let (path, is_new) = (backing.path().to_owned(), backing.is_new());
        let opened = check_same(&backing, settings, opening)
            .and_then(|()| check_owner(&backing, settings, opening))
            .and_then(|()| OpenDisk::start_on(backing, settings, opening));
        if opened.is_err() && is_new {
            undo(&path);
        }
        opened
    }

    fn start_on(
        backing: Backing,
        settings: &DiskSettings,
        opening: &Opening<'_>,
    ) -> Result<OpenDisk, DiskError> {
        let (settings, tenant) = (settings.clone(), opening.tenant);
        let stage = opening.stage.clone();
        let store = Arc::clone(&opening.backend.store);
        let events = DiskEvents::of(&settings, opening.events);
        let make = move || assemble(backing, settings, tenant, stage, &store, events);
        employ(opening.backend.clone(), make)
    }

    /// Answers what was asked, writes what is staged, and ends. Nobody asks any more.
    pub(super) fn end(self) {
        self.begin_ending();
        let _ = self.thread.join();
    }

    /// Ends like that, but waits so long at most: a thread that waits for its backing still is left to it. Says whether
    /// it has ended.
    pub(super) fn end_within(self, time: Duration) -> bool {
        let until = Instant::now() + time;
        self.begin_ending();
        while !self.thread.is_finished() {
            if Instant::now() >= until {
                return false;
            }
            thread::sleep(LOOK);
        }
        true
    }

    /// What is asked still is answered when the backing has it: nobody would write it behind when who does has ended.
    pub(super) fn begin_ending(&self) {
        self.disk.swap.iter().for_each(Swap::begin_ending);
        self.disk.inbox.end();
        if let Some(swap) = &self.disk.swap {
            swap.wake();
        }
    }
}

/// A disk that nobody is at work on yet, with a pool of its own.
pub(super) fn assemble(
    backing: Backing,
    settings: DiskSettings,
    tenant: TenantId,
    stage: Option<Arc<Stage>>,
    store: &Store,
    events: DiskEvents,
) -> Result<Backed, DiskError> {
    let has = backing.bytes().map_err(DiskError::System)?;
    // It may have been larger for a while.
    let said = settings.size.map_or(has, |said| whole_sectors(said.0));
    let bytes = said.min(has);
    let mark = backing.mark().map_err(DiskError::System)?;
    let short_of = reserve(&backing, &settings);
    let rest = AtomicU64::new(tell_of_rest(&backing, &settings));
    let bell = Arc::new(Bell::new().map_err(DiskError::System)?);
    let pool = store.create_pool(tenant, pool_flags(&settings), None)?;
    store.set_windows(pool, settings.windows.unwrap_or_default());
    let durability = settings.durability();
    let plight: Arc<Plight> = Arc::default();
    let swap = stage.map(|stage| {
        let (bell, plight) = (Arc::clone(&bell), Arc::clone(&plight));
        Swap::new(stage, (&settings.name, mark), durability, bell, plight)
    });
    Ok(Backed {
        tenant,
        pool,
        inbox: Inbox::new(Arc::clone(&bell)),
        slow: settings.slow,
        reading: Reading::new(
            bytes / PAGE_BYTES,
            settings.fill.unwrap_or_default(),
            settings.sequential_max,
            RandomState::new().hash_one(&settings.name),
        ),
        settings,
        holes: Holes::default(),
        tallies: Tallies::default(),
        bytes: AtomicU64::new(bytes),
        ailments: Default::default(),
        events,
        short_of,
        rest,
        plight,
        backing,
        bell,
        swap,
    })
}

fn open_backing(settings: &DiskSettings, opening: &Opening<'_>) -> Result<Backing, DiskError> {
    let none = || DiskError::NoBacking(settings.name.clone());
    let path = PathBuf::from(settings.backing.as_ref().ok_or_else(none)?);
    // What a daemon that was killed had given the kernel to write holds the lock until it is written.
    let may_pass = |error: &BackingError| matches!(error, BackingError::InUse(_));
    let opened = patiently(may_pass, || match (settings.kind, settings.size) {
        (DiskKind::Swap, Some(size)) if opening.may_make => Backing::make(&path, size),
        _ => Backing::open(&path, settings.read_only),
    });
    let backing = opened.map_err(|error| match error {
        BackingError::Open { path, source }
            if settings.kind == DiskKind::Swap && source.kind() == io::ErrorKind::NotFound =>
        {
            let name = settings.name.clone();
            DiskError::Vanished { name, path }
        }
        error => error.into(),
    })?;
    let has = backing.bytes().map_err(|source| BackingError::Open {
        path: path.clone(),
        source,
    })?;
    fit(backing, has, settings, opening)
}

/// A guest sees whole sectors. Says how many bytes are left over.
fn tell_of_rest(backing: &Backing, settings: &DiskSettings) -> u64 {
    let rest = backing.rest().unwrap_or(0);
    if rest > 0 {
        tracing::warn!(disk = %settings.name, bytes = rest, "the last bytes of the backing are no whole sector, and no part of the disk");
    }
    rest
}

/// A page of swap that memory has no place for always finds its own, so the whole of a file is given its blocks. Says what
/// is wrong where the file system has not so many.
fn reserve(backing: &Backing, settings: &DiskSettings) -> Option<String> {
    if settings.kind != DiskKind::Swap || settings.read_only {
        return None;
    }
    let error = backing.reserve().err()?;
    tracing::warn!(disk = %settings.name, %error, "the backing has not the blocks for all pages of swap");
    Some(error.to_string())
}

/// A guest that lives still would read another file as what it had swapped.
fn check_same(
    backing: &Backing,
    settings: &DiskSettings,
    opening: &Opening<'_>,
) -> Result<(), DiskError> {
    let Some(mark) = opening.mark else {
        return Ok(());
    };
    match backing.mark().map_err(DiskError::System)? == mark {
        true => Ok(()),
        false => Err(DiskError::Replaced {
            name: settings.name.clone(),
            path: backing.path().to_owned(),
        }),
    }
}

/// A file that nobody named goes on from the disk that left it, but never from another tenant's: its pages were that
/// one's memory.
fn check_owner(
    backing: &Backing,
    settings: &DiskSettings,
    opening: &Opening<'_>,
) -> Result<(), DiskError> {
    if !opening.is_own {
        return Ok(());
    }
    let tenant = settings.tenant.as_str();
    match backing.owner() {
        Some(owner) if owner != tenant => {
            return Err(DiskError::OfAnother {
                path: backing.path().to_owned(),
                owner,
            });
        }
        Some(_) => {}
        None if opening.history == History::New && !backing.is_new() => {
            return Err(DiskError::OfNobody(backing.path().to_owned()));
        }
        None => {
            if let Err(error) = backing.set_owner(tenant) {
                tracing::debug!(disk = %settings.name, %error, "its file cannot say whose it is");
            }
        }
    }
    Ok(())
}

/// A backing has the size that was said. A file that is ours grows to it. One of a disk that was served before, or was given
/// another size, may be larger, and no more of it is served than was said.
fn fit(
    backing: Backing,
    has: u64,
    settings: &DiskSettings,
    opening: &Opening<'_>,
) -> Result<Backing, DiskError> {
    let Some(said) = settings.size.filter(|said| whole_sectors(said.0) != has) else {
        return Ok(backing);
    };
    let was_served = matches!(
        opening.history,
        History::Resized | History::Served | History::GivenUp
    );
    let may_be_larger = opening.is_own || was_served;
    if opening.is_own && said.0 > has {
        backing
            .grow(said, true)
            .map_err(|source| DiskError::NotGrown {
                name: settings.name.clone(),
                source,
            })?;
    } else if said.0 < has && may_be_larger {
        tracing::warn!(disk = %settings.name, has = %Bytes(has), size = %said, "the backing is larger than its disk");
    } else {
        return Err(DiskError::Backing(BackingError::OtherSize {
            path: backing.path().to_owned(),
            has: Bytes(has),
            said,
        }));
    }
    Ok(backing)
}

/// A file that was made for a disk which was not added after all.
pub(super) fn undo(path: &Path) {
    if let Err(error) = std::fs::remove_file(path) {
        tracing::warn!(path = %path.display(), %error, "a backing that was made for nothing stays");
    }
}

/// Starts the disk's thread. What belongs to it is made there.
fn employ(
    backend: Backend,
    make: impl FnOnce() -> Result<Backed, DiskError> + Send + 'static,
) -> Result<OpenDisk, DiskError> {
    let (ready, made) = mpsc::channel();
    let body = move || {
        let (doorman, thread) = match begin(&backend, make) {
            Ok(begun) => begun,
            Err(error) => {
                let _ = ready.send(Err(error));
                return;
            }
        };
        let disk = Arc::clone(&thread.disk);
        let _ = ready.send(Ok(Arc::clone(&disk)));
        if let Err(error) = thread.run() {
            tracing::error!(%error, "a disk's thread failed: the daemon ends, so that guests find the next one");
            std::process::abort();
        }
        end_pool(&doorman, &disk);
    };
    let thread = thread::Builder::new()
        .name("disk".to_owned())
        .spawn(body)
        .map_err(DiskError::System)?;
    let began = made.recv();
    let disk = began
        .map_err(|_| DiskError::System(io::Error::other("the disk's thread did not begin")))??;
    Ok(OpenDisk { disk, thread })
}

/// Makes a disk and what its thread works with, on this thread; of one that cannot begin nothing stays.
fn begin(
    backend: &Backend,
    make: impl FnOnce() -> Result<Backed, DiskError>,
) -> Result<(Doorman, Rc<DiskThread>), DiskError> {
    let Backend {
        store,
        clock,
        ledger,
    } = backend;
    let doorman = Doorman::new(store, *clock, ledger)?;
    let disk = Arc::new(make()?);
    match Engine::start(&disk.bell, disk.slow, disk.settings.name.as_str()) {
        Ok(engine) => {
            let thread = DiskThread::new(disk, &doorman, engine);
            Ok((doorman, thread))
        }
        Err(error) => {
            end_pool(&doorman, &disk);
            Err(DiskError::System(error))
        }
    }
}

/// Ends a disk's pool: its pages go.
fn end_pool(doorman: &Doorman, disk: &Backed) {
    let tenancy = doorman.open(disk.tenant);
    let (worker, tenant, now) = tenancy.acting();
    worker.destroy_pool(tenant, disk.pool, now);
}
