//! The disks that were named, open or closed, and whose turn it is with each.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use parking_lot::Mutex;
use sublet_client::messages::{DiskState, DiskStatus, Lasts, LeftBehind};
use sublet_frontends::backend::Backend;
use sublet_types::{Bytes, DiskKind, DiskName, DiskSettings, Pages, TenantName};

use super::error::DiskError;
use super::leaving::Unwritten;
use super::look::{ANSWER_MAX, Look};
use super::open::History;
use super::open_disks::{DiskGround, OpenDisks};
use super::places::Certificates;
use crate::config::{DiskChange, Loaded};
use crate::credentials::CredentialFiles;
use crate::locked;
use crate::observe::events::{Cause, EventId, Events, Object, Why};

/// A disk of the config that cannot be served.
#[derive(Debug, thiserror::Error)]
#[error("disk {name}: {source}")]
pub struct DisksError {
    /// Which disk.
    name: DiskName,
    /// Why.
    source: DiskError,
}

/// The disks, and what was said of each.
pub struct Disks {
    open: OpenDisks,
    named: Mutex<BTreeMap<DiskName, Named>>,
    /// Those that are being added, changed or removed.
    turns: Mutex<BTreeSet<DiskName>>,
    /// Folders where backings may lie that are named while the daemon runs.
    allowed: Mutex<Vec<PathBuf>>,
}

/// A disk by its owner's word.
struct Named {
    said: DiskSettings,
    /// Why it could not be opened at the start, if it could not.
    closed: Option<String>,
}

impl Disks {
    /// Opens the disks that a config and live changes name. One that was added live and cannot be opened any more
    /// is told of and left closed, as is one that looks like an image of another format; else one of the config file is a reason not to start.
    ///
    /// # Errors
    ///
    /// A disk of the config file cannot be opened.
    pub fn open(loaded: &Loaded, backend: &Backend, events: &Events) -> Result<Disks, DisksError> {
        let config = &loaded.config;
        if config.disks.iter().any(|said| said.kind == DiskKind::Swap) {
            locked::lock_process();
        }
        let ground = DiskGround {
            state: loaded.live.state().clone(),
            dirty_max: config.disk.dirty_max,
            keeper: config.admin.socket.with_extension("stage"),
            threads: config.daemon.threads,
            silence_max: SILENCE_MAX,
            events: events.clone(),
        };
        let disks = Disks {
            open: OpenDisks::open(backend, ground),
            named: Mutex::default(),
            turns: Mutex::default(),
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
            let opened = opened.and_then(|()| disks.open.add(said, history));
            let closed = match opened {
                Ok(()) => None,
                // A guest that writes another format's mark into its first sector harms itself only, and one whose pages
                // are lost is harmed already.
                Err(error) if was_added || error.is_its_guests() => {
                    let object = Object::Disk {
                        name: name.clone(),
                        tenant: Some(said.tenant.clone()),
                    };
                    let closed = Cause::new(EventId::DiskClosed, Why::Start);
                    events.post(closed.to(object).saying(&error));
                    Some(error.to_string())
                }
                Err(source) => return Err(DisksError { name, source }),
            };
            let said = said.clone();
            disks.named.lock().insert(name, Named { said, closed });
        }
        disks.look_back();
        Ok(disks)
    }

    /// Tells, whenever it is run, who was refused at the places of all disks since the last time.
    pub(crate) fn refusals(&self, events: &Events) -> impl Fn() + Send + use<> {
        let (callers, events) = (self.open.callers.clone(), events.clone());
        move || callers.tell_refused(&events)
    }

    /// Finds pages of swap that a daemon before this one left, of whatever disk.
    fn look_back(&self) {
        if let Err(error) = self.open.find_stage() {
            tracing::error!(%error, "nobody knows whether pages of swap were left behind");
        }
        for left in self.left_behind() {
            tracing::warn!(disk = %left.name, pages = left.pages, "pages of swap were left behind, and no disk writes them: `sublet disk show` says what to do");
        }
    }

