//! The disks that are open, and what they share.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sublet_client::messages::{DiskState, DiskStatus, OrphanReason, OrphanedPages};
use sublet_frontends::backend::Backend;
use sublet_frontends::block_device::Disk;
use sublet_store::TenantError;
use sublet_types::{
    Bytes, DiskKind, DiskListen, DiskName, DiskSettings, Durability, PAGE_BYTES, Pages, TenantId,
};

use super::backed_disk::BackedDisk;
use super::backing::{BackingError, FileAllocation, whole_sectors};
use super::clients::{ClientCounters, EndpointClients};
use super::endpoints::{ClosingClients, DiskEndpoints, NbdCertificates};
use super::error::DiskError;
use super::kept_stage::KeptStage;
use super::open::{DiskHistory, DiskOpenOptions, RunningDisk, remove_unused_backing};
use super::served_notes::{ServedNote, ServedNotes};
use super::stage::{Stage, StageNote, StageNotes};
use super::swap::Swap;
use super::watch::{DiskNotes, DiskWatch};
use crate::config::StateFolderClaim;
use crate::observe::events::Events;
use crate::peers::far_memory::FarMemory;
use crate::stuck;

/// What all disks share.
#[derive(Clone, Debug)]
pub(super) struct DiskEnvironment {
    /// The state folder. Swap disks without a backing get one there.
    pub(super) state: StateFolderClaim,
    /// The most bytes of pages that no backing has yet.
    pub(super) dirty_max: Bytes,
    /// The socket of the keeper of these pages.
    pub(super) keeper: PathBuf,
    /// Threads that serve NBD.
    pub(super) threads: usize,
    /// How long a backing may do nothing at all. After that, a disk that is to go stays.
    pub(super) silence_max: Duration,
    /// What the host has of lenders, if it borrows.
    pub(super) far: Option<FarMemory>,
    /// Receives the events of disks.
    pub(super) events: Events,
}

/// The disks that are open, and what they share.
pub(super) struct OpenDisks {
    backend: Backend,
    pub(super) environment: DiskEnvironment,
    /// Made with the first disk, as are NBD's threads.
    pub(super) places: Mutex<Option<DiskEndpoints>>,
    pub(super) callers: ClientCounters,
    /// Made with the first swap disk.
    pub(super) staging: Mutex<Option<KeptStage>>,
    /// Held while a stage and its keeper begin or end, which may take time.
    pub(super) staging_changes: Mutex<()>,
    /// When the keeper last failed to answer after a long wait.
    pub(super) silent_at: Mutex<Option<Instant>>,
    pub(super) stage_notes: StageNotes,
    pub(super) served: ServedNotes,
    pub(super) watch: DiskWatch,
    pub(super) open: Mutex<BTreeMap<DiskName, Arc<ServedDisk>>>,
}

/// A disk that is served.
pub(super) struct ServedDisk {
    /// The settings in force, with the backing that the disk was given and the ports that were taken.
    pub(super) settings: DiskSettings,
    pub(super) disk: Arc<BackedDisk>,
    pub(super) running: Mutex<Option<RunningDisk>>,
    pub(super) is_leaving: AtomicBool,
}

impl OpenDisks {
    /// Starts with no disks.
    pub(super) fn open(backend: &Backend, environment: DiskEnvironment) -> OpenDisks {
        let notes = StageNotes::of(&environment.state);
        let served = ServedNotes::of(&environment.state);
        OpenDisks {
            backend: backend.clone(),
            watch: DiskWatch::of(&notes, &served),
            stage_notes: notes,
            served,
            environment,
            places: Mutex::default(),
            callers: ClientCounters::default(),
            staging: Mutex::default(),
            staging_changes: Mutex::default(),
            silent_at: Mutex::default(),
            open: Mutex::default(),
        }
    }

