//! A disk, as text for people.

use std::fmt::Write as _;

use sublet_client::messages::{DiskState, DiskStatus, OrphanedPages};
use sublet_types::{Bytes, DiskSettings, Pages};

use super::{left_behind, usage_snippets};

/// A disk in one line.
pub(super) fn line(disk: &DiskStatus) -> String {
    let DiskSettings {
        name, kind, tenant, ..
    } = &disk.settings;
    let state = match disk.why.as_str() {
        "" => disk.state.name().to_owned(),
        why => format!("{}: {why}", disk.state.name()),
    };
    format!("{name}: {kind} of {} for {tenant}, {state}", disk.size)
}

/// All about a disk, and what to paste.
pub(super) fn disk_page(disk: &DiskStatus, left: Option<&OrphanedPages>) -> String {
    let mut page = String::new();
    let left = left.map(|left| ("but", left_behind::describe(left)));
    for (name, text) in facts(disk).into_iter().chain(left) {
        let _ = writeln!(page, "{name:<10} {text}");
    }
    for change in &disk.differences {
        let lasts = if change.kept { "kept" } else { "until restart" };
        let (key, now, config) = (&change.key, &change.now, &change.config);
        let _ = writeln!(
            page,
            "changed    {key} is {now}; the config says {config} ({lasts})"
        );
    }
    for place in &disk.settings.listen {
        let _ = write!(page, "\nAt {place}\n");
        for recipe in usage_snippets::snippets(&disk.settings, place) {
            let _ = write!(page, "\n  {}:\n\n", recipe.for_whom);
            for line in recipe.lines.lines() {
                let _ = writeln!(page, "    {line}");
            }
        }
    }
    page
}

/// The counts of its clients, one per line.
pub(super) fn figures(disk: &DiskStatus) -> String {
    let clients = &disk.clients;
    let mut figures = vec![
        ("connections".to_owned(), disk.connections),
        ("connections_made".to_owned(), clients.connections_made),
    ];
    let turned_away = clients.turned_away.iter();
    figures.extend(turned_away.map(|(reason, count)| (format!("turned_away_{reason}"), *count)));
    figures.push(("requests_refused".to_owned(), clients.requests_refused));
    figures.push(("broken_rings".to_owned(), clients.broken_rings));
    figures.push(("faults".to_owned(), disk.faults));
    let lines = figures.iter();
    lines
        .map(|(name, count)| format!("{name:<28} {count}\n"))
        .collect()
}

fn facts(disk: &DiskStatus) -> Vec<(&'static str, String)> {
    let settings = &disk.settings;
    let state = match (disk.state, disk.why.as_str()) {
        (state, "") => state.name().to_owned(),
        (DiskState::Closed, why) => format!(
            "closed: {why}; mend that, then: sublet disk open {0}; or have it forgotten: sublet disk remove {0}",
            settings.name
        ),
        (state, why) => format!("{}: {why}", state.name()),
    };
    let far = match disk.far_hits {
        0 => String::new(),
        pages => format!(", {pages} from lenders"),
    };
    let rate = disk.hit_rate();
    let rate = rate.map_or(String::new(), |rate| {
        format!(" ({:.1} % of pages)", rate * 100.0)
    });
    let mut facts = vec![
        ("disk", line(disk)),
        ("state", state),
        (
            "backing",
            settings
                .backing
                .clone()
                .unwrap_or_else(|| "none".to_owned()),
        ),
        ("writes", writes(disk)),
        ("clients", disk.connections.to_string()),
        (
            "memory",
            format!(
                "{} in memory, {} that its backing does not have; {} read ahead",
                Pages(disk.pages).bytes(),
                Pages(disk.dirty).bytes(),
                Pages(disk.prefetched).bytes()
            ),
        ),
        (
            "reads",
            format!(
                "{}, {}; {} hits{far}, {} misses{rate}",
                disk.reads,
                Bytes(disk.bytes_read),
                disk.hits,
                disk.misses
            ),
        ),
        (
            "written",
            format!("{}, {}", disk.writes, Bytes(disk.bytes_written)),
        ),
        ("faults", disk.faults.to_string()),
    ];
    facts.extend(settings.fill.map(|fill| ("fill", fill.to_string())));
    facts.extend(
        settings
            .windows
            .map(|windows| ("windows", windows.to_string())),
    );
    facts.extend(
        settings
            .slow
            .map(|slow| ("slow", format!("{slow}, for experiments"))),
    );
    let passed = |pages| ("sequential", format!("{pages} pages of a run are kept"));
    facts.extend(settings.sequential_max.map(passed));
    facts
}

fn writes(disk: &DiskStatus) -> String {
    let durability = disk.settings.durability();
    match (disk.settings.read_only, disk.held_back) {
        (true, _) => "read-only".to_owned(),
        (false, true) => format!("write-through for now (its durability is {durability})"),
        (false, false) => durability.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sublet_client::messages::DiskClients;

    use super::*;

    #[test]
    fn figures_say_who_was_turned_away_and_why() {
        let settings = json!({
            "name": "db", "kind": "disk", "tenant": "web", "listen": [], "mode": "0600",
            "queues": 1, "read_only": false,
        });
        let settings = serde_json::from_value(settings).expect("settings");
        let mut disk = DiskStatus::idle(settings, Bytes::mib(1));
        let of = |count: u64| DiskClients {
            connections_made: count,
            turned_away: [("stalled".to_owned(), count)].into(),
            ..DiskClients::default()
        };
        disk.clients = of(2).merge(&of(3));
        let page = figures(&disk);
        let lines: Vec<Vec<&str>> = page
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert!(lines.contains(&vec!["connections_made", "5"]), "{page}");
        assert!(lines.contains(&vec!["turned_away_stalled", "5"]), "{page}");
        assert!(lines.contains(&vec!["broken_rings", "0"]), "{page}");
    }
}
