//! The exports of a listener: disks by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::block_device::Disk;

/// The most disks of one listener.
pub const EXPORTS_MAX: usize = 1024;

/// The disks of one listener, by name. Disks come and go while the listener serves.
#[derive(Default)]
pub struct Exports(RwLock<BTreeMap<String, Arc<dyn Disk>>>);

/// Why no disk has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoExport {
    /// There is no disk of that name.
    #[error("there is no disk of that name")]
    Unknown,
    /// The name is empty, and there are several disks.
    #[error("there are several disks: name one of them")]
    Several,
}

/// The listener has as many disks as it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a listener has at most {EXPORTS_MAX} disks: give this one a listener of its own")]
pub struct ExportsFull;

impl Exports {
    /// Adds a disk. It replaces a disk of the same name.
    ///
    /// # Errors
    ///
    /// The listener has [`EXPORTS_MAX`] disks already.
    pub fn add(&self, disk: Arc<dyn Disk>) -> Result<(), ExportsFull> {
        let mut exports = self.0.write();
        if exports.len() >= EXPORTS_MAX && !exports.contains_key(disk.name()) {
            return Err(ExportsFull);
        }
        exports.insert(disk.name().to_owned(), disk);
        Ok(())
    }

    /// Removes a disk. Clients that use it already keep it.
    pub fn remove(&self, name: &str) -> Option<Arc<dyn Disk>> {
        self.0.write().remove(name)
    }

    /// Returns whether there is a disk of that name.
    pub fn has(&self, name: &str) -> bool {
        self.0.read().contains_key(name)
    }

    /// Finds the disk of that name. The empty name means the only disk.
    ///
    /// # Errors
    ///
    /// [`NoExport`] says why.
    pub fn find(&self, name: &str) -> Result<Arc<dyn Disk>, NoExport> {
        let exports = self.0.read();
        if let Some(disk) = exports.get(name) {
            return Ok(Arc::clone(disk));
        }
        match (name.is_empty(), exports.values().next()) {
            (true, Some(only)) if exports.len() == 1 => Ok(Arc::clone(only)),
            (true, Some(_)) => Err(NoExport::Several),
            _ => Err(NoExport::Unknown),
        }
    }

    /// All names, in order.
    pub fn names(&self) -> Vec<String> {
        self.0.read().keys().cloned().collect()
    }
}
