//! What was evicted lately, as shown by `status` and `tenants show`.

use comfy_table::Table;
use comfy_table::presets;
use sublet_client::messages::{EvictedStatus, TenantStatus};

use crate::formatting::format_table;

/// The meaning of the columns.
const LEGEND: &str = "evicted   of late: time since they were put, gets that found them; regret is their part that was asked for before as many were evicted as there are\n";

/// The table: one row per tenant and kind that had evictions lately. Nothing if there were none.
pub(crate) fn table(tenants: &[TenantStatus]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "evicted of",
        "kind",
        "age p50",
        "p95",
        "uses p50",
        "p95",
        "regret",
    ]);
    let mut has_some = false;
    for tenant in tenants {
        for (kind, evicted) in kinds(tenant) {
            has_some = true;
            table.add_row([
                tenant.name.to_string(),
                kind.to_owned(),
                secs(evicted.age_p50_secs),
                secs(evicted.age_p95_secs),
                count(evicted.uses_p50),
                count(evicted.uses_p95),
                regret(&evicted),
            ]);
        }
    }
    match has_some {
        true => format!("{}{LEGEND}", format_table(table, 2..7)),
        false => String::new(),
    }
}

/// One line per kind, for one tenant.
pub(crate) fn lines(tenant: &TenantStatus) -> String {
    let line = |(kind, evicted): (&str, EvictedStatus)| {
        format!(
            "evicted {kind}: half {} old or less, 95 in 100 {}; used {} and {} times or less; regret {}\n",
            secs(evicted.age_p50_secs),
            secs(evicted.age_p95_secs),
            count(evicted.uses_p50),
            count(evicted.uses_p95),
            regret(&evicted),
        )
    };
    kinds(tenant).map(line).collect()
}

/// Each kind that had evictions lately.
fn kinds(tenant: &TenantStatus) -> impl Iterator<Item = (&'static str, EvictedStatus)> {
    let both = [
        ("pages", tenant.evicted.pages),
        ("items", tenant.evicted.items),
    ];
    let is_known = |evicted: &EvictedStatus| evicted.age_p50_secs.is_some();
    both.into_iter()
        .filter_map(move |(kind, evicted)| Some((kind, evicted.filter(is_known)?)))
}

fn secs(secs: Option<f64>) -> String {
    secs.map_or("–".to_owned(), |secs| match secs {
        0.0..120.0 => format!("{secs:.0} s"),
        120.0..7200.0 => format!("{:.0} min", secs / 60.0),
        _ => format!("{:.1} h", secs / 3600.0),
    })
}

fn count(count: Option<f64>) -> String {
    count.map_or("–".to_owned(), |count| format!("{count:.0}"))
}

fn regret(evicted: &EvictedStatus) -> String {
    let percent = |regret: f64| format!("{:.1} %", regret * 100.0);
    evicted.regret.map_or("–".to_owned(), percent)
}
