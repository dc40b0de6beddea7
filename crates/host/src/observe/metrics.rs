//! Metrics in OpenMetrics form or Prometheus's own, made anew from a status at each scrape.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use sublet_client::messages::{
    DiskState, DiskStatus, LeftBehind, RingStatus, Status, TenantStatus,
};
use sublet_types::TenantName;

use super::process::ProcessFigures;

/// How a page is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus's text format, version 0.0.4.
    Text,
}

impl Format {
    /// What it is called on the wire.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// What an `Accept` header asks for first; without a word of either, text, which every tool reads.
    pub fn accepted(accept: &str) -> Format {
        let weight_of = |format: &str| {
            let named = accept.split(',').map(str::trim);
            let named = named.filter(|range| {
                range
                    .split(';')
                    .next()
                    .is_some_and(|kind| kind.trim() == format)
            });
            named.map(weight).fold(0.0, f32::max)
        };
        let open = weight_of("application/openmetrics-text");
        match open > 0.0 && open >= weight_of("text/plain") {
            true => Format::OpenMetrics,
            false => Format::Text,
        }
    }
}

/// The `q` of a media range.
fn weight(range: &str) -> f32 {
    let mut said = range.split(';').skip(1);
    let weight = said.find_map(|said| said.trim().strip_prefix("q=")?.parse().ok());
    weight.unwrap_or(1.0)
}

/// The page.
pub fn page(status: Status, format: Format) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape(status, ProcessFigures::read())));
    let mut page = String::new();
    encode(&mut page, &registry)?;
    Ok(match format {
        Format::OpenMetrics => page,
        Format::Text => as_text(&page),
    })
}