    /// Opens a disk and serves it at its listeners. Its tenant is in the store already.
    ///
    /// # Errors
    ///
    /// See [`DiskError`]. Nothing of the disk is left then.
    pub(super) fn add(&self, said: &DiskSettings, history: DiskHistory) -> Result<(), DiskError> {
        if self.open.lock().contains_key(&said.name) {
            return Err(DiskError::Exists(said.name.clone()));
        }
        if said.kind == DiskKind::Swap {
            self.check_notes()?;
            self.check_versions(&said.name)?;
            if history != DiskHistory::GivenUp {
                self.check_served(&said.name)?;
            }
        }
        let mut settings = self.with_backing(said)?;
        let in_use = self.lease_stage_for(&settings)?;
        let stage = in_use.as_ref().map(|in_use| Arc::clone(&in_use.stage));
        match (&stage, history) {
            (None, _) => {}
            (Some(stage), DiskHistory::GivenUp) => {
                self.check_reachable(&said.name, stage)?;
                self.discard_other_tenants(&settings);
            }
            (Some(stage), _) => {
                self.check_stage_note(&said.name, stage)?;
                self.check_tenant(&settings)?;
            }
        }
        let running = RunningDisk::start(
            &settings,
            &DiskOpenOptions {
                backend: &self.backend,
                tenant: self.tenant(&settings)?,
                stage: stage.clone(),
                is_own: said.backing.is_none(),
                may_make: self.may_make(&settings, history),
                mark: self.mark_before(&settings, history),
                history,
                far: self.environment.far.clone(),
                events: &self.environment.events,
            },
        )
        .map_err(|error| self.name_owner(error))?;
        let disk = Arc::clone(&running.disk);
        match self.record_and_serve(&disk, &settings, history) {
            Ok(listen) => settings.listen = listen,
            Err(error) => {
                self.disconnect(&said.name);
                running.end();
                self.watch.end(&said.name);
                self.drop_stage_note(&said.name);
                if disk.backing.is_new() {
                    self.served.remove(&said.name);
                    remove_unused_backing(disk.backing.path());
                }
                return Err(error);
            }
        }
        let served = ServedDisk {
            disk,
            running: Mutex::new(Some(running)),
            is_leaving: AtomicBool::new(false),
            settings,
        };
        self.open.lock().insert(said.name.clone(), Arc::new(served));
        Ok(())
    }

    /// Checks that notes can be read. Without them nobody knows whether a swap disk has lost pages.
    pub(super) fn check_notes(&self) -> Result<(), DiskError> {
        let state = &self.environment.state;
        match state.folder().filter(|_| state.is_unresponsive()) {
            Some(folder) => Err(DiskError::Mute {
                path: folder.to_owned(),
            }),
            None => Ok(()),
        }
    }

    /// Checks that this release can read what was noted of a disk, whatever its owner gives up. Only a newer release
    /// knows what it noted.
    fn check_versions(&self, name: &DiskName) -> Result<(), DiskError> {
        let pledged = self.stage_notes.check_version(name);
        let checked = pledged.and_then(|()| self.served.check_version(name));
        checked.map_err(|source| DiskError::Note {
            name: name.clone(),
            source,
        })
    }

    /// Checks that the note of where the disk was served from is readable, if there is one.
    fn check_served(&self, name: &DiskName) -> Result<(), DiskError> {
        match self.served.garbled(name) {
            Some(path) => Err(DiskError::Garbled {
                name: name.clone(),
                path,
            }),
            None => Ok(()),
        }
    }

    /// Notes what the next daemon must know of a disk, and serves it.
    fn record_and_serve(
        &self,
        disk: &Arc<BackedDisk>,
        settings: &DiskSettings,
        history: DiskHistory,
    ) -> Result<Vec<DiskListen>, DiskError> {
        let notes = match &disk.swap {
            Some(swap) => Some(self.notes_of(disk, swap, settings, history)?),
            None => None,
        };
        self.watch.watch(disk, notes);
        self.serve(disk, settings)
    }

    /// Notes what the next daemon must know of a swap disk.
    fn notes_of(
        &self,
        disk: &BackedDisk,
        swap: &Swap,
        settings: &DiskSettings,
        history: DiskHistory,
    ) -> Result<DiskNotes, DiskError> {
        let name = &settings.name;
        let beside = swap.stage.count_beside(name, Some(swap.disk));
        if beside > 0 && history == DiskHistory::New {
            let (name, left) = (name.clone(), Pages(beside));
            return Err(DiskError::Stranded { name, left });
        }
        if beside > 0 && history != DiskHistory::GivenUp && self.was_staged_for(settings) {
            return Err(DiskError::Replaced {
                name: name.clone(),
                path: disk.backing.path().to_owned(),
            });
        }
        let is_broken = || self.stage_notes.is_stage_gone(name, swap.stage.id());
        if self.stage_notes.is_garbled(name) || history == DiskHistory::GivenUp && is_broken() {
            self.stage_notes.remove(name);
        }
        // Only the note that is there says whose those pages are and where they belong.
        let is_owed = beside == 0 || !self.may_have_staged_pages(name);
        Ok(DiskNotes {
            stage_note: is_owed
                .then(|| self.stage_note_for(settings, &swap.stage))
                .flatten(),
            backing: backing_of(settings).to_owned(),
            mark: disk.backing.mark().map_err(DiskError::System)?,
        })
    }

