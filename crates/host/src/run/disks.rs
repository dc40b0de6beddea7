//! The daemon's disks, as its owner adds, changes and ends them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use rustix::fs::OFlags;
use sublet_client::messages::{
    self, AddDisk, Difference, DiskState, DiskStatus, Lasts, LeftBehind, OpenDisk, ResizeDisk,
};
use sublet_frontends::backend::Backend;
use sublet_store::TenantError;
use sublet_types::{
    Bytes, DiskKind, DiskName, DiskSettings, PAGE_BYTES, Pages, TenantId, TenantName,
    TenantSettings,
};

use super::RunError;
use super::daemon::{Daemon, Declined};
use super::images::{self, Image, check_allowed};
use crate::config::{
    DISKS_MAX, DiskChange, Live, Loaded, Said, check_disk_size, disk_asked, shown_disk,
};
use crate::disk::{DiskError, DiskGround, Disks, History};
use crate::locked;

/// The disks, and what was said of each.
pub(super) struct Shelf {
    pub(super) disks: Disks,
    pub(super) named: Mutex<BTreeMap<DiskName, Named>>,
    /// Those that are being added, changed or removed.
    turns: Mutex<BTreeSet<DiskName>>,
    /// Folders where backings may lie that are named while the daemon runs.
    pub(super) allowed: Mutex<Vec<PathBuf>>,
    /// Held while a disk is added, so that who made its tenant may undo that.
    adding: Mutex<()>,
}

/// A disk by its owner's word.
pub(super) struct Named {
    pub(super) said: DiskSettings,
    /// Why it could not be opened at the start, if it could not.
    pub(super) closed: Option<String>,
}

impl Shelf {
    /// Opens the disks that a config and live changes name. One that was added live and cannot be opened any more
    /// is told of and left closed, as is one that looks like an image of another format; else one of the config file is a reason not to start.
    pub(super) fn open(loaded: &Loaded, backend: &Backend) -> Result<Shelf, RunError> {
        let config = &loaded.config;
        if config.disks.iter().any(|said| said.kind == DiskKind::Swap) {
            locked::lock_process();
        }
        let ground = DiskGround {
            state: loaded.live.state().clone(),
            dirty_max: config.disk.dirty_max,
            keeper: config.admin.socket.with_extension("stage"),
            threads: config.threads,
            silence_max: SILENCE_MAX,
        };
        let shelf = Shelf {
            disks: Disks::open(backend, ground),
            named: Mutex::default(),
            turns: Mutex::default(),
            adding: Mutex::default(),
            allowed: Mutex::new(config.disk.allow.clone()),
        };
        let looks = config.disks.iter().map(|said| {
            let was_added = loaded
                .live
                .disk(&said.name)
                .is_some_and(DiskChange::is_added);
            Look::at(said, was_added.then_some(&config.disk.allow))
        });
        // All at once, and none in the way of the others.
        let (looks, until): (Vec<Look>, _) = (looks.collect(), Instant::now() + ANSWER_MAX);
        for (said, look) in config.disks.iter().zip(looks) {
            let name = said.name.clone();
            let history = match loaded.live.disk(&name) {
                Some(DiskChange::Added(_)) => History::Served,
                Some(DiskChange::Resized(_)) => History::Resized,
                _ => History::Written,
            };
            let was_added = history == History::Served;
            let opened = look.wait(until);
            let opened = opened.and_then(|()| shelf.disks.add(said, history));
            let closed = match opened {
                Ok(()) => None,
                // A guest that writes another format's mark into its first sector harms itself only, and one whose pages
                // are lost is harmed already.
                Err(error) if was_added || error.is_its_guests() => {
                    tracing::error!(disk = %name, %error, "a disk stays closed");
                    Some(error.to_string())
                }
                Err(source) => return Err(RunError::Disk { name, source }),
            };
            let said = said.clone();
            shelf.named.lock().insert(name, Named { said, closed });
        }
        shelf.look_back();
        Ok(shelf)
    }

