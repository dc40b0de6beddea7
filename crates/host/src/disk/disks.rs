//! The disks that the owner named, open or closed, and who may change each of them now.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use parking_lot::Mutex;
use sublet_client::messages::{ChangeLifetime, DiskState, DiskStatus, OrphanedPages};
use sublet_frontends::backend::Backend;
use sublet_types::{Bytes, DiskKind, DiskName, DiskSettings, Pages, TenantName};

use super::backing_probe::{ANSWER_MAX, BackingProbe};
use super::closing::UnwrittenAction;
use super::endpoints::NbdCertificates;
use super::error::DiskError;
use super::open::DiskHistory;
use super::open_disks::{DiskEnvironment, OpenDisks};
use crate::config::{DiskChange, LoadedConfig};
use crate::credential_report::CredentialReport;
use crate::memory_lock;
use crate::observe::events::{EventId, EventReason, EventSubject, Events, PostedEvent};
use crate::peers::far_memory::FarMemory;

/// A disk of the config that cannot be served.
#[derive(Debug, thiserror::Error)]
#[error("disk {name}: {source}")]
pub struct DiskStartError {
    /// Which disk.
    name: DiskName,
    /// Why.
    source: DiskError,
}

/// The disks, and the settings that the owner gave each of them.
pub struct Disks {
    open: OpenDisks,
    named: Mutex<BTreeMap<DiskName, NamedDisk>>,
    /// Disks that somebody adds, changes or removes now.
    locked_names: Mutex<BTreeSet<DiskName>>,
    /// Folders for the backings of disks that are named while the daemon runs.
    allowed: Mutex<Vec<PathBuf>>,
}

/// What happens to a disk whose guest may read older pages than it wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LostPages {
    /// The disk is not opened.
    Refuse,
    /// The disk is opened all the same (`--force`).
    Accept,
}

/// A disk as its owner described it.
struct NamedDisk {
    said: DiskSettings,
    /// Why the disk could not be opened at the start, if it could not.
    closed: Option<String>,
}

impl Disks {
    /// Opens the disks that a config and live changes name. Their pages go to `far` if the host borrows.
    ///
    /// A disk that was added live stays closed if it cannot be opened any more, and an event says so. The same holds
    /// for a disk that looks like an image of another format.
    ///
    /// # Errors
    ///
    /// Any other disk of the config file cannot be opened. The daemon does not start then.
    pub fn open(
        loaded: &LoadedConfig,
        backend: &Backend,
        far: Option<FarMemory>,
        events: &Events,
    ) -> Result<Disks, DiskStartError> {
        let config = &loaded.config;
        if config.disks.iter().any(|said| said.kind == DiskKind::Swap) {
            memory_lock::lock_process();
        }
        let environment = DiskEnvironment {
            state: loaded.live.state().clone(),
            dirty_max: config.disk.dirty_max,
            keeper: config.admin.socket.with_extension("stage"),
            threads: config.daemon.threads,
            silence_max: SILENCE_MAX,
            far,
            events: events.clone(),
        };
        let disks = Disks {
            open: OpenDisks::open(backend, environment),
            named: Mutex::default(),
            locked_names: Mutex::default(),
            allowed: Mutex::new(config.disk.allow.clone()),
        };
        let looks = config.disks.iter().map(|said| {
            let was_added = loaded
                .live
                .disk(&said.name)
                .is_some_and(DiskChange::is_added);
            BackingProbe::start(said, was_added.then_some(&config.disk.allow))
        });
        // All disks are probed at once, and none holds up the others.
        let (looks, until): (Vec<BackingProbe>, _) = (looks.collect(), Instant::now() + ANSWER_MAX);
        for (said, look) in config.disks.iter().zip(looks) {
            let name = said.name.clone();
            let history = match loaded.live.disk(&name) {
                Some(DiskChange::Added(_)) => DiskHistory::Served,
                Some(DiskChange::Resized(_)) => DiskHistory::Resized,
                _ => DiskHistory::Written,
            };
            let was_added = history == DiskHistory::Served;
            let opened = look.wait(until);
            let opened = opened.and_then(|()| disks.open.add(said, history));
            let closed = match opened {
                Ok(()) => None,
                // A guest that writes another format's mark into its first sector harms only itself. A guest whose
                // pages are lost is harmed already.
                Err(error) if was_added || error.is_its_guests() => {
                    let object = EventSubject::Disk {
                        name: name.clone(),
                        tenant: Some(said.tenant.clone()),
                    };
                    let closed = PostedEvent::new(EventId::DiskClosed, EventReason::Start);
                    events.post(closed.to(object).saying(&error));
                    Some(error.to_string())
                }
                Err(source) => return Err(DiskStartError { name, source }),
            };
            let said = said.clone();
            disks.named.lock().insert(name, NamedDisk { said, closed });
        }
        disks.recover_staged_pages();
        Ok(disks)
    }