    /// Returns whether the pages staged under a name belong to what was at the path that its backing has.
    fn was_staged_for(&self, settings: &DiskSettings) -> bool {
        let noted = self.stage_notes.read(&settings.name);
        noted.is_some_and(|noted| noted.backing == backing_of(settings))
    }

    /// Returns whether the daemon may make a backing that is not there.
    fn may_make(&self, settings: &DiskSettings, history: DiskHistory) -> bool {
        match history {
            DiskHistory::New | DiskHistory::GivenUp => true,
            DiskHistory::Written | DiskHistory::Resized => self.served_on(settings).is_none(),
            DiskHistory::Served => false,
        }
    }

    /// The mark that a disk's backing must have.
    fn mark_before(&self, settings: &DiskSettings, history: DiskHistory) -> Option<u64> {
        match history {
            DiskHistory::New | DiskHistory::GivenUp => None,
            DiskHistory::Written | DiskHistory::Resized | DiskHistory::Served => {
                self.served_on(settings).and_then(|on| on.mark)
            }
        }
    }

    /// The note that a swap disk was served at its path since the host's start. Other disks have no such note.
    fn served_on(&self, settings: &DiskSettings) -> Option<ServedNote> {
        let is_swap = settings.kind == DiskKind::Swap;
        let noted = is_swap.then(|| self.served.read(&settings.name, backing_of(settings)));
        noted.flatten()
    }

    pub(super) fn serve(
        &self,
        disk: &Arc<BackedDisk>,
        settings: &DiskSettings,
    ) -> Result<Vec<DiskListen>, DiskError> {
        let disk: Arc<dyn Disk> = Arc::clone(disk) as Arc<dyn Disk>;
        let served = self.serve_at_places(&disk, settings);
        // No other disk waits while the daemon checks who holds the listener.
        let (served, callers) = served.map_err(DiskError::with_who_listens)?;
        let tenant = settings.tenant.clone();
        self.callers.add(settings.name.clone(), tenant, callers);
        Ok(served)
    }

    fn serve_at_places(
        &self,
        disk: &Arc<dyn Disk>,
        settings: &DiskSettings,
    ) -> Result<(Vec<DiskListen>, Vec<EndpointClients>), DiskError> {
        let mut places = self.places.lock();
        let places = match &mut *places {
            Some(places) => places,
            none => none.insert(DiskEndpoints::open(
                &self.backend,
                self.environment.threads,
                &self.environment.events,
            )?),
        };
        let served = places.serve(disk, settings)?;
        Ok((served, places.clients(disk.name())))
    }

    /// Gives a swap disk a file of its own if the owner named none.
    fn with_backing(&self, said: &DiskSettings) -> Result<DiskSettings, DiskError> {
        let mut settings = said.clone();
        if settings.backing.is_none() {
            let none = || DiskError::NoBacking(said.name.clone());
            let makes = said.kind == DiskKind::Swap && said.size.is_some();
            let file = self.own_file(&said.name).filter(|_| makes);
            let file = file.ok_or_else(none)?;
            let folder = file.parent().unwrap_or(&file);
            std::fs::create_dir_all(folder).map_err(DiskError::System)?;
            settings.backing = Some(file.display().to_string());
        }
        Ok(settings)
    }

    /// Names the disk that uses a backing, if it is one of ours.
    fn name_owner(&self, error: DiskError) -> DiskError {
        let DiskError::Backing(BackingError::InUse(path)) = error else {
            return error;
        };
        let open = self.open.lock();
        let has_it = |served: &&Arc<ServedDisk>| served.disk.backing.is_at(&path);
        let whose = open.values().find(has_it);
        DiskError::Backing(match whose.map(|served| served.settings.name.clone()) {
            Some(disk) => BackingError::Shared { path, disk },
            None => match stuck::holder(&path) {
                Some(stuck) => BackingError::Stuck { path, stuck },
                None => BackingError::InUse(path),
            },
        })
    }

    /// The file that a swap disk gets if the owner named none.
    pub(super) fn own_file(&self, name: &DiskName) -> Option<PathBuf> {
        let folder = self.environment.state.folder()?;
        Some(folder.join("disks").join(format!("{name}.swap")))
    }

    fn tenant(&self, settings: &DiskSettings) -> Result<TenantId, DiskError> {
        let tenant = self.backend.store.tenant(&settings.tenant);
        Ok(tenant.ok_or(TenantError::Unknown)?)
    }

    /// Checks that the pages staged under that name are not another tenant's.
    fn check_tenant(&self, settings: &DiskSettings) -> Result<(), DiskError> {
        let name = settings.name.clone();
        match (self.other_owner(settings), self.left_pages(&name)) {
            (None, _) | (_, Pages(0)) => Ok(()),
            (Some(owner), left) => Err(DiskError::LeftByAnother { name, owner, left }),
        }
    }