    /// Finds pages of swap that a daemon before this one left, of whatever disk.
    fn look_back(&self) {
        if let Err(error) = self.disks.find_stage() {
            tracing::error!(%error, "nobody knows whether pages of swap were left behind");
        }
        for left in self.left_behind() {
            tracing::warn!(disk = %left.name, pages = left.pages, "pages of swap were left behind, and no disk writes them: `sublet disk show` says what to do");
        }
    }

    /// What was swapped and no disk writes, but for what a disk that stays closed had.
    pub(super) fn left_behind(&self) -> Vec<LeftBehind> {
        let named = self.named.lock();
        let is_closed = |left: &LeftBehind| {
            let named = named.get(&left.name);
            named.is_some_and(|named| named.closed.is_some())
        };
        let mut all = self.disks.left_behind();
        all.retain(|left| !is_closed(left));
        all
    }

    /// Every disk, in order of names.
    fn list(&self) -> Vec<DiskStatus> {
        let named = self.named.lock();
        let closed = named.values().filter_map(|named| {
            let status = named.closed_status()?;
            let dirty = self.disks.left_of(&named.said.name).0;
            Some(DiskStatus { dirty, ..status })
        });
        let mut all: Vec<DiskStatus> = self.disks.list().into_iter().chain(closed).collect();
        all.sort_by(|a, b| a.settings.name.cmp(&b.settings.name));
        all
    }

    /// The names of a tenant's disks.
    pub(super) fn disks_of(&self, tenant: &TenantName) -> Vec<String> {
        let named = self.named.lock();
        let its = named
            .iter()
            .filter(|(_, named)| named.said.tenant == *tenant);
        its.map(|(name, _)| name.to_string()).collect()
    }

