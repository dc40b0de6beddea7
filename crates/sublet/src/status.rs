//! `sublet status`: what the daemon holds, for whom, and why not more.

use comfy_table::{Table, presets};
use sublet_client::messages::{
    DiskStatus, OrphanedPages, PagesStatus, RingStatus, RuleStatus, Status, TenantStatus,
};
use sublet_types::{Bytes, Pages};

use crate::evicted_tables;
use crate::exit::Exit;
use crate::formatting::{duration, format_count, format_table, millis, percent};
use crate::grants::eviction;
use crate::lend::{self, peer_tables};
use crate::release::lost;
use crate::saves;
use crate::watch::{EarlierAnswer, WatchOptions};

/// How to show the status.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    watch: WatchOptions,
}

/// Shows the status, once or again and again.
pub(crate) fn run(args: &Args) -> Exit {
    args.watch.show_since(|admin| admin.status(), text)
}

/// The page for people. Operations per second are over the time since the last look if there was one, else since the
/// start.
fn text(status: &Status, since: Option<&EarlierAnswer<'_, Status>>) -> String {
    let mut page = ending(status)
        .into_iter()
        .chain(lines(status))
        .map(|(name, text)| format!("{name:<9} {text}\n"))
        .collect::<String>();
    page.push('\n');
    page.push_str(&tenants(status, since));
    page.push('\n');
    if status.tenants.len() > 1 {
        page.push_str(FAIRNESS);
    }
    if status.tenants.iter().any(has_pages) {
        page.push_str(&pages(&status.tenants));
        page.push('\n');
    }
    let evicted = evicted_tables::table(&status.tenants);
    if !evicted.is_empty() {
        page.push_str(&format!("{evicted}\n"));
    }
    if status.tenants.iter().any(|tenant| tenant.ring.is_some()) {
        page.push_str(&rings(&status.tenants));
        page.push('\n');
    }
    if !status.disks.is_empty() || !status.left_behind.is_empty() {
        page.push_str(&disks(&status.disks, &status.left_behind));
        page.push('\n');
    }
    if let Some(lending) = status.lending.as_ref().filter(|it| !it.peers.is_empty()) {
        page.push_str(&peer_tables::peers(lending));
        page.push('\n');
    }
    if let Some(copy) = &status.copying {
        page.push_str(&format!("{}\n", saves::line(copy)));
    }
    for difference in &status.changed {
        let ends = if difference.kept {
            "kept"
        } else {
            "until restart"
        };
        page.push_str(&format!(
            "changed   {} is {}; the config says {} ({ends})\n",
            difference.key, difference.now, difference.config
        ));
    }
    page
}

/// The meaning of a column in the tenants' table. A single tenant has nothing to compare.
const FAIRNESS: &str =
    "fairness  1.00 is a tenant's weighted share; who has most above it gives way first\n";

/// Says that the daemon is ending, and what it waits for.
fn ending(status: &Status) -> Option<(&'static str, String)> {
    let left: Pages = status.disks.iter().map(|disk| Pages(disk.dirty)).sum();
    let said = format!("its disks are brought to their backings; {left} left");
    status.daemon.ending.then_some(("ending", said))
}

