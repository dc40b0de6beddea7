//! Checks which crate may import which. The table is that of ARCHITECTURE.md.

use std::path::Path;

use super::complaint::Complaint;
use super::unreadable::Unreadable;

/// The folder of each crate, and the folders of those that it may import.
pub(super) const EDGES: [(&str, &[&str]); 14] = [
    ("types", &[]),
    ("store", &["types"]),
    ("policy", &["types"]),
    ("lend", &["types", "policy"]),
    ("pace", &[]),
    ("tls", &["types"]),
    ("etcd", &["types", "tls"]),
    ("client", &["types", "pace", "tls"]),
    ("vhost-driver", &[]),
    (
        "frontends",
        &["types", "store", "client", "pace", "tls", "vhost-driver"],
    ),
    (
        "host",
        &[
            "types",
            "store",
            "policy",
            "lend",
            "etcd",
            "pace",
            "client",
            "frontends",
            "tls",
            "vhost-driver",
        ],
    ),
    ("sim", &["types", "store", "policy", "lend", "etcd"]),
    (
        "sublet",
        &[
            "types",
            "client",
            "frontends",
            "host",
            "policy",
            "tls",
            "vhost-driver",
        ],
    ),
    (
        "lab",
        &[
            "types",
            "store",
            "client",
            "frontends",
            "host",
            "policy",
            "lend",
            "pace",
            "sim",
            "vhost-driver",
        ],
    ),
];

/// Compares a crate's dependencies with the table.
pub(crate) fn check(path: &Path, text: &str) -> Result<Vec<Complaint>, Unreadable> {
    let manifest: toml::Table = text
        .parse()
        .map_err(|error| Unreadable::NotToml(path.to_path_buf(), Box::new(error)))?;
    let Some(name) = folder_in_crates(path) else {
        return Ok(Vec::new());
    };
    let Some((_, allowed)) = EDGES.iter().find(|(from, _)| *from == name) else {
        let what = format!("the crate `{name}` has no row in the table of imports");
        return Ok(vec![Complaint::new(
            path,
            1,
            what,
            "add it to ARCHITECTURE.md and to tidy's table",
        )]);
    };
    let forbidden = |to: &&String| !allowed.contains(&to.as_str());
    let complain = |to: &String| {
        let what = format!("`{name}` must not import `{to}`");
        let instead = format!("it may import {}", listing(allowed));
        Complaint::new(path, line_of(text, to), what, instead)
    };
    Ok(imports(&manifest)
        .iter()
        .filter(forbidden)
        .map(complain)
        .collect())
}

fn folder_in_crates(path: &Path) -> Option<&str> {
    path.parent()?.strip_prefix("crates").ok()?.to_str()
}

/// The folders of the workspace's crates that a manifest names, for building, running or testing.
fn imports(manifest: &toml::Table) -> Vec<String> {
    let is_list = |name: &str| name.ends_with("dependencies");
    let mut lists: Vec<&toml::Table> = Vec::new();
    for (name, value) in manifest {
        match value.as_table() {
            Some(table) if is_list(name) => lists.push(table),
            Some(targets) if name == "target" => {
                let tables = targets.values().filter_map(toml::Value::as_table);
                let nested =
                    tables.flat_map(|table| table.iter().filter(|(name, _)| is_list(name)));
                lists.extend(nested.filter_map(|(_, list)| list.as_table()));
            }
            _ => {}
        }
    }
    let names = lists.into_iter().flat_map(toml::Table::keys);
    names
        .filter_map(|name| name.strip_prefix("sublet-"))
        .map(str::to_owned)
        .collect()
}

fn line_of(text: &str, import: &str) -> usize {
    let name = format!("sublet-{import}");
    text.lines()
        .position(|line| line.starts_with(&name))
        .map_or(1, |n| n + 1)
}

fn listing(allowed: &[&str]) -> String {
    if allowed.is_empty() {
        "no crate of ours".to_owned()
    } else {
        allowed.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(path: &str, text: &str) -> Vec<Complaint> {
        check(Path::new(path), text).expect("it is TOML")
    }

    #[test]
    fn an_import_of_the_table_is_fine() {
        let text = "[dependencies]\nsublet-types.workspace = true\nmio = \"1\"\n";
        assert!(complaints("crates/store/Cargo.toml", text).is_empty());
    }

    #[test]
    fn an_import_outside_the_table_is_named_with_its_line() {
        let text = "[dependencies]\nmio = \"1\"\nsublet-policy.workspace = true\n";
        let complaints = complaints("crates/store/Cargo.toml", text);
        assert_eq!(complaints.len(), 1);
        assert_eq!(complaints[0].line, 3);
        assert!(
            complaints[0]
                .what
                .contains("`store` must not import `policy`")
        );
    }

    #[test]
    fn imports_for_tests_and_for_one_system_count_too() {
        let dev = "[dev-dependencies]\nsublet-host = \"1\"\n";
        let unix = "[target.'cfg(unix)'.dependencies]\nsublet-host = \"1\"\n";
        assert_eq!(complaints("crates/types/Cargo.toml", dev).len(), 1);
        assert_eq!(complaints("crates/types/Cargo.toml", unix).len(), 1);
    }

    #[test]
    fn a_crate_without_a_row_is_refused() {
        assert_eq!(complaints("crates/stuff/Cargo.toml", "").len(), 1);
        assert!(complaints("xtask/Cargo.toml", "").is_empty());
    }
}
