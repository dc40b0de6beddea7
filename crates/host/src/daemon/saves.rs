//! Save files: the daemon writes a tenant's persistent pools and their pages to a file, and reads them again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Seek};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use sublet_client::messages::{
    CopyKind, CopyReport, CopyStatus, GrantSource, RestoreFile, TenantStatus, VERSION,
};
use sublet_frontends::ring::serve::Group;
use sublet_store::{RestoreError, RestoredPools, SavedGrants, SavedPool, Spill, Worker};
use sublet_types::{Bytes, FreezeState, PAGE_BYTES, PoolId, Second, TenantId, TenantName};

use super::Daemon;
use super::copy_progress::CountingIo;
use super::request_error::RequestError;
use super::save_error::SaveError;
use crate::observe::events::{Actor, EventAmount, EventId, EventReason, PostedEvent};

/// Bytes that a page takes in a save file beside its content.
const PAGE_EXTRA_BYTES: u64 = 33;

/// Pools of a save file, and the pools that stand for them now.
type RestoredPoolIds = Vec<(SavedPool, PoolId)>;

/// Bytes that are read or written at once.
const BUFFER_BYTES: usize = 1 << 20;

impl Daemon {
    /// Refuses a tenant's new pages from now on, or takes them again. This holds until the daemon ends.
    pub fn set_freeze_state(
        &self,
        name: &TenantName,
        state: FreezeState,
        by: Actor,
    ) -> Result<TenantStatus, RequestError> {
        let id = self.tenants.find(name)?.id;
        self.backend.store.set_freeze_state(id, state);
        let id = match state {
            FreezeState::Frozen => EventId::TenantFrozen,
            FreezeState::Thawed => EventId::TenantThawed,
        };
        let event = PostedEvent::new(id, EventReason::UntilRestart).to_tenant(name);
        self.events.post(event.by(by));
        self.tenant(name)
    }

    /// Writes a tenant's pools and persistent pages into a file that is not there yet.
    pub fn save_tenant(
        &self,
        name: &TenantName,
        file: &Path,
        by: Actor,
    ) -> Result<CopyReport, RequestError> {
        let began = Instant::now();
        let figures = self.tenants.find(name)?;
        check_path(file)?;
        let (pages, worker) = (&figures.pages, self.copier()?);
        let of = pages.used.0 + pages.on_disk.0 + pages.same_filled.0;
        let of = of * (PAGE_BYTES + PAGE_EXTRA_BYTES);
        let begun = initial_status(CopyKind::Save, name, file, Bytes(of));
        let (_turn, done) = self.copying.begin(begun)?;
        let pools = self.backend.store.pools(figures.id).into_iter();
        let pools = pools.filter(|(_, flags)| flags.persistent).count() as u64;
        let saved = save(&worker, figures.id, file, Arc::clone(&done));
        let pages = saved.map_err(|error| error.for_tenant(name))?;
        let saved = PostedEvent::new(EventId::TenantSaved, EventReason::ByHand).to_tenant(name);
        let saved = saved.by(by).of(EventAmount::Pages(pages));
        self.events.post(saved.saying(file.display()));
        Ok(CopyReport {
            version: VERSION,
            copying: CopyKind::Save,
            tenant: name.clone(),
            file: file.display().to_string(),
            pools,
            pages,
            bytes: Bytes(done.load(Ordering::Relaxed)),
            frozen: self.backend.store.is_frozen(figures.id),
            micros: began.elapsed().as_micros() as u64,
        })
    }