    /// What was swapped and no disk writes, but for what a disk that stays closed had.
    pub(crate) fn left_behind(&self) -> Vec<LeftBehind> {
        let named = self.named.lock();
        let is_closed = |left: &LeftBehind| {
            let named = named.get(&left.name);
            named.is_some_and(|named| named.closed.is_some())
        };
        let mut all = self.open.left_behind();
        all.retain(|left| !is_closed(left));
        all
    }

    /// Every disk, in order of names.
    pub(crate) fn list(&self) -> Vec<DiskStatus> {
        let named = self.named.lock();
        let closed = named.values().filter_map(|named| self.closed_status(named));
        let mut all: Vec<DiskStatus> = self.open.list().into_iter().chain(closed).collect();
        all.sort_by(|a, b| a.settings.name.cmp(&b.settings.name));
        all
    }

    /// One disk.
    pub(crate) fn status(&self, name: &DiskName) -> Result<DiskStatus, DiskError> {
        let named = self.named.lock();
        if let Ok(open) = self.open.find(name) {
            return Ok(self.open.status(&open));
        }
        let closed = named.get(name).and_then(|named| self.closed_status(named));
        closed.ok_or_else(|| DiskError::NoDisk(name.clone()))
    }

    fn closed_status(&self, named: &Named) -> Option<DiskStatus> {
        let status = named.closed_status()?;
        let dirty = self.open.left_of(&named.said.name).0;
        Some(DiskStatus { dirty, ..status })
    }

    /// How many there are, open or closed.
    pub(crate) fn count(&self) -> usize {
        self.named.lock().len()
    }

    /// What was said of a disk, open or closed.
    pub(crate) fn said(&self, name: &DiskName) -> Option<DiskSettings> {
        self.named.lock().get(name).map(|named| named.said.clone())
    }

    /// Where backings may lie that are named while the daemon runs.
    pub(crate) fn allowed(&self) -> Vec<PathBuf> {
        self.allowed.lock().clone()
    }

    /// Lets backings lie under one folder more.
    pub(crate) fn allow(&self, folder: PathBuf) {
        let mut allowed = self.allowed.lock();
        if !allowed.contains(&folder) {
            allowed.push(folder);
        }
    }

    /// The names of a tenant's disks.
    pub(crate) fn disks_of(&self, tenant: &TenantName) -> Vec<String> {
        let named = self.named.lock();
        let its = named
            .iter()
            .filter(|(_, named)| named.said.tenant == *tenant);
        its.map(|(name, _)| name.to_string()).collect()
    }

