//! Metrics in OpenMetrics form or Prometheus's own, made from a new status at each scrape.

mod definition;
mod format;
mod lending_tables;
mod tables;

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use sublet_client::messages::{
    DiskStatus, EvictedStatus, OrphanedPages, RingStatus, Status, TenantStatus,
};
use sublet_types::TenantName;

use self::definition::Labelled;
pub use self::format::MetricsFormat;
use self::format::as_text;
use self::lending_tables::encode_lending;
use self::tables::{DAEMON, DISK, EVICTED, LEFT_BEHIND, PROCESS, RING, TENANT};
use super::events::{EventCount, Events};
use super::process::ProcessFigures;

/// The page.
pub fn render(
    status: Arc<Status>,
    events: &Events,
    format: MetricsFormat,
) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape(status, ProcessFigures::read())));
    registry.register_collector(Box::new(EventCountsCollector(
        events.counts(),
        events.lost(),
    )));
    let mut page = String::new();
    encode(&mut page, &registry)?;
    Ok(match format {
        MetricsFormat::OpenMetrics => page,
        MetricsFormat::Text => as_text(&page),
    })
}

#[derive(Debug)]
struct Scrape(Arc<Status>, ProcessFigures);

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Scrape(status, process) = self;
        encode_build(&mut encoder, &status.daemon.release)?;
        for figure in DAEMON {
            figure.encode(&mut encoder, status)?;
        }
        for figure in PROCESS {
            figure.encode(&mut encoder, process)?;
        }
        for figure in TENANT {
            figure.encode_each(&mut encoder, &status.tenants)?;
        }
        let evicted: Vec<TenantEvictions> = status
            .tenants
            .iter()
            .flat_map(TenantEvictions::of)
            .collect();
        for figure in EVICTED {
            figure.encode_each(&mut encoder, &evicted)?;
        }
        let ringing: Vec<TenantRings> = status.tenants.iter().filter_map(TenantRings::of).collect();
        for figure in RING {
            figure.encode_each(&mut encoder, &ringing)?;
        }
        encode_refused(&mut encoder, &ringing)?;
        encode_operations(&mut encoder, &ringing)?;
        for figure in DISK {
            figure.encode_each(&mut encoder, &status.disks)?;
        }
        encode_turned_away(&mut encoder, &status.disks)?;
        for figure in LEFT_BEHIND {
            figure.encode_each(&mut encoder, &status.left_behind)?;
        }
        if let Some(lending) = &status.lending {
            encode_lending(&mut encoder, lending)?;
        }
        encode_counters(&mut encoder, &status.tenants)
    }
}

/// How often each kind of event happened, and how many causes became no event.
#[derive(Debug)]
struct EventCountsCollector(Vec<EventCount>, u64);

impl Collector for EventCountsCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let EventCountsCollector(counts, lost) = self;
        let (name, help) = ("sublet_events", "What happened, by id and reason");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for EventCount { id, why, count } in counts {
            let labels = [("id", *id), ("reason", *why)];
            ConstCounter::new(*count).encode(family.encode_family(&labels)?)?;
        }
        let (name, help) = (
            "sublet_events_lost",
            "Causes that became no event, because too many came at once",
        );
        let lost = ConstCounter::new(*lost);
        lost.encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)
    }
}

impl Labelled for TenantStatus {
    fn labels(&self) -> Vec<(&'static str, &str)> {
        vec![("tenant", self.name.as_str())]
    }
}

/// The evictions of a tenant, of one kind.
struct TenantEvictions {
    tenant: TenantName,
    kind: &'static str,
    status: EvictedStatus,
}

impl TenantEvictions {
    fn of(tenant: &TenantStatus) -> impl Iterator<Item = TenantEvictions> {
        let both = [
            ("pages", tenant.evicted.pages),
            ("items", tenant.evicted.items),
        ];
        let of_kind = |(kind, status): (&'static str, Option<EvictedStatus>)| {
            Some(TenantEvictions {
                tenant: tenant.name.clone(),
                kind,
                status: status?,
            })
        };
        both.into_iter().filter_map(of_kind)
    }
}

