//! What was written: the file's and the command line's words, each of them a value. The table of knobs has the words.

use std::collections::BTreeMap;

use sublet_types::{DiskName, TenantName};

use super::faults::Place;
use super::knobs::{WrittenDisk, WrittenRooms, WrittenTenant};

/// Everything that was said, over the defaults of the table.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// Live changes were read over it.
    pub(super) is_changed: bool,
    /// What live changes say that daemons have no more, as it is written.
    pub(super) passed_over: Vec<String>,
    /// Of the daemon.
    pub(super) rooms: WrittenRooms,
    pub(super) disks: BTreeMap<DiskName, WrittenDisk>,
    pub(super) tenants: BTreeMap<TenantName, WrittenTenant>,
    /// Where each was said.
    pub(super) places: BTreeMap<String, Place>,
}