    /// Takes the turn to add a disk or a tenant, or to remove a tenant.
    pub(super) fn begin_adding(&self) -> Result<MutexGuard<'_, ()>, Declined> {
        let turn = self.adding.try_lock_for(ADDING_MAX);
        turn.ok_or(Declined::AddingHangs)
    }

    /// Takes the turn to do something with a disk.
    pub(super) fn turn(&self, name: &DiskName) -> Result<Turn<'_>, DiskError> {
        match self.turns.lock().insert(name.clone()) {
            true => Ok(Turn(self, name.clone())),
            false => Err(DiskError::Busy(name.clone())),
        }
    }

    /// Adds a disk that the owner named.
    fn add(&self, said: &DiskSettings) -> Result<(), DiskError> {
        if self.named.lock().contains_key(&said.name) {
            return Err(DiskError::Exists(said.name.clone()));
        }
        self.disks
            .add(said, History::New)
            .map_err(|error| self.without_loss(error, &said.name))?;
        let (said, closed) = (said.clone(), None);
        let name = said.name.clone();
        self.named.lock().insert(name, Named { said, closed });
        Ok(())
    }

    /// Whoever is told to delete another tenant's file has to know that pages for it are left.
    fn without_loss(&self, error: DiskError, name: &DiskName) -> DiskError {
        match (error, self.disks.left_of(name)) {
            (DiskError::OfAnother { .. } | DiskError::OfNobody(_), left) if left > Pages(0) => {
                let name = name.clone();
                DiskError::LeftBehind { name, left }
            }
            (error, _) => error,
        }
    }

    /// Opens a disk that is closed; if its owner says so, with pages that are older than its guest may think.
    fn reopen(&self, said: DiskSettings, force: bool) -> Result<(), DiskError> {
        let history = match force {
            true => History::GivenUp,
            false => History::Served,
        };
        let opened = self.disks.add(&said, history);
        let closed = opened.as_ref().err().map(DiskError::to_string);
        let name = said.name.clone();
        self.named.lock().insert(name, Named { said, closed });
        opened
    }

    /// What was said of a closed disk.
    fn closed(&self, name: &DiskName) -> Result<DiskSettings, DiskError> {
        let named = self.named.lock();
        let of_name = named.get(name);
        let of_name = of_name.ok_or_else(|| DiskError::NoDisk(name.clone()))?;
        match of_name.closed {
            Some(_) => Ok(of_name.said.clone()),
            None => Err(DiskError::Open(name.clone())),
        }
    }

    /// Ends a disk that was added just now and is not to be.
    fn retract(&self, name: &DiskName) -> Result<(), DiskError> {
        self.disks.retract(name)?;
        self.named.lock().remove(name);
        Ok(())
    }

    fn check_open(&self, name: &DiskName) -> Result<(), DiskError> {
        let named = self.named.lock();
        match named.get(name).and_then(|named| named.closed.clone()) {
            Some(why) => Err(DiskError::Closed {
                name: name.clone(),
                why,
            }),
            None if named.contains_key(name) => Ok(()),
            None => match self.disks.left_of(name) {
                Pages(0) => Ok(()),
                left => Err(DiskError::LeftBehind {
                    name: name.clone(),
                    left,
                }),
            },
        }
    }

    /// Every disk is shown as one that leaves, and none acknowledges what its backing does not have.
    pub(super) fn begin_ending(&self) {
        self.disks.begin_ending();
    }

    /// Brings everything to the backings, with a line now and then on how much is left.
    pub(super) fn drain(&self) {
        let all = self.disks.list();
        if all.is_empty() {
            return;
        }
        thread::scope(|scope| {
            let mut flushing = Vec::new();
            for disk in &all {
                let name = &disk.settings.name;
                let thread = thread::Builder::new().name("drain".to_owned());
                match thread.spawn_scoped(scope, || self.flush_last(name)) {
                    Ok(thread) => flushing.push(thread),
                    Err(_) => self.flush_last(name),
                }
            }
            let mut told = Instant::now();
            self.tell_of_dirty();
            while flushing.iter().any(|thread| !thread.is_finished()) {
                thread::sleep(DRAIN_LOOK);
                if told.elapsed() >= DRAIN_NEWS {
                    told = Instant::now();
                    self.tell_of_dirty();
                }
            }
        });
        if self.disks.list().iter().all(|disk| disk.dirty == 0) {
            tracing::info!("disks are drained");
        }
    }

    /// How much of that is in memory from the start.
    pub(super) fn stage_resident(&self) -> Bytes {
        self.disks.stage_resident()
    }

    /// What pages of swap take that no backing has yet.
    pub(super) fn stage_bytes(&self) -> Bytes {
        self.disks.stage_bytes()
    }

    /// Lets all clients go and ends every disk.
    pub(super) fn end(&self) {
        self.disks.end();
    }

    fn flush_last(&self, name: &DiskName) {
        if let Err(error) = self.disks.drain(name) {
            tracing::error!(disk = %name, %error, "not everything reached the backing: what only memory has is kept for the next start");
        }
    }

    fn tell_of_dirty(&self) {
        let dirty: Pages = self.disks.list().iter().map(|disk| Pages(disk.dirty)).sum();
        if dirty.0 > 0 {
            tracing::info!(left = %dirty.bytes(), "draining disks to their backings");
        }
    }
}

/// How long a backing may do nothing at all before its disk, which is to go, stays.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// How long a backing may take to answer when its disk is added.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// How long who adds something waits for who is adding something.
const ADDING_MAX: Duration = Duration::from_secs(30);

/// How often a drain is looked at.
const DRAIN_LOOK: Duration = Duration::from_millis(20);
/// How often it is told of.
const DRAIN_NEWS: Duration = Duration::from_secs(1);

impl Named {
    fn closed_status(&self) -> Option<DiskStatus> {
        let why = self.closed.clone()?;
        let size = self.said.size.unwrap_or_default();
        Some(DiskStatus {
            state: DiskState::Closed,
            why,
            ..DiskStatus::idle(self.said.clone(), size)
        })
    }
}

/// The right to do something with a disk.
pub(super) struct Turn<'a>(&'a Shelf, DiskName);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.turns.lock().remove(&self.1);
    }
}

