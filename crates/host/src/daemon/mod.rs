//! The daemon as its owner meets it: what it shows, and what it does when asked.

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

use sublet_frontends::backend::Backend;
use sublet_types::Bytes;

use self::copy_desk::CopyDesk;
use self::rereading::Rereading;
use crate::config::{Config, Loaded};
use crate::disk::Disks;
use crate::headroom::Headroom;
use crate::heap;
use crate::live_changes::Changes;
use crate::manager::Manager;
use crate::observe::events::Events;
use crate::observe::process;
use crate::tenants::Tenants;

/// The daemon as its owner meets it.
pub struct Daemon {
    backend: Backend,
    tenants: Tenants,
    rereading: Rereading,
    headroom: Headroom,
    manager: Manager,
    disks: Disks,
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
        tenants: Tenants,
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
            live: tenants.live().clone(),
            backend,
            tenants,
            rereading: Rereading::default(),
            headroom,
            manager,
            disks,
            fixed,
            config: loaded.config,
            written: loaded.written,
            file: loaded.file,
            is_ending: AtomicBool::new(false),
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
    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }
}
