//! Save files: a tenant's persistent pools and their pages, written by the daemon and read again.

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
    CopyReport, CopyStatus, Copying, Grants, RestoreFile, TenantStatus, VERSION,
};
use sublet_frontends::ring::serve::Group;
use sublet_store::{RestoreError, RestoredPools, SavedGrants, SavedPool, Spill, Worker};
use sublet_types::{Bytes, PAGE_BYTES, PoolId, TenantId, TenantName};

use super::Daemon;
use super::copy_desk::Counted;
use super::declined::Declined;
use super::save_error::SaveError;
use crate::observe::events::{Actor, Amount, Cause, EventId, Why};

/// What a page takes in a save file beside its bytes.
const PAGE_EXTRA_BYTES: u64 = 33;

/// Pools of a save file, and those that stand for them now.
type Restored = Vec<(SavedPool, PoolId)>;

/// Read or written at once.
const BUFFER_BYTES: usize = 1 << 20;

impl Daemon {
    /// Refuses a tenant's new pages from now on, or takes them again; until the daemon ends.
    pub fn freeze_tenant(
        &self,
        name: &TenantName,
        frozen: bool,
        by: Actor,
    ) -> Result<TenantStatus, Declined> {
        let id = self.tenants.find(name)?.id;
        self.backend.store.freeze(id, frozen);
        let id = match frozen {
            true => EventId::TenantFrozen,
            false => EventId::TenantThawed,
        };
        let event = Cause::new(id, Why::UntilRestart).to_tenant(name);
        self.events.post(event.by(by));
        self.tenant(name)
    }

    /// Writes a tenant's pools and persistent pages into a file that is not there yet.
    pub fn save_tenant(
        &self,
        name: &TenantName,
        file: &Path,
        by: Actor,
    ) -> Result<CopyReport, Declined> {
        let began = Instant::now();
        let figures = self.tenants.find(name)?;
        check_path(file)?;
        let (pages, worker) = (&figures.pages, self.copier()?);
        let of = (pages.used.0 + pages.on_disk.0) * (PAGE_BYTES + PAGE_EXTRA_BYTES);
        let begun = begun(Copying::Save, name, file, Bytes(of));
        let (_turn, done) = self.copying.take(begun)?;
        let pools = self.backend.store.pools(figures.id).into_iter();
        let pools = pools.filter(|(_, flags)| flags.persistent).count() as u64;
        let saved = save(&worker, figures.id, file, Arc::clone(&done));
        let pages = saved.map_err(|error| error.of(name))?;
        let saved = Cause::new(EventId::TenantSaved, Why::ByHand).to_tenant(name);
        let saved = saved.by(by).of(Amount::Pages(pages));
        self.events.post(saved.saying(file.display()));
        Ok(CopyReport {
            version: VERSION,
            copying: Copying::Save,
            tenant: name.clone(),
            file: file.display().to_string(),
            pools,
            pages,
            bytes: Bytes(done.load(Ordering::Relaxed)),
            frozen: self.backend.store.is_frozen(figures.id),
            micros: began.elapsed().as_micros() as u64,
        })
    }

