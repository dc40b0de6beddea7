//! The daemon as its owner meets it: what it shows, and what it does when asked.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sublet_client::messages::{
    ArenaStatus, ChangeTenant, DaemonStatus, Difference, EvictedStatus, HeadroomStatus, Health,
    HostStatus, LastRelease, Lasts, LeaversStatus, Limit, PagesStatus, ReleaseReport,
    ReleaseRequest, Settings, Status, TenantStatus, Tenants, VERSION,
};
use sublet_frontends::backend::Backend;
use sublet_frontends::nbd::lent_bytes;
use sublet_policy::departures::Departed;
use sublet_policy::headroom::{Bound, Decision};
use sublet_store::{TenantError, TenantFigures};
use sublet_types::{
    BelowBlock, Bytes, EvictionKind, Pages, TenantId, TenantName, TenantSettings, Weight,
};

use super::changes::{Changes, Turn};
use super::disks::Shelf;
use super::reread::Rereading;
use super::saves::{CopyDesk, SaveError};
use super::service::Service;
use super::what_if::NoAnswer;
use crate::config::{Config, DISKS_MAX, Faults, KeepError, Live, Loaded, TenantChange, WEIGHT_MAX};
use crate::disk::DiskError;
use crate::headroom::{Headroom, Order, OrderError};
use crate::heap;
use crate::manager::{Leavers, Manager, WrongPolicy};
use crate::observe::process;

/// The daemon as its owner meets it.
pub struct Daemon {
    pub(super) backend: Backend,
    pub(super) services: Vec<Service>,
    pub(super) rereading: Rereading,
    pub(super) headroom: Headroom,
    pub(super) manager: Manager,
    pub(super) shelf: Shelf,
    /// Memory of the process beside the arena, the stage and the heap.
    pub(super) fixed: Bytes,
    pub(super) config: Config,
    pub(super) written: Config,
    pub(super) file: Option<PathBuf>,
    pub(super) live: Changes,
    is_ending: AtomicBool,
    pub(super) copying: CopyDesk,
}