/// Prometheus's text format: a counter's family is called as its samples are, and there are no units and no end mark.
fn as_text(page: &str) -> String {
    let mut text = String::with_capacity(page.len() + page.len() / 8);
    let mut help = None;
    for line in page.lines() {
        if let Some(said) = line.strip_prefix("# HELP ") {
            help = said.split_once(' ').map(|(_, help)| help);
        } else if let Some((family, kind)) = line
            .strip_prefix("# TYPE ")
            .and_then(|said| said.split_once(' '))
        {
            let suffix = if kind == "counter" { "_total" } else { "" };
            if let Some(help) = help.take() {
                text.push_str(&format!("# HELP {family}{suffix} {help}\n"));
            }
            text.push_str(&format!("# TYPE {family}{suffix} {kind}\n"));
        } else if !line.starts_with('#') {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[derive(Clone, Copy)]
enum Kind {
    Gauge,
    Counter,
}

/// A figure: its name without unit, what it says, how it is read.
struct Figure<S: 'static> {
    name: &'static str,
    unit: Option<fn() -> Unit>,
    kind: Kind,
    help: &'static str,
    read: fn(&S) -> Option<f64>,
}

const BYTES: Option<fn() -> Unit> = Some(|| Unit::Bytes);
const SECONDS: Option<fn() -> Unit> = Some(|| Unit::Seconds);

const fn gauge<S>(
    name: &'static str,
    unit: Option<fn() -> Unit>,
    help: &'static str,
    read: fn(&S) -> Option<f64>,
) -> Figure<S> {
    Figure {
        name,
        unit,
        kind: Kind::Gauge,
        help,
        read,
    }
}

const fn counter<S>(
    name: &'static str,
    unit: Option<fn() -> Unit>,
    help: &'static str,
    read: fn(&S) -> Option<f64>,
) -> Figure<S> {
    Figure {
        name,
        unit,
        kind: Kind::Counter,
        help,
        read,
    }
}

const DAEMON: &[Figure<Status>] = &[
    gauge(
        "sublet_uptime",
        SECONDS,
        "Time since the daemon's start",
        |s| Some(s.daemon.uptime_secs as f64),
    ),
    gauge(
        "sublet_resident",
        BYTES,
        "Memory of the process that is in RAM",
        |s| Some(s.daemon.resident.0 as f64),
    ),
    gauge(
        "sublet_overhead",
        BYTES,
        "Memory of the process that is not arena",
        |s| Some(s.daemon.overhead.0 as f64),
    ),
    gauge("sublet_host_memory", BYTES, "The host's memory", |s| {
        Some(s.host.memory.0 as f64)
    }),
    gauge(
        "sublet_host_free",
        BYTES,
        "The host's memory in nobody's use",
        |s| Some(s.host.free.0 as f64),
    ),
    gauge(
        "sublet_host_available",
        BYTES,
        "What the kernel thinks programs could get",
        |s| Some(s.host.available.0 as f64),
    ),
    gauge(
        "sublet_host_idle",
        BYTES,
        "What the daemon counts as idle: free, and what the arena holds",
        |s| Some(s.host.idle.0 as f64),
    ),
    gauge(
        "sublet_host_reserve",
        BYTES,
        "Idle memory that is left to the host",
        |s| Some(s.host.reserve.0 as f64),
    ),
    gauge(
        "sublet_policy_unassigned",
        BYTES,
        "What the policy's targets leave over",
        |s| s.rule.as_ref().map(|rule| rule.unassigned.0 as f64),
    ),
    gauge(
        "sublet_policy_wanted",
        BYTES,
        "What the policy would ask of other nodes",
        |s| s.rule.as_ref().map(|rule| rule.wanted.0 as f64),
    ),
    gauge(
        "sublet_arena_limit",
        BYTES,
        "What the arena may hold",
        |s| Some(s.arena.limit.0 as f64),
    ),
    gauge(
        "sublet_arena_held",
        BYTES,
        "What the arena holds, index and free list included",
        |s| Some(s.arena.held.0 as f64),
    ),
    gauge(
        "sublet_arena_free",
        BYTES,
        "Of that, on the free list",
        |s| Some(s.arena.free.0 as f64),
    ),
    gauge(
        "sublet_arena_index",
        BYTES,
        "Of that, the hash index",
        |s| Some(s.arena.index.0 as f64),
    ),
    gauge(
        "sublet_arena_used",
        BYTES,
        "Bytes of live items and pages",
        |s| Some(s.arena.used.0 as f64),
    ),
    gauge("sublet_arena_items", None, "Live items", |s| {
        Some(s.arena.items as f64)
    }),
    counter(
        "sublet_releases_ordered",
        None,
        "Ordered releases, each piece counted",
        |s| Some(s.headroom.releases_ordered as f64),
    ),
    counter("sublet_releases_fast", None, "Fast releases", |s| {
        Some(s.headroom.releases_fast as f64)
    }),
    counter(
        "sublet_released",
        BYTES,
        "Bytes given back by releases",
        |s| Some(s.headroom.released.0 as f64),
    ),
    counter(
        "sublet_release_lost_items",
        None,
        "Items lost by releases that had not expired",
        |s| Some(s.headroom.items_lost as f64),
    ),
    counter(
        "sublet_release_lost_pages",
        None,
        "Pages lost by releases",
        |s| Some(s.headroom.pages_lost as f64),
    ),
    counter(
        "sublet_release_time",
        SECONDS,
        "Time that releases took",
        |s| Some(s.headroom.release_micros as f64 / 1e6),
    ),
];

/// What Prometheus's libraries say of any process, by their names.
const PROCESS: &[Figure<ProcessFigures>] = &[
    counter(
        "process_cpu",
        SECONDS,
        "Processor time of the process, user and system",
        |p| p.cpu_secs,
    ),
    gauge(
        "process_resident_memory",
        BYTES,
        "Memory of the process that is in RAM",
        |p| p.resident.map(|bytes| bytes.0 as f64),
    ),
    gauge(
        "process_virtual_memory",
        BYTES,
        "Address space of the process, the whole reservation of the arena included",
        |p| p.address_space.map(|bytes| bytes.0 as f64),
    ),
    gauge(
        "process_start_time",
        SECONDS,
        "When the process began, in Unix time",
        |p| p.start_unix_secs,
    ),
    gauge(
        "process_open_fds",
        None,
        "Descriptors that the process has open",
        |p| p.descriptors.map(|count| count as f64),
    ),
    gauge(
        "process_max_fds",
        None,
        "Descriptors that the process may have open",
        |p| p.descriptors_max.map(|count| count as f64),
    ),
    gauge("process_threads", None, "Threads of the process", |p| {
        p.threads.map(|count| count as f64)
    }),
];

const TENANT: &[Figure<TenantStatus>] = &[
    gauge(
        "sublet_tenant_weight",
        None,
        "Its share relative to the others'",
        |t| Some(f64::from(t.weight.0)),
    ),
    gauge(
        "sublet_tenant_floor",
        BYTES,
        "What the others never take from it",
        |t| t.floor.map(|a| a.0 as f64),
    ),
    gauge(
        "sublet_tenant_ceiling",
        BYTES,
        "What it never holds more than",
        |t| t.ceiling.map(|a| a.0 as f64),
    ),
    gauge("sublet_tenant_held", BYTES, "Blocks it owns", |t| {
        Some(t.held.0 as f64)
    }),
    gauge(
        "sublet_tenant_used",
        BYTES,
        "Bytes of its live items and pages",
        |t| Some(t.used.0 as f64),
    ),
    gauge("sublet_tenant_items", None, "Its live items", |t| {
        Some(t.items as f64)
    }),
    gauge(
        "sublet_tenant_fairness",
        None,
        "Mortar's f: above 1 it holds more than its share",
        |t| Some(t.fairness),
    ),
    gauge(
        "sublet_tenant_frozen",
        None,
        "1 while its new pages are refused, 0 else",
        |t| Some(f64::from(u8::from(t.frozen))),
    ),
    gauge("sublet_tenant_connections", None, "Its connections", |t| {
        Some(t.connections as f64)
    }),
    counter(
        "sublet_tenant_evictions",
        None,
        "Items evicted to make room",
        |t| Some(t.evictions as f64),
    ),
    counter(
        "sublet_tenant_reclaimed",
        None,
        "Expired items whose memory was taken back",
        |t| Some(t.reclaimed as f64),
    ),
    gauge(
        "sublet_tenant_target",
        BYTES,
        "What the policy allows it to hold",
        |t| t.target.map(|target| target.0 as f64),
    ),
    gauge("sublet_tenant_pools", None, "Its pools of pages", |t| {
        Some(t.pages.pools as f64)
    }),
    gauge("sublet_tenant_pages", None, "Its pages in memory", |t| {
        Some(t.pages.used as f64)
    }),
    gauge(
        "sublet_tenant_pages_on_disk",
        None,
        "Its persistent pages that are on disk only",
        |t| Some(t.pages.on_disk as f64),
    ),
    gauge(
        "sublet_tenant_frames_free",
        None,
        "Frames of its blocks without a page: fragmentation",
        |t| Some(t.pages.free as f64),
    ),
    counter("sublet_tenant_page_puts", None, "Pages put", |t| {
        Some(t.pages.puts as f64)
    }),
    counter(
        "sublet_tenant_page_puts_succeeded",
        None,
        "Puts that displaced no page of its own and were not refused",
        |t| Some(t.pages.puts_succeeded as f64),
    ),
    counter(
        "sublet_tenant_page_puts_refused",
        None,
        "Puts that were refused",
        |t| Some(t.pages.puts_refused as f64),
    ),
    counter("sublet_tenant_page_gets", None, "Pages asked for", |t| {
        Some(t.pages.gets as f64)
    }),
    counter(
        "sublet_tenant_page_hits",
        None,
        "Pages asked for that were there",
        |t| Some(t.pages.hits as f64),
    ),
    counter("sublet_tenant_page_flushes", None, "Pages flushed", |t| {
        Some(t.pages.flushes as f64)
    }),
    counter(
        "sublet_tenant_page_evictions",
        None,
        "Ephemeral pages that went for others",
        |t| Some(t.pages.evictions as f64),
    ),
    counter(
        "sublet_tenant_pages_spilled",
        None,
        "Persistent pages written to disk",
        |t| Some(t.pages.spilled as f64),
    ),
];

const RING: &[Figure<Ringing>] = &[
    gauge(
        "sublet_ring_connections",
        None,
        "Connections to its rings that are open",
        |r| Some(r.status.connections as f64),
    ),
    gauge(
        "sublet_ring_pools_waiting",
        None,
        "Restored pools that wait for their program",
        |r| Some(r.status.pools_waiting as f64),
    ),
    counter(
        "sublet_ring_connections_made",
        None,
        "Connections that were made",
        |r| Some(r.status.connections_made as f64),
    ),
    counter(
        "sublet_ring_connections_ended_for_garbage",
        None,
        "Connections that ended because their ring held garbage, or their socket chatter",
        |r| Some(r.status.ended_garbage as f64),
    ),
    counter(
        "sublet_ring_entries",
        None,
        "Entries that were answered",
        |r| Some(r.status.entries as f64),
    ),
    counter(
        "sublet_ring_stored",
        BYTES,
        "Bytes of pages that were stored",
        |r| Some(r.status.bytes_stored.0 as f64),
    ),
    counter(
        "sublet_ring_fetched",
        BYTES,
        "Bytes of pages that were fetched",
        |r| Some(r.status.bytes_fetched.0 as f64),
    ),
    counter(
        "sublet_ring_doorbells_rung",
        None,
        "Clients that slept and were woken",
        |r| Some(r.status.bells_rung as f64),
    ),
    counter(
        "sublet_ring_doorbells_heard",
        None,
        "Times that a client woke the daemon",
        |r| Some(r.status.bells_heard as f64),
    ),
];

const LEFT_BEHIND: &[Figure<LeftBehind>] = &[gauge(
    "sublet_disk_left_behind_pages",
    None,
    "Pages of swap that no disk of that name writes to their backing",
    |left| Some(left.pages as f64),
)];

const DISK: &[Figure<DiskStatus>] = &[
    gauge("sublet_disk_size", BYTES, "Its size", |d| {
        Some(d.size.0 as f64)
    }),
    gauge(
        "sublet_disk_serving",
        None,
        "1 while it is well, 0 while it is not",
        |d| Some(f64::from(u8::from(d.state == DiskState::Serving))),
    ),
    gauge(
        "sublet_disk_connections",
        None,
        "Clients that are connected",
        |d| Some(d.connections as f64),
    ),
    gauge("sublet_disk_pages", None, "Its pages in memory", |d| {
        Some(d.pages as f64)
    }),
    gauge(
        "sublet_disk_dirty_pages",
        None,
        "Of these, pages that its backing does not have yet",
        |d| Some(d.dirty as f64),
    ),
    counter(
        "sublet_disk_reads",
        None,
        "Reads that were asked for",
        |d| Some(d.reads as f64),
    ),
    counter(
        "sublet_disk_writes",
        None,
        "Writes, trims and zeroes that were asked for",
        |d| Some(d.writes as f64),
    ),
    counter("sublet_disk_read", BYTES, "Bytes that were read", |d| {
        Some(d.bytes_read as f64)
    }),
    counter(
        "sublet_disk_written",
        BYTES,
        "Bytes that were written",
        |d| Some(d.bytes_written as f64),
    ),
    counter(
        "sublet_disk_page_hits",
        None,
        "Pages that were read and were in memory",
        |d| Some(d.hits as f64),
    ),
    counter(
        "sublet_disk_page_misses",
        None,
        "Pages that were read and came from the backing",
        |d| Some(d.misses as f64),
    ),
    counter(
        "sublet_disk_prefetched_pages",
        None,
        "Pages that were read ahead",
        |d| Some(d.prefetched as f64),
    ),
    counter("sublet_disk_faults", None, "Requests that failed", |d| {
        Some(d.faults as f64)
    }),
    gauge(
        "sublet_disk_astray",
        None,
        "1 while its backing's path leads to it no more",
        |d| Some(f64::from(u8::from(d.astray))),
    ),
    gauge(
        "sublet_disk_unnoted",
        None,
        "1 while it writes through because a note cannot be written to the state folder",
        |d| Some(f64::from(u8::from(d.unnoted))),
    ),
];

#[derive(Debug)]
struct Scrape(Status, ProcessFigures);

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
        let ringing: Vec<Ringing> = status.tenants.iter().filter_map(Ringing::of).collect();
        for figure in RING {
            figure.encode_each(&mut encoder, &ringing)?;
        }
        encode_refused(&mut encoder, &ringing)?;
        encode_operations(&mut encoder, &ringing)?;
        for figure in DISK {
            figure.encode_each(&mut encoder, &status.disks)?;
        }
        for figure in LEFT_BEHIND {
            figure.encode_each(&mut encoder, &status.left_behind)?;
        }
        encode_counters(&mut encoder, &status.tenants)
    }
}

