//! How a disk is opened, and how it ends.

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
use sublet_frontends::tenancy::StoreHandle;
use sublet_store::Store;
use sublet_types::{Bytes, DiskKind, DiskSettings, FillPolicy, PAGE_BYTES, PoolFlags, TenantId};

use super::backed_disk::BackedDisk;
use super::backing::{Backing, BackingAccess, BackingError, FileAllocation, whole_sectors};
use super::disk_events::DiskEvents;
use super::disk_figures::DiskTallies;
use super::disk_problems::DiskProblems;
use super::disk_queue::DiskQueue;
use super::disk_thread::DiskThread;
use super::engine::IoEngine;
use super::error::DiskError;
use super::event_fd::EventFd;
use super::far_reads::{FarReads, MISS_EXPECTED};
use super::hole_map::HoleMap;
use super::read_tracker::ReadTracker;
use super::stage::Stage;
use super::swap::Swap;
use crate::observe::events::Events;
use crate::peers::far_memory::FarMemory;
use crate::retry::retry_for_killed_daemon;

/// What is known of a disk before it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiskHistory {
    /// The disk's owner names it now. A file that is not there may be made. What another disk of that name left keeps
    /// this one out.
    New,
    /// The config names the disk. A file that is not there may be made, unless the disk was served since the host's
    /// start.
    Written,
    /// The same, and the owner gave the disk another size since. Its backing may be larger.
    Resized,
    /// The disk was served. A file that is not there is lost, and an empty one in its place would be worse than none.
    Served,
    /// The disk was served, and its owner accepts what was lost of it.
    GivenUp,
}

/// How often a wait checks whether a thread has ended.
const LOOK: Duration = Duration::from_millis(5);

/// A disk whose thread runs.
pub(super) struct RunningDisk {
    pub(super) disk: Arc<BackedDisk>,
    thread: JoinHandle<()>,
}

/// What a disk is opened with.
pub(super) struct DiskOpenOptions<'a> {
    pub(super) backend: &'a Backend,
    pub(super) tenant: TenantId,
    /// The stage for pages of swap. Disks of files need none.
    pub(super) stage: Option<Arc<Stage>>,
    /// The backing is a file that nobody named. The daemon makes it and grows it as needed.
    pub(super) is_own: bool,
    /// The daemon may make the file if it is not there.
    pub(super) may_make: bool,
    /// The mark of the backing from which the disk was served since the host's start, if the disk comes back from
    /// there.
    pub(super) mark: Option<u64>,
    pub(super) history: DiskHistory,
    /// What the host has of lenders, if it borrows.
    pub(super) far: Option<FarMemory>,
    /// Receives the disk's events.
    pub(super) events: &'a Events,
}

/// A disk's pages are ephemeral, because the backing or the stage has them. They stay when they are read, unless the
/// disk's settings drop them then.
fn pool_flags(settings: &DiskSettings) -> PoolFlags {
    let goes = settings.kind == DiskKind::Disk && settings.fill == Some(FillPolicy::DropOnRead);
    PoolFlags {
        persistent: false,
        shared: false,
        keeping: !goes,
    }
}

impl RunningDisk {
    pub(super) fn start(
        settings: &DiskSettings,
        opening: &DiskOpenOptions<'_>,
    ) -> Result<RunningDisk, DiskError> {
        let backing = open_backing(settings, opening)?;
        let (path, is_new) = (backing.path().to_owned(), backing.is_new());
        let opened = check_mark(&backing, settings, opening)
            .and_then(|()| check_owner(&backing, settings, opening))
            .and_then(|()| RunningDisk::start_on(backing, settings, opening));
        if opened.is_err() && is_new {
            remove_unused_backing(&path);
        }
        opened
    }

    fn start_on(
        backing: Backing,
        settings: &DiskSettings,
        opening: &DiskOpenOptions<'_>,
    ) -> Result<RunningDisk, DiskError> {
        let (settings, tenant) = (settings.clone(), opening.tenant);
        let stage = opening.stage.clone();
        let store = Arc::clone(&opening.backend.store);
        let events = DiskEvents::of(&settings, opening.events);
        let make = move || assemble(backing, settings, tenant, stage, &store, events);
        spawn_thread(opening.backend.clone(), opening.far.clone(), make)
    }

    /// Answers what was asked, writes what is staged, and ends. Nobody may ask after this call.
    pub(super) fn end(self) {
        self.begin_ending();
        let _ = self.thread.join();
    }

    /// Ends the same way, but waits at most `time`. A thread that still waits for its backing is left alone. Returns
    /// whether the thread has ended.
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

    /// From now on the disk answers a write when the backing has it. The write-behind task may have ended by then and
    /// would not write it.
    pub(super) fn begin_ending(&self) {
        self.disk.swap.iter().for_each(Swap::begin_ending);
        self.disk.queue.end();
        if let Some(swap) = &self.disk.swap {
            swap.wake();
        }
    }
}