    /// Makes the persistent pools of a save file again. They wait for programs that make pools of the same flags at the
    /// tenant's rings.
    pub fn restore_tenant(
        &self,
        name: &TenantName,
        asked: &RestoreFile,
        by: Actor,
    ) -> Result<CopyReport, RequestError> {
        let (began, path) = (Instant::now(), Path::new(&asked.file));
        let id = self.tenants.find(name)?.id;
        check_path(path)?;
        let (mut file, size) = open(path)?;
        let begun = initial_status(CopyKind::Restore, name, path, Bytes(2 * size));
        let (_turn, done) = self.copying.begin(begun)?;
        // Check this only in turn, because an earlier restore leaves pools that wait.
        let rings = self.rings_to_restore(name, id)?;
        let worker = self.copier()?;
        // Reads the file to its end first, so that a damaged file displaces nothing.
        let facts = worker
            .check_save(counting_reader(&file, &done))
            .map_err(|source| refused(path, source))?;
        file.rewind()
            .map_err(|error| refused(path, RestoreError::Unreadable(error)))?;
        if facts.pools.iter().any(|pool| pool.flags.persistent) && rings.settings.spill.is_none() {
            return Err(SaveError::NoSpill(name.clone()).into());
        }
        let grants = (asked.grants == GrantSource::Saved).then_some(facts.grants);
        warn_of_eviction(name, grants);
        let now = self.backend.clock.now();
        let restore = || {
            let save = counting_reader(&file, &done);
            import(&worker, id, save, now, &rings).map_err(|error| match error {
                ImportError::Refused(source) => RequestError::from(refused(path, source)),
                ImportError::Spill(source) => {
                    let name = name.clone();
                    RequestError::from(SaveError::Spill { name, source })
                }
            })
        };
        let undo = |restored: RestoredPoolIds| {
            for (_, pool) in restored {
                worker.destroy_pool(id, pool, now);
            }
        };
        let restored = self
            .tenants
            .while_granted(name, grants, by, restore, undo)?;
        let pools = restored.len() as u64;
        for (saved, pool) in restored {
            rings.unclaimed_pools.add(pool, saved.flags);
        }
        let event = PostedEvent::new(EventId::TenantRestored, EventReason::ByHand).to_tenant(name);
        let event = event.by(by).of(EventAmount::Pages(facts.pages));
        self.events.post(event.saying(path.display()));
        Ok(CopyReport {
            version: VERSION,
            copying: CopyKind::Restore,
            tenant: name.clone(),
            file: path.display().to_string(),
            pools,
            pages: facts.pages,
            bytes: Bytes(size),
            frozen: self.backend.store.is_frozen(id),
            micros: began.elapsed().as_micros() as u64,
        })
    }

    /// Ends restored pools that no program has taken over.
    pub fn discard_restored(&self, name: &TenantName) -> Result<TenantStatus, RequestError> {
        let id = self.tenants.find(name)?.id;
        let rings = self
            .tenants
            .service(id)
            .and_then(|service| service.rings.as_ref());
        if let Some(rings) = rings {
            let (worker, now) = (self.copier()?, self.backend.clock.now());
            for pool in rings.unclaimed_pools.take_all() {
                worker.destroy_pool(id, pool, now);
            }
        }
        self.tenant(name)
    }

    /// The rings of a tenant to which pages may come back.
    fn rings_to_restore(&self, name: &TenantName, id: TenantId) -> Result<Arc<Group>, SaveError> {
        let rings = self
            .tenants
            .service(id)
            .and_then(|service| service.rings.clone());
        let rings = rings.ok_or_else(|| SaveError::NoRing(name.clone()))?;
        if self.backend.store.is_frozen(id) {
            return Err(SaveError::Frozen(name.clone()));
        }
        match rings.unclaimed_pools.len() {
            0 => Ok(rings),
            waiting => Err(SaveError::Waiting {
                name: name.clone(),
                waiting,
            }),
        }
    }

    fn copier(&self) -> Result<Worker, SaveError> {
        Ok(self.backend.store.worker()?)
    }
}

fn initial_status(copying: CopyKind, tenant: &TenantName, file: &Path, of: Bytes) -> CopyStatus {
    CopyStatus {
        copying,
        tenant: tenant.clone(),
        file: file.display().to_string(),
        done: Bytes::ZERO,
        of,
    }
}

fn check_path(path: &Path) -> Result<(), SaveError> {
    match path.is_absolute() {
        true => Ok(()),
        false => Err(SaveError::Relative(path.to_owned())),
    }
}

