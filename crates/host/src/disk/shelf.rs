//! All disks of a daemon.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use sublet_client::messages::{DiskState, DiskStatus};
use sublet_frontends::block::{Buffer, Disk, Outcome, Outcomes, Request, Verb};
use sublet_frontends::memcached::serve::Premises;
use sublet_store::TenantError;
use sublet_types::{
    Bytes, DiskKind, DiskListen, DiskName, DiskSettings, PAGE_BYTES, PoolId, TenantId,
};

use super::DiskError;
use super::backed::Backed;
use super::open::{OpenDisk, Opening};
use super::places::Places;
use super::stage::{KeeperError, Kept, Stage};
use super::swap::Swap;
use crate::headroom;

/// How often it is looked whether everything is written.
const LOOK: Duration = Duration::from_millis(5);

/// What all disks share.
#[derive(Clone, Debug)]
pub struct DiskGround {
    /// Where swap disks without a backing get one; the state folder.
    pub folder: Option<PathBuf>,
    /// The most bytes of pages that no backing has yet.
    pub dirty_max: Bytes,
    /// Where whoever keeps these pages listens.
    pub keeper: PathBuf,
    /// Threads that serve NBD.
    pub threads: usize,
}

/// Whether a disk was served before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum History {
    /// Nobody knows: a file that is not there may be made.
    Unknown,
    /// It was: a file that is not there is lost, and an empty one in its place would be worse than none.
    Served,
}

/// All disks of a daemon.
pub struct Disks {
    premises: Premises,
    ground: DiskGround,
    /// Made with the first disk, as NBD's threads are.
    places: Mutex<Option<Places>>,
    /// Made with the first swap disk.
    staging: Mutex<Option<Staging>>,
    open: Mutex<BTreeMap<DiskName, Arc<Shelved>>>,
}

struct Staging {
    stage: Arc<Stage>,
    kept: Kept,
}

/// A disk that is served.
struct Shelved {
    /// What holds, with the backing that it was given and the ports that were taken.
    settings: DiskSettings,
    disk: Arc<Backed>,
    running: Mutex<Option<OpenDisk>>,
}

impl Disks {
    /// No disks yet.
    pub fn open(premises: &Premises, ground: DiskGround) -> Disks {
        Disks {
            premises: premises.clone(),
            ground,
            places: Mutex::default(),
            staging: Mutex::default(),
            open: Mutex::default(),
        }
    }

    /// Opens a disk and serves it at its listeners. Its tenant is in the store already.
    ///
    /// # Errors
    ///
    /// See [`DiskError`]; nothing is left of it then.
    pub fn add(&self, said: &DiskSettings, history: History) -> Result<(), DiskError> {
        if self.open.lock().contains_key(&said.name) {
            return Err(DiskError::Exists(said.name.clone()));
        }
        let mut settings = self.with_backing(said)?;
        let running = OpenDisk::start(
            &settings,
            &Opening {
                premises: &self.premises,
                tenant: self.tenant(&settings)?,
                stage: self.stage_for(&settings)?,
                is_own: said.backing.is_none(),
                history,
            },
        )?;
        let disk = Arc::clone(&running.disk);
        match self.serve(&disk, &settings) {
            Ok(listen) => settings.listen = listen,
            Err(error) => {
                self.let_go(&said.name);
                running.end();
                return Err(error);
            }
        }
        let shelved = Shelved {
            disk,
            running: Mutex::new(Some(running)),
            settings,
        };
        self.open
            .lock()
            .insert(said.name.clone(), Arc::new(shelved));
        Ok(())
    }

    fn serve(
        &self,
        disk: &Arc<Backed>,
        settings: &DiskSettings,
    ) -> Result<Vec<DiskListen>, DiskError> {
        let mut places = self.places.lock();
        let places = match &mut *places {
            Some(places) => places,
            none => none.insert(Places::open(&self.premises, self.ground.threads)?),
        };
        let disk: Arc<dyn Disk> = Arc::clone(disk) as Arc<dyn Disk>;
        places.serve(&disk, settings)
    }

