//! Names to disks.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::block::Disk;

/// The most disks of one listener.
pub const EXPORTS_MAX: usize = 1024;

/// The disks of one listener, by name. They come and go while it serves.
#[derive(Default)]
pub struct Exports(RwLock<BTreeMap<String, Arc<dyn Disk>>>);

/// Why a name stands for no disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoExport {
    /// There is none of that name.
    #[error("there is no disk of that name")]
    Unknown,
    /// The empty name, and several disks that could be meant.
    #[error("there are several disks: name one of them")]
    Several,
}

/// There are as many disks as one listener may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a listener has at most {EXPORTS_MAX} disks: give this one a listener of its own")]
pub struct ExportsFull;

impl Exports {
    /// Enters a disk; one that had its name makes way.
    ///
    /// # Errors
    ///
    /// There are [`EXPORTS_MAX`] already.
    pub fn add(&self, disk: Arc<dyn Disk>) -> Result<(), ExportsFull> {
        let mut exports = self.0.write();
        if exports.len() >= EXPORTS_MAX && !exports.contains_key(disk.name()) {
            return Err(ExportsFull);
        }
        exports.insert(disk.name().to_owned(), disk);
        Ok(())
    }

    /// Strikes a disk out. Who uses it already goes on.
    pub fn remove(&self, name: &str) -> Option<Arc<dyn Disk>> {
        self.0.write().remove(name)
    }

    /// Whether a disk of that name is there.
    pub fn has(&self, name: &str) -> bool {
        self.0.read().contains_key(name)
    }

    /// The disk of that name; the empty one means the only disk.
    ///
    /// # Errors
    ///
    /// See [`NoExport`].
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
