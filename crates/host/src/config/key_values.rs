//! A config as keys and values, the way a file says it.

use std::collections::BTreeMap;

use sublet_types::DiskSettings;

use super::knobs::disk_lines;
use super::resolve::Config;

impl Config {
    /// Every setting in force, by its key. Secrets stay in their files, and only the files are named.
    pub fn key_values(&self) -> BTreeMap<String, String> {
        let daemon = self.daemon.shown().chain(self.arena.shown());
        let daemon = daemon.chain(self.admin.shown()).chain(self.policy.shown());
        let daemon = daemon.chain(self.disk.shown()).chain(self.metrics.shown());
        let lending = self.peers.shown().chain(self.lend.shown());
        let lending = lending.chain(self.borrow.shown());
        let tenants = self.tenants.iter().flat_map(|tenant| tenant.shown());
        daemon.chain(lending).chain(tenants).collect()
    }
}

/// A disk's settings, by their keys.
pub(crate) fn disk_key_values(disk: &DiskSettings) -> BTreeMap<String, String> {
    let shown = |(key, value): (&str, toml::Value)| match (key, value) {
        ("size", _) => disk.size.unwrap_or_default().to_string(),
        (_, toml::Value::String(text)) => text,
        (_, toml::Value::Array(places)) => {
            let places: Vec<&str> = places.iter().filter_map(toml::Value::as_str).collect();
            places.join(", ")
        }
        (_, other) => other.to_string(),
    };
    let lines = disk_lines(disk).into_iter();
    lines
        .map(|line| (format!("disks.{}.{}", disk.name, line.0), shown(line)))
        .collect()
}