/// A look at whether a backing lies where it may, and whether it answers: a file system that hangs holds up nobody but who
/// names it.
struct Look {
    path: PathBuf,
    found: Receiver<Result<(), DiskError>>,
}

impl Look {
    /// Begins it. Without `allow` it may lie anywhere.
    fn at(disk: &DiskSettings, allow: Option<&Vec<PathBuf>>) -> Look {
        let (tell, found) = mpsc::channel();
        let path = disk.backing.as_ref().map(PathBuf::from);
        let (allow, named) = (allow.cloned(), path.clone());
        let failed = tell.clone();
        let look = move || {
            let within = allow.zip(named.as_ref());
            let allowed = within.map_or(Ok(()), |(allow, path)| check_allowed(path, &allow));
            if let (Ok(()), Some(path)) = (&allowed, named) {
                look_at(&path);
            }
            let _ = tell.send(allowed);
        };
        if let Err(error) = thread::Builder::new().name("look".to_owned()).spawn(look) {
            let _ = failed.send(Err(DiskError::System(error)));
        }
        Look {
            path: path.unwrap_or_default(),
            found,
        }
    }

    /// What was seen by then.
    fn wait(self, until: Instant) -> Result<(), DiskError> {
        let left = until.saturating_duration_since(Instant::now());
        let found = self.found.recv_timeout(left);
        found.unwrap_or(Err(DiskError::Mute { path: self.path }))
    }
}

/// Opens and reads a file, whatever comes of it.
fn look_at(path: &Path) {
    let nonblocking = OFlags::NONBLOCK.bits() as i32;
    let opened = fs::OpenOptions::new()
        .read(true)
        .custom_flags(nonblocking)
        .open(path);
    if let Ok(file) = opened {
        let _ = file.read_at(&mut [0; PAGE_BYTES as usize], 0);
    }
}

impl Daemon {
    /// All disks.
    pub fn disks(&self) -> messages::Disks {
        messages::Disks {
            version: messages::VERSION,
            disks: self.disk_statuses(),
            left_behind: self.shelf.left_behind(),
        }
    }

    /// One disk.
    pub fn disk(&self, name: &DiskName) -> Result<DiskStatus, Declined> {
        let found = self
            .disk_statuses()
            .into_iter()
            .find(|disk| disk.settings.name == *name);
        Ok(found.ok_or_else(|| DiskError::NoDisk(name.clone()))?)
    }

    /// Opens a disk, serves it, and writes it down where it lasts.
    pub fn add_disk(&self, asked: &AddDisk) -> Result<DiskStatus, Declined> {
        let said = asked.said.iter().filter(|(_, value)| !value.is_null());
        let said = said.map(|(key, value)| (key.clone(), Said::from_json(value)));
        let mut said: BTreeMap<String, Said> = said.collect();
        let allowed = self.allowed_folders();
        if asked.create && !said.contains_key("backing") {
            let place = images::place_for(&asked.name, &allowed)?;
            said.insert("backing".into(), Said::Text(place.display().to_string()));
        }
        let mut disk = disk_asked(&asked.name, said)?;
        let _turn = self.shelf.turn(&disk.name)?;
        Look::at(&disk, Some(&allowed)).wait(Instant::now() + ANSWER_MAX)?;
        let _adding = self.shelf.begin_adding()?;
        if self.shelf.named.lock().len() >= DISKS_MAX {
            return Err(Declined::TooManyDisks);
        }
        let image = asked.create.then(|| image_of(&mut disk)).transpose()?;
        let made = self.enter_tenant(&disk.tenant)?;
        let name = disk.name.clone();
        if let Err(declined) = self.open_and_keep(disk, asked.lasts) {
            let store = &self.backend.store;
            // A disk that could not be ended has a pool still.
            if let Some(tenant) = made.filter(|tenant| store.pools(*tenant).is_empty()) {
                self.forget_tenant(tenant);
            }
            return Err(declined);
        }
        image.into_iter().for_each(Image::keep);
        tracing::info!(disk = %name, with_tenant = made.is_some(), "disk added by its owner");
        self.disk(&name)
    }