    /// Discards another tenant's pages, because the owner said so.
    fn discard_other_tenants(&self, settings: &DiskSettings) {
        if self.other_owner(settings).is_some() {
            self.discard_staged(&settings.name);
        }
    }

    /// The tenant that a disk of that name had when it was noted, if it was another tenant.
    fn other_owner(&self, settings: &DiskSettings) -> Option<String> {
        let noted = self.stage_notes.read(&settings.name)?.tenant;
        (noted != settings.tenant.as_str()).then_some(noted)
    }

    /// A note that a disk may have pages only on the stage, if it may.
    fn stage_note_for(&self, settings: &DiskSettings, stage: &Stage) -> Option<StageNote> {
        let promises =
            settings.durability() != Durability::WriteThrough && stage.none_for().is_none();
        promises.then(|| StageNote {
            stage: stage.id().clone(),
            tenant: settings.tenant.to_string(),
            backing: backing_of(settings).to_owned(),
        })
    }

    /// Removes the stage note if a disk has nothing on the stage any more.
    pub(super) fn drop_stage_note(&self, name: &DiskName) {
        if self.left_pages(name) == Pages(0) {
            self.stage_notes.remove(name);
        }
    }

    /// Returns whether a disk may have pages only on a stage, or had some on a stage that is gone.
    pub(super) fn may_have_staged_pages(&self, name: &DiskName) -> bool {
        self.stage_notes.read(name).is_some() || self.stage_notes.is_garbled(name)
    }

    /// Stops serving a disk. The wait for its clients holds up nobody else.
    pub(super) fn disconnect(&self, name: &DiskName) {
        if let Some(closing) = self.close(name) {
            closing.wait();
        }
    }

    /// Stops serving a disk and waits at most `time` for its clients. Returns whether they are gone.
    pub(super) fn disconnect_within(&self, name: &DiskName, time: Duration) -> bool {
        let closing = self.close(name);
        closing.is_none_or(|closing| closing.wait_within(time))
    }

    fn close(&self, name: &DiskName) -> Option<ClosingClients> {
        self.callers.remove(name);
        let mut places = self.places.lock();
        places.as_mut().map(|places| places.withdraw(name.as_str()))
    }

    /// The certificates of NBD listeners.
    pub(super) fn certificates(&self) -> Vec<NbdCertificates> {
        let places = self.places.lock();
        let all = places.as_ref().map(DiskEndpoints::certificates);
        all.unwrap_or_default()
    }

    /// All open disks, in the order of names.
    pub(super) fn list(&self) -> Vec<DiskStatus> {
        let all: Vec<_> = self.open.lock().values().cloned().collect();
        all.iter().map(|disk| self.status(disk)).collect()
    }

    /// Swapped pages that no open disk writes, in the order of names.
    pub(super) fn left_behind(&self) -> Vec<OrphanedPages> {
        let Some(stage) = self.stage() else {
            return Vec::new();
        };
        let open = self.open.lock();
        let left = stage.unserved().into_iter().map(|(name, pages)| {
            let why = match open.contains_key(&name) {
                true => OrphanReason::OtherBacking,
                false => OrphanReason::NoDisk,
            };
            let noted = self
                .stage_notes
                .last_known(&name)
                .filter(|_| why == OrphanReason::NoDisk);
            let (tenant, backing) = noted.map(|note| (note.tenant, note.backing)).unzip();
            OrphanedPages {
                name,
                pages,
                why,
                tenant,
                backing,
            }
        });
        left.collect()
    }

    pub(super) fn find(&self, name: &DiskName) -> Result<Arc<ServedDisk>, DiskError> {
        let found = self.open.lock().get(name).cloned();
        found.ok_or_else(|| DiskError::NoDisk(name.clone()))
    }