impl Labelled for TenantEvictions {
    fn labels(&self) -> Vec<(&'static str, &str)> {
        vec![("tenant", self.tenant.as_str()), ("kind", self.kind)]
    }
}

/// A tenant's rings.
struct TenantRings {
    tenant: TenantName,
    status: RingStatus,
}

impl TenantRings {
    fn of(tenant: &TenantStatus) -> Option<TenantRings> {
        Some(TenantRings {
            tenant: tenant.name.clone(),
            status: tenant.ring.clone()?,
        })
    }
}

impl Labelled for TenantRings {
    fn labels(&self) -> Vec<(&'static str, &str)> {
        vec![("tenant", self.tenant.as_str())]
    }
}

impl Labelled for OrphanedPages {
    fn labels(&self) -> Vec<(&'static str, &str)> {
        vec![("disk", self.name.as_str())]
    }
}

impl Labelled for DiskStatus {
    fn labels(&self) -> Vec<(&'static str, &str)> {
        vec![("disk", self.settings.name.as_str())]
    }
}

/// `sublet_build_info{version="0.1.0"} 1`.
fn encode_build(encoder: &mut DescriptorEncoder<'_>, release: &str) -> fmt::Result {
    let (name, help) = ("sublet_build_info", "The daemon's release; always 1");
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    ConstGauge::new(1_u64).encode(family.encode_family(&[("version", release)])?)
}

/// Refused connections, by reason.
fn encode_refused(encoder: &mut DescriptorEncoder<'_>, all: &[TenantRings]) -> fmt::Result {
    if all.is_empty() {
        return Ok(());
    }
    let (name, help) = (
        "sublet_ring_connections_refused",
        "Connections refused: all places taken, a user who may not, no memory or descriptors left",
    );
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for TenantRings { tenant, status } in all {
        let reasons = [
            ("full", status.refused_full),
            ("uid", status.refused_uid),
            ("exhausted", status.refused_exhausted),
        ];
        for (reason, count) in reasons {
            let labels = [("tenant", tenant.as_str()), ("reason", reason)];
            ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

/// `sublet_disk_clients_turned_away_total{disk="db",reason="stalled"}`.
fn encode_turned_away(encoder: &mut DescriptorEncoder<'_>, disks: &[DiskStatus]) -> fmt::Result {
    if disks.is_empty() {
        return Ok(());
    }
    let (name, help) = (
        "sublet_disk_clients_turned_away",
        "Clients that were refused or whose connections were ended, by reason",
    );
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for disk in disks {
        for (reason, count) in &disk.clients.turned_away {
            let labels = [
                ("disk", disk.settings.name.as_str()),
                ("reason", reason.as_str()),
            ];
            ConstCounter::new(*count).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

/// `sublet_ring_operations_total{tenant="web",verb="get",outcome="hit"}`.
fn encode_operations(encoder: &mut DescriptorEncoder<'_>, all: &[TenantRings]) -> fmt::Result {
    if all.is_empty() {
        return Ok(());
    }
    let (name, help) = (
        "sublet_ring_operations",
        "Pages put, got and flushed; of other verbs, and of what made no sense, entries",
    );
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for TenantRings { tenant, status } in all {
        for (verb, outcomes) in &status.operations {
            for (outcome, count) in outcomes {
                let labels = [
                    ("tenant", tenant.as_str()),
                    ("verb", verb.as_str()),
                    ("outcome", outcome.as_str()),
                ];
                ConstCounter::new(*count).encode(family.encode_family(&labels)?)?;
            }
        }
    }
    Ok(())
}

/// What clients did, under memcached's names: `sublet_tenant_get_hits_total{tenant="web"}`.
fn encode_counters(encoder: &mut DescriptorEncoder<'_>, tenants: &[TenantStatus]) -> fmt::Result {
    let Some(first) = tenants.first() else {
        return Ok(());
    };
    for name in first.counters.keys() {
        let full = format!("sublet_tenant_{name}");
        let help = format!("memcached's {name}");
        let mut family = encoder.encode_descriptor(&full, &help, None, MetricType::Counter)?;
        for tenant in tenants {
            let label = [("tenant", tenant.name.as_str())];
            ConstCounter::new(tenant.counter(name)).encode(family.encode_family(&label)?)?;
        }
    }
    Ok(())
}