    /// Returns a function that posts which clients all disks have refused since its last call.
    pub(crate) fn refusals(&self, events: &Events) -> impl Fn() + Send + use<> {
        let (callers, events) = (self.open.callers.clone(), events.clone());
        move || callers.report_refused(&events)
    }

    /// Finds pages of swap that an earlier daemon left, of any disk.
    fn recover_staged_pages(&self) {
        if let Err(error) = self.open.recover_stage() {
            tracing::error!(%error, "the daemon cannot find out whether an earlier daemon left pages of swap, and starts without them; mend the cause and restart it");
        }
        for left in self.left_behind() {
            tracing::warn!(disk = %left.name, pages = left.pages, "pages of swap were left behind, and no disk writes them: `sublet disk show` says what to do");
        }
    }

    /// Swapped pages that no disk writes. The pages of a disk that stays closed are left out.
    pub(crate) fn left_behind(&self) -> Vec<OrphanedPages> {
        let named = self.named.lock();
        let is_closed = |left: &OrphanedPages| {
            let named = named.get(&left.name);
            named.is_some_and(|named| named.closed.is_some())
        };
        let mut all = self.open.left_behind();
        all.retain(|left| !is_closed(left));
        all
    }

    /// Every disk, in the order of names.
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

    fn closed_status(&self, named: &NamedDisk) -> Option<DiskStatus> {
        let status = named.closed_status()?;
        let dirty = self.open.left_pages(&named.said.name).0;
        Some(DiskStatus { dirty, ..status })
    }

    /// The number of disks, open or closed.
    pub(crate) fn count(&self) -> usize {
        self.named.lock().len()
    }

    /// The settings that the owner gave a disk, open or closed.
    pub(crate) fn settings_of(&self, name: &DiskName) -> Option<DiskSettings> {
        self.named.lock().get(name).map(|named| named.said.clone())
    }

    /// Folders for the backings of disks that are named while the daemon runs.
    pub(crate) fn allowed(&self) -> Vec<PathBuf> {
        self.allowed.lock().clone()
    }

    /// Allows backings under one more folder.
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