    fn open_and_keep(&self, disk: DiskSettings, lasts: Lasts) -> Result<(), Declined> {
        self.shelf.add(&disk)?;
        if lasts == Lasts::UntilRestart {
            return Ok(());
        }
        let name = disk.name.clone();
        let added = DiskChange::Added(Box::new(disk));
        let next = |live: &Live| live.with_disk(name.clone(), Some(added));
        let kept = self.live.keep(next);
        if kept.is_err()
            && let Err(error) = self.shelf.retract(&name)
        {
            tracing::error!(disk = %name, %error, "a disk that could not be written down is served until it is removed or the daemon ends");
        }
        Ok(kept?)
    }

    /// Opens a disk that could not be opened at the start.
    pub fn open_disk(&self, name: &DiskName, how: OpenDisk) -> Result<DiskStatus, Declined> {
        let _turn = self.shelf.turn(name)?;
        let said = self.shelf.closed(name)?;
        let was_added = self.live.now().disk(name).is_some_and(DiskChange::is_added);
        let allowed = self.allowed_folders();
        let allow = was_added.then_some(&allowed);
        Look::at(&said, allow).wait(Instant::now() + ANSWER_MAX)?;
        self.shelf.reopen(said, how.force)?;
        tracing::info!(disk = %name, "disk opened by its owner");
        self.disk(name)
    }

    /// Gives a disk another size, and writes it down where it lasts.
    pub fn resize_disk(&self, name: &DiskName, asked: &ResizeDisk) -> Result<DiskStatus, Declined> {
        check_disk_size(name, asked.size)?;
        let _turn = self.shelf.turn(name)?;
        self.shelf.check_open(name)?;
        if asked.lasts == Lasts::UntilRestart && self.says_size(name) {
            return Err(DiskError::Outgrows(name.clone()).into());
        }
        if self.shelf.disks.show(name).is_none() {
            return Err(DiskError::NoDisk(name.clone()).into());
        }
        self.shelf
            .disks
            .resize(name, asked.size, || match asked.lasts {
                Lasts::Always => self.keep_size(name, asked.size),
                Lasts::UntilRestart => Ok(()),
            })?;
        if let Some(named) = self.shelf.named.lock().get_mut(name) {
            named.said.size = Some(asked.size);
        }
        tracing::info!(disk = %name, size = %asked.size, "disk resized by its owner");
        self.disk(name)
    }

    /// Returns when the backing has everything that was written before.
    pub fn flush_disk(&self, name: &DiskName) -> Result<DiskStatus, Declined> {
        self.shelf.check_open(name)?;
        self.shelf.disks.flush(name)?;
        self.disk(name)
    }

    /// Whether the config says how large a backing is that its owner named: then no other size opens.
    fn says_size(&self, name: &DiskName) -> bool {
        let written = self.written_disk(name);
        written.is_some_and(|disk| disk.backing.is_some() && disk.size.is_some())
    }

    /// A disk that ends with the daemon has nothing to keep.
    fn keep_size(&self, name: &DiskName, size: Bytes) -> Result<(), Declined> {
        let turn = self.live.turn()?;
        let change = match self.live.now().disk(name) {
            Some(DiskChange::Added(disk)) => {
                let mut disk = disk.clone();
                disk.size = Some(size);
                Some(DiskChange::Added(disk))
            }
            _ => self.written_disk(name).map(|_| DiskChange::Resized(size)),
        };
        match change {
            Some(change) => Ok(turn.keep(|live| live.with_disk(name.clone(), Some(change)))?),
            None => Ok(()),
        }
    }

