//! The metrics page, checked against the rules of OpenMetrics 1.0.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

use sublet_client::ring::{Client, Key};
use sublet_client::{Admin, AdminEndpoint};
use sublet_types::{ObjectId, PageIndex, PoolFlags, PoolId};

use crate::content::page_of;
use crate::daemon::{Folder, http, text};

const CONFIG: &str = "\
[metrics]
listen = \"unix:METRICS\"
[tenants.web]
listen = [\"tcp:127.0.0.1:0\"]
floor = \"2MiB\"
[tenants.wiki]
listen = [\"tcp:127.0.0.1:0\"]
";

#[test]
fn the_page_is_open_metrics_and_says_what_status_says() {
    let folder = Folder::new();
    let place = folder.path("metrics.sock");
    let _daemon = folder.serve_config(&CONFIG.replace("METRICS", place.to_str().expect("text")));
    let admin = Admin::at(AdminEndpoint::Unix(place.clone())).expect("a handle");
    let page = admin.metrics().expect("a page");
    let samples = check(&page);
    assert_eq!(samples["sublet_arena_limit_bytes"], (64u64 << 20) as f64);
    assert_eq!(samples["sublet_tenant_weight{tenant=\"wiki\"}"], 100.0);
    assert_eq!(
        samples["sublet_tenant_floor_bytes{tenant=\"web\"}"],
        (2u64 << 20) as f64
    );
    assert!(!samples.contains_key("sublet_tenant_floor_bytes{tenant=\"wiki\"}"));
    assert_eq!(samples["sublet_tenant_get_hits_total{tenant=\"web\"}"], 0.0);
    assert_eq!(samples["sublet_releases_fast_total"], 0.0);

    let (head, _) = http(&place, "GET /v1/status", "");
    assert!(head.starts_with("HTTP/1.1 404"), "metrics only: {head}");
    check(&folder.admin().metrics().expect("on the admin socket too"));
}

/// Asserts what `promtool check metrics` complains about.
///
/// - A family lacks help.
/// - A counter is not called `_total`, or something else is.
/// - A unit is no base unit.
/// - A name has an abbreviated unit or its type in it.
fn lint(page: &str) {
    const UNITS: [&str; 16] = [
        "milliseconds",
        "microseconds",
        "nanoseconds",
        "minutes",
        "hours",
        "days",
        "kilobytes",
        "megabytes",
        "gigabytes",
        "bits",
        "percent",
        "kib",
        "mib",
        "ms",
        "us",
        "ns",
    ];
    const TYPES: [&str; 5] = ["gauge", "counter", "summary", "histogram", "metric"];
    let mut helped = "";
    let mut family = ("", "");
    for line in page.lines() {
        if let Some(said) = line.strip_prefix("# HELP ") {
            helped = said.split_once(' ').expect("a help").0;
        } else if let Some(said) = line.strip_prefix("# TYPE ") {
            family = said.split_once(' ').expect("a type");
            let (name, kind) = family;
            assert_eq!(name, helped, "it has no help");
            assert_eq!(name.ends_with("_total"), kind == "counter", "{line}");
            let wrong = |word: &str| UNITS.contains(&word) || TYPES.contains(&word);
            assert!(!name.split('_').any(wrong), "{line}");
            assert!(
                !name.chars().any(|c| c == ':' || c.is_uppercase()),
                "{line}"
            );
        } else {
            let name = line.split(['{', ' ']).next().expect("a name");
            assert_eq!(name, family.0, "{line}");
        }
    }
}

#[test]
fn without_a_word_for_open_metrics_the_page_is_prometheus_own_text_and_clean() {
    let folder = Folder::new();
    let (place, ring) = (folder.path("metrics.sock"), folder.path("ring"));
    let config = CONFIG.replace("METRICS", place.to_str().expect("text"));
    let rings = format!("[tenants.rings]\nlisten = [\"ring:{}\"]\n", ring.display());
    let _daemon = folder.serve_config(&format!("{config}{rings}"));
    let (head, page) = http(&place, "GET /metrics", "");
    assert!(
        head.contains("content-type: text/plain; version=0.0.4"),
        "{head}"
    );
    lint(&page);
    let version = env!("CARGO_PKG_VERSION");
    for sample in [
        format!("sublet_build_info{{version=\"{version}\"}} 1\n"),
        "sublet_tenant_get_hits_total{tenant=\"web\"} 0\n".to_owned(),
        "\nprocess_cpu_seconds_total ".to_owned(),
        "\nprocess_resident_memory_bytes ".to_owned(),
        "\nprocess_start_time_seconds ".to_owned(),
        "\nprocess_open_fds ".to_owned(),
    ] {
        assert!(page.contains(&sample), "{sample} in {page}");
    }
    if let Ok(said) = promtool(&page) {
        assert_eq!(said, "", "promtool check metrics");
    }
}

/// What promtool says of a page, if it is installed.
fn promtool(page: &str) -> std::io::Result<String> {
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    promtool
        .stdin
        .take()
        .expect("piped")
        .write_all(page.as_bytes())?;
    let output = promtool.wait_with_output()?;
    Ok(text(&output.stdout) + &text(&output.stderr))
}

fn key(pool: PoolId, index: u32) -> Key {
    Key {
        pool,
        object: ObjectId(1),
        index: PageIndex(index),
    }
}

/// Puts three pages, one of them twice, gets two that are there and one that is not, and flushes one. Then it asks for
/// a page of a pool that does not exist.
fn use_a_ring(client: &mut Client) {
    let pool = client.create_pool(PoolFlags::default(), None);
    let pool = pool.expect("a pool");
    client.put_run(key(pool, 0), &[page_of(1); 3]).expect("put");
    client.put(key(pool, 0), &page_of(2)).expect("put again");
    let mut pages = [[0; 4096]; 2];
    client.get_run(key(pool, 0), &mut pages).expect("got");
    client.get(key(pool, 9), &mut pages[0]).expect("answered");
    client.flush_page(key(pool, 2)).expect("flushed");
    let persistent = PoolFlags {
        persistent: true,
        ..PoolFlags::default()
    };
    let refused = client.create_pool(persistent, None);
    refused.expect_err("there is no spill folder");
    client.destroy_pool(pool).expect("destroyed");
    let mut page = [0; 4096];
    client.get(key(pool, 0), &mut page).expect_err("no pool");
}

#[test]
fn rings_are_counted_by_verb_and_outcome() {
    let folder = Folder::new();
    let place = folder.path("ring");
    let config = format!(
        "[tenants.web]\nlisten = [\"ring:{}\"]\n[tenants.wiki]\nlisten = [\"tcp:127.0.0.1:0\"]\n",
        place.display()
    );
    let _daemon = folder.serve_config(&config);
    let mut client = Client::connect(&place).expect("let in");
    use_a_ring(&mut client);
    let samples = check(&folder.admin().metrics().expect("a page"));
    let operations = [
        ("put", "stored", 3.0),
        ("put", "replaced", 1.0),
        ("put", "refused", 0.0),
        ("get", "hit", 2.0),
        ("get", "missed", 1.0),
        ("get", "faulty", 1.0),
        ("flush_page", "done", 1.0),
        ("create_pool", "done", 1.0),
        ("create_pool", "refused", 1.0),
        ("destroy_pool", "done", 1.0),
        ("unknown", "faulty", 0.0),
    ];
    for (verb, outcome, count) in operations {
        let name = format!(
            "sublet_ring_operations_total{{tenant=\"web\",verb=\"{verb}\",outcome=\"{outcome}\"}}"
        );
        assert_eq!(samples[&name], count, "{name}");
    }
    let of_web = |name: &str| samples[&format!("sublet_ring_{name}{{tenant=\"web\"}}")];
    assert_eq!(of_web("connections"), 1.0);
    assert_eq!(of_web("connections_made_total"), 1.0);
    assert_eq!(of_web("stored_bytes_total"), 4.0 * 4096.0);
    assert_eq!(of_web("fetched_bytes_total"), 2.0 * 4096.0);
    assert_eq!(of_web("entries_total"), 9.0);
    let refused = "sublet_ring_connections_refused_total{tenant=\"web\",reason=\"uid\"}";
    assert_eq!(samples[refused], 0.0);
    assert!(!samples.contains_key("sublet_ring_entries_total{tenant=\"wiki\"}"));

    let page = folder.sublet_ok(&["status"]);
    let table = page
        .lines()
        .skip_while(|line| !line.starts_with("rings of"));
    let row = table.take(2).last().expect("a table of rings");
    let cells: Vec<&str> = row.split_whitespace().collect();
    let expected = "web 1 0 4 0 3 66.7 % 1 16.0 KiB 8.00 KiB 1";
    assert_eq!(cells.join(" "), expected, "{page}");
    let shown = folder.sublet_ok(&["tenants", "show", "web"]);
    assert!(shown.contains("1 connections at"), "{shown}");
    assert!(shown.contains("ring_put_stored"), "{shown}");
}

/// Reads a page as the standard wants it: each family is announced once, its samples follow with the right suffix, and
/// the end is marked. Returns the samples.
fn check(page: &str) -> BTreeMap<String, f64> {
    let mut types: BTreeMap<&str, &str> = BTreeMap::new();
    let mut samples = BTreeMap::new();
    let mut family = "";
    let body = page.strip_suffix("# EOF\n").expect("an end");
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect(line);
            assert!(types.insert(name, kind).is_none(), "{name} announced twice");
            family = name;
        } else if let Some(rest) = line.strip_prefix("# UNIT ") {
            let (name, unit) = rest.split_once(' ').expect(line);
            assert!(name.ends_with(&format!("_{unit}")), "{line}");
        } else if line.starts_with("# HELP ") {
            continue;
        } else {
            let (name, value) = line.rsplit_once(' ').expect(line);
            let bare = name.split('{').next().expect(line);
            let expected = match types[family] {
                "counter" => format!("{family}_total"),
                _ => family.to_owned(),
            };
            assert_eq!(bare, expected, "{line}");
            let value: f64 = value.parse().expect(line);
            assert!(
                samples.insert(name.to_owned(), value).is_none(),
                "{name} twice"
            );
        }
    }
    samples
}