    /// The status of a disk.
    pub(super) fn status(&self, served: &ServedDisk) -> DiskStatus {
        let disk = &served.disk;
        let figures = disk.tallies.sum();
        let (connections, clients) = self.callers.clients_of(&served.settings.name);
        let dirty = disk.swap.as_ref().map_or(0, Swap::dirty);
        let is_leaving = served.is_leaving.load(Ordering::Relaxed);
        let (state, why) = match (disk.write_failure(), is_leaving) {
            (Some(cause), _) => (
                DiskState::Ailing,
                format!("its backing takes no writes: {cause}"),
            ),
            (None, true) => (
                DiskState::Leaving,
                format!("{} are on the way to its backing", Pages(dirty)),
            ),
            (None, false) => (DiskState::Serving, String::new()),
        };
        let path_mismatch = disk.problems.path_mismatch().is_some();
        let notes_unwritten = disk.problems.is_unnoted();
        DiskStatus {
            state,
            why: with_drawbacks(why, drawbacks(disk)),
            path_mismatch,
            astray: path_mismatch,
            notes_unwritten,
            unnoted: notes_unwritten,
            held_back: disk
                .swap
                .as_ref()
                .is_some_and(Swap::is_forced_write_through),
            connections,
            clients,
            reads: figures.reads,
            writes: figures.writes + figures.trims,
            bytes_read: figures.read_bytes,
            bytes_written: figures.written_bytes,
            hits: figures.hits,
            far_hits: figures.far_hits,
            misses: figures.misses,
            pages: self.backend.store.pool_pages(disk.pool).0,
            dirty,
            prefetched: figures.read_ahead,
            faults: figures.faults,
            ..DiskStatus::idle(served.settings.clone(), disk.size())
        }
    }

    /// Makes a disk larger, or takes over a block device's new size. The guest sees the size when `keep` has written it
    /// down. Otherwise the backing stays as it was.
    pub(super) fn resize<E: From<DiskError>>(
        &self,
        name: &DiskName,
        size: Bytes,
        keep: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let disk = &self.find(name)?.disk;
        let has = disk.size();
        if size < has {
            let name = name.clone();
            return Err(DiskError::Shrinks { name, has }.into());
        }
        let failed = |source| DiskError::NotGrown {
            name: name.clone(),
            source,
        };
        if disk.settings.read_only {
            return Err(failed(io::Error::other("it is read-only")).into());
        }
        let backing = &disk.backing;
        let before = backing.all_bytes().map_err(failed)?;
        let allocation = match disk.swap {
            Some(_) => FileAllocation::Full,
            None => FileAllocation::Sparse,
        };
        backing.grow(size, allocation).map_err(failed)?;
        keep().inspect_err(|_| backing.shrink_back(before))?;
        let bytes = whole_sectors(size.0);
        disk.bytes.store(bytes, Ordering::Relaxed);
        let rest = backing.partial_sector_bytes().unwrap_or(0);
        disk.rest.store(rest, Ordering::Relaxed);
        disk.reading.resize(bytes / PAGE_BYTES);
        Ok(())
    }

    /// How much of the stage is in memory before a page is put there.
    pub(super) fn stage_resident(&self) -> Bytes {
        let staging = self.staging.lock();
        let locked = staging.as_ref().filter(|staging| staging.stage.is_locked());
        locked
            .map(|staging| staging.stage.bytes())
            .unwrap_or_default()
    }

    /// Memory of the host that the stage takes beside the arena.
    pub(super) fn stage_bytes(&self) -> Bytes {
        let staging = self.staging.lock();
        let bytes = staging.as_ref().map(|staging| staging.stage.bytes());
        bytes.unwrap_or_default()
    }
}

/// The faults of a disk that is served all the same.
fn drawbacks(disk: &BackedDisk) -> Vec<String> {
    let short = disk.short_of.as_ref().map(|why| {
        format!("its backing has not the blocks for all of its pages, and writes may fail: {why}")
    });
    let stage = disk.swap.as_ref().map(|swap| &swap.stage);
    let lost = stage.filter(|stage| stage.is_lost()).map(|stage| match stage.none_for() {
        None => "writes go to its backing before they are acknowledged, for no `sublet keep` would have its pages for the next start; that is tried again every second".to_owned(),
        Some(error) => format!("writes go to its backing before they are acknowledged, for there is no stage for its pages: {error}; that is tried again when the daemon starts"),
    });
    let said = disk.problems.describe(disk.settings.durability());
    let rest = disk.rest.load(Ordering::Relaxed);
    let rest = (rest > 0).then(|| {
        format!("the last {rest} bytes of its backing are no whole sector, and no part of the disk")
    });
    short
        .into_iter()
        .chain(lost)
        .chain(rest)
        .chain(said)
        .collect()
}

fn with_drawbacks(why: String, drawbacks: Vec<String>) -> String {
    match (why.is_empty(), drawbacks.is_empty()) {
        (_, true) => why,
        (true, false) => format!("but {}", drawbacks.join("; ")),
        (false, false) => format!("{why}; {}", drawbacks.join("; ")),
    }
}

/// Where a disk's bytes are. An open disk always has a backing.
fn backing_of(settings: &DiskSettings) -> &str {
    settings.backing.as_deref().unwrap_or_default()
}
