//! The disks that are open, and what they share.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sublet_client::messages::{Deserted, DiskState, DiskStatus, LeftBehind};
use sublet_frontends::backend::Backend;
use sublet_frontends::block::Disk;
use sublet_store::TenantError;
use sublet_types::{
    Bytes, DiskKind, DiskListen, DiskName, DiskSettings, Durability, PAGE_BYTES, Pages, TenantId,
};

use super::backed::Backed;
use super::backing::{BackingError, whole_sectors};
use super::callers::{AllCallers, Callers};
use super::error::DiskError;
use super::open::{History, OpenDisk, Opening, undo};
use super::places::{Certificates, Closing, Places};
use super::served::{Served, ServedOn};
use super::stage::{Pledge, Pledges, Stage};
use super::staging::Staging;
use super::swap::Swap;
use super::watch::{Notes, Watch};
use crate::config::Claim;
use crate::observe::events::Events;
use crate::stuck;

/// What all disks share.
#[derive(Clone, Debug)]
pub(super) struct DiskGround {
    /// The state folder, where swap disks without a backing get one.
    pub(super) state: Claim,
    /// The most bytes of pages that no backing has yet.
    pub(super) dirty_max: Bytes,
    /// Where whoever keeps these pages listens.
    pub(super) keeper: PathBuf,
    /// Threads that serve NBD.
    pub(super) threads: usize,
    /// How long a backing may do nothing at all before its disk, which is to go, stays.
    pub(super) silence_max: Duration,
    /// Where it is told what befalls disks.
    pub(super) events: Events,
}

/// The disks that are open, and what they share.
pub(super) struct OpenDisks {
    backend: Backend,
    pub(super) ground: DiskGround,
    /// Made with the first disk, as NBD's threads are.
    pub(super) places: Mutex<Option<Places>>,
    pub(super) callers: AllCallers,
    /// Made with the first swap disk.
    pub(super) staging: Mutex<Option<Staging>>,
    /// Who begins or ends a stage and its keeper: that may take its time.
    pub(super) staging_changes: Mutex<()>,
    /// When the keeper was last asked in vain and at length.
    pub(super) silent_at: Mutex<Option<Instant>>,
    pub(super) pledges: Pledges,
    pub(super) served: Served,
    pub(super) watch: Watch,
    pub(super) open: Mutex<BTreeMap<DiskName, Arc<ServedDisk>>>,
}

/// A disk that is served.
pub(super) struct ServedDisk {
    /// What holds, with the backing that it was given and the ports that were taken.
    pub(super) settings: DiskSettings,
    pub(super) disk: Arc<Backed>,
    pub(super) running: Mutex<Option<OpenDisk>>,
    pub(super) is_leaving: AtomicBool,
}