/// A disk with a pool of its own that nobody uses yet.
pub(super) fn assemble(
    backing: Backing,
    settings: DiskSettings,
    tenant: TenantId,
    stage: Option<Arc<Stage>>,
    store: &Store,
    events: DiskEvents,
) -> Result<BackedDisk, DiskError> {
    let has = backing.bytes().map_err(DiskError::System)?;
    // The disk may have been larger for a while.
    let said = settings.size.map_or(has, |said| whole_sectors(said.0));
    let bytes = said.min(has);
    let mark = backing.mark().map_err(DiskError::System)?;
    let short_of = reserve(&backing, &settings);
    let rest = AtomicU64::new(report_partial_sector(&backing, &settings));
    let event_fd = Arc::new(EventFd::new().map_err(DiskError::System)?);
    let pool = store.create_pool(tenant, pool_flags(&settings), None)?;
    store.set_windows(pool, settings.windows.unwrap_or_default());
    let durability = settings.durability();
    let problems: Arc<DiskProblems> = Arc::default();
    let swap = stage.map(|stage| {
        let (event_fd, problems) = (Arc::clone(&event_fd), Arc::clone(&problems));
        Swap::new(
            stage,
            (&settings.name, mark),
            durability,
            event_fd,
            problems,
        )
    });
    Ok(BackedDisk {
        tenant,
        pool,
        queue: DiskQueue::new(Arc::clone(&event_fd)),
        slow: settings.slow,
        reading: ReadTracker::new(
            bytes / PAGE_BYTES,
            settings.fill.unwrap_or_default(),
            settings.sequential_max,
            RandomState::new().hash_one(&settings.name),
        ),
        settings,
        holes: HoleMap::default(),
        tallies: DiskTallies::default(),
        bytes: AtomicU64::new(bytes),
        failures: Default::default(),
        events,
        short_of,
        rest,
        problems,
        backing,
        wakeup: event_fd,
        swap,
    })
}

