//! A config as keys and values, the way a file would say it.

use std::collections::BTreeMap;

use sublet_types::{DiskSettings, Shrinking};

use super::knobs::disk_lines;
use super::meant::{Config, DiskConfig, LogFormat, TenantConfig};

impl Config {
    /// Every setting in force, by its key. Secrets stay in their files; only the files are named.
    pub fn shown(&self) -> BTreeMap<String, String> {
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "none".to_owned());
        let path = |path: &std::path::Path| path.display().to_string();
        let mut all = BTreeMap::from(
            [
                ("daemon.threads", self.threads.to_string()),
                ("daemon.log", self.log.clone()),
                ("daemon.log_format", self.log_format.word().to_owned()),
                ("daemon.state", or_none(self.state.as_deref().map(path))),
                (
                    "arena.ceiling",
                    or_none(self.arena.ceiling.map(|a| a.to_string())),
                ),
                ("arena.floor", self.arena.floor.to_string()),
                (
                    "arena.reserve",
                    self.arena.reserve.map_or("auto".into(), |a| a.to_string()),
                ),
                (
                    "arena.release_threshold",
                    self.arena.release_threshold.to_string(),
                ),
                ("admin.socket", path(&self.admin.socket)),
                ("policy.name", self.policy.name.clone()),
                ("policy.knobs", self.policy.knobs.join(", ")),
                (
                    "policy.interval",
                    self.policy.interval.as_secs().to_string(),
                ),
                (
                    "policy.shrink",
                    match self.policy.shrinking {
                        Shrinking::Active => "active".to_owned(),
                        Shrinking::Never => "never".to_owned(),
                    },
                ),
                (
                    "policy.log_file",
                    or_none(self.policy.log_file.as_deref().map(path)),
                ),
                (
                    "metrics.listen",
                    or_none(self.metrics.as_ref().map(|place| place.to_string())),
                ),
            ]
            .map(|(key, value)| (key.to_owned(), value)),
        );
        self.disk.show(&mut all);
        if let Some(tcp) = &self.admin.tcp {
            all.insert(
                "admin.tcp".into(),
                format!("tcp:{}:{}", tcp.address.0, tcp.address.1),
            );
            all.insert("admin.tls_cert".into(), path(&tcp.cert));
            all.insert("admin.tls_key".into(), path(&tcp.key));
            all.insert("admin.token_file".into(), path(&tcp.token_file));
        }
        for tenant in &self.tenants {
            tenant.show(&mut all);
        }
        all
    }
}

impl DiskConfig {
    fn show(&self, all: &mut BTreeMap<String, String>) {
        let folders = self.allow.iter();
        let folders: Vec<String> = folders.map(|folder| folder.display().to_string()).collect();
        all.insert("disk.allow".into(), folders.join(", "));
        all.insert("disk.dirty_max".into(), self.dirty_max.to_string());
    }
}

impl TenantConfig {
    fn show(&self, all: &mut BTreeMap<String, String>) {
        let name = &self.settings.name;
        let listen: Vec<String> = self.listen.iter().map(|place| place.to_string()).collect();
        let idle_timeout = self.idle_timeout.map_or(0, |time| time.as_secs());
        let mut show =
            |key: &str, value: String| all.insert(format!("tenants.{name}.{key}"), value);
        show("listen", listen.join(", "));
        show("mode", format!("{:04o}", self.mode));
        show("item_max", self.item_max.to_string());
        show("connections", self.connections.to_string());
        show("idle_timeout", idle_timeout.to_string());
        if let Some(path) = &self.auth_file {
            show("auth_file", path.display().to_string());
            show("sasl", self.sasl.to_string());
        }
        if !self.users.is_empty() {
            show("users", self.users.join(", "));
        }
        if let Some(tls) = &self.tls {
            show("tls_cert", tls.cert.display().to_string());
            show("tls_key", tls.key.display().to_string());
            if let Some(ca) = &tls.ca {
                show("tls_ca", ca.display().to_string());
            }
        }
    }
}

/// A disk's settings, by their keys.
pub(crate) fn shown_disk(disk: &DiskSettings) -> BTreeMap<String, String> {
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

impl LogFormat {
    /// As a file says it.
    fn word(self) -> &'static str {
        match self {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        }
    }
}