/// Writes a new file that only the daemon's user may read. The file gets its name when all of it is on the disk. So a
/// daemon that ends before leaves no file that looks whole. A file that failed does not stay.
fn save(
    worker: &Worker,
    id: TenantId,
    path: &Path,
    done: Arc<AtomicU64>,
) -> Result<u64, SaveError> {
    let unwritten = |source: io::Error| match source.kind() {
        io::ErrorKind::AlreadyExists => SaveError::Exists(path.to_owned()),
        _ => SaveError::Write {
            path: path.to_owned(),
            source,
        },
    };
    // Check this before hours of writing.
    if path.symlink_metadata().is_ok() {
        return Err(SaveError::Exists(path.to_owned()));
    }
    let part = part_of(path);
    let file = new_part(&part).map_err(unwritten)?;
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, CountingIo { inner: &file, done });
    let saved = worker.export(id, &mut out).and_then(|pages| {
        file.sync_all()?;
        rename_to_final(&part, path)?;
        Ok(pages)
    });
    if saved.is_err() {
        let _ = fs::remove_file(&part);
    }
    saved.map_err(unwritten)
}

/// The name of a save file until it is whole.
fn part_of(path: &Path) -> PathBuf {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    part.into()
}

/// A new file. It replaces one that an earlier daemon left because it ended too soon.
fn new_part(part: &Path) -> io::Result<File> {
    match fs::remove_file(part) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(part)
}

/// Gives a whole file its name, unless another file has that name by now.
fn rename_to_final(part: &Path, path: &Path) -> io::Result<()> {
    match renameat_with(CWD, part, CWD, path, RenameFlags::NOREPLACE) {
        // Not every file system knows the flag. A link does not replace a file either.
        Err(Errno::INVAL | Errno::NOSYS) => {
            fs::hard_link(part, path)?;
            fs::remove_file(part)?;
        }
        renamed => renamed?,
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    if synced.is_err() {
        let _ = fs::remove_file(path);
    }
    synced
}

/// Opens a file and returns it with its size. Never opens what would block.
fn open(path: &Path) -> Result<(File, u64), SaveError> {
    let unread = |source| SaveError::Read {
        path: path.to_owned(),
        source,
    };
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
        .open(path);
    let file = opened.map_err(unread)?;
    let facts = file.metadata().map_err(unread)?;
    match facts.is_file() {
        true => Ok((file, facts.len())),
        false => Err(SaveError::NoFile(path.to_owned())),
    }
}

fn counting_reader<'a>(file: &'a File, done: &Arc<AtomicU64>) -> impl Read + 'a {
    let done = Arc::clone(done);
    BufReader::with_capacity(BUFFER_BYTES, CountingIo { inner: file, done })
}

/// Why the pools of a save file were not made.
enum ImportError {
    /// The store refused the file.
    Refused(RestoreError),
    /// A spill file could not be made.
    Spill(io::Error),
}

/// Makes the persistent pools of a save file again.
fn import(
    worker: &Worker,
    id: TenantId,
    save: impl Read,
    now: Second,
    rings: &Group,
) -> Result<RestoredPoolIds, ImportError> {
    let mut unmade = None;
    let mut spill = |pool: &SavedPool| spill_for(rings, pool, &mut unmade);
    let restored = worker.import(id, save, now, RestoredPools::Persistent, &mut spill);
    restored.map_err(|source| match unmade {
        Some(source) => ImportError::Spill(source),
        None => ImportError::Refused(source),
    })
}

fn refused(path: &Path, source: RestoreError) -> SaveError {
    let path = path.to_owned();
    SaveError::Refused { path, source }
}

/// A spill file for a pool that needs one. The reason why it cannot be made goes to `unmade`.
fn spill_for(
    rings: &Group,
    pool: &SavedPool,
    unmade: &mut Option<io::Error>,
) -> Option<Arc<dyn Spill>> {
    if !pool.flags.persistent {
        return None;
    }
    let made = rings.settings.spill.as_ref()?.create();
    made.map_err(|error| *unmade = Some(error)).ok()
}

/// Warns if a file names an eviction that daemons no longer have.
fn warn_of_eviction(name: &TenantName, grants: Option<SavedGrants>) {
    if let Some(SavedGrants {
        eviction,
        gone: Some(gone),
        ..
    }) = grants
    {
        tracing::warn!(tenant = %name, eviction = gone, given = %eviction, "the save file names an eviction that daemons no longer have; the tenant gets the default: `sublet tenants set NAME --eviction` gives it another");
    }
}