    /// Makes a tenant that is not there; says which. What was changed of one of this name before holds again.
    fn enter_tenant(&self, name: &TenantName) -> Result<Option<TenantId>, Declined> {
        let change = self.live.now().change(name);
        let store = &self.backend.store;
        let added = store.add_tenant(TenantSettings {
            name: name.clone(),
            weight: change.weight.unwrap_or_default(),
            floor: change.floor.flatten(),
            ceiling: change.ceiling.flatten(),
        });
        match added {
            Ok(id) => Ok(Some(id)),
            Err(TenantError::Exists) => Ok(None),
            Err(source) => Err(Declined::Change {
                name: name.clone(),
                source,
            }),
        }
    }

    pub(super) fn written_disk(&self, name: &DiskName) -> Option<&DiskSettings> {
        self.written.disks.iter().find(|disk| disk.name == *name)
    }

    /// All disks, each with where it is not what the config says.
    pub(super) fn disk_statuses(&self) -> Vec<DiskStatus> {
        let mut all = self.shelf.list();
        let live = self.live.now();
        let named = self.shelf.named.lock();
        for disk in &mut all {
            let name = &disk.settings.name;
            if let Some(named) = named.get(name) {
                disk.differences = differences(&named.said, self.written_disk(name), &live);
            }
        }
        all
    }

    /// Disks of the config that were removed.
    pub(super) fn removed_disks(&self) -> Vec<Difference> {
        let live = self.live.now();
        let named = self.shelf.named.lock();
        let written = self.written.disks.iter();
        let removed = written.filter(|disk| !named.contains_key(&disk.name));
        let difference = |disk: &DiskSettings| Difference {
            key: format!("disks.{}", disk.name),
            config: "served".to_owned(),
            now: "removed".to_owned(),
            kept: live.disk(&disk.name) == Some(&DiskChange::Removed),
        };
        removed.map(difference).collect()
    }

    /// What holds of all disks, by its keys.
    pub(super) fn disk_settings(&self) -> BTreeMap<String, String> {
        let all = self.shelf.list();
        all.iter()
            .flat_map(|disk| shown_disk(&disk.settings))
            .collect()
    }
}

/// Makes a disk's image. A disk is as large as that from then on; of swap the size is said.
fn image_of(disk: &mut DiskSettings) -> Result<Image, DiskError> {
    let path = PathBuf::from(disk.backing.as_deref().unwrap_or_default());
    let size = match disk.kind {
        DiskKind::Swap => disk.size,
        DiskKind::Disk => disk.size.take(),
    };
    let size = size.ok_or_else(|| DiskError::NoImageSize(disk.name.clone()))?;
    Image::make(&path, size)
}

/// Where a disk is not what the config says.
fn differences(now: &DiskSettings, written: Option<&DiskSettings>, live: &Live) -> Vec<Difference> {
    let change = live.disk(&now.name);
    let Some(written) = written.map(shown_disk) else {
        return vec![Difference {
            key: format!("disks.{}", now.name),
            config: "none".to_owned(),
            now: "added".to_owned(),
            kept: change.is_some_and(DiskChange::is_added),
        }];
    };
    let kept = match change {
        Some(DiskChange::Added(disk)) => shown_disk(disk),
        Some(DiskChange::Resized(size)) => shown_disk(&DiskSettings {
            size: Some(*size),
            ..now.clone()
        }),
        Some(DiskChange::Removed) | None => BTreeMap::new(),
    };
    let now = shown_disk(now);
    let keys: BTreeSet<&String> = now.keys().chain(written.keys()).collect();
    let said =
        |all: &BTreeMap<String, String>, key| all.get(key).cloned().unwrap_or("none".to_owned());
    let differs = keys
        .into_iter()
        .filter(|key| now.get(*key) != written.get(*key));
    differs
        .map(|key| Difference {
            key: key.clone(),
            config: said(&written, key),
            now: said(&now, key),
            kept: kept.get(key) == now.get(key),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backing_that_does_not_answer_is_told_of_in_time() {
        let (never, found) = mpsc::channel();
        let path = PathBuf::from("/hangs");
        let seen = Look { path, found }.wait(Instant::now());
        assert!(matches!(seen, Err(DiskError::Mute { .. })), "{seen:?}");
        drop(never);
    }
}
