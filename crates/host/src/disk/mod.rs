//! The disks of virtual machines: what they are, where they are served, how they end.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use parking_lot::Mutex;
use sublet_client::messages::DiskStatus;
use sublet_frontends::memcached::serve::Premises;
use sublet_store::TenantError;
use sublet_types::{Bytes, DiskKind, DiskName, DiskSettings};

/// What all disks share.
#[derive(Clone, Debug)]
pub struct DiskGround {
    /// Where swap disks without a backing get one; the state folder.
    pub folder: Option<PathBuf>,
    /// The most bytes of pages that no backing has yet.
    pub dirty_max: Bytes,
}

/// All disks of a daemon.
pub struct Disks {
    ground: DiskGround,
    open: Mutex<BTreeMap<DiskName, DiskStatus>>,
}

/// Why a disk was not opened, changed or ended.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// No disk of that name.
    #[error("no disk is called {0}")]
    NoDisk(DiskName),
    /// There is one already.
    #[error("a disk is called {0} already; choose another name, or remove that one")]
    Exists(DiskName),
    /// Somebody has the backing open.
    #[error("{} is in use: another program has it open; end that first", path.display())]
    InUse {
        /// The backing.
        path: PathBuf,
    },
    /// Not raw bytes.
    #[error("{} is {format}, and only raw images are served; convert it: qemu-img convert -O raw", path.display())]
    Format {
        /// The backing.
        path: PathBuf,
        /// What it is.
        format: &'static str,
    },
    /// Outside the folders that the owner allows.
    #[error("{} lies in no folder of `disk.allow`", path.display())]
    NotAllowed {
        /// The backing.
        path: PathBuf,
    },
    /// Not the size that was said.
    #[error("{} has {found}, not the {said} that were asked for; leave the size out, or resize the disk", path.display())]
    WrongSize {
        /// The backing.
        path: PathBuf,
        /// Its size.
        found: Bytes,
        /// What was said.
        said: Bytes,
    },
    /// Nothing behind it, and nowhere to make it.
    #[error("disk {0} has no backing, and there is no state folder to make one in; name one")]
    NoBacking(DiskName),
    /// The backing cannot be opened.
    #[error("cannot open {}: {source}", path.display())]
    Open {
        /// The backing.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It cannot be served there.
    #[error("cannot listen on {place}: {source}")]
    Listen {
        /// Where.
        place: String,
        /// Why.
        source: io::Error,
    },
    /// The store has no place for its tenant.
    #[error("its tenant: {0}")]
    Tenant(#[from] TenantError),
    /// Something else is being done with it.
    #[error("disk {0} is busy; try again when that is done")]
    Busy(DiskName),
    /// The backing failed while everything was brought to it.
    #[error("the backing of disk {name} failed: {source}")]
    Backing {
        /// Which disk.
        name: DiskName,
        /// Why.
        source: io::Error,
    },
}

impl Disks {
    /// No disks yet.
    ///
    /// # Errors
    ///
    /// What they share cannot be made.
    pub fn open(_premises: &Premises, ground: DiskGround) -> Result<Disks, DiskError> {
        Ok(Disks {
            ground,
            open: Mutex::default(),
        })
    }

    /// Opens a disk and serves it at its listeners. Its tenant is in the store already.
    pub fn add(&self, settings: &DiskSettings) -> Result<(), DiskError> {
        let mut settings = settings.clone();
        let name = settings.name.clone();
        if settings.kind == DiskKind::Swap && settings.backing.is_none() {
            let folder = self.ground.folder.as_ref();
            let folder = folder.ok_or_else(|| DiskError::NoBacking(name.clone()))?;
            let file = folder.join("disks").join(format!("{name}.swap"));
            settings.backing = Some(file.display().to_string());
        }
        let size = settings.size.unwrap_or_default();
        let mut open = self.open.lock();
        match open.contains_key(&name) {
            true => Err(DiskError::Exists(name)),
            false => {
                open.insert(name, DiskStatus::idle(settings, size));
                Ok(())
            }
        }
    }

    /// Ends a disk when its backing has everything. Its clients are let go.
    pub fn remove(&self, name: &DiskName) -> Result<(), DiskError> {
        let gone = self.open.lock().remove(name);
        gone.map(drop)
            .ok_or_else(|| DiskError::NoDisk(name.clone()))
    }

    /// All of them, in order of names.
    pub fn list(&self) -> Vec<DiskStatus> {
        self.open.lock().values().cloned().collect()
    }

    /// One of them.
    pub fn show(&self, name: &DiskName) -> Option<DiskStatus> {
        self.open.lock().get(name).cloned()
    }

    /// Gives a disk another size.
    pub fn resize(&self, name: &DiskName, size: Bytes) -> Result<(), DiskError> {
        let mut open = self.open.lock();
        let disk = open
            .get_mut(name)
            .ok_or_else(|| DiskError::NoDisk(name.clone()))?;
        disk.size = size;
        Ok(())
    }

    /// Waits until everything that was written before lasts on the backing.
    pub fn flush(&self, name: &DiskName) -> Result<(), DiskError> {
        self.show(name)
            .map(drop)
            .ok_or_else(|| DiskError::NoDisk(name.clone()))
    }
}