    /// Locks a disk, so that nobody else changes it meanwhile.
    pub(crate) fn lock(&self, name: &DiskName) -> Result<DiskLock<'_>, DiskError> {
        match self.locked_names.lock().insert(name.clone()) {
            true => Ok(DiskLock(self, name.clone())),
            false => Err(DiskError::Busy(name.clone())),
        }
    }

    /// Adds a disk that the owner named.
    pub(crate) fn add(&self, said: &DiskSettings) -> Result<(), DiskError> {
        if self.named.lock().contains_key(&said.name) {
            return Err(DiskError::Exists(said.name.clone()));
        }
        self.open
            .add(said, DiskHistory::New)
            .map_err(|error| self.without_loss(error, &said.name))?;
        let (said, closed) = (said.clone(), None);
        let name = said.name.clone();
        self.named.lock().insert(name, NamedDisk { said, closed });
        Ok(())
    }

    /// Replaces an error that tells the owner to delete another tenant's file, if pages for that file are left.
    fn without_loss(&self, error: DiskError, name: &DiskName) -> DiskError {
        match (error, self.open.left_pages(name)) {
            (DiskError::OfAnother { .. } | DiskError::OfNobody(_), left) if left > Pages(0) => {
                let name = name.clone();
                DiskError::LeftBehind { name, left }
            }
            (error, _) => error,
        }
    }

    /// Opens a closed disk. If its owner accepts that, its pages may be older than its guest thinks.
    pub(crate) fn reopen(&self, said: DiskSettings, lost: LostPages) -> Result<(), DiskError> {
        let history = match lost {
            LostPages::Accept => DiskHistory::GivenUp,
            LostPages::Refuse => DiskHistory::Served,
        };
        let opened = self.open.add(&said, history);
        let closed = opened.as_ref().err().map(DiskError::to_string);
        let name = said.name.clone();
        self.named.lock().insert(name, NamedDisk { said, closed });
        opened
    }

    /// The settings of a closed disk.
    pub(crate) fn closed_settings(&self, name: &DiskName) -> Result<DiskSettings, DiskError> {
        let named = self.named.lock();
        let of_name = named.get(name);
        let of_name = of_name.ok_or_else(|| DiskError::NoDisk(name.clone()))?;
        match of_name.closed {
            Some(_) => Ok(of_name.said.clone()),
            None => Err(DiskError::Open(name.clone())),
        }
    }

    /// Ends a disk that was just added and is to go again.
    pub(crate) fn retract(&self, name: &DiskName) -> Result<(), DiskError> {
        self.open.retract(name)?;
        self.named.lock().remove(name);
        Ok(())
    }

    /// Returns when the backing has everything that was written before the call.
    pub(crate) fn flush(&self, name: &DiskName) -> Result<(), DiskError> {
        self.check_open(name)?;
        self.open.flush(name)
    }

    /// Gives an open disk another size if `keep` wrote that down. Otherwise the backing stays as it was.
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

    /// Pages that were left behind under that name and that no open disk writes.
    pub(crate) fn left_pages(&self, name: &DiskName) -> Pages {
        self.open.left_pages(name)
    }

    /// Reads the certificates of NBD listeners again. Certificates that cannot be used change nothing.
    pub(crate) fn reload_certificates(&self, outcome: &mut CredentialReport) {
        for NbdCertificates { whose, files, tls } in self.open.certificates() {
            let files: Vec<&str> = files.iter().map(String::as_str).collect();
            outcome.record(whose, &files, tls.reload());
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
            None => match self.open.left_pages(name) {
                Pages(0) => Ok(()),
                left => Err(DiskError::LeftBehind {
                    name: name.clone(),
                    left,
                }),
            },
        }
    }

    /// Shows every disk as leaving. From now on no disk acknowledges what its backing does not have.
    pub(crate) fn begin_ending(&self) {
        self.open.begin_ending();
    }

    /// Writes everything to the backings, and logs now and then how much is left.
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
            self.report_dirty();
            while flushing.iter().any(|thread| !thread.is_finished()) {
                thread::sleep(DRAIN_LOOK);
                if told.elapsed() >= DRAIN_NEWS {
                    told = Instant::now();
                    self.report_dirty();
                }
            }
        });
        if self.open.list().iter().all(|disk| disk.dirty == 0) {
            tracing::info!(
                disks = all.len(),
                "disks are drained: their backings have everything"
            );
        }
    }

    /// The part of the stage's bytes that is in memory from the start.
    pub(crate) fn stage_resident(&self) -> Bytes {
        self.open.stage_resident()
    }

    /// Memory of swapped pages that no backing has yet.
    pub(crate) fn stage_bytes(&self) -> Bytes {
        self.open.stage_bytes()
    }

    /// Disconnects all clients and ends every disk.
    pub fn end(&self) {
        self.open.end();
    }

    fn flush_last(&self, name: &DiskName) {
        if let Err(error) = self.open.drain(name) {
            let left = self.open.left_pages(name);
            tracing::error!(disk = %name, %left, %error, "not everything reached the backing; the keeper keeps the pages of swap that are left for the next start: mend the backing first");
        }
    }

    fn report_dirty(&self) {
        let dirty: Pages = self.open.list().iter().map(|disk| Pages(disk.dirty)).sum();
        if dirty.0 > 0 {
            tracing::info!(left = %dirty.bytes(), "the daemon writes disks to their backings before it ends");
        }
    }
}

/// How long a backing may do nothing at all. After that, a disk that is to go stays.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// How often a drain's progress is checked.
const DRAIN_LOOK: Duration = Duration::from_millis(20);

/// How often a drain's progress is logged.
const DRAIN_NEWS: Duration = Duration::from_secs(1);

impl NamedDisk {
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

/// The right to change a disk.
pub(crate) struct DiskLock<'a>(&'a Disks, DiskName);

impl Drop for DiskLock<'_> {
    fn drop(&mut self) {
        self.0.locked_names.lock().remove(&self.1);
    }
}