    /// Takes the turn to do something with a disk.
    pub(crate) fn turn(&self, name: &DiskName) -> Result<Turn<'_>, DiskError> {
        match self.turns.lock().insert(name.clone()) {
            true => Ok(Turn(self, name.clone())),
            false => Err(DiskError::Busy(name.clone())),
        }
    }

    /// Adds a disk that the owner named.
    pub(crate) fn add(&self, said: &DiskSettings) -> Result<(), DiskError> {
        if self.named.lock().contains_key(&said.name) {
            return Err(DiskError::Exists(said.name.clone()));
        }
        self.open
            .add(said, History::New)
            .map_err(|error| self.without_loss(error, &said.name))?;
        let (said, closed) = (said.clone(), None);
        let name = said.name.clone();
        self.named.lock().insert(name, Named { said, closed });
        Ok(())
    }

    /// Whoever is told to delete another tenant's file has to know that pages for it are left.
    fn without_loss(&self, error: DiskError, name: &DiskName) -> DiskError {
        match (error, self.open.left_of(name)) {
            (DiskError::OfAnother { .. } | DiskError::OfNobody(_), left) if left > Pages(0) => {
                let name = name.clone();
                DiskError::LeftBehind { name, left }
            }
            (error, _) => error,
        }
    }

    /// Opens a disk that is closed; if its owner says so, with pages that are older than its guest may think.
    pub(crate) fn reopen(&self, said: DiskSettings, force: bool) -> Result<(), DiskError> {
        let history = match force {
            true => History::GivenUp,
            false => History::Served,
        };
        let opened = self.open.add(&said, history);
        let closed = opened.as_ref().err().map(DiskError::to_string);
        let name = said.name.clone();
        self.named.lock().insert(name, Named { said, closed });
        opened
    }

    /// What was said of a closed disk.
    pub(crate) fn closed(&self, name: &DiskName) -> Result<DiskSettings, DiskError> {
        let named = self.named.lock();
        let of_name = named.get(name);
        let of_name = of_name.ok_or_else(|| DiskError::NoDisk(name.clone()))?;
        match of_name.closed {
            Some(_) => Ok(of_name.said.clone()),
            None => Err(DiskError::Open(name.clone())),
        }
    }

    /// Ends a disk that was added just now and is not to be.
    pub(crate) fn retract(&self, name: &DiskName) -> Result<(), DiskError> {
        self.open.retract(name)?;
        self.named.lock().remove(name);
        Ok(())
    }

    /// Returns when the backing has everything that was written before.
    pub(crate) fn flush(&self, name: &DiskName) -> Result<(), DiskError> {
        self.check_open(name)?;
        self.open.flush(name)
    }

    /// Gives an open disk another size, if `keep` has written it down: else its backing is as it was.
    pub(crate) fn resize<E: From<DiskError>>(
        &self,
        name: &DiskName,
        size: Bytes,
        keep: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        self.open.resize(name, size, keep)?;
        if let Some(named) = self.named.lock().get_mut(name) {
            named.said.size = Some(size);
        }
        Ok(())
    }

    /// Pages that were left behind under that name, and no disk that is open writes.
    pub(crate) fn left_of(&self, name: &DiskName) -> Pages {
        self.open.left_of(name)
    }

    /// Reads the certificates of NBD listeners anew. What cannot be used changes nothing.
    pub(crate) fn reread_certificates(&self, outcome: &mut CredentialFiles) {
        for Certificates { whose, files, tls } in self.open.certificates() {
            let files: Vec<&str> = files.iter().map(String::as_str).collect();
            outcome.note(whose, &files, tls.reload());
        }
    }

    pub(crate) fn check_open(&self, name: &DiskName) -> Result<(), DiskError> {
        let named = self.named.lock();
        match named.get(name).and_then(|named| named.closed.clone()) {
            Some(why) => Err(DiskError::Closed {
                name: name.clone(),
                why,
            }),
            None if named.contains_key(name) => Ok(()),
            None => match self.open.left_of(name) {
                Pages(0) => Ok(()),
                left => Err(DiskError::LeftBehind {
                    name: name.clone(),
                    left,
                }),
            },
        }
    }

    /// Every disk is shown as one that leaves, and none acknowledges what its backing does not have.
    pub(crate) fn begin_ending(&self) {
        self.open.begin_ending();
    }

    /// Brings everything to the backings, with a line now and then on how much is left.
    pub(crate) fn drain(&self) {
        let all = self.open.list();
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
        if self.open.list().iter().all(|disk| disk.dirty == 0) {
            tracing::info!("disks are drained");
        }
    }

    /// How much of that is in memory from the start.
    pub(crate) fn stage_resident(&self) -> Bytes {
        self.open.stage_resident()
    }

    /// What pages of swap take that no backing has yet.
    pub(crate) fn stage_bytes(&self) -> Bytes {
        self.open.stage_bytes()
    }

    /// Lets all clients go and ends every disk.
    pub fn end(&self) {
        self.open.end();
    }

    fn flush_last(&self, name: &DiskName) {
        if let Err(error) = self.open.drain(name) {
            tracing::error!(disk = %name, %error, "not everything reached the backing: what only memory has is kept for the next start");
        }
    }

    fn tell_of_dirty(&self) {
        let dirty: Pages = self.open.list().iter().map(|disk| Pages(disk.dirty)).sum();
        if dirty.0 > 0 {
            tracing::info!(left = %dirty.bytes(), "draining disks to their backings");
        }
    }
}

/// How long a backing may do nothing at all before its disk, which is to go, stays.
const SILENCE_MAX: Duration = Duration::from_secs(60);

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
pub(crate) struct Turn<'a>(&'a Disks, DiskName);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.turns.lock().remove(&self.1);
    }
}

