//! Every metric that is one number of the daemon, its process, a tenant, a tenant's rings or a disk.

use sublet_client::messages::{DiskState, DiskStatus, OrphanedPages, Status, TenantStatus};

use super::definition::{BYTES, MetricDefinition, SECONDS, counter, gauge};
use super::{TenantEvictions, TenantRings};
use crate::observe::process::ProcessFigures;

pub(super) const DAEMON: &[MetricDefinition<Status>] = &[
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
    gauge(
        "sublet_shared",
        BYTES,
        "Memory that the process shares with programs on page rings and with guests over vhost-user",
        |s| Some(s.daemon.shared.0 as f64),
    ),
    gauge("sublet_host_memory", BYTES, "The host's memory", |s| {
        Some(s.host.memory.0 as f64)
    }),
    gauge("sublet_host_free", BYTES, "The host's free memory", |s| {
        Some(s.host.free.0 as f64)
    }),
    gauge(
        "sublet_host_available",
        BYTES,
        "Memory that programs could get, as the kernel estimates it",
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
        "Idle memory that the daemon leaves to the host",
        |s| Some(s.host.reserve.0 as f64),
    ),
    gauge(
        "sublet_policy_unassigned",
        BYTES,
        "Memory that the policy's targets leave over",
        |s| s.rule.as_ref().map(|rule| rule.unassigned.0 as f64),
    ),
    gauge(
        "sublet_policy_wanted",
        BYTES,
        "Memory that the policy would ask of other nodes",
        |s| s.rule.as_ref().map(|rule| rule.wanted.0 as f64),
    ),
    counter(
        "sublet_policy_moved",
        BYTES,
        "Memory that one tenant held and another took, since the start",
        |s| s.rule.as_ref().map(|rule| rule.moved.0 as f64),
    ),
    counter(
        "sublet_policy_moves_undone",
        BYTES,
        "The part of moved memory that came back within ten minutes",
        |s| s.rule.as_ref().map(|rule| rule.moves_undone.0 as f64),
    ),
    gauge(
        "sublet_arena_limit",
        BYTES,
        "Memory that the arena may hold",
        |s| Some(s.arena.limit.0 as f64),
    ),
    gauge(
        "sublet_arena_held",
        BYTES,
        "Memory that the arena holds, index and free list included",
        |s| Some(s.arena.held.0 as f64),
    ),
    gauge(
        "sublet_arena_free",
        BYTES,
        "Memory of the arena on the free list",
        |s| Some(s.arena.free.0 as f64),
    ),
    gauge(
        "sublet_arena_index",
        BYTES,
        "Memory of the arena in the hash index",
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

/// The metrics that Prometheus's libraries expose for any process, under their names.
pub(super) const PROCESS: &[MetricDefinition<ProcessFigures>] = &[
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

pub(super) const TENANT: &[MetricDefinition<TenantStatus>] = &[
    gauge(
        "sublet_tenant_weight",
        None,
        "The tenant's share relative to the others'",
        |t| Some(f64::from(t.weight.0)),
    ),
    gauge(
        "sublet_tenant_floor",
        BYTES,
        "Memory that the others never take from the tenant",
        |t| t.floor.map(|a| a.0 as f64),
    ),
    gauge(
        "sublet_tenant_ceiling",
        BYTES,
        "The most memory that the tenant ever holds",
        |t| t.ceiling.map(|a| a.0 as f64),
    ),
    gauge(
        "sublet_tenant_held",
        BYTES,
        "Blocks that the tenant owns",
        |t| Some(t.held.0 as f64),
    ),
    gauge(
        "sublet_tenant_used",
        BYTES,
        "Bytes of the tenant's live items and pages",
        |t| Some(t.used.0 as f64),
    ),
    gauge(
        "sublet_tenant_items",
        None,
        "The tenant's live items",
        |t| Some(t.items as f64),
    ),
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
    gauge(
        "sublet_tenant_connections",
        None,
        "The tenant's connections",
        |t| Some(t.connections as f64),
    ),
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
        "Memory that the policy allows the tenant to hold",
        |t| t.target.map(|target| target.0 as f64),
    ),
    gauge(
        "sublet_tenant_pools",
        None,
        "The tenant's pools of pages",
        |t| Some(t.pages.pools as f64),
    ),
    gauge("sublet_tenant_pages", None, "Its pages in memory", |t| {
        Some(t.pages.used as f64)
    }),
    gauge(
        "sublet_tenant_pages_on_disk",
        None,
        "The tenant's persistent pages that are only on disk",
        |t| Some(t.pages.on_disk as f64),
    ),
    gauge(
        "sublet_tenant_pages_same_filled",
        None,
        "The tenant's pages whose words are all equal. They take no frame",
        |t| Some(t.pages.same_filled as f64),
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
        "Puts that displaced no page of the tenant and were not refused",
        |t| Some(t.pages.puts_succeeded as f64),
    ),
    counter(
        "sublet_tenant_page_puts_refused",
        None,
        "Puts that were refused",
        |t| Some(t.pages.puts_refused as f64),
    ),
    counter(
        "sublet_tenant_page_gets",
        None,
        "Pages that clients asked for",
        |t| Some(t.pages.gets as f64),
    ),
    counter(
        "sublet_tenant_page_hits",
        None,
        "Pages that clients asked for and that were there",
        |t| Some(t.pages.hits as f64),
    ),
    counter("sublet_tenant_page_flushes", None, "Pages flushed", |t| {
        Some(t.pages.flushes as f64)
    }),
    counter(
        "sublet_tenant_page_evictions",
        None,
        "Ephemeral pages that were evicted for others",
        |t| Some(t.pages.evictions as f64),
    ),
    counter(
        "sublet_tenant_pages_spilled",
        None,
        "Persistent pages written to disk",
        |t| Some(t.pages.spilled as f64),
    ),
];

pub(super) const EVICTED: &[MetricDefinition<TenantEvictions>] = &[
    gauge(
        "sublet_tenant_eviction_age_p50",
        SECONDS,
        "Time since those evicted of late were put: of half no more",
        |e| e.status.age_p50_secs,
    ),
    gauge(
        "sublet_tenant_eviction_age_p95",
        SECONDS,
        "Time since those evicted of late were put: of 95 in 100 no more",
        |e| e.status.age_p95_secs,
    ),
    gauge(
        "sublet_tenant_eviction_uses_p50",
        None,
        "Gets that found those evicted of late: of half no more",
        |e| e.status.uses_p50,
    ),
    gauge(
        "sublet_tenant_eviction_uses_p95",
        None,
        "Gets that found those evicted of late: of 95 in 100 no more",
        |e| e.status.uses_p95,
    ),
    gauge(
        "sublet_tenant_eviction_regret_ratio",
        None,
        "Their part that was asked for within a turnover, of late",
        |e| e.status.regret,
    ),
    counter(
        "sublet_tenant_evictions_judged",
        None,
        "Evictions of the sample whose turnover is over",
        |e| Some(e.status.judged as f64),
    ),
    counter(
        "sublet_tenant_evictions_regretted",
        None,
        "Of these, asked for within it",
        |e| Some(e.status.regretted as f64),
    ),
];

pub(super) const RING: &[MetricDefinition<TenantRings>] = &[
    gauge(
        "sublet_ring_connections",
        None,
        "Open connections to the tenant's rings",
        |r| Some(r.status.connections as f64),
    ),
    gauge(
        "sublet_ring_pools_waiting",
        None,
        "Restored pools that wait for their programs",
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
        "Connections that ended because their ring or their socket held garbage",
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

pub(super) const LEFT_BEHIND: &[MetricDefinition<OrphanedPages>] = &[gauge(
    "sublet_disk_left_behind_pages",
    None,
    "Pages of swap that no disk of that name writes to their backing",
    |left| Some(left.pages as f64),
)];

pub(super) const DISK: &[MetricDefinition<DiskStatus>] = &[
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
    counter(
        "sublet_disk_connections_made",
        None,
        "Connections that were made, over NBD and vhost-user",
        |d| Some(d.clients.connections_made as f64),
    ),
    counter(
        "sublet_disk_requests_refused",
        None,
        "Requests that made no sense or asked for what is not allowed: the disk never saw them",
        |d| Some(d.clients.requests_refused as f64),
    ),
    counter(
        "sublet_disk_broken_rings",
        None,
        "Queues that stopped because a guest's rings made no sense",
        |d| Some(d.clients.broken_rings as f64),
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
        "sublet_disk_page_far_hits",
        None,
        "Pages that were read and came from lenders",
        |d| Some(d.far_hits as f64),
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
        "sublet_disk_backing_path_mismatch",
        None,
        "1 while the path of its backing leads to another file",
        |d| Some(f64::from(u8::from(d.path_mismatch))),
    ),
    gauge(
        "sublet_disk_notes_unwritten",
        None,
        "1 while it writes through because a note cannot be written to the state folder",
        |d| Some(f64::from(u8::from(d.notes_unwritten))),
    ),
    gauge(
        "sublet_disk_astray",
        None,
        "The old name of sublet_disk_backing_path_mismatch; it stays for two releases",
        |d| Some(f64::from(u8::from(d.astray))),
    ),
    gauge(
        "sublet_disk_unnoted",
        None,
        "The old name of sublet_disk_notes_unwritten; it stays for two releases",
        |d| Some(f64::from(u8::from(d.unnoted))),
    ),
];
