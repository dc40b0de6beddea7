//! Reads the config: the file, the command line and live changes, one over the other. Each is checked by itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sublet_store::TENANTS_MAX;
use sublet_types::{DiskName, FileKind, TenantName};
use toml::de::{DeTable, DeValue};

use super::bounds::DISKS_MAX;
use super::changes::{DrainChange, PolicyChange, PresenceChange, TenantChange};
use super::faults::{ConfigFault, ConfigFaults, FaultKind, SourceLocation};
use super::knobs::{
    DAEMON_KNOBS, DISK_KNOBS, Knob, LENDING_KNOBS, LENDING_TABLES, RETIRED_KNOBS, RetiredKnob,
    TABLES, TENANT_KNOBS, WrittenDisk, WrittenTenant,
};
use super::listen::ListenAddress;
use super::nearest::nearest;
use super::raw_value::{RawValue, ValueError};
use super::written::WrittenConfig;

impl WrittenConfig {
    /// A config with every knob at its default.
    pub fn defaults() -> WrittenConfig {
        let mut written = WrittenConfig::default();
        set_defaults(DAEMON_KNOBS, &mut written.tables);
        set_defaults(LENDING_KNOBS, &mut written.lending);
        written
    }

    /// Reads the text of the owner's file over what was set before.
    pub fn read(&mut self, file: &Path, text: &str) -> Result<(), ConfigFaults> {
        let author = Author::Owner;
        self.read_source(&SourceFile { file, text, author })
    }

    /// Reads the text of a file that a daemon wrote over what was set before. The file may be of an older release.
    /// Knobs that are retired since then are passed over.
    pub(super) fn read_kept(&mut self, file: &Path, text: &str) -> Result<(), ConfigFaults> {
        let author = Author::Daemon;
        self.read_source(&SourceFile { file, text, author })
    }

    fn read_source(&mut self, page: &SourceFile<'_>) -> Result<(), ConfigFaults> {
        let text = page.text;
        let (table, errors) = DeTable::parse_recoverable(text);
        let mut faults: Vec<ConfigFault> = errors.into_iter().map(|e| page.syntax(&e)).collect();
        if faults.is_empty() {
            faults.extend(page.wrong_version(table.get_ref()));
        }
        // In a file of another version, nobody knows what the rest means.
        if faults.is_empty() {
            self.read_tables(page, table.get_ref(), &mut faults);
        }
        ConfigFaults::of(faults)
    }

    /// Reads live changes over what was set before. Returns what they change and nobody else names: tenants,
    /// disks, and what is said of lending without peers.
    pub(super) fn read_live(
        &mut self,
        file: &Path,
        text: &str,
    ) -> Result<Vec<String>, ConfigFaults> {
        let mut alone = WrittenConfig::defaults();
        alone.read_kept(file, text)?;
        self.is_changed = true;
        let passed_over = std::mem::take(&mut alone.passed_over);
        let allowed = self.tables.disk.allow.clone();
        let lost =
            self.apply_disk_changes(&alone.disk_changes(), |all| all.read_kept(file, text))?;
        if let Some(policy) = alone.policy_change() {
            // The knobs of another policy mean nothing to this one.
            self.tables.policy.knobs = policy.knobs;
        }
        self.passed_over = passed_over;
        // These folders are added to the config's.
        self.tables.disk.allow = allowed;
        let added = alone.added_folders().into_iter();
        let new: Vec<PathBuf> = added
            .filter(|new| !self.tables.disk.allow.contains(new))
            .collect();
        self.tables.disk.allow.extend(new);
        let of_disks = self.disk_tenants();
        let unreachable = |(name, tenant): (&TenantName, &WrittenTenant)| {
            let reached = !tenant.listen.is_empty() || !tenant.users.is_empty();
            let is_there =
                reached || tenant.added || tenant.shared.is_some() || of_disks.contains(name);
            (!is_there).then(|| name.clone())
        };
        let orphans: Vec<TenantName> = self.tenants.iter().filter_map(unreachable).collect();
        self.tenants.retain(|name, _| !orphans.contains(name));
        let tenants = orphans.iter().map(|name| format!("tenants.{name}"));
        let disks = lost.iter().map(|name| format!("disks.{name}"));
        let idle = self.drop_idle_lending();
        Ok(tenants.chain(disks).chain(idle).collect())
    }