impl OpenDisks {
    /// No disks yet.
    pub(super) fn open(backend: &Backend, ground: DiskGround) -> OpenDisks {
        let pledges = Pledges::of(&ground.state);
        let served = Served::of(&ground.state);
        OpenDisks {
            backend: backend.clone(),
            watch: Watch::of(&pledges, &served),
            pledges,
            served,
            ground,
            places: Mutex::default(),
            callers: AllCallers::default(),
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
    /// See [`DiskError`]; nothing is left of it then.
    pub(super) fn add(&self, said: &DiskSettings, history: History) -> Result<(), DiskError> {
        if self.open.lock().contains_key(&said.name) {
            return Err(DiskError::Exists(said.name.clone()));
        }
        if said.kind == DiskKind::Swap {
            self.check_notes()?;
            self.check_versions(&said.name)?;
            if history != History::GivenUp {
                self.check_served(&said.name)?;
            }
        }
        let mut settings = self.with_backing(said)?;
        let in_use = self.stage_for(&settings)?;
        let stage = in_use.as_ref().map(|in_use| Arc::clone(&in_use.stage));
        match (&stage, history) {
            (None, _) => {}
            (Some(stage), History::GivenUp) => {
                self.check_reach(&said.name, stage)?;
                self.give_up_anothers(&settings);
            }
            (Some(stage), _) => {
                self.check_pledge(&said.name, stage)?;
                self.check_tenant(&settings)?;
            }
        }
        let running = OpenDisk::start(
            &settings,
            &Opening {
                backend: &self.backend,
                tenant: self.tenant(&settings)?,
                stage: stage.clone(),
                is_own: said.backing.is_none(),
                may_make: self.may_make(&settings, history),
                mark: self.mark_before(&settings, history),
                history,
                events: &self.ground.events,
            },
        )
        .map_err(|error| self.say_whose(error))?;
        let disk = Arc::clone(&running.disk);
        match self.introduce(&disk, &settings, history) {
            Ok(listen) => settings.listen = listen,
            Err(error) => {
                self.let_go(&said.name);
                running.end();
                self.watch.end(&said.name);
                self.redeem(&said.name);
                if disk.backing.is_new() {
                    self.served.forget(&said.name);
                    undo(disk.backing.path());
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

    /// That notes can be read: of a swap disk nobody knows without them whether it has lost pages.
    pub(super) fn check_notes(&self) -> Result<(), DiskError> {
        let state = &self.ground.state;
        match state.folder().filter(|_| state.is_silent()) {
            Some(folder) => Err(DiskError::Mute {
                path: folder.to_owned(),
            }),
            None => Ok(()),
        }
    }

    /// That what was noted of a disk can be read, whatever its owner gives up: nobody else knows what a newer release meant.
    fn check_versions(&self, name: &DiskName) -> Result<(), DiskError> {
        let pledged = self.pledges.check_version(name);
        let checked = pledged.and_then(|()| self.served.check_version(name));
        checked.map_err(|source| DiskError::Note {
            name: name.clone(),
            source,
        })
    }

    /// That the note of where it was served from says something, if there is one.
    fn check_served(&self, name: &DiskName) -> Result<(), DiskError> {
        match self.served.garbled(name) {
            Some(path) => Err(DiskError::Garbled {
                name: name.clone(),
                path,
            }),
            None => Ok(()),
        }
    }

    /// Notes what the next daemon has to know of a disk, and serves it.
    fn introduce(
        &self,
        disk: &Arc<Backed>,
        settings: &DiskSettings,
        history: History,
    ) -> Result<Vec<DiskListen>, DiskError> {
        let notes = match &disk.swap {
            Some(swap) => Some(self.notes_of(disk, swap, settings, history)?),
            None => None,
        };
        self.watch.begin(disk, notes);
        self.serve(disk, settings)
    }

    /// What the next daemon has to know of a swap disk.
    fn notes_of(
        &self,
        disk: &Backed,
        swap: &Swap,
        settings: &DiskSettings,
        history: History,
    ) -> Result<Notes, DiskError> {
        let name = &settings.name;
        let beside = swap.stage.count_beside(name, Some(swap.disk));
        if beside > 0 && history == History::New {
            let (name, left) = (name.clone(), Pages(beside));
            return Err(DiskError::Stranded { name, left });
        }
        if beside > 0 && history != History::GivenUp && self.was_staged_for(settings) {
            return Err(DiskError::Replaced {
                name: name.clone(),
                path: disk.backing.path().to_owned(),
            });
        }
        let is_broken = || self.pledges.is_broken(name, swap.stage.id());
        if self.pledges.is_garbled(name) || history == History::GivenUp && is_broken() {
            self.pledges.forget(name);
        }
        // Whose those are and where they belong, only the note says that is there.
        let is_owed = beside == 0 || !self.is_pledged(name);
        Ok(Notes {
            pledge: is_owed
                .then(|| self.pledge(settings, &swap.stage))
                .flatten(),
            backing: backing_of(settings).to_owned(),
            mark: disk.backing.mark().map_err(DiskError::System)?,
        })
    }

    /// Whether what is staged under a name belongs to what was at the path that its backing has.
    fn was_staged_for(&self, settings: &DiskSettings) -> bool {
        let noted = self.pledges.noted(&settings.name);
        noted.is_some_and(|noted| noted.backing == backing_of(settings))
    }

    /// Whether a backing that is not there may be made.
    fn may_make(&self, settings: &DiskSettings, history: History) -> bool {
        match history {
            History::New | History::GivenUp => true,
            History::Written | History::Resized => self.served_on(settings).is_none(),
            History::Served => false,
        }
    }

    /// The mark that a disk's backing has to have.
    fn mark_before(&self, settings: &DiskSettings, history: History) -> Option<u64> {
        match history {
            History::New | History::GivenUp => None,
            History::Written | History::Resized | History::Served => {
                self.served_on(settings).and_then(|on| on.mark)
            }
        }
    }

    /// That a swap disk was served at its path since the host's start. Of others nobody keeps a note.
    fn served_on(&self, settings: &DiskSettings) -> Option<ServedOn> {
        let is_swap = settings.kind == DiskKind::Swap;
        let noted = is_swap.then(|| self.served.noted(&settings.name, backing_of(settings)));
        noted.flatten()
    }

    pub(super) fn serve(
        &self,
        disk: &Arc<Backed>,
        settings: &DiskSettings,
    ) -> Result<Vec<DiskListen>, DiskError> {
        let disk: Arc<dyn Disk> = Arc::clone(disk) as Arc<dyn Disk>;
        let served = self.serve_at_places(&disk, settings);
        // Nobody else's disk waits while it is looked who is in the way.
        let (served, callers) = served.map_err(DiskError::with_who_listens)?;
        let tenant = settings.tenant.clone();
        self.callers.add(settings.name.clone(), tenant, callers);
        Ok(served)
    }

    fn serve_at_places(
        &self,
        disk: &Arc<dyn Disk>,
        settings: &DiskSettings,
    ) -> Result<(Vec<DiskListen>, Vec<Callers>), DiskError> {
        let mut places = self.places.lock();
        let places = match &mut *places {
            Some(places) => places,
            none => none.insert(Places::open(
                &self.backend,
                self.ground.threads,
                &self.ground.events,
            )?),
        };
        let served = places.serve(disk, settings)?;
        Ok((served, places.callers(disk.name())))
    }

    /// A swap disk gets a file of its own where nobody named one.
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
    fn say_whose(&self, error: DiskError) -> DiskError {
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

    /// The file that a swap disk is given where nobody named one.
    pub(super) fn own_file(&self, name: &DiskName) -> Option<PathBuf> {
        let folder = self.ground.state.folder()?;
        Some(folder.join("disks").join(format!("{name}.swap")))
    }

    fn tenant(&self, settings: &DiskSettings) -> Result<TenantId, DiskError> {
        let tenant = self.backend.store.tenant(&settings.tenant);
        Ok(tenant.ok_or(TenantError::Unknown)?)
    }

    /// What is staged under that name is no other tenant's.
    fn check_tenant(&self, settings: &DiskSettings) -> Result<(), DiskError> {
        let name = settings.name.clone();
        match (self.other_owner(settings), self.left_of(&name)) {
            (None, _) | (_, Pages(0)) => Ok(()),
            (Some(owner), left) => Err(DiskError::LeftByAnother { name, owner, left }),
        }
    }

    /// Another tenant's pages are given up, by the owner's word.
    fn give_up_anothers(&self, settings: &DiskSettings) {
        if self.other_owner(settings).is_some() {
            self.forget(&settings.name);
        }
    }

    /// The tenant that a disk of that name had when it was noted, if that was another.
    fn other_owner(&self, settings: &DiskSettings) -> Option<String> {
        let noted = self.pledges.noted(&settings.name)?.tenant;
        (noted != settings.tenant.as_str()).then_some(noted)
    }

    /// A note that a disk may have pages on the stage only, where it may.
    fn pledge(&self, settings: &DiskSettings, stage: &Stage) -> Option<Pledge> {
        let promises =
            settings.durability() != Durability::WriteThrough && stage.none_for().is_none();
        promises.then(|| Pledge {
            stage: stage.id().clone(),
            tenant: settings.tenant.to_string(),
            backing: backing_of(settings).to_owned(),
        })
    }

    /// A disk has nothing on the stage any more, if that is so.
    pub(super) fn redeem(&self, name: &DiskName) {
        if self.left_of(name) == Pages(0) {
            self.pledges.forget(name);
        }
    }

    /// Whether a disk may have pages on a stage only, or had some on one that is gone.
    pub(super) fn is_pledged(&self, name: &DiskName) -> bool {
        self.pledges.noted(name).is_some() || self.pledges.is_garbled(name)
    }

    /// Serves a disk no more. Who waits for its clients keeps nobody else waiting.
    pub(super) fn let_go(&self, name: &DiskName) {
        if let Some(closing) = self.close(name) {
            closing.wait();
        }
    }

    /// Serves a disk no more, and waits so long at most for its clients. Says whether they are gone.
    pub(super) fn let_go_within(&self, name: &DiskName, time: Duration) -> bool {
        let closing = self.close(name);
        closing.is_none_or(|closing| closing.wait_within(time))
    }

    fn close(&self, name: &DiskName) -> Option<Closing> {
        self.callers.remove(name);
        let mut places = self.places.lock();
        places.as_mut().map(|places| places.leave(name.as_str()))
    }

    /// The certificates of NBD listeners.
    pub(super) fn certificates(&self) -> Vec<Certificates> {
        let places = self.places.lock();
        let all = places.as_ref().map(Places::certificates);
        all.unwrap_or_default()
    }

    /// All of them, in order of names.
    pub(super) fn list(&self) -> Vec<DiskStatus> {
        let all: Vec<_> = self.open.lock().values().cloned().collect();
        all.iter().map(|disk| self.status(disk)).collect()
    }

    /// What was swapped and no disk that is open writes, in order of names.
    pub(super) fn left_behind(&self) -> Vec<LeftBehind> {
        let Some(stage) = self.stage() else {
            return Vec::new();
        };
        let open = self.open.lock();
        let left = stage.deserted().into_iter().map(|(name, pages)| {
            let why = match open.contains_key(&name) {
                true => Deserted::OtherBacking,
                false => Deserted::NoDisk,
            };
            let noted = self
                .pledges
                .known(&name)
                .filter(|_| why == Deserted::NoDisk);
            let (tenant, backing) = noted.map(|pledge| (pledge.tenant, pledge.backing)).unzip();
            LeftBehind {
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

    /// How a disk is.
    pub(super) fn status(&self, served: &ServedDisk) -> DiskStatus {
        let disk = &served.disk;
        let figures = disk.tallies.sum();
        let (connections, clients) = self.callers.of(&served.settings.name);
        let dirty = disk.swap.as_ref().map_or(0, Swap::dirty);
        let is_leaving = served.is_leaving.load(Ordering::Relaxed);
        let (state, why) = match (disk.ails_of(), is_leaving) {
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
        DiskStatus {
            state,
            why: with_drawbacks(why, drawbacks(disk)),
            astray: disk.plight.astray().is_some(),
            unnoted: disk.plight.is_unnoted(),
            held_back: disk.swap.as_ref().is_some_and(Swap::is_held_back),
            connections,
            clients,
            reads: figures.reads,
            writes: figures.writes + figures.trims,
            bytes_read: figures.read_bytes,
            bytes_written: figures.written_bytes,
            hits: figures.hits,
            misses: figures.misses,
            pages: self.backend.store.pool_pages(disk.pool).0,
            dirty,
            prefetched: figures.read_ahead,
            faults: figures.faults,
            ..DiskStatus::idle(served.settings.clone(), disk.size())
        }
    }

    /// Makes a disk larger, or takes over what a block device has become. Its guest sees that when `keep` has written it
    /// down: else the backing is as it was.
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
        backing.grow(size, disk.swap.is_some()).map_err(failed)?;
        keep().inspect_err(|_| backing.ungrow(before))?;
        let bytes = whole_sectors(size.0);
        disk.bytes.store(bytes, Ordering::Relaxed);
        let rest = backing.rest().unwrap_or(0);
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

    /// What the stage takes of the host's memory, beside the arena.
    pub(super) fn stage_bytes(&self) -> Bytes {
        let staging = self.staging.lock();
        let bytes = staging.as_ref().map(|staging| staging.stage.bytes());
        bytes.unwrap_or_default()
    }
}

/// What is wrong with a disk that is served all the same.
fn drawbacks(disk: &Backed) -> Vec<String> {
    let short = disk.short_of.as_ref().map(|why| {
        format!("its backing has not the blocks for all of its pages, and writes may fail: {why}")
    });
    let stage = disk.swap.as_ref().map(|swap| &swap.stage);
    let lost = stage.filter(|stage| stage.is_lost()).map(|stage| match stage.none_for() {
        None => "writes go to its backing before they are acknowledged, for no `sublet keep` would have its pages for the next start; that is tried again every second".to_owned(),
        Some(error) => format!("writes go to its backing before they are acknowledged, for there is no stage for its pages: {error}; that is tried again when the daemon starts"),
    });
    let said = disk.plight.said(disk.settings.durability());
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

/// Where a disk's bytes are; one that is opened has a backing.
fn backing_of(settings: &DiskSettings) -> &str {
    settings.backing.as_deref().unwrap_or_default()
}