    /// Makes the persistent pools of a save file anew. They wait for programs that make pools of the same flags at
    /// the tenant's rings.
    pub fn restore_tenant(
        &self,
        name: &TenantName,
        asked: &RestoreFile,
        by: Actor,
    ) -> Result<CopyReport, Declined> {
        let (began, path) = (Instant::now(), Path::new(&asked.file));
        let id = self.tenants.find(name)?.id;
        check_path(path)?;
        let (mut file, size) = open(path)?;
        let begun = begun(Copying::Restore, name, path, Bytes(2 * size));
        let (_turn, done) = self.copying.take(begun)?;
        // Only in its turn: a restore before it leaves pools that wait.
        let rings = self.rings_to_restore(name, id)?;
        let worker = self.copier()?;
        let refused = |source| SaveError::Refused {
            path: path.to_owned(),
            source,
        };
        // Read to its end first: what is damaged displaces nothing.
        let facts = worker.check_save(counted(&file, &done)).map_err(refused)?;
        file.rewind()
            .map_err(RestoreError::Unreadable)
            .map_err(refused)?;
        if facts.pools.iter().any(|pool| pool.flags.persistent) && rings.settings.spill.is_none() {
            return Err(SaveError::NoSpill(name.clone()).into());
        }
        let now = self.backend.clock.now();
        let restore = || {
            let (mut unmade, wanted) = (None, RestoredPools::Persistent);
            let mut spill = |pool: &SavedPool| spill_for(&rings, pool, &mut unmade);
            let restored = worker.import(id, counted(&file, &done), now, wanted, &mut spill);
            restored.map_err(|source| match unmade {
                Some(source) => SaveError::Spill {
                    name: name.clone(),
                    source,
                },
                None => refused(source),
            })
        };
        let undo = |restored: Restored| {
            for (_, pool) in restored {
                worker.destroy_pool(id, pool, now);
            }
        };
        let grants = (asked.grants == Grants::Saved).then_some(facts.grants);
        warn_of_eviction(name, grants);
        let restore = || restore().map_err(Declined::from);
        let restored = self
            .tenants
            .while_granted(name, grants, by, restore, undo)?;
        let pools = restored.len() as u64;
        for (saved, pool) in restored {
            rings.restored.add(pool, saved.flags);
        }
        let told = Cause::new(EventId::TenantRestored, Why::ByHand).to_tenant(name);
        let told = told.by(by).of(Amount::Pages(facts.pages));
        self.events.post(told.saying(path.display()));
        Ok(CopyReport {
            version: VERSION,
            copying: Copying::Restore,
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
    pub fn discard_restored(&self, name: &TenantName) -> Result<TenantStatus, Declined> {
        let id = self.tenants.find(name)?.id;
        let rings = self
            .tenants
            .service(id)
            .and_then(|service| service.rings.as_ref());
        if let Some(rings) = rings {
            let (worker, now) = (self.copier()?, self.backend.clock.now());
            for pool in rings.restored.take_all() {
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
        match rings.restored.len() {
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

fn begun(copying: Copying, tenant: &TenantName, file: &Path, of: Bytes) -> CopyStatus {
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

/// Writes a new file for the daemon's eyes only. It has its name when all of it is on the disk, so that a daemon that
/// ends before leaves none that looks whole. One that failed does not stay.
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
    // Known before hours of writing.
    if path.symlink_metadata().is_ok() {
        return Err(SaveError::Exists(path.to_owned()));
    }
    let part = part_of(path);
    let file = new_part(&part).map_err(unwritten)?;
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, Counted { inner: &file, done });
    let saved = worker.export(id, &mut out).and_then(|pages| {
        file.sync_all()?;
        give_name(&part, path)?;
        Ok(pages)
    });
    if saved.is_err() {
        let _ = fs::remove_file(&part);
    }
    saved.map_err(unwritten)
}

/// What a save file is called until it is whole.
fn part_of(path: &Path) -> PathBuf {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    part.into()
}

/// A new file in the place of one that a daemon left which ended too soon.
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

/// Gives a whole file its name, unless that is another's by now.
fn give_name(part: &Path, path: &Path) -> io::Result<()> {
    match renameat_with(CWD, part, CWD, path, RenameFlags::NOREPLACE) {
        // Not every file system knows the flag; a link never replaces either.
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

/// Opens a file, and nothing that would be waited for. Its size, too.
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

fn counted<'a>(file: &'a File, done: &Arc<AtomicU64>) -> impl Read + 'a {
    let done = Arc::clone(done);
    BufReader::with_capacity(BUFFER_BYTES, Counted { inner: file, done })
}

/// A spill file for a pool that needs one; why it cannot be made goes to `unmade`.
fn spill_for(
    rings: &Group,
    pool: &SavedPool,
    unmade: &mut Option<io::Error>,
) -> Option<Arc<dyn Spill>> {
    if !pool.flags.persistent {
        return None;
    }
    let made = rings.settings.spill.as_ref()?.make();
    made.map_err(|error| *unmade = Some(error)).ok()
}
/// Says where a file names an eviction that daemons have no more.
fn warn_of_eviction(name: &TenantName, grants: Option<SavedGrants>) {
    if let Some(SavedGrants {
        eviction,
        gone: Some(gone),
        ..
    }) = grants
    {
        tracing::warn!(tenant = %name, eviction = gone, given = %eviction, "the file names an eviction that daemons have no more; the default stands for it");
    }
}