    /// Adds the default tenant if no tenant or disk is named.
    pub(super) fn add_default_tenant(&mut self) {
        if self.tenants.is_empty() && self.disks.is_empty() {
            self.tenant(default_name()).listen =
                vec![ListenAddress::Tcp("127.0.0.1".into(), 11211)];
        }
    }

    /// What this file alone says of tenants that can be changed live.
    pub(super) fn changes(&self) -> BTreeMap<TenantName, TenantChange> {
        let change = |(name, tenant): (&TenantName, &WrittenTenant)| {
            let said = |key| {
                self.locations
                    .contains_key(&format!("tenants.{name}.{key}"))
            };
            let change = TenantChange {
                added: tenant.added,
                weight: said("weight").then_some(tenant.weight),
                floor: said("floor").then_some(tenant.floor),
                ceiling: said("ceiling").then_some(tenant.ceiling),
                eviction: said("eviction").then_some(tenant.eviction),
                borrow: said("borrow").then_some(tenant.borrow),
                listen: said("listen").then(|| tenant.listen.clone()),
            };
            (name.clone(), change)
        };
        self.tenants.iter().map(change).collect()
    }

    /// Folders for backings that this file alone names.
    pub(super) fn added_folders(&self) -> Vec<PathBuf> {
        match self.locations.contains_key("disk.allow") {
            true => self.tables.disk.allow.clone(),
            false => Vec::new(),
        }
    }

    /// Whether this file alone says that lending drains, or that it does not.
    pub(super) fn drain_change(&self) -> Option<DrainChange> {
        let is_said = self.locations.contains_key(DRAIN_KEY);
        is_said.then_some(match self.lending.lend.drain {
            true => DrainChange::Drain,
            false => DrainChange::Resume,
        })
    }

    /// Whether this file alone says that the host left its cluster, or that it did not.
    pub(super) fn presence_change(&self) -> Option<PresenceChange> {
        let is_said = self.locations.contains_key(JOIN_KEY);
        is_said.then_some(match self.lending.peers.join {
            true => PresenceChange::Join,
            false => PresenceChange::Leave,
        })
    }

    /// Forgets what live changes say of lending if the config has no peers any more. Returns its keys.
    fn drop_idle_lending(&mut self) -> Vec<String> {
        if self.has_peers_beside(JOIN_KEY) {
            return Vec::new();
        }
        self.lending.lend.drain = false;
        self.lending.peers.join = true;
        let idle = [DRAIN_KEY, JOIN_KEY];
        let said = idle
            .into_iter()
            .filter(|key| self.locations.remove(*key).is_some());
        said.map(str::to_owned).collect()
    }

    /// What this file alone says of the policy.
    pub(super) fn policy_change(&self) -> Option<PolicyChange> {
        self.locations
            .contains_key("policy.name")
            .then(|| PolicyChange {
                name: self.tables.policy.name.clone(),
                knobs: self.tables.policy.knobs.clone(),
            })
    }

    /// Puts an option of the command line over what was set before.
    pub(crate) fn apply_flag(
        &mut self,
        flag: &'static str,
        text: &str,
    ) -> Result<(), ConfigFaults> {
        let said = RawValue::Text(text.to_owned());
        let place = SourceLocation::Flag(flag);
        let taken = match DAEMON_KNOBS.iter().find(|knob| knob.flag == Some(flag)) {
            Some(knob) => {
                self.locations
                    .insert(key_path(knob.table, knob.name), place.clone());
                (knob.set)(&mut self.tables, &said)
            }
            None => self.apply_listen(&said)?,
        };
        taken.map_err(|unfit| {
            ConfigFaults::one(place.fault(FaultKind::Value {
                key: format!("--{flag}"),
                unfit,
            }))
        })
    }