/// The backing of a removed disk.
pub(crate) struct DiskBacking {
    pub(crate) path: Option<PathBuf>,
    /// The daemon made the backing for the disk, because the owner named none.
    pub(crate) is_ours: bool,
}

impl DiskBacking {
    /// Checks that the backing may be deleted with its disk.
    pub(crate) fn check_deletable(
        &self,
        name: &DiskName,
        lasts: ChangeLifetime,
    ) -> Result<(), DiskError> {
        if lasts == ChangeLifetime::UntilRestart {
            return Err(DiskError::NeedsFile(name.clone()));
        }
        match (&self.path, self.is_ours) {
            (Some(path), false) => Err(DiskError::NotOurs { path: path.clone() }),
            _ => Ok(()),
        }
    }

    /// Deletes the backing. Returns whether it is gone.
    pub(crate) fn delete(&self) -> bool {
        let Some(path) = &self.path else {
            return false;
        };
        let deleted = fs::remove_file(path);
        if let Err(error) = &deleted {
            tracing::warn!(path = %path.display(), %error, "the daemon removed the disk but could not delete its file; delete it by hand");
        }
        deleted.is_ok()
    }
}

/// The state of a disk that is to be removed.
enum DiskPresence {
    Open,
    /// The disk could not be opened, for that reason.
    Closed(String),
    /// The disk is no longer served. It may have left pages behind.
    Gone,
}

impl Disks {
    pub(crate) fn find_backing(&self, name: &DiskName) -> Result<DiskBacking, DiskError> {
        let said = self.named.lock().get(name).map(|named| named.said.clone());
        let Some(said) = said else {
            return self.find_left_backing(name);
        };
        let ours = match said.kind {
            DiskKind::Swap => self.open.own_file(name),
            DiskKind::Disk => None,
        };
        Ok(DiskBacking {
            path: said.backing.as_ref().map(PathBuf::from).or(ours),
            is_ours: said.backing.is_none(),
        })
    }

    /// The backing of a disk that left pages behind. Only the file that the daemon may have made for the disk is known.
    fn find_left_backing(&self, name: &DiskName) -> Result<DiskBacking, DiskError> {
        match self.open.left_pages(name) {
            Pages(0) if !self.open.may_have_staged_pages(name) => {
                Err(DiskError::NoDisk(name.clone()))
            }
            _ => Ok(DiskBacking {
                path: self.open.own_file(name).filter(|file| file.exists()),
                is_ours: true,
            }),
        }
    }

    /// Checks that a disk can go without a loss: it writes everything to its backing.
    pub(crate) fn drain_for_removal(&self, name: &DiskName) -> Result<(), DiskError> {
        let presence = self.presence(name);
        let kind = self.named.lock().get(name).map(|named| named.said.kind);
        if matches!(presence, DiskPresence::Closed(_)) && kind == Some(DiskKind::Swap) {
            self.open.recover_stage()?; // where nobody can say what is staged, nobody knows what would be lost
        }
        let (name, left) = (name.clone(), self.open.left_pages(name));
        match (presence, left) {
            (DiskPresence::Open, _) => self.open.drain_for_removal(&name),
            (_, Pages(0)) => Ok(()),
            (DiskPresence::Closed(why), left) => Err(DiskError::Unwritten {
                name,
                source: io::Error::other(why),
                left,
            }),
            (DiskPresence::Gone, left) => Err(DiskError::LeftBehind { name, left }),
        }
    }

    /// Ends a disk and returns how much was given up.
    pub(crate) fn remove(
        &self,
        name: &DiskName,
        unwritten: UnwrittenAction,
    ) -> Result<Pages, DiskError> {
        let given_up = match self.presence(name) {
            DiskPresence::Open => self.open.remove(name, unwritten)?,
            DiskPresence::Closed(_) | DiskPresence::Gone => {
                self.open.check_discard(name)?;
                self.open.discard_staged(name)
            }
        };
        self.named.lock().remove(name);
        self.open.end_idle_stage();
        Ok(given_up)
    }

    fn presence(&self, name: &DiskName) -> DiskPresence {
        let all = self.named.lock();
        match all.get(name).map(|named| named.closed.clone()) {
            Some(None) => DiskPresence::Open,
            Some(Some(why)) => DiskPresence::Closed(why),
            None => DiskPresence::Gone,
        }
    }
}