impl<S> Figure<S> {
    fn metric_type(&self) -> MetricType {
        match self.kind {
            Kind::Gauge => MetricType::Gauge,
            Kind::Counter => MetricType::Counter,
        }
    }

    fn write(&self, value: f64, to: prometheus_client::encoding::MetricEncoder<'_>) -> fmt::Result {
        match self.kind {
            Kind::Gauge => ConstGauge::new(value).encode(to),
            Kind::Counter => ConstCounter::new(value).encode(to),
        }
    }

    fn encode(&self, encoder: &mut DescriptorEncoder<'_>, source: &S) -> fmt::Result {
        let Some(value) = (self.read)(source) else {
            return Ok(());
        };
        let unit = self.unit.map(|unit| unit());
        self.write(
            value,
            encoder.encode_descriptor(self.name, self.help, unit.as_ref(), self.metric_type())?,
        )
    }
}

/// Something of which there are several.
trait Labelled {
    /// What tells it from the others.
    fn label(&self) -> [(&'static str, &str); 1];
}

impl Labelled for TenantStatus {
    fn label(&self) -> [(&'static str, &str); 1] {
        [("tenant", self.name.as_str())]
    }
}

/// A tenant's rings.
struct Ringing {
    tenant: TenantName,
    status: RingStatus,
}

impl Ringing {
    fn of(tenant: &TenantStatus) -> Option<Ringing> {
        Some(Ringing {
            tenant: tenant.name.clone(),
            status: tenant.ring.clone()?,
        })
    }
}

impl Labelled for Ringing {
    fn label(&self) -> [(&'static str, &str); 1] {
        [("tenant", self.tenant.as_str())]
    }
}

impl Labelled for LeftBehind {
    fn label(&self) -> [(&'static str, &str); 1] {
        [("disk", self.name.as_str())]
    }
}

impl Labelled for DiskStatus {
    fn label(&self) -> [(&'static str, &str); 1] {
        [("disk", self.settings.name.as_str())]
    }
}

impl<S: Labelled> Figure<S> {
    fn encode_each(&self, encoder: &mut DescriptorEncoder<'_>, all: &[S]) -> fmt::Result {
        if all.is_empty() {
            return Ok(());
        }
        let unit = self.unit.map(|unit| unit());
        let mut family =
            encoder.encode_descriptor(self.name, self.help, unit.as_ref(), self.metric_type())?;
        for one in all {
            if let Some(value) = (self.read)(one) {
                self.write(value, family.encode_family(&one.label())?)?;
            }
        }
        Ok(())
    }
}

/// `sublet_build_info{version="0.1.0"} 1`.
fn encode_build(encoder: &mut DescriptorEncoder<'_>, release: &str) -> fmt::Result {
    let (name, help) = ("sublet_build_info", "Which release this is; always 1");
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    ConstGauge::new(1_u64).encode(family.encode_family(&[("version", release)])?)
}

/// Who was not let in, by reason.
fn encode_refused(encoder: &mut DescriptorEncoder<'_>, all: &[Ringing]) -> fmt::Result {
    if all.is_empty() {
        return Ok(());
    }
    let (name, help) = (
        "sublet_ring_connections_refused",
        "Connections refused: all places taken, a user who may not, no memory or descriptors left",
    );
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for Ringing { tenant, status } in all {
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

/// `sublet_ring_operations_total{tenant="web",verb="get",outcome="hit"}`.
fn encode_operations(encoder: &mut DescriptorEncoder<'_>, all: &[Ringing]) -> fmt::Result {
    if all.is_empty() {
        return Ok(());
    }
    let (name, help) = (
        "sublet_ring_operations",
        "Pages put, got and flushed; of other verbs, and of what made no sense, entries",
    );
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for Ringing { tenant, status } in all {
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

/// What clients did, by memcached's names: `sublet_tenant_get_hits_total{tenant="web"}`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_written_as_the_caller_would_like_it_best() {
        let asked = [
            ("", Format::Text),
            ("*/*", Format::Text),
            ("text/plain; version=0.0.4", Format::Text),
            ("application/openmetrics-text", Format::OpenMetrics),
            (
                "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                Format::OpenMetrics,
            ),
            (
                "text/plain, application/openmetrics-text; q=0.5",
                Format::Text,
            ),
            ("application/openmetrics-text;q=0", Format::Text),
        ];
        for (accept, format) in asked {
            assert_eq!(Format::accepted(accept), format, "{accept}");
        }
    }

    #[test]
    fn in_text_a_counter_is_announced_by_the_name_of_its_samples() {
        let page = "# HELP a Help.\n# TYPE a counter\n# UNIT a seconds\na_total 1\n# HELP b B.\n# TYPE b gauge\nb 2\n# EOF\n";
        let text = "# HELP a_total Help.\n# TYPE a_total counter\na_total 1\n# HELP b B.\n# TYPE b gauge\nb 2\n";
        assert_eq!(as_text(page), text);
    }
}