    /// `--listen` means the tenant `default`, or the only tenant there is. It replaces the file's places. If it is
    /// given again, it adds a place.
    fn apply_listen(&mut self, said: &RawValue) -> Result<Result<(), ValueError>, ConfigFaults> {
        let place = SourceLocation::Flag("listen");
        if self.tenants.len() > 1 {
            return Err(ConfigFaults::one(place.fault(FaultKind::WhichTenant)));
        }
        let name = self
            .tenants
            .keys()
            .next()
            .cloned()
            .unwrap_or_else(default_name);
        let key = format!("tenants.{name}.listen");
        let was_said = matches!(
            self.locations.insert(key, place),
            Some(SourceLocation::Flag(_))
        );
        let listen = said.listeners().map(|places| {
            let tenant = self.tenant(name);
            if !was_said {
                tenant.listen.clear();
            }
            tenant.listen.extend(places);
        });
        Ok(listen)
    }

    /// Where a knob was set, if it was.
    pub(super) fn location(&self, path: &str) -> SourceLocation {
        self.locations
            .get(path)
            .cloned()
            .unwrap_or(SourceLocation::Default)
    }

    /// The tenant of that name. A new one has the defaults.
    pub(super) fn tenant(&mut self, name: TenantName) -> &mut WrittenTenant {
        self.tenants
            .entry(name)
            .or_insert_with(WrittenTenant::defaults)
    }

    fn read_tables(
        &mut self,
        page: &SourceFile<'_>,
        table: &DeTable<'_>,
        faults: &mut Vec<ConfigFault>,
    ) {
        for (key, value) in table {
            let place = page.location(key.span().start);
            match (key.get_ref().as_ref(), value.get_ref()) {
                (VERSION_KEY, _) if page.author == Author::Daemon => {} // looked at before
                ("tenants", DeValue::Table(tenants)) => self.read_tenants(page, tenants, faults),
                ("disks", DeValue::Table(disks)) => self.read_disks(page, disks, faults),
                (table, DeValue::Table(keys)) if TABLES.contains(&table) => {
                    self.record_locations(page, table, keys);
                    page.read_keys(DAEMON_KNOBS, &mut self.tables, table, keys, faults);
                }
                (table, DeValue::Table(keys)) if LENDING_TABLES.contains(&table) => {
                    self.record_locations(page, table, keys);
                    page.read_keys(LENDING_KNOBS, &mut self.lending, table, keys, faults);
                }
                (table, _) if tables().any(|known| known == table) => {
                    faults.push(place.fault(FaultKind::NoTable(table.to_owned())));
                }
                (table, _) => faults.push(place.fault(unknown_table(table))),
            }
        }
    }

    fn read_tenants(
        &mut self,
        page: &SourceFile<'_>,
        tenants: &DeTable<'_>,
        faults: &mut Vec<ConfigFault>,
    ) {
        for (key, value) in tenants {
            let place = page.location(key.span().start);
            let table = format!("tenants.{}", key.get_ref());
            match (key.get_ref().parse::<TenantName>(), value.get_ref()) {
                (Err(e), _) => faults.push(place.fault(FaultKind::TenantName(e))),
                (Ok(name), DeValue::Table(keys)) => {
                    self.record_locations(page, &table, keys);
                    page.read_keys(TENANT_KNOBS, self.tenant(name), &table, keys, faults);
                    self.locations.entry(table).or_insert(place);
                }
                (Ok(_), _) => faults.push(place.fault(FaultKind::NoTable(table))),
            }
        }
        if self.tenants.len() > TENANTS_MAX {
            faults.push(page.location(0).fault(FaultKind::TooManyTenants));
        }
    }

