//! What was written: the values of the file and the command line. The table of knobs has their fields.

use std::collections::BTreeMap;

use sublet_types::{DiskName, TenantName};

use super::faults::SourceLocation;
use super::knobs::{WrittenDisk, WrittenLending, WrittenTables, WrittenTenant};

/// Everything that was set, over the defaults of the table.
#[derive(Clone, Debug, Default)]
pub struct WrittenConfig {
    /// Live changes were read over it.
    pub(super) is_changed: bool,
    /// What live changes say that daemons no longer have, as it is written.
    pub(super) passed_over: Vec<String>,
    /// The daemon's tables.
    pub(super) tables: WrittenTables,
    /// The tables of lending.
    pub(super) lending: WrittenLending,
    pub(super) disks: BTreeMap<DiskName, WrittenDisk>,
    pub(super) tenants: BTreeMap<TenantName, WrittenTenant>,
    /// Where each value was set.
    pub(super) locations: BTreeMap<String, SourceLocation>,
}