    /// A swap disk gets a file of its own where nobody named one.
    fn with_backing(&self, said: &DiskSettings) -> Result<DiskSettings, DiskError> {
        let mut settings = said.clone();
        if settings.backing.is_none() {
            let none = || DiskError::NoBacking(said.name.clone());
            let makes = said.kind == DiskKind::Swap && said.size.is_some();
            let folder = self.ground.folder.as_ref().filter(|_| makes);
            let folder = folder.ok_or_else(none)?.join("disks");
            std::fs::create_dir_all(&folder).map_err(DiskError::System)?;
            let file = folder.join(format!("{}.swap", said.name));
            settings.backing = Some(file.display().to_string());
        }
        Ok(settings)
    }

    fn tenant(&self, settings: &DiskSettings) -> Result<TenantId, DiskError> {
        let tenants = self.premises.store.tenants();
        let named = |name: &&sublet_store::TenantFigures| name.settings.name == settings.tenant;
        let tenant = tenants.iter().find(named).map(|tenant| tenant.id);
        Ok(tenant.ok_or(TenantError::Unknown)?)
    }

    fn stage_for(&self, settings: &DiskSettings) -> Result<Option<Arc<Stage>>, DiskError> {
        if settings.kind != DiskKind::Swap {
            return Ok(None);
        }
        let mut staging = self.staging.lock();
        if staging.is_none() {
            *staging = Some(self.open_stage()?);
        }
        Ok(staging.as_ref().map(|staging| Arc::clone(&staging.stage)))
    }

    fn open_stage(&self) -> Result<Staging, DiskError> {
        let path = &self.ground.keeper;
        let failed = |source| KeeperError::System {
            path: path.clone(),
            source,
        };
        headroom::stay_alive();
        let program = std::env::current_exe().map_err(failed)?;
        let slots = Stage::slots_within(self.ground.dirty_max);
        let kept = Kept::take(path, slots, &program)?;
        let stage = Stage::open(kept.file().map_err(failed)?).map_err(failed)?;
        for (disk, pages) in stage.disks() {
            tracing::info!(%disk, pages, "pages of swap that a daemon before this one had yet to write");
        }
        Ok(Staging {
            stage: Arc::new(stage),
            kept,
        })
    }

    /// Ends a disk when its backing has everything. Its clients are let go.
    ///
    /// # Errors
    ///
    /// The backing fails: then the disk stays, for only memory has what its guest wrote.
    pub fn remove(&self, name: &DiskName) -> Result<(), DiskError> {
        if self.find(name)?.disk.swap.is_some() {
            self.flush(name)?;
        }
        let gone = self.open.lock().remove(name);
        let gone = gone.ok_or_else(|| DiskError::NoDisk(name.clone()))?;
        self.let_go(name);
        let running = gone.running.lock().take();
        if let Some(running) = running {
            running.end();
        }
        self.forget(name);
        Ok(())
    }

    /// Nobody is to find what is staged under that name again.
    pub fn forget(&self, name: &DiskName) {
        let staging = self.staging.lock();
        let pages = staging
            .as_ref()
            .map(|staging| staging.stage.remove_all(name));
        if let Some(pages) = pages.filter(|pages| *pages > 0) {
            tracing::warn!(disk = %name, pages, "pages of swap that no backing has were given up with their disk");
        }
    }

    /// Serves a disk no more. Who waits for its clients keeps nobody else waiting.
    fn let_go(&self, name: &DiskName) {
        let parting = self
            .places
            .lock()
            .as_mut()
            .map(|places| places.leave(name.as_str()));
        if let Some(parting) = parting {
            parting.wait();
        }
    }

    /// All of them, in order of names.
    pub fn list(&self) -> Vec<DiskStatus> {
        let all: Vec<_> = self.open.lock().values().cloned().collect();
        let tenants: BTreeSet<TenantId> = all.iter().map(|shelved| shelved.disk.tenant).collect();
        let store = &self.premises.store;
        let pages: HashMap<PoolId, u64> = tenants
            .into_iter()
            .flat_map(|tenant| store.pool_pages(tenant))
            .collect();
        all.iter().map(|disk| self.status(disk, &pages)).collect()
    }

    /// One of them.
    pub fn show(&self, name: &DiskName) -> Option<DiskStatus> {
        let disk = self.open.lock().get(name).cloned();
        disk.map(|shelved| {
            let pages = self.premises.store.pool_pages(shelved.disk.tenant);
            self.status(&shelved, &pages)
        })
    }