    fn read_disks(
        &mut self,
        page: &SourceFile<'_>,
        disks: &DeTable<'_>,
        faults: &mut Vec<ConfigFault>,
    ) {
        for (key, value) in disks {
            let place = page.location(key.span().start);
            let table = format!("disks.{}", key.get_ref());
            match (key.get_ref().parse::<DiskName>(), value.get_ref()) {
                (Err(e), _) => faults.push(place.fault(FaultKind::DiskName(e))),
                (Ok(name), DeValue::Table(keys)) => {
                    self.record_locations(page, &table, keys);
                    let disk = self.disks.entry(name);
                    let disk = disk.or_insert_with(WrittenDisk::defaults);
                    page.read_keys(DISK_KNOBS, disk, &table, keys, faults);
                    self.locations.insert(table, place);
                }
                (Ok(_), _) => faults.push(place.fault(FaultKind::NoTable(table))),
            }
        }
        if self.disks.len() > DISKS_MAX {
            faults.push(page.location(0).fault(FaultKind::TooManyDisks));
        }
    }

    fn record_locations(&mut self, page: &SourceFile<'_>, table: &str, keys: &DeTable<'_>) {
        for (key, value) in keys {
            let name = key.get_ref();
            if !page.ignores(table, name, value.get_ref()) {
                let place = page.location(key.span().start);
                self.locations.insert(key_path(table, name), place);
            } else if let DeValue::String(text) = value.get_ref() {
                let line = format!("{} = {text:?}", key_path(table, name));
                self.passed_over.push(line);
            }
        }
    }
}

impl WrittenDisk {
    /// A disk with every knob at its default.
    pub fn defaults() -> WrittenDisk {
        let mut written = WrittenDisk::default();
        set_defaults(DISK_KNOBS, &mut written);
        written
    }
}

impl WrittenTenant {
    /// A tenant with every knob at its default.
    pub(super) fn defaults() -> WrittenTenant {
        let mut written = WrittenTenant::default();
        set_defaults(TENANT_KNOBS, &mut written);
        written
    }
}

/// The name of the tenant that exists if none is named.
pub(super) fn default_name() -> TenantName {
    "default".parse().expect("a fixed name that fits")
}

/// The key of the knob that drains lending.
const DRAIN_KEY: &str = "lend.drain";

/// The key that says whether the host takes part in its cluster.
const JOIN_KEY: &str = "peers.join";

/// The key with which a file that a daemon wrote says its version.
pub(super) const VERSION_KEY: &str = "version";

/// Tables of tables.
const FOLDERS: [&str; 2] = ["tenants", "disks"];

fn key_path(table: &str, name: &str) -> String {
    format!("{table}.{name}")
}

fn set_defaults<W>(knobs: &[Knob<W>], written: &mut W) {
    for knob in knobs {
        let Some(default) = knob.default else {
            continue;
        };
        let value = DeValue::parse(default).expect("defaults of the table are TOML");
        (knob.set)(written, &RawValue::from_toml(value.get_ref()))
            .expect("defaults of the table fit");
    }
}

/// Who wrote a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Author {
    Owner,
    /// A daemon, perhaps of an older release.
    Daemon,
}

/// A file that is being read.
struct SourceFile<'a> {
    file: &'a Path,
    text: &'a str,
    author: Author,
}