fn open_backing(
    settings: &DiskSettings,
    opening: &DiskOpenOptions<'_>,
) -> Result<Backing, DiskError> {
    let none = || DiskError::NoBacking(settings.name.clone());
    let path = PathBuf::from(settings.backing.as_ref().ok_or_else(none)?);
    // A killed daemon may have given the kernel writes. They hold the lock until they are written.
    let access = match settings.read_only {
        true => BackingAccess::ReadOnly,
        false => BackingAccess::ReadWrite,
    };
    let may_pass = |error: &BackingError| matches!(error, BackingError::InUse(_));
    let opened = retry_for_killed_daemon(may_pass, || match (settings.kind, settings.size) {
        (DiskKind::Swap, Some(size)) if opening.may_make => Backing::make(&path, size),
        _ => Backing::open(&path, access),
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
    fit_size(backing, has, settings, opening)
}

/// A guest sees whole sectors. Logs and returns how many bytes are left over.
fn report_partial_sector(backing: &Backing, settings: &DiskSettings) -> u64 {
    let rest = backing.partial_sector_bytes().unwrap_or(0);
    if rest > 0 {
        tracing::warn!(disk = %settings.name, path = %backing.path().display(), bytes = rest, "the last bytes of the backing fill no sector of 512 bytes, and no guest sees them; lengthen the backing if they matter");
    }
    rest
}

/// Reserves all blocks of a file, because a page of swap that memory has no room for must always find its place.
/// Returns what is wrong if the file system does not have so many.
fn reserve(backing: &Backing, settings: &DiskSettings) -> Option<String> {
    if settings.kind != DiskKind::Swap || settings.read_only {
        return None;
    }
    let error = backing.reserve().err()?;
    let wanted = Bytes(backing.bytes().unwrap_or_default());
    tracing::warn!(disk = %settings.name, path = %backing.path().display(), %wanted, %error, "the backing does not have blocks for all pages of swap; the daemon serves it, and a guest's write may fail: free space on its file system");
    Some(error.to_string())
}

/// Checks the backing's mark. A guest that is still alive would read another file as what it had swapped.
fn check_mark(
    backing: &Backing,
    settings: &DiskSettings,
    opening: &DiskOpenOptions<'_>,
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

/// Checks the owner of a file that nobody named. The disk goes on from what an earlier disk left, but never from
/// another tenant's file, because its pages were that tenant's memory.
fn check_owner(
    backing: &Backing,
    settings: &DiskSettings,
    opening: &DiskOpenOptions<'_>,
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
        None if opening.history == DiskHistory::New && !backing.is_new() => {
            return Err(DiskError::OfNobody(backing.path().to_owned()));
        }
        None => {
            if let Err(error) = backing.set_owner(tenant) {
                tracing::debug!(disk = %settings.name, path = %backing.path().display(), wanted = tenant, %error, "the daemon cannot write into the disk's file whose pages it has; a later disk of that name does not take the file over");
            }
        }
    }
    Ok(())
}

/// Makes the backing fit the size in the settings. A file that is ours grows to that size. The backing may be larger if
/// the disk was served before or was given another size. The disk then serves no more than the settings say.
fn fit_size(
    backing: Backing,
    has: u64,
    settings: &DiskSettings,
    opening: &DiskOpenOptions<'_>,
) -> Result<Backing, DiskError> {
    let Some(said) = settings.size.filter(|said| whole_sectors(said.0) != has) else {
        return Ok(backing);
    };
    let was_served = matches!(
        opening.history,
        DiskHistory::Resized | DiskHistory::Served | DiskHistory::GivenUp
    );
    let may_be_larger = opening.is_own || was_served;
    if opening.is_own && said.0 > has {
        backing
            .grow(said, FileAllocation::Full)
            .map_err(|source| DiskError::NotGrown {
                name: settings.name.clone(),
                source,
            })?;
    } else if said.0 < has && may_be_larger {
        tracing::warn!(disk = %settings.name, has = %Bytes(has), size = %said, "the backing is larger than its disk, and guests see the disk's size; `sublet disk resize` lets them see the rest");
    } else {
        return Err(DiskError::Backing(BackingError::OtherSize {
            path: backing.path().to_owned(),
            has: Bytes(has),
            said,
        }));
    }
    Ok(backing)
}

/// Removes a file that was made for a disk which was not added after all.
pub(super) fn remove_unused_backing(path: &Path) {
    if let Err(error) = std::fs::remove_file(path) {
        let bytes = Bytes(std::fs::metadata(path).map_or(0, |facts| facts.len()));
        tracing::warn!(path = %path.display(), %bytes, %error, "the daemon could not delete a backing that it made for a disk which was not added; delete it by hand");
    }
}

/// Starts the disk's thread, which makes everything that belongs to it.
fn spawn_thread(
    backend: Backend,
    far: Option<FarMemory>,
    make: impl FnOnce() -> Result<BackedDisk, DiskError> + Send + 'static,
) -> Result<RunningDisk, DiskError> {
    let (ready, made) = mpsc::channel();
    let body = move || {
        let (store_handle, thread) = match build_thread(&backend, far, make) {
            Ok(begun) => begun,
            Err(error) => {
                let _ = ready.send(Err(error));
                return;
            }
        };
        let disk = Arc::clone(&thread.disk);
        let _ = ready.send(Ok(Arc::clone(&disk)));
        if let Err(error) = thread.run() {
            tracing::error!(disk = %disk.settings.name, %error, "the disk's thread failed; the daemon aborts, so that guests find the next one: start it again");
            std::process::abort();
        }
        end_pool(&store_handle, &disk);
    };
    let thread = thread::Builder::new()
        .name("disk".to_owned())
        .spawn(body)
        .map_err(DiskError::System)?;
    let began = made.recv();
    let disk = began
        .map_err(|_| DiskError::System(io::Error::other("the disk's thread did not begin")))??;
    Ok(RunningDisk { disk, thread })
}

/// Makes a disk and what its thread works with, on this thread. Nothing stays of a disk that cannot begin.
fn build_thread(
    backend: &Backend,
    far: Option<FarMemory>,
    make: impl FnOnce() -> Result<BackedDisk, DiskError>,
) -> Result<(StoreHandle, Rc<DiskThread>), DiskError> {
    let Backend {
        store,
        clock,
        ledger,
        ..
    } = backend;
    let store_handle = StoreHandle::new(store, *clock, ledger)?;
    let disk = Arc::new(make()?);
    match IoEngine::start(&disk.wakeup, disk.slow, disk.settings.name.as_str()) {
        Ok(engine) => {
            let name = disk.settings.name.as_str();
            let fetcher = far.map(|far| far.fetcher(name, expected_miss(&disk)));
            let far = fetcher.map(FarReads::new);
            let thread = DiskThread::new(disk, &store_handle, engine, far);
            Ok((store_handle, thread))
        }
        Err(error) => {
            end_pool(&store_handle, &disk);
            Err(DiskError::System(error))
        }
    }
}

/// What a read of the backing is expected to take, before any was measured.
fn expected_miss(disk: &BackedDisk) -> Duration {
    disk.slow.map_or(MISS_EXPECTED, |slow| slow.latency)
}

/// Ends a disk's pool and drops its pages.
fn end_pool(store_handle: &StoreHandle, disk: &BackedDisk) {
    let tenancy = store_handle.open(disk.tenant);
    let (worker, tenant, now) = tenancy.worker_tenant_now();
    worker.destroy_pool(tenant, disk.pool, now);
}
