//! The daemon as its owner meets it: what it shows, and what it does when asked.

mod changes;
mod copy_desk;
mod declined;
mod disk_removal;
mod disks;
mod folders;
mod no_answer;
mod policy;
mod release;
mod reread;
mod rereading;
mod save_error;
mod saves;
mod status;
mod tenants;
mod what_if;

pub use self::declined::Declined;
pub use self::no_answer::NoAnswer;
pub use self::save_error::SaveError;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use sublet_frontends::backend::Backend;
use sublet_store::TenantFigures;
use sublet_types::{Bytes, TenantId, TenantName};

use self::changes::Changes;
use self::copy_desk::CopyDesk;
use self::rereading::Rereading;
use crate::config::{Config, Loaded};
use crate::disk::Disks;
use crate::headroom::Headroom;
use crate::heap;
use crate::manager::Manager;
use crate::observe::events::Events;
use crate::observe::process;
use crate::tenants::service::Service;

/// The daemon as its owner meets it.
pub struct Daemon {
    backend: Backend,
    services: Vec<Service>,
    rereading: Rereading,
    headroom: Headroom,
    manager: Manager,
    disks: Disks,
    /// Held while a disk or a tenant is added, so that who made a disk's tenant may undo that.
    adding: Mutex<()>,
    /// Memory of the process beside the arena, the stage and the heap.
    fixed: Bytes,
    config: Config,
    written: Config,
    file: Option<PathBuf>,
    live: Changes,
    is_ending: AtomicBool,
    copying: CopyDesk,
    events: Events,
}

impl Daemon {
    /// A daemon of which everything is in place.
    pub(crate) fn new(
        backend: Backend,
        services: Vec<Service>,
        headroom: Headroom,
        manager: Manager,
        disks: Disks,
        loaded: Loaded,
        events: Events,
    ) -> Daemon {
        let held = backend.store.held();
        let resident = process::resident().unwrap_or_default();
        let fixed = resident - held - disks.stage_resident() - heap::allocated();
        Daemon {
            backend,
            services,
            rereading: Rereading::default(),
            headroom,
            manager,
            disks,
            fixed,
            config: loaded.config,
            written: loaded.written,
            file: loaded.file,
            live: Changes::of(loaded.live),
            is_ending: AtomicBool::new(false),
            adding: Mutex::default(),
            copying: CopyDesk::default(),
            events,
        }
    }

    /// From now on it only answers, and changes nothing.
    pub(crate) fn begin_ending(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
        self.disks.begin_ending();
    }

    /// Brings what disks took to their backings.
    pub(crate) fn drain_disks(&self) {
        self.disks.drain();
    }

    /// Writes what holds over a change that was refused.
    pub(crate) fn settle_changes(&self) {
        self.live.settle();
    }

    /// Lets the clients of all disks go, and ends each.
    pub(crate) fn end_disks(&self) {
        self.disks.end();
    }

    /// What happened, and what comes.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Whether it changes nothing any more.
    pub fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }

    pub(super) fn find(&self, name: &TenantName) -> Result<TenantFigures, Declined> {
        let store = &self.backend.store;
        let id = store.tenant(name);
        let id = id.ok_or_else(|| Declined::NoTenant(name.clone()))?;
        Ok(store.tenant_figures(id))
    }

    /// Its listeners and their instance. A tenant that was made for a disk has none.
    pub(super) fn service(&self, id: TenantId) -> Option<&Service> {
        self.services.iter().find(|service| service.id == id)
    }
}