fn lines(status: &Status) -> Vec<(&'static str, String)> {
    let (daemon, host, arena) = (&status.daemon, &status.host, &status.arena);
    let cgroup = host.cgroup_limit.map_or(String::new(), |limit| {
        format!(", {limit} allowed by the cgroup")
    });
    let mut lines = vec![
        (
            "host",
            format!(
                "{} of memory, {} idle, {} kept in reserve{cgroup}",
                host.memory, host.idle, host.reserve
            ),
        ),
        (
            "arena",
            format!(
                "{} held of {} allowed; {} free, {} index, {} used ({})",
                arena.held,
                arena.limit,
                arena.free,
                arena.index,
                arena.used,
                format_count(arena.items, "item")
            ),
        ),
        ("why", status.headroom.why.clone()),
    ];
    lines.extend(status.rule.as_ref().map(rule));
    lines.extend([(
        "process",
        format!(
            "{} resident; {} held + {} beside it{}; up {}",
            daemon.resident,
            arena.held,
            daemon.overhead,
            shared(daemon.shared),
            duration(daemon.uptime_secs)
        ),
    )]);
    let lending = status.lending.iter().filter(|it| !it.peers.is_empty());
    lines.extend(lending.flat_map(lend::summary_lines));
    if let Some(last) = &status.headroom.last_release {
        let times = status.headroom.releases_ordered + status.headroom.releases_fast;
        lines.push((
            "released",
            format!(
                "{} so far, {} lost, {}; last {:?}: {} in {}",
                status.headroom.released,
                lost(status.headroom.items_lost, status.headroom.pages_lost),
                format_count(times, "time"),
                last.mode,
                last.released,
                millis(last.micros)
            ),
        ));
    }
    lines
}

/// The policy in force, and what it leaves over or would like to have.
fn rule(rule: &RuleStatus) -> (&'static str, String) {
    let some = |amount: Bytes, what: &str| match amount {
        Bytes::ZERO => String::new(),
        amount => format!("; {amount} {what}"),
    };
    let unassigned = some(rule.unassigned, "assigned to nobody");
    let wanted = some(rule.wanted, "wanted from other nodes");
    let moved = match rule.moved {
        Bytes::ZERO => String::new(),
        moved => format!(
            "; {moved} went from one tenant to another, {} of it back within 10 minutes",
            rule.moves_undone
        ),
    };
    let short = some(rule.floors_short, "less than all floors together");
    (
        "policy",
        format!("{}{unassigned}{wanted}{short}{moved}", rule.policy),
    )
}

/// The table of tenants.
pub(crate) fn tenants(status: &Status, since: Option<&EarlierAnswer<'_, Status>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "tenant",
        "weight",
        "held",
        "target",
        "used",
        "items",
        "evicted",
        "pages",
        "fairness",
        "hits",
        "ops/s",
        "conns",
        "listens at",
    ]);
    for tenant in &status.tenants {
        table.add_row([
            tenant.name.to_string(),
            tenant.weight.0.to_string(),
            tenant.held.to_string(),
            tenant
                .target
                .map_or("–".to_owned(), |target| target.to_string()),
            tenant.used.to_string(),
            tenant.items.to_string(),
            tenant.evictions.to_string(),
            tenant.pages.used.to_string(),
            format!("{:.2}", tenant.fairness),
            tenant
                .hit_rate()
                .map_or("–".to_owned(), |rate| format!("{:.1} %", rate * 100.0)),
            format!("{:.0}", rate(tenant, status, since)),
            tenant.connections.to_string(),
            tenant.listen.join(" "),
        ]);
    }
    format_table(table, 1..12)
}

/// Returns whether there is something to show about its pages.
fn has_pages(tenant: &TenantStatus) -> bool {
    tenant.pages.pools > 0 || tenant.pages.puts > 0
}

/// The table of pages: one row per tenant that has or had any.
fn pages(tenants: &[TenantStatus]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "pages of",
        "pools",
        "in memory",
        "on disk",
        "filled",
        "puts",
        "displacing",
        "refused",
        "gets",
        "hits",
        "flushes",
        "evicted",
        "spilled",
        "fragmented",
        "eviction",
    ]);
    for tenant in tenants.iter().filter(|tenant| has_pages(tenant)) {
        let pages = &tenant.pages;
        table.add_row([
            tenant.name.to_string(),
            pages.pools.to_string(),
            pages.used.to_string(),
            pages.on_disk.to_string(),
            pages.same_filled.to_string(),
            pages.puts.to_string(),
            displacing(pages).to_string(),
            pages.puts_refused.to_string(),
            pages.gets.to_string(),
            percent(pages.hits, pages.gets),
            pages.flushes.to_string(),
            pages.evictions.to_string(),
            pages.spilled.to_string(),
            percent(pages.free, pages.free + pages.used),
            eviction(tenant),
        ]);
    }
    format_table(table, 1..14)
}

