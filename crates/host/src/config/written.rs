//! What was written: the file's and the command line's words, each of them a value.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use sublet_types::{Bytes, DiskName, EvictionKind, SharedName, TenantName, Weight};

use super::faults::Place;
use super::knobs::WrittenDisk;
use super::listen::Listen;

/// Everything that was said, over the defaults of the table.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// Live changes were read over it.
    pub(super) is_changed: bool,
    pub(super) threads: Option<u64>,
    pub(super) log: String,
    pub(super) log_format: &'static str,
    pub(super) state: Option<PathBuf>,
    pub(super) ceiling: Option<Bytes>,
    pub(super) floor: Bytes,
    pub(super) reserve: Option<Bytes>,
    pub(super) release_threshold: Bytes,
    pub(super) admin_socket: Option<PathBuf>,
    pub(super) admin_tcp: Option<Listen>,
    pub(super) admin_tls_cert: Option<PathBuf>,
    pub(super) admin_tls_key: Option<PathBuf>,
    pub(super) admin_token_file: Option<PathBuf>,
    pub(super) policy: String,
    pub(super) policy_knobs: Vec<String>,
    pub(super) policy_interval: u64,
    pub(super) policy_shrink: &'static str,
    pub(super) policy_log: Option<PathBuf>,
    pub(super) metrics: Option<Listen>,
    pub(super) disk_allow: Vec<PathBuf>,
    pub(super) disk_dirty_max: Bytes,
    pub(super) disks: BTreeMap<DiskName, WrittenDisk>,
    pub(super) tenants: BTreeMap<TenantName, WrittenTenant>,
    /// Where each was said.
    pub(super) places: BTreeMap<String, Place>,
}

/// Everything that was said of one tenant, over the defaults of the table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WrittenTenant {
    pub(super) added: bool,
    pub(super) weight: Weight,
    pub(super) floor: Option<Bytes>,
    pub(super) ceiling: Option<Bytes>,
    pub(super) listen: Vec<Listen>,
    pub(super) mode: u32,
    pub(super) allow_uids: Vec<u32>,
    pub(super) spill: Option<PathBuf>,
    pub(super) spill_size: Bytes,
    pub(super) spill_total: Option<Bytes>,
    pub(super) shared: Option<SharedName>,
    pub(super) sharers: Vec<String>,
    pub(super) eviction: EvictionKind,
    pub(super) item_max: Bytes,
    pub(super) connections: usize,
    pub(super) idle_timeout: Option<Duration>,
    pub(super) auth_file: Option<PathBuf>,
    pub(super) sasl: bool,
    pub(super) users: Vec<String>,
    pub(super) tls_cert: Option<PathBuf>,
    pub(super) tls_key: Option<PathBuf>,
    pub(super) tls_ca: Option<PathBuf>,
}
