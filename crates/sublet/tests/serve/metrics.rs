//! The metrics page, against the rules of OpenMetrics 1.0.

use std::collections::BTreeMap;

use crate::daemon::{Folder, http};

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
    let (head, page) = http(&place, "GET /metrics", "");
    assert!(
        head.contains("content-type: application/openmetrics-text; version=1.0.0"),
        "{head}"
    );
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

/// Reads a page as the standard wants it: each family announced once, its samples behind it with the
/// right suffix, and the end marked. Returns the samples.
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