/// Why the daemon did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Declined {
    /// No tenant of that name.
    #[error("no tenant is called {0}")]
    NoTenant(TenantName),
    /// It is somebody's still.
    #[error("tenant {name} cannot go: {by}")]
    TenantInUse {
        /// Which tenant.
        name: TenantName,
        /// What has it.
        by: String,
    },
    /// The change makes no sense.
    #[error("tenant {name}: {source}")]
    Change {
        /// Which tenant.
        name: TenantName,
        /// Why.
        source: TenantError,
    },
    /// A weight that a config could not have.
    #[error("a weight is 1 to {WEIGHT_MAX}")]
    Weight,
    /// A limit that is nothing, for memory moves in blocks.
    #[error("tenant {name}: its {limit} of {source}")]
    BelowBlock {
        /// Which tenant.
        name: TenantName,
        /// Floor or ceiling.
        limit: &'static str,
        /// What it was to be.
        source: BelowBlock,
    },
    /// More than there can ever be.
    #[error("the floor is above the arena's ceiling, {arena}")]
    Floor {
        /// The arena's ceiling.
        arena: Bytes,
    },
    /// More than there can ever be, with the others'.
    #[error(
        "the tenants' floors would be {together} together, more than the arena's ceiling, {arena}: lower another's first"
    )]
    Floors {
        /// All tenants' floors.
        together: Bytes,
        /// The arena's ceiling.
        arena: Bytes,
    },
    /// It would not survive a restart; nothing was changed.
    #[error("nothing was changed, for it would not outlast the daemon: {0}")]
    Keep(#[from] KeepError),
    /// No such policy, or not with such knobs.
    #[error(transparent)]
    Policy(#[from] WrongPolicy),
    /// There is no answer to what would be.
    #[error(transparent)]
    WhatIf(#[from] NoAnswer),
    /// Nothing was released.
    #[error(transparent)]
    Order(#[from] OrderError),
    /// The disk that was asked for makes no sense.
    #[error(transparent)]
    DiskAsked(#[from] Faults),
    /// More than a daemon serves.
    #[error("there are {DISKS_MAX} disks already")]
    TooManyDisks,
    /// A file system hangs.
    #[error("another disk or tenant is being added, and that does not end: a file system hangs")]
    AddingHangs,
    /// Nothing was done with a disk.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// No tenant was saved or restored.
    #[error(transparent)]
    Save(#[from] SaveError),
    /// A hold longer than anybody can mean.
    #[error("a hold lasts {} days at most", HOLD_MAX.as_secs() / 86_400)]
    Hold,
    /// Less than can be given back.
    #[error("a release of {0}")]
    Amount(#[from] BelowBlock),
}

/// The longest hold.
const HOLD_MAX: Duration = Duration::from_secs(30 * 86_400);

impl Daemon {
    /// A daemon of which everything is in place.
    pub(super) fn new(
        backend: Backend,
        services: Vec<Service>,
        headroom: Headroom,
        manager: Manager,
        shelf: Shelf,
        loaded: Loaded,
    ) -> Daemon {
        let held = backend.store.held();
        let resident = process::resident().unwrap_or_default();
        let fixed = resident - held - shelf.stage_resident() - heap::allocated();
        Daemon {
            backend,
            services,
            rereading: Rereading::default(),
            headroom,
            manager,
            shelf,
            fixed,
            config: loaded.config,
            written: loaded.written,
            file: loaded.file,
            live: Changes::of(loaded.live),
            is_ending: AtomicBool::new(false),
            copying: CopyDesk::default(),
        }
    }

    /// From now on it only answers, and changes nothing.
    pub(super) fn begin_ending(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
        self.shelf.begin_ending();
    }

    /// Whether it changes nothing any more.
    pub fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }

    /// Everything, now.
    pub fn status(&self) -> Status {
        let arena = self.backend.store.figures();
        let tenants = self.backend.store.tenants();
        let pages: Pages = tenants.iter().map(|tenant| tenant.pages.used).sum();
        let headroom = self.headroom.figures();
        let host = headroom.host;
        Status {
            version: VERSION,
            daemon: self.process(),
            host: HostStatus {
                memory: host.memory,
                free: host.free,
                available: host.available,
                idle: host.free + headroom.held,
                reserve: headroom
                    .decision
                    .map_or(Bytes::ZERO, |decision| decision.reserve),
                cgroup_limit: host.cgroup.map(|cgroup| cgroup.limit),
            },
            headroom: self.headroom_status(),
            arena: ArenaStatus {
                limit: arena.limit,
                held: arena.held,
                free: arena.free,
                index: arena.index,
                used: arena.used + pages.bytes(),
                items: arena.items,
            },
            rule: Some(self.rule()),
            tenants: self.tenant_statuses(),
            disks: self.disk_statuses(),
            left_behind: self.shelf.left_behind(),
            changed: self.differences(),
            copying: self.copying.status(),
        }
    }

    /// All tenants.
    pub fn tenants(&self) -> Tenants {
        Tenants {
            version: VERSION,
            tenants: self.tenant_statuses(),
        }
    }

    /// One tenant.
    pub fn tenant(&self, name: &TenantName) -> Result<TenantStatus, Declined> {
        Ok(self.tenant_status(self.find(name)?))
    }

    /// Changes a tenant, and writes the change down where it lasts.
    pub fn change_tenant(
        &self,
        name: &TenantName,
        change: &ChangeTenant,
    ) -> Result<TenantStatus, Declined> {
        let turn = self.live.turn()?;
        let TenantFigures {
            id,
            settings: before,
            ..
        } = self.find(name)?;
        let after = TenantSettings {
            name: before.name.clone(),
            weight: change.weight.unwrap_or(before.weight),
            floor: change.floor.map_or(before.floor, Limit::amount),
            ceiling: change.ceiling.map_or(before.ceiling, Limit::amount),
        };
        self.check_grants(&after)?;
        let store = &self.backend.store;
        let refused = |source| Declined::Change {
            name: name.clone(),
            source,
        };
        // What is over a lower ceiling is evicted at once, and no refusal would bring it back.
        store.check_tenant(id, &after).map_err(refused)?;
        if change.lasts == Lasts::Always {
            self.keep(&turn, name, change)?;
        }
        store.set_tenant(id, after.clone()).map_err(refused)?;
        self.evict_by(id, change.eviction);
        if let Some(service) = self.service(id) {
            let ceiling = after.ceiling.or(self.config.arena.ceiling);
            service.allowed.set(ceiling);
        }
        let said =
            |limit: Option<Bytes>| limit.map_or("none".to_owned(), |limit| limit.to_string());
        tracing::info!(
            tenant = %name,
            weight = after.weight.0,
            floor = said(after.floor),
            ceiling = said(after.ceiling),
            eviction = %store.eviction(id),
            "tenant changed by its owner"
        );
        drop(turn);
        self.tenant(name)
    }

    /// That a config could grant it.
    pub(super) fn check_grants(&self, granted: &TenantSettings) -> Result<(), Declined> {
        if !(1..=WEIGHT_MAX).contains(&granted.weight.0) {
            return Err(Declined::Weight);
        }
        let floor = granted.floor.filter(|floor| *floor > Bytes::ZERO);
        for (limit, amount) in [("floor", floor), ("ceiling", granted.ceiling)] {
            let amount = amount.map_or(Ok(Bytes::ZERO), Bytes::of_a_block_or_more);
            amount.map_err(|source| Declined::BelowBlock {
                name: granted.name.clone(),
                limit,
                source,
            })?;
        }
        let arena = self.config.arena.ceiling.unwrap_or(Bytes(u64::MAX));
        let Some(floor) = granted.floor else {
            return Ok(());
        };
        if floor > arena {
            return Err(Declined::Floor { arena });
        }
        let tenants = self.backend.store.tenants().into_iter();
        let others = tenants.filter(|tenant| tenant.settings.name != granted.name);
        let floors: Bytes = others.filter_map(|tenant| tenant.settings.floor).sum();
        let together = floors + floor;
        match together > arena {
            true => Err(Declined::Floors { together, arena }),
            false => Ok(()),
        }
    }

    /// Gives memory back; ready when the last block has left.
    pub async fn release(&self, request: &ReleaseRequest) -> Result<ReleaseReport, Declined> {
        let hold = Duration::from_millis(request.hold_millis);
        if hold > HOLD_MAX {
            return Err(Declined::Hold);
        }
        request.amount.of_a_block_or_more()?;
        let tenant = request
            .tenant
            .as_ref()
            .map(|name| self.find(name))
            .transpose()?;
        self.manager.mark_order();
        let order = Order {
            amount: request.amount,
            mode: request.mode,
            tenant: tenant.map(|figures| figures.id),
            hold,
        };
        let took = self.headroom.release(order).await;
        self.manager.mark_order();
        let took = took?;
        tracing::info!(
            asked = %request.amount,
            given = %took.released.bytes,
            items_lost = took.released.items_lost,
            pages_lost = took.released.pages_lost.0,
            mode = ?took.mode,
            "memory was given back, released by hand"
        );
        Ok(ReleaseReport {
            version: VERSION,
            mode: took.mode,
            released: took.released.bytes,
            micros: took.time.as_micros() as u64,
            items_lost: took.released.items_lost,
            pages_lost: took.released.pages_lost.0,
            bytes_lost: took.released.bytes_lost,
            bytes_kept: took.released.bytes_kept,
            held: self.backend.store.held(),
        })
    }

    /// Every setting in force.
    pub fn settings(&self) -> Settings {
        let mut settings = self.config.shown();
        for figures in self.backend.store.tenants() {
            let eviction = self.backend.store.eviction(figures.id);
            settings.extend(tenant_settings(&figures.settings, eviction));
        }
        settings.extend(self.disk_settings());
        let folders = self.disk_folders().folders;
        settings.insert("disk.allow".to_owned(), folders.join(", "));
        Settings {
            version: VERSION,
            settings,
        }
    }

    /// Whether it is well.
    pub fn health(&self) -> Health {
        Health {
            version: VERSION,
            serving: !self.is_ending(),
            uptime_secs: self.backend.clock.uptime_secs(),
        }
    }

    /// Writes a change down, if the daemon could start with it again.
    fn keep(
        &self,
        turn: &Turn<'_>,
        name: &TenantName,
        change: &ChangeTenant,
    ) -> Result<(), Declined> {
        let change = TenantChange {
            added: false,
            weight: change.weight,
            floor: change.floor.map(Limit::amount),
            ceiling: change.ceiling.map(Limit::amount),
            eviction: change.eviction,
            listen: None,
        };
        let mut kept = self.live.now().change(name);
        kept.take(&change);
        let written = self
            .written
            .tenants
            .iter()
            .find(|tenant| tenant.settings.name == *name);
        let written = written.map(|tenant| &tenant.settings);
        let floor = kept
            .floor
            .unwrap_or(written.and_then(|settings| settings.floor));
        let ceiling = kept
            .ceiling
            .unwrap_or(written.and_then(|settings| settings.ceiling));
        if floor
            .zip(ceiling)
            .is_some_and(|(floor, ceiling)| floor > ceiling)
        {
            let source = TenantError::FloorAboveCeiling;
            return Err(Declined::Change {
                name: name.clone(),
                source,
            });
        }
        Ok(turn.keep(|live| live.with_change(name.clone(), &change))?)
    }

    fn process(&self) -> DaemonStatus {
        let resident = process::resident().unwrap_or_default();
        let allocated = heap::allocated() + lent_bytes() + self.shelf.stage_bytes();
        // The stage is shared, too: with its keeper.
        let shared = process::shared().unwrap_or_default() - self.shelf.stage_resident();
        // Who was given memory may not have touched it yet.
        let most = resident - self.backend.store.held() - shared;
        DaemonStatus {
            release: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_secs: self.backend.clock.uptime_secs(),
            threads: self.config.threads,
            config: self.file.as_ref().map(|file| file.display().to_string()),
            admin: self.config.admin.socket.display().to_string(),
            resident,
            overhead: (self.fixed + allocated).min(most),
            shared,
            ending: self.is_ending(),
        }
    }

    fn headroom_status(&self) -> HeadroomStatus {
        let figures = self.headroom.figures();
        let (bound, why) = figures
            .decision
            .map_or(("starting", "nothing decided yet".into()), said);
        let releases = figures.releases;
        HeadroomStatus {
            bound: bound.to_owned(),
            why,
            releases_ordered: releases.ordered,
            releases_fast: releases.fast,
            released: releases.sum.bytes,
            items_lost: releases.sum.items_lost,
            pages_lost: releases.sum.pages_lost.0,
            release_micros: releases.time.as_micros() as u64,
            last_release: figures.last_release.map(|took| LastRelease {
                mode: took.mode,
                released: took.released.bytes,
                micros: took.time.as_micros() as u64,
            }),
        }
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

    fn tenant_statuses(&self) -> Vec<TenantStatus> {
        let figures = self.backend.store.tenants().into_iter();
        figures.map(|figures| self.tenant_status(figures)).collect()
    }

    fn tenant_status(&self, figures: TenantFigures) -> TenantStatus {
        let service = self.service(figures.id);
        let counters = self.backend.ledger.total(figures.id).named();
        let pages = self.pages_status(&figures);
        TenantStatus {
            name: figures.settings.name,
            weight: figures.settings.weight,
            floor: figures.settings.floor,
            ceiling: figures.settings.ceiling,
            eviction: self.backend.store.eviction(figures.id).to_string(),
            ruling_eviction: self.backend.store.ruling_eviction(figures.id).to_string(),
            listen: service.map_or(Vec::new(), |service| service.listen.clone()),
            held: figures.held,
            used: figures.used + figures.pages.used.bytes(),
            items: figures.items,
            fairness: figures.fairness,
            connections: service.map_or(0, Service::connections),
            frozen: self.backend.store.is_frozen(figures.id),
            ring: service.and_then(Service::ring_status),
            target: figures.target,
            pages,
            evictions: figures.evictions,
            evicted: evicted(self.manager.leavers(figures.id)),
            reclaimed: figures.reclaimed,
            counters: counters
                .into_iter()
                .map(|(name, n)| (name.to_owned(), n))
                .collect(),
        }
    }

    fn pages_status(&self, figures: &TenantFigures) -> PagesStatus {
        let (pages, tally) = (&figures.pages, &figures.pages.tally);
        PagesStatus {
            pools: self.backend.store.pools(figures.id).len() as u64,
            used: pages.used.0,
            on_disk: pages.on_disk.0,
            free: pages.free.0,
            puts: tally.puts,
            puts_succeeded: tally.puts_succeeded,
            puts_refused: tally.puts_refused,
            gets: tally.gets,
            hits: tally.hits,
            flushes: tally.flushes,
            evictions: tally.evictions,
            spilled: tally.spilled,
        }
    }

    /// Where tenants, the policy and disks are not what the config says.
    fn differences(&self) -> Vec<Difference> {
        let mut all = self.tenant_differences();
        all.extend(self.policy_difference());
        let disks = self.disk_statuses().into_iter();
        all.extend(disks.flat_map(|disk| disk.differences));
        all.extend(self.removed_disks());
        all.extend(self.folder_difference());
        all
    }

    fn tenant_differences(&self) -> Vec<Difference> {
        let live = self.live.now();
        let mut all = self.removed_tenants(&live);
        for now in self.backend.store.tenants() {
            let eviction = self.backend.store.eviction(now.id);
            let now = now.settings;
            let config = self
                .written
                .tenants
                .iter()
                .find(|t| t.settings.name == now.name);
            if config.is_none() {
                all.extend(self.added_tenant(&live, &now.name));
            }
            let (config, written) = config.map_or_else(
                || (unsaid(&now.name), EvictionKind::default()),
                |tenant| (tenant.settings.clone(), tenant.eviction),
            );
            let config = tenant_settings(&config, written);
            let kept = kept_settings(&now.name, &live.change(&now.name));
            for (key, now) in tenant_settings(&now, eviction) {
                let config = config.get(&key).cloned().unwrap_or_default();
                if config != now {
                    all.push(Difference {
                        kept: kept.get(&key) == Some(&now),
                        key,
                        config,
                        now,
                    });
                }
            }
        }
        all
    }

    /// A tenant that the config does not have; nothing of one that only comes and goes with its disk.
    fn added_tenant(&self, live: &Live, name: &TenantName) -> Option<Difference> {
        let kept = live.change(name).added;
        let stands_alone = kept || self.shelf.disks_of(name).is_empty();
        stands_alone.then(|| tenant_difference(name, "added", kept))
    }

    /// Tenants that the config does not have either, and that come back with the next start.
    fn removed_tenants(&self, live: &Live) -> Vec<Difference> {
        let store = &self.backend.store;
        let removed = live.added().filter(|name| store.tenant(name).is_none());
        removed
            .map(|name| tenant_difference(name, "removed", false))
            .collect()
    }
}

fn evicted(leavers: Leavers) -> LeaversStatus {
    let status = |departed: Departed| EvictedStatus {
        age_p50_secs: departed.age.map(|age| age.p50),
        age_p95_secs: departed.age.map(|age| age.p95),
        uses_p50: departed.uses.map(|uses| uses.p50),
        uses_p95: departed.uses.map(|uses| uses.p95),
        regret: departed.regret,
        judged: departed.judged,
        regretted: departed.regretted,
    };
    LeaversStatus {
        pages: leavers.pages.map(status),
        items: leavers.items.map(status),
    }
}

/// A tenant of whom the config says nothing.
fn unsaid(name: &TenantName) -> TenantSettings {
    TenantSettings {
        name: name.clone(),
        weight: Weight::default(),
        floor: None,
        ceiling: None,
    }
}

/// What became of a tenant that the config does not have.
fn tenant_difference(name: &TenantName, now: &str, kept: bool) -> Difference {
    Difference {
        key: format!("tenants.{name}"),
        config: "none".to_owned(),
        now: now.to_owned(),
        kept,
    }
}

fn shown(amount: Option<Bytes>) -> String {
    amount.map_or("none".to_owned(), |amount| amount.to_string())
}

fn tenant_settings(settings: &TenantSettings, eviction: EvictionKind) -> BTreeMap<String, String> {
    let change = TenantChange {
        added: false,
        weight: Some(settings.weight),
        floor: Some(settings.floor),
        ceiling: Some(settings.ceiling),
        eviction: Some(eviction),
        listen: None,
    };
    kept_settings(&settings.name, &change)
}

fn kept_settings(name: &TenantName, change: &TenantChange) -> BTreeMap<String, String> {
    let said = [
        ("weight", change.weight.map(|weight| weight.0.to_string())),
        ("floor", change.floor.map(shown)),
        ("ceiling", change.ceiling.map(shown)),
        ("eviction", change.eviction.map(|kind| kind.to_string())),
    ];
    let said = said
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?)));
    said.map(|(key, value)| (format!("tenants.{name}.{key}"), value))
        .collect()
}

/// A decision's reason, as a word and as a sentence.
fn said(decision: Decision) -> (&'static str, String) {
    match decision.bound {
        Bound::Host => (
            "host",
            "that is what the host has idle, less the reserve".into(),
        ),
        Bound::Cgroup => (
            "cgroup",
            "that is what the cgroup has left, less its reserve".into(),
        ),
        Bound::Ceiling => ("ceiling", "the ceiling that was set".into()),
        Bound::Hold => ("hold", "a release by hand, held".into()),
        Bound::Floor => (
            "floor",
            "its floor (arena.floor): the host would need more".into(),
        ),
        Bound::Growing => ("growing", "it is growing, at its pace".into()),
        Bound::Braked(signal) => (
            "braked",
            format!("it would grow, but the host shows {signal:?}").to_lowercase(),
        ),
    }
}