impl SourceFile<'_> {
    /// The fault of the file's version, if this release does not read it. Version 1 says none.
    fn wrong_version(&self, table: &DeTable<'_>) -> Option<ConfigFault> {
        let said = table.get_key_value(VERSION_KEY);
        let (key, value) = said.filter(|_| self.author == Author::Daemon)?;
        let found = RawValue::from_toml(value.get_ref()).count(1, u64::from(u32::MAX));
        let wrong = match found.map(|found| FileKind::LiveChanges.version(found as u32)) {
            Ok(read) => FaultKind::Version(read.err()?),
            Err(unfit) => FaultKind::Value {
                key: VERSION_KEY.to_owned(),
                unfit,
            },
        };
        Some(self.location(key.span().start).fault(wrong))
    }

    fn location(&self, offset: usize) -> SourceLocation {
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        SourceLocation::Line {
            file: self.file.to_owned(),
            line,
        }
    }

    fn syntax(&self, error: &toml::de::Error) -> ConfigFault {
        let start = error.span().map_or(0, |span| span.start);
        self.location(start)
            .fault(FaultKind::Syntax(error.message().to_owned()))
    }

    /// Returns whether an earlier daemon wrote this down and daemons no longer have it.
    fn ignores(&self, table: &str, name: &str, value: &DeValue<'_>) -> bool {
        let is_simulated = || {
            let eviction = RawValue::from_toml(value).eviction();
            matches!(eviction, Err(ValueError::Simulated(_)))
        };
        let is_eviction = table.starts_with("tenants.") && name == "eviction";
        self.author == Author::Daemon
            && (retired(table, name).is_some() || (is_eviction && is_simulated()))
    }

    fn read_keys<W>(
        &self,
        knobs: &'static [Knob<W>],
        written: &mut W,
        table: &str,
        keys: &DeTable<'_>,
        faults: &mut Vec<ConfigFault>,
    ) {
        for (key, value) in keys {
            let name = key.get_ref().as_ref();
            if self.ignores(table, name, value.get_ref()) {
                continue;
            }
            let mut here = knobs
                .iter()
                .filter(|knob| knob.table == table || table.contains('.'));
            let wrong = match here.find(|knob| knob.name == name) {
                None => Some(unknown_key(table, name)),
                Some(knob) => (knob.set)(written, &RawValue::from_toml(value.get_ref()))
                    .err()
                    .map(|unfit| FaultKind::Value {
                        key: key_path(table, name),
                        unfit,
                    }),
            };
            faults.extend(wrong.map(|wrong| self.location(key.span().start).fault(wrong)));
        }
    }
}

/// Every table of a file.
fn tables() -> impl Iterator<Item = &'static str> {
    let daemon = TABLES.iter().chain(LENDING_TABLES).copied();
    daemon.chain(FOLDERS)
}

fn unknown_table(table: &str) -> FaultKind {
    let nearest = nearest(table, tables());
    FaultKind::UnknownTable {
        name: table.to_owned(),
        nearest,
        // If a table is spelt nearly right, the table is meant, even if a knob has its name.
        home: table_of_knob(table).filter(|_| nearest.is_none()),
    }
}

pub(super) fn unknown_key(table: &str, name: &str) -> FaultKind {
    if let Some(retired) = retired(table, name) {
        return FaultKind::Retired {
            key: key_path(table, name),
            instead: retired.instead,
        };
    }
    let knob_table_name = knob_table(table);
    let names = knobs().filter(|(_, known)| *known == knob_table_name);
    let names = names.map(|(name, _)| name);
    FaultKind::UnknownKey {
        table: table.to_owned(),
        name: name.to_owned(),
        nearest: nearest(name, names),
        home: table_of_knob(name),
    }
}

/// The knob that stood in that table, if it is retired.
fn retired(table: &str, name: &str) -> Option<&'static RetiredKnob> {
    let table = knob_table(table);
    let mut retired = RETIRED_KNOBS.iter();
    retired.find(|knob| knob.table == table && knob.name == name)
}

/// A table's name in the table of knobs.
fn knob_table(table: &str) -> String {
    match table.split_once('.') {
        Some((folder, _)) => format!("{folder}.NAME"),
        None => table.to_owned(),
    }
}

/// The table of the knob of this name.
fn table_of_knob(name: &str) -> Option<&'static str> {
    let found = knobs().find(|(known, _)| *known == name);
    found.map(|(_, table)| table)
}

/// Every knob's name and table.
fn knobs() -> impl Iterator<Item = (&'static str, &'static str)> {
    let daemon = DAEMON_KNOBS.iter().map(|knob| (knob.name, knob.table));
    let tenant = TENANT_KNOBS.iter().map(|knob| (knob.name, knob.table));
    let disk = DISK_KNOBS.iter().map(|knob| (knob.name, knob.table));
    let lending = LENDING_KNOBS.iter().map(|knob| (knob.name, knob.table));
    daemon.chain(tenant).chain(disk).chain(lending)
}
