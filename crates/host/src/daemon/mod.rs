//! The daemon as the admin interface sees it: what it shows, and what it does on request.

mod cluster;
mod copy_progress;
mod disk_removal;
mod disks;
mod folders;
mod lending;
mod policy;
mod release;
mod reload;
mod reload_thread;
mod request_error;
mod save_error;
mod saves;
mod status;
mod tenants;
mod what_if;
mod what_if_error;

pub(crate) use self::lending::{lending_chore, record_peer_files};
pub use self::request_error::RequestError;
pub use self::save_error::SaveError;
pub use self::what_if_error::WhatIfError;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sublet_frontends::backend::Backend;
use sublet_types::Bytes;

use self::copy_progress::CopyProgress;
use self::reload_thread::ReloadThread;
use crate::config::{Config, LoadedConfig};
use crate::disk::Disks;
use crate::headroom::Headroom;
use crate::heap;
use crate::live_changes_file::LiveChangesFile;
use crate::manager::MemoryManager;
use crate::observe::events::Events;
use crate::observe::process;
use crate::peers::lending::Lending;
use crate::tenants::TenantRegistry;

/// The daemon as the admin interface sees it.
pub struct Daemon {
    backend: Backend,
    tenants: TenantRegistry,
    rereading: ReloadThread,
    headroom: Headroom,
    manager: MemoryManager,
    disks: Disks,
    lending: Option<Arc<Lending>>,
    /// Memory of the process beside the arena, the stage and the heap.
    fixed: Bytes,
    config: Config,
    written: Config,
    file: Option<PathBuf>,
    live: LiveChangesFile,
    is_ending: AtomicBool,
    copying: CopyProgress,
    events: Events,
}

/// What a daemon is made of.
pub(crate) struct DaemonParts {
    pub(crate) backend: Backend,
    pub(crate) tenants: TenantRegistry,
    pub(crate) headroom: Headroom,
    pub(crate) manager: MemoryManager,
    pub(crate) disks: Disks,
    pub(crate) lending: Option<Arc<Lending>>,
    pub(crate) loaded: LoadedConfig,
    pub(crate) events: Events,
}

impl Daemon {
    /// A daemon with everything in place.
    pub(crate) fn new(parts: DaemonParts) -> Daemon {
        let DaemonParts {
            backend,
            tenants,
            headroom,
            manager,
            disks,
            lending,
            loaded,
            events,
        } = parts;
        let held = backend.store.held();
        let resident = process::resident().unwrap_or_default();
        let fixed = resident - held - disks.stage_resident() - heap::allocated();
        Daemon {
            live: tenants.live().clone(),
            backend,
            tenants,
            rereading: ReloadThread::default(),
            headroom,
            manager,
            disks,
            lending,
            fixed,
            config: loaded.config,
            written: loaded.written,
            file: loaded.file,
            is_ending: AtomicBool::new(false),
            copying: CopyProgress::default(),
            events,
        }
    }

    /// From now on the daemon only answers and changes nothing.
    pub(crate) fn begin_ending(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
        self.disks.begin_ending();
    }

    /// Writes what disks took to their backings.
    pub(crate) fn drain_disks(&self) {
        self.disks.drain();
    }

    /// Says goodbye to the peers, if there are some.
    pub(crate) fn part_from_peers(&self) {
        self.lending.iter().for_each(|lending| lending.part());
    }

    /// Writes down what holds, over a change that was refused.
    pub(crate) fn reconcile_changes(&self) {
        self.live.reconcile();
    }

    /// Disconnects the clients of all disks, and ends each disk.
    pub(crate) fn end_disks(&self) {
        self.disks.end();
    }

    /// The daemon's events.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Returns whether the daemon no longer changes anything.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }
}
