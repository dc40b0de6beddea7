//! What the daemon shows of itself, and where that differs from the config.

use std::collections::{BTreeMap, BTreeSet};

use sublet_client::messages::{
    ArenaStatus, ChangeLifetime, ConfigDifference, DaemonStatus, DiskStatus, EvictedStatus,
    EvictionsStatus, HeadroomStatus, Health, HostStatus, LastRelease, PagesStatus, Settings,
    Status, TenantStatus, VERSION,
};
use sublet_policy::eviction_tracker::EvictionStats;
use sublet_policy::headroom::{ArenaBound, ArenaDecision};
use sublet_store::{Borrowing, TenantFigures};
use sublet_types::{Bytes, EvictionKind, Pages, TenantName, TenantSettings, Weight};

use super::Daemon;
use crate::config::{LiveChanges, TenantChange};
use crate::heap;
use crate::manager::RecentEvictions;
use crate::observe::process;
use crate::tenants::service::Service;

impl Daemon {
    /// Everything, now.
    pub fn status(&self) -> Status {
        let all = self.backend.store.all_figures();
        let (arena, tenants, disks) = (all.store, all.tenants, self.disk_statuses());
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
            rule: Some(self.rule_status()),
            changed: self.differences(&tenants, &disks),
            tenants: self.statuses_of(tenants),
            disks,
            lending: self.lending_status(),
            left_behind: self.disks.left_behind(),
            copying: self.copying.status(),
        }
    }

    /// Every setting in force.
    pub fn settings(&self) -> Settings {
        let mut settings = self.config.key_values();
        let store = &self.backend.store;
        for (id, granted) in store.all_settings() {
            let (eviction, borrowing) = (store.eviction(id), store.borrowing(id));
            settings.extend(tenant_settings(&granted, eviction, borrowing));
        }
        settings.extend(self.disk_settings());
        let folders = self.disk_folders().folders;
        settings.insert("disk.allow".to_owned(), folders.join(", "));
        if let Some(drains) = self.is_draining() {
            settings.insert("lend.drain".to_owned(), drains.to_string());
        }
        Settings {
            version: VERSION,
            settings,
        }
    }

    /// Returns whether the daemon is well.
    pub fn health(&self) -> Health {
        Health {
            version: VERSION,
            serving: !self.is_ending(),
            uptime_secs: self.backend.clock.uptime_secs(),
        }
    }

    fn process(&self) -> DaemonStatus {
        let resident = process::resident().unwrap_or_default();
        let allocated = heap::allocated() + self.disks.stage_bytes();
        // The stage is shared, too: with its keeper.
        let shared = process::shared().unwrap_or_default() - self.disks.stage_resident();
        // A part of the store that was given memory may not have touched it yet.
        let most = resident - self.backend.store.held() - shared;
        DaemonStatus {
            release: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_secs: self.backend.clock.uptime_secs(),
            threads: self.config.daemon.threads,
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
        let (bound, why) = figures.decision.map_or(
            ("starting", "nothing decided yet".into()),
            describe_decision,
        );
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

    pub(super) fn tenant_statuses(&self) -> Vec<TenantStatus> {
        self.statuses_of(self.backend.store.tenants())
    }

    fn statuses_of(&self, tenants: Vec<TenantFigures>) -> Vec<TenantStatus> {
        let services = self.tenants.services().iter();
        let services: BTreeMap<_, _> = services.map(|service| (service.id, service)).collect();
        let each = tenants.into_iter();
        each.map(|figures| {
            let service = services.get(&figures.id).copied();
            self.tenant_status(figures, service)
        })
        .collect()
    }

    pub(super) fn tenant_status(
        &self,
        figures: TenantFigures,
        service: Option<&Service>,
    ) -> TenantStatus {
        let counters = self.backend.ledger.total(figures.id).named();
        let pages = self.pages_status(&figures);
        TenantStatus {
            name: figures.settings.name,
            weight: figures.settings.weight,
            floor: figures.settings.floor,
            ceiling: figures.settings.ceiling,
            eviction: figures.eviction.to_string(),
            ruling_eviction: figures.ruling_eviction.to_string(),
            borrow: Some(figures.borrowing.is_allowed()),
            listen: service.map_or(Vec::new(), |service| service.listen.clone()),
            held: figures.held,
            used: figures.used + figures.pages.used.bytes(),
            items: figures.items,
            fairness: figures.fairness,
            connections: service.map_or(0, Service::connections),
            frozen: figures.is_frozen,
            ring: service.and_then(Service::ring_status),
            target: figures.target,
            pages,
            evictions: figures.evictions,
            evicted: evicted(self.manager.recent_evictions(figures.id)),
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
            pools: figures.pools.into(),
            used: pages.used.0,
            on_disk: pages.on_disk.0,
            same_filled: pages.same_filled.0,
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

    /// Where tenants, the policy and disks differ from the config.
    fn differences(
        &self,
        tenants: &[TenantFigures],
        disks: &[DiskStatus],
    ) -> Vec<ConfigDifference> {
        let mut all = self.tenant_differences(tenants);
        all.extend(self.policy_difference());
        let of_disks = disks.iter().flat_map(|disk| disk.differences.clone());
        all.extend(of_disks);
        all.extend(self.removed_disks());
        all.extend(self.folder_difference());
        all.extend(self.drain_difference());
        all
    }

    fn tenant_differences(&self, tenants: &[TenantFigures]) -> Vec<ConfigDifference> {
        let live = self.live.current();
        let written = self.written.tenants.iter();
        let written: BTreeMap<_, _> = written.map(|t| (&t.settings.name, t)).collect();
        let mut all = removed_tenants(&live, tenants);
        for now in tenants {
            let (eviction, borrowing, now) = (now.eviction, now.borrowing, &now.settings);
            let config = written.get(&now.name).copied();
            if config.is_none() {
                all.extend(self.added_tenant(&live, &now.name));
            }
            let config = config.map_or_else(
                || {
                    let settings = unconfigured_tenant(&now.name);
                    tenant_settings(&settings, EvictionKind::default(), Borrowing::Allowed)
                },
                |said| tenant_settings(&said.settings, said.eviction, said.borrowing),
            );
            let kept = persisted_settings(&now.name, &live.change(&now.name));
            for (key, now) in tenant_settings(now, eviction, borrowing) {
                let config = config.get(&key).cloned().unwrap_or_default();
                if config != now {
                    all.push(ConfigDifference {
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

    /// The difference of a tenant that the config does not have. `None` for a tenant that only comes and goes with its
    /// disk.
    fn added_tenant(&self, live: &LiveChanges, name: &TenantName) -> Option<ConfigDifference> {
        let lasts = match live.change(name).added {
            true => ChangeLifetime::Always,
            false => ChangeLifetime::UntilRestart,
        };
        let stands_alone = lasts == ChangeLifetime::Always || self.disks.disks_of(name).is_empty();
        stands_alone.then(|| tenant_difference(name, "added", lasts))
    }
}

/// Tenants that the config does not have either, and that come back with the next start.
fn removed_tenants(live: &LiveChanges, tenants: &[TenantFigures]) -> Vec<ConfigDifference> {
    let here: BTreeSet<_> = tenants.iter().map(|now| &now.settings.name).collect();
    let removed = live.added().filter(|name| !here.contains(name));
    removed
        .map(|name| tenant_difference(name, "removed", ChangeLifetime::UntilRestart))
        .collect()
}

fn evicted(recent: RecentEvictions) -> EvictionsStatus {
    let status = |stats: EvictionStats| EvictedStatus {
        age_p50_secs: stats.age.map(|age| age.p50),
        age_p95_secs: stats.age.map(|age| age.p95),
        uses_p50: stats.uses.map(|uses| uses.p50),
        uses_p95: stats.uses.map(|uses| uses.p95),
        regret: stats.regret,
        judged: stats.judged,
        regretted: stats.regretted,
    };
    EvictionsStatus {
        pages: recent.pages.map(status),
        items: recent.items.map(status),
    }
}

/// The settings of a tenant that the config does not have.
fn unconfigured_tenant(name: &TenantName) -> TenantSettings {
    TenantSettings {
        name: name.clone(),
        weight: Weight::default(),
        floor: None,
        ceiling: None,
    }
}

/// What happened to a tenant that the config does not have.
fn tenant_difference(name: &TenantName, now: &str, lasts: ChangeLifetime) -> ConfigDifference {
    ConfigDifference {
        key: format!("tenants.{name}"),
        config: "none".to_owned(),
        now: now.to_owned(),
        kept: lasts == ChangeLifetime::Always,
    }
}

fn amount_or_none(amount: Option<Bytes>) -> String {
    amount.map_or("none".to_owned(), |amount| amount.to_string())
}

fn tenant_settings(
    settings: &TenantSettings,
    eviction: EvictionKind,
    borrowing: Borrowing,
) -> BTreeMap<String, String> {
    let change = TenantChange {
        added: false,
        weight: Some(settings.weight),
        floor: Some(settings.floor),
        ceiling: Some(settings.ceiling),
        eviction: Some(eviction),
        borrow: Some(borrowing.is_allowed()),
        listen: None,
    };
    persisted_settings(&settings.name, &change)
}

fn persisted_settings(name: &TenantName, change: &TenantChange) -> BTreeMap<String, String> {
    let said = [
        ("weight", change.weight.map(|weight| weight.0.to_string())),
        ("floor", change.floor.map(amount_or_none)),
        ("ceiling", change.ceiling.map(amount_or_none)),
        ("eviction", change.eviction.map(|kind| kind.to_string())),
        ("borrow", change.borrow.map(|borrow| borrow.to_string())),
    ];
    let said = said
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?)));
    said.map(|(key, value)| (format!("tenants.{name}.{key}"), value))
        .collect()
}

/// A decision's reason, as a word and as a sentence.
fn describe_decision(decision: ArenaDecision) -> (&'static str, String) {
    match decision.bound {
        ArenaBound::Host => (
            "host",
            "that is what the host has idle, less the reserve".into(),
        ),
        ArenaBound::Cgroup => (
            "cgroup",
            "that is what the cgroup has left, less its reserve".into(),
        ),
        ArenaBound::Ceiling => ("ceiling", "the ceiling that was set".into()),
        ArenaBound::Hold => ("hold", "a release by hand, held".into()),
        ArenaBound::Floor => (
            "floor",
            "its floor (arena.floor): the host would need more".into(),
        ),
        ArenaBound::Growing => ("growing", "it is growing, at its pace".into()),
        ArenaBound::Braked(signal) => (
            "braked",
            format!("it would grow, but the host shows {signal:?}").to_lowercase(),
        ),
    }
}