    fn find(&self, name: &DiskName) -> Result<Arc<Shelved>, DiskError> {
        let found = self.open.lock().get(name).cloned();
        found.ok_or_else(|| DiskError::NoDisk(name.clone()))
    }

    fn status(&self, shelved: &Shelved, pages: &HashMap<PoolId, u64>) -> DiskStatus {
        let disk = &shelved.disk;
        let figures = disk.tallies.sum();
        let places = self.places.lock();
        let name = shelved.settings.name.as_str();
        let ails = disk.ails();
        let why = "its backing fails: the log says how";
        DiskStatus {
            state: if ails {
                DiskState::Ailing
            } else {
                DiskState::Serving
            },
            why: if ails { why.to_owned() } else { String::new() },
            connections: places.as_ref().map_or(0, |places| places.connections(name)),
            reads: figures.reads,
            writes: figures.writes + figures.trims,
            bytes_read: figures.read_bytes,
            bytes_written: figures.written_bytes,
            hits: figures.hits,
            misses: figures.misses,
            pages: pages.get(&disk.pool).copied().unwrap_or(0),
            dirty: disk.swap.as_ref().map_or(0, Swap::dirty),
            prefetched: figures.read_ahead,
            faults: figures.faults,
            ..DiskStatus::idle(shelved.settings.clone(), disk.size())
        }
    }

    /// Makes a disk larger, or takes over what a block device has become.
    pub fn resize(&self, name: &DiskName, size: Bytes) -> Result<(), DiskError> {
        let disk = &self.find(name)?.disk;
        let has = disk.size();
        if size < has {
            let name = name.clone();
            return Err(DiskError::Shrinks { name, has });
        }
        let failed = |source| DiskError::Failed {
            name: name.clone(),
            source,
        };
        disk.backing
            .grow(size, disk.swap.is_some())
            .map_err(failed)?;
        disk.bytes.store(size.0, Ordering::Relaxed);
        disk.reading.resize(size.0 / PAGE_BYTES);
        Ok(())
    }

    /// Waits until everything that was written before lasts on the backing.
    pub fn flush(&self, name: &DiskName) -> Result<(), DiskError> {
        let disk = &self.find(name)?.disk;
        let failed = |source| DiskError::Failed {
            name: name.clone(),
            source,
        };
        if let Some(swap) = &disk.swap {
            let hurry = swap.hurry();
            while hurry.has_some() {
                if disk.ails() {
                    return Err(failed(io::Error::other("it takes no writes")));
                }
                thread::sleep(LOOK);
            }
        }
        let (asked, answer) = channel();
        disk.start(Request {
            verb: Verb::Flush,
            at: 0,
            len: 0,
            buffer: Buffer::default(),
            to: Arc::new(Waiter(Mutex::new(asked))),
            token: 0,
        });
        let outcome = answer
            .recv()
            .map_err(|error| failed(io::Error::other(error)))?;
        outcome
            .result
            .map_err(|fault| failed(io::Error::other(fault)))
    }

    /// What the stage takes of the host's memory, beside the arena.
    pub fn stage_bytes(&self) -> Bytes {
        let staging = self.staging.lock();
        let bytes = staging.as_ref().map(|staging| staging.stage.bytes());
        bytes.unwrap_or_default()
    }

    /// Lets all clients go, writes what is staged, and ends every disk.
    pub fn end(&self) {
        let places = self.places.lock().take();
        if let Some(places) = places {
            places.end();
        }
        let all = std::mem::take(&mut *self.open.lock());
        for disk in all.into_values() {
            let running = disk.running.lock().take();
            if let Some(running) = running {
                running.end();
            }
        }
        let staging = self.staging.lock().take();
        if let Some(staging) = staging {
            staging.end();
        }
    }
}

impl Drop for Disks {
    fn drop(&mut self) {
        self.end();
    }
}

impl Staging {
    /// What could not be written is kept for the next daemon.
    fn end(self) {
        let left = self.stage.disks();
        for (disk, pages) in &left {
            tracing::error!(%disk, pages, "pages of swap have no copy on their backing: they are kept in memory for the next start");
        }
        if left.is_empty() {
            self.kept.end();
        }
    }
}

/// Who waits for one outcome.
struct Waiter(Mutex<Sender<Outcome>>);

impl Outcomes for Waiter {
    fn done(&self, outcome: Outcome) {
        let _ = self.0.lock().send(outcome);
    }
}