/// The backing of a disk that goes.
pub(crate) struct Behind {
    pub(crate) path: Option<PathBuf>,
    /// Nobody named it: it was made for the disk.
    pub(crate) is_ours: bool,
}

impl Behind {
    /// That it may go with its disk.
    pub(crate) fn check_deletable(&self, name: &DiskName, lasts: Lasts) -> Result<(), DiskError> {
        if lasts == Lasts::UntilRestart {
            return Err(DiskError::NeedsFile(name.clone()));
        }
        match (&self.path, self.is_ours) {
            (Some(path), false) => Err(DiskError::NotOurs { path: path.clone() }),
            _ => Ok(()),
        }
    }

    /// Deletes it. Says whether it is gone.
    pub(crate) fn delete(&self) -> bool {
        let Some(path) = &self.path else {
            return false;
        };
        let deleted = fs::remove_file(path);
        if let Err(error) = &deleted {
            tracing::warn!(path = %path.display(), %error, "the file of a disk that was removed stays");
        }
        deleted.is_ok()
    }
}

/// How a disk stands that is to go.
enum Standing {
    Open,
    /// It could not be opened, for that reason.
    Closed(String),
    /// It is served no more; pages may have been left behind.
    Gone,
}

impl Disks {
    pub(crate) fn behind(&self, name: &DiskName) -> Result<Behind, DiskError> {
        let said = self.named.lock().get(name).map(|named| named.said.clone());
        let Some(said) = said else {
            return self.behind_left(name);
        };
        let ours = match said.kind {
            DiskKind::Swap => self.open.own_file(name),
            DiskKind::Disk => None,
        };
        Ok(Behind {
            path: said.backing.as_ref().map(PathBuf::from).or(ours),
            is_ours: said.backing.is_none(),
        })
    }

    /// Of a disk that left pages behind only the file is known that may have been made for it.
    fn behind_left(&self, name: &DiskName) -> Result<Behind, DiskError> {
        match self.open.left_of(name) {
            Pages(0) if !self.open.is_pledged(name) => Err(DiskError::NoDisk(name.clone())),
            _ => Ok(Behind {
                path: self.open.own_file(name).filter(|file| file.exists()),
                is_ours: true,
            }),
        }
    }

    /// Finds out whether a disk can go without a loss: brings everything to its backing.
    pub(crate) fn clear(&self, name: &DiskName) -> Result<(), DiskError> {
        let standing = self.standing(name);
        let kind = self.named.lock().get(name).map(|named| named.said.kind);
        if matches!(standing, Standing::Closed(_)) && kind == Some(DiskKind::Swap) {
            self.open.find_stage()?; // where nobody can say what is staged, nobody knows what would be lost
        }
        let (name, left) = (name.clone(), self.open.left_of(name));
        match (standing, left) {
            (Standing::Open, _) => self.open.clear(&name),
            (_, Pages(0)) => Ok(()),
            (Standing::Closed(why), left) => Err(DiskError::Unwritten {
                name,
                source: io::Error::other(why),
                left,
            }),
            (Standing::Gone, left) => Err(DiskError::LeftBehind { name, left }),
        }
    }

    /// Ends a disk; says how much was given up.
    pub(crate) fn remove(&self, name: &DiskName, unwritten: Unwritten) -> Result<Pages, DiskError> {
        let given_up = match self.standing(name) {
            Standing::Open => self.open.remove(name, unwritten)?,
            Standing::Closed(_) | Standing::Gone => {
                self.open.check_gives_up(name)?;
                self.open.forget(name)
            }
        };
        self.named.lock().remove(name);
        self.open.fold_stage();
        Ok(given_up)
    }

    fn standing(&self, name: &DiskName) -> Standing {
        let all = self.named.lock();
        match all.get(name).map(|named| named.closed.clone()) {
            Some(None) => Standing::Open,
            Some(Some(why)) => Standing::Closed(why),
            None => Standing::Gone,
        }
    }
}