/// Puts that displaced another page.
fn displacing(pages: &PagesStatus) -> u64 {
    let in_room = pages.puts_succeeded + pages.puts_refused;
    pages.puts.saturating_sub(in_room)
}

/// The table of rings: one row per tenant that has any.
fn rings(tenants: &[TenantStatus]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "rings of", "conns", "refused", "puts", "refused", "gets", "hits", "flushes", "stored",
        "fetched", "nonsense",
    ]);
    for tenant in tenants {
        let Some(ring) = &tenant.ring else { continue };
        let (gets, hits) = (ring.requests("get"), ring.operation("get", "hit"));
        table.add_row([
            tenant.name.to_string(),
            ring.connections.to_string(),
            ring.refused().to_string(),
            ring.requests("put").to_string(),
            ring.operation("put", "refused").to_string(),
            gets.to_string(),
            percent(hits, gets),
            (ring.requests("flush_page") + ring.requests("flush_object")).to_string(),
            ring.bytes_stored.to_string(),
            ring.bytes_fetched.to_string(),
            nonsense(ring).to_string(),
        ]);
    }
    format_table(table, 1..11)
}

/// Entries that made no sense, and connections that ended because of that.
fn nonsense(ring: &RingStatus) -> u64 {
    let verbs = ring.operations.keys();
    let faulty = verbs.map(|verb| ring.operation(verb, "faulty"));
    faulty.sum::<u64>() + ring.ended_garbage
}

/// The table of disks, and what can be done about pages that were left behind.
pub(crate) fn disks(disks: &[DiskStatus], left: &[OrphanedPages]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "disk",
        "kind",
        "tenant",
        "state",
        "size",
        "in memory",
        "hits",
        "dirty",
        "conns",
        "listens at",
    ]);
    for disk in disks {
        let settings = &disk.settings;
        let places: Vec<String> = settings
            .listen
            .iter()
            .map(|place| place.to_string())
            .collect();
        table.add_row([
            settings.name.to_string(),
            settings.kind.to_string(),
            settings.tenant.to_string(),
            disk.state.name().to_owned(),
            disk.size.to_string(),
            Pages(disk.pages).bytes().to_string(),
            disk.hit_rate()
                .map_or("–".to_owned(), |rate| format!("{:.1} %", rate * 100.0)),
            Pages(disk.dirty).bytes().to_string(),
            disk.connections.to_string(),
            places.join(" "),
        ]);
    }
    for left in left {
        table.add_row(left_row(left));
    }
    let mut lines = format_table(table, 4..9);
    for left in left {
        lines.push_str(&format!(
            "\n{}: {}\n",
            left.name,
            crate::disk::left_behind::describe(left)
        ));
    }
    lines
}

fn left_row(left: &OrphanedPages) -> [String; 10] {
    let dirty = Pages(left.pages).bytes().to_string();
    let cells = [
        left.name.as_str(),
        "swap",
        "–",
        "left behind",
        "–",
        "–",
        "–",
        &dirty,
        "–",
        "",
    ];
    cells.map(str::to_owned)
}

fn rate(tenant: &TenantStatus, status: &Status, since: Option<&EarlierAnswer<'_, Status>>) -> f64 {
    let now = tenant.operations();
    let Some(EarlierAnswer { ago, answer }) = since else {
        return now as f64 / status.daemon.uptime_secs.max(1) as f64;
    };
    let before = answer.tenants.iter().find(|old| old.name == tenant.name);
    let done = now.saturating_sub(before.map_or(0, TenantStatus::operations));
    done as f64 / ago.as_secs_f64().max(0.001)
}

/// Memory that is shared by two processes.
fn shared(memory: Bytes) -> String {
    match memory {
        Bytes::ZERO => String::new(),
        memory => format!(" + {memory} shared with rings' programs and guests"),
    }
}
