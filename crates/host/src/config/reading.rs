//! How it is read: the file's words, the command line's and live changes, one over the other, each checked by itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sublet_store::TENANTS_MAX;
use sublet_types::{DiskName, FileKind, TenantName};
use toml::de::{DeTable, DeValue};

use super::bounds::DISKS_MAX;
use super::changes::{PolicyChange, TenantChange};
use super::faults::{Fault, Faults, Place, Wrong};
use super::knobs::{
    DAEMON_KNOBS, DISK_KNOBS, Knob, RETIRED_KNOBS, ROOMS, Retired, TENANT_KNOBS, WrittenDisk,
    WrittenTenant,
};
use super::listen::Listen;
use super::nearest::nearest;
use super::said::{Said, Unfit};
use super::written::Written;

impl Written {
    /// Nothing said: every knob at its default.
    pub fn defaults() -> Written {
        let mut written = Written::default();
        set_defaults(DAEMON_KNOBS, &mut written.rooms);
        written
    }

    /// Reads the text of the owner's file over what was said before.
    pub fn read(&mut self, file: &Path, text: &str) -> Result<(), Faults> {
        let author = Author::Owner;
        self.read_page(&Page { file, text, author })
    }

    /// Reads the text of a file that a daemon wrote over what was said before. It may be of an older release: knobs that
    /// are retired since then are passed over.
    pub(super) fn read_kept(&mut self, file: &Path, text: &str) -> Result<(), Faults> {
        let author = Author::Daemon;
        self.read_page(&Page { file, text, author })
    }

    fn read_page(&mut self, page: &Page<'_>) -> Result<(), Faults> {
        let text = page.text;
        let (table, errors) = DeTable::parse_recoverable(text);
        let mut faults: Vec<Fault> = errors.into_iter().map(|e| page.syntax(&e)).collect();
        if faults.is_empty() {
            faults.extend(page.wrong_version(table.get_ref()));
        }
        // Of another version nobody knows what the rest means.
        if faults.is_empty() {
            self.take_rooms(page, table.get_ref(), &mut faults);
        }
        Faults::of(faults)
    }

    /// Reads live changes over what was said before; returns the tenants and disks that they change and nobody
    /// else names.
    pub(super) fn read_live(&mut self, file: &Path, text: &str) -> Result<Vec<String>, Faults> {
        let mut alone = Written::defaults();
        alone.read_kept(file, text)?;
        self.is_changed = true;
        let passed_over = std::mem::take(&mut alone.passed_over);
        let allowed = self.rooms.disk.allow.clone();
        let lost =
            self.take_disk_changes(&alone.disk_changes(), |all| all.read_kept(file, text))?;
        if let Some(policy) = alone.policy_change() {
            // The knobs of another policy mean nothing to this one.
            self.rooms.policy.knobs = policy.knobs;
        }
        self.passed_over = passed_over;
        // Folders are added to the config's.
        self.rooms.disk.allow = allowed;
        let added = alone.added_folders().into_iter();
        let new: Vec<PathBuf> = added
            .filter(|new| !self.rooms.disk.allow.contains(new))
            .collect();
        self.rooms.disk.allow.extend(new);
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
        Ok(tenants.chain(disks).collect())
    }

    /// Where nobody named a tenant or a disk there is a tenant.
    pub(super) fn settle(&mut self) {
        if self.tenants.is_empty() && self.disks.is_empty() {
            self.tenant(default_name()).listen = vec![Listen::Tcp("127.0.0.1".into(), 11211)];
        }
    }

    /// What this file, read alone, says of tenants that can be changed live.
    pub(super) fn changes(&self) -> BTreeMap<TenantName, TenantChange> {
        let change = |(name, tenant): (&TenantName, &WrittenTenant)| {
            let said = |key| self.places.contains_key(&format!("tenants.{name}.{key}"));
            let change = TenantChange {
                added: tenant.added,
                weight: said("weight").then_some(tenant.weight),
                floor: said("floor").then_some(tenant.floor),
                ceiling: said("ceiling").then_some(tenant.ceiling),
                eviction: said("eviction").then_some(tenant.eviction),
                listen: said("listen").then(|| tenant.listen.clone()),
            };
            (name.clone(), change)
        };
        self.tenants.iter().map(change).collect()
    }

    /// Folders for backings that this file, read alone, names.
    pub(super) fn added_folders(&self) -> Vec<PathBuf> {
        match self.places.contains_key("disk.allow") {
            true => self.rooms.disk.allow.clone(),
            false => Vec::new(),
        }
    }

    /// What this file, read alone, says of the policy.
    pub(super) fn policy_change(&self) -> Option<PolicyChange> {
        self.places
            .contains_key("policy.name")
            .then(|| PolicyChange {
                name: self.rooms.policy.name.clone(),
                knobs: self.rooms.policy.knobs.clone(),
            })
    }

    /// Takes an option of the command line over what was said before.
    pub(crate) fn take_flag(&mut self, flag: &'static str, text: &str) -> Result<(), Faults> {
        let said = Said::Text(text.to_owned());
        let place = Place::Flag(flag);
        let taken = match DAEMON_KNOBS.iter().find(|knob| knob.flag == Some(flag)) {
            Some(knob) => {
                self.places
                    .insert(path(knob.room, knob.name), place.clone());
                (knob.set)(&mut self.rooms, &said)
            }
            None => self.take_listen(&said)?,
        };
        taken.map_err(|unfit| {
            Faults::one(place.wrong(Wrong::Value {
                key: format!("--{flag}"),
                unfit,
            }))
        })
    }

    /// `--listen` means the tenant `default`, or the only one there is. It takes the place of what the file says; said
    /// again, it adds a place.
    fn take_listen(&mut self, said: &Said) -> Result<Result<(), Unfit>, Faults> {
        let place = Place::Flag("listen");
        if self.tenants.len() > 1 {
            return Err(Faults::one(place.wrong(Wrong::WhichTenant)));
        }
        let name = self
            .tenants
            .keys()
            .next()
            .cloned()
            .unwrap_or_else(default_name);
        let key = format!("tenants.{name}.listen");
        let was_said = matches!(self.places.insert(key, place), Some(Place::Flag(_)));
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
    pub(super) fn place(&self, path: &str) -> Place {
        self.places.get(path).cloned().unwrap_or(Place::Default)
    }

    /// The tenant of that name, made with defaults where it is new.
    pub(super) fn tenant(&mut self, name: TenantName) -> &mut WrittenTenant {
        self.tenants
            .entry(name)
            .or_insert_with(WrittenTenant::defaults)
    }

    fn take_rooms(&mut self, page: &Page<'_>, table: &DeTable<'_>, faults: &mut Vec<Fault>) {
        for (key, value) in table {
            let place = page.place(key.span().start);
            match (key.get_ref().as_ref(), value.get_ref()) {
                (VERSION_KEY, _) if page.author == Author::Daemon => {} // looked at before
                ("tenants", DeValue::Table(tenants)) => self.take_tenants(page, tenants, faults),
                ("disks", DeValue::Table(disks)) => self.take_disks(page, disks, faults),
                (room, DeValue::Table(keys)) if ROOMS.contains(&room) => {
                    self.note_places(page, room, keys);
                    page.take(DAEMON_KNOBS, &mut self.rooms, room, keys, faults);
                }
                (room, _) if ROOMS.contains(&room) || FOLDERS.contains(&room) => {
                    faults.push(place.wrong(Wrong::NoTable(room.to_owned())));
                }
                (room, _) => faults.push(place.wrong(unknown_room(room))),
            }
        }
    }

    fn take_tenants(&mut self, page: &Page<'_>, tenants: &DeTable<'_>, faults: &mut Vec<Fault>) {
        for (key, value) in tenants {
            let place = page.place(key.span().start);
            let room = format!("tenants.{}", key.get_ref());
            match (key.get_ref().parse::<TenantName>(), value.get_ref()) {
                (Err(e), _) => faults.push(place.wrong(Wrong::TenantName(e))),
                (Ok(name), DeValue::Table(keys)) => {
                    self.note_places(page, &room, keys);
                    page.take(TENANT_KNOBS, self.tenant(name), &room, keys, faults);
                    self.places.entry(room).or_insert(place);
                }
                (Ok(_), _) => faults.push(place.wrong(Wrong::NoTable(room))),
            }
        }
        if self.tenants.len() > TENANTS_MAX {
            faults.push(page.place(0).wrong(Wrong::TooManyTenants));
        }
    }

    fn take_disks(&mut self, page: &Page<'_>, disks: &DeTable<'_>, faults: &mut Vec<Fault>) {
        for (key, value) in disks {
            let place = page.place(key.span().start);
            let room = format!("disks.{}", key.get_ref());
            match (key.get_ref().parse::<DiskName>(), value.get_ref()) {
                (Err(e), _) => faults.push(place.wrong(Wrong::DiskName(e))),
                (Ok(name), DeValue::Table(keys)) => {
                    self.note_places(page, &room, keys);
                    let disk = self.disks.entry(name);
                    let disk = disk.or_insert_with(WrittenDisk::defaults);
                    page.take(DISK_KNOBS, disk, &room, keys, faults);
                    self.places.insert(room, place);
                }
                (Ok(_), _) => faults.push(place.wrong(Wrong::NoTable(room))),
            }
        }
        if self.disks.len() > DISKS_MAX {
            faults.push(page.place(0).wrong(Wrong::TooManyDisks));
        }
    }

    fn note_places(&mut self, page: &Page<'_>, room: &str, keys: &DeTable<'_>) {
        for (key, value) in keys {
            let name = key.get_ref();
            if !page.passes_over(room, name, value.get_ref()) {
                let place = page.place(key.span().start);
                self.places.insert(path(room, name), place);
            } else if let DeValue::String(text) = value.get_ref() {
                let line = format!("{} = {text:?}", path(room, name));
                self.passed_over.push(line);
            }
        }
    }
}

impl WrittenDisk {
    /// Nothing said: every knob at its default.
    pub fn defaults() -> WrittenDisk {
        let mut written = WrittenDisk::default();
        set_defaults(DISK_KNOBS, &mut written);
        written
    }
}

impl WrittenTenant {
    /// Nothing said: every knob at its default.
    pub(super) fn defaults() -> WrittenTenant {
        let mut written = WrittenTenant::default();
        set_defaults(TENANT_KNOBS, &mut written);
        written
    }
}

/// The tenant that is there when none is named.
pub(super) fn default_name() -> TenantName {
    "default".parse().expect("a fixed name that fits")
}

/// Where a file that a daemon wrote says its version.
pub(super) const VERSION_KEY: &str = "version";

/// Tables of tables.
const FOLDERS: [&str; 2] = ["tenants", "disks"];

fn path(room: &str, name: &str) -> String {
    format!("{room}.{name}")
}

fn set_defaults<W>(knobs: &[Knob<W>], written: &mut W) {
    for knob in knobs {
        let Some(default) = knob.default else {
            continue;
        };
        let value = DeValue::parse(default).expect("defaults of the table are TOML");
        (knob.set)(written, &Said::from_toml(value.get_ref())).expect("defaults of the table fit");
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
struct Page<'a> {
    file: &'a Path,
    text: &'a str,
    author: Author,
}

impl Page<'_> {
    /// What is wrong with its version, if it has one that this release does not read. Version 1 says none.
    fn wrong_version(&self, table: &DeTable<'_>) -> Option<Fault> {
        let said = table.get_key_value(VERSION_KEY);
        let (key, value) = said.filter(|_| self.author == Author::Daemon)?;
        let found = Said::from_toml(value.get_ref()).count(1, u64::from(u32::MAX));
        let wrong = match found.map(|found| FileKind::LiveChanges.version(found as u32)) {
            Ok(read) => Wrong::Version(read.err()?),
            Err(unfit) => Wrong::Value {
                key: VERSION_KEY.to_owned(),
                unfit,
            },
        };
        Some(self.place(key.span().start).wrong(wrong))
    }

    fn place(&self, offset: usize) -> Place {
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        Place::Line {
            file: self.file.to_owned(),
            line,
        }
    }

    fn syntax(&self, error: &toml::de::Error) -> Fault {
        let start = error.span().map_or(0, |span| span.start);
        self.place(start)
            .wrong(Wrong::Syntax(error.message().to_owned()))
    }

    /// Whether this is what a daemon before this one wrote down, and this one has no more.
    fn passes_over(&self, room: &str, name: &str, value: &DeValue<'_>) -> bool {
        let is_simulated = || {
            let eviction = Said::from_toml(value).eviction();
            matches!(eviction, Err(Unfit::Simulated(_)))
        };
        let is_eviction = room.starts_with("tenants.") && name == "eviction";
        self.author == Author::Daemon
            && (retired(room, name).is_some() || (is_eviction && is_simulated()))
    }

    fn take<W>(
        &self,
        knobs: &'static [Knob<W>],
        written: &mut W,
        room: &str,
        keys: &DeTable<'_>,
        faults: &mut Vec<Fault>,
    ) {
        for (key, value) in keys {
            let name = key.get_ref().as_ref();
            if self.passes_over(room, name, value.get_ref()) {
                continue;
            }
            let mut here = knobs
                .iter()
                .filter(|knob| knob.room == room || room.contains('.'));
            let wrong = match here.find(|knob| knob.name == name) {
                None => Some(unknown_key(room, name)),
                Some(knob) => (knob.set)(written, &Said::from_toml(value.get_ref()))
                    .err()
                    .map(|unfit| Wrong::Value {
                        key: path(room, name),
                        unfit,
                    }),
            };
            faults.extend(wrong.map(|wrong| self.place(key.span().start).wrong(wrong)));
        }
    }
}

fn unknown_room(room: &str) -> Wrong {
    let nearest = nearest(room, ROOMS.iter().copied().chain(FOLDERS));
    Wrong::UnknownRoom {
        name: room.to_owned(),
        nearest,
        // A table that is spelt nearly right is meant, whatever knob has its name.
        home: home_of(room).filter(|_| nearest.is_none()),
    }
}

pub(super) fn unknown_key(room: &str, name: &str) -> Wrong {
    if let Some(retired) = retired(room, name) {
        return Wrong::Retired {
            key: path(room, name),
            instead: retired.instead,
        };
    }
    let room_of_all = room_of_all(room);
    let names = knobs().filter(|(_, known)| *known == room_of_all);
    let names = names.map(|(name, _)| name);
    Wrong::UnknownKey {
        room: room.to_owned(),
        name: name.to_owned(),
        nearest: nearest(name, names),
        home: home_of(name),
    }
}

/// The knob that stood in that table, if it is retired.
fn retired(room: &str, name: &str) -> Option<&'static Retired> {
    let room = room_of_all(room);
    let mut retired = RETIRED_KNOBS.iter();
    retired.find(|knob| knob.room == room && knob.name == name)
}

/// A table's name in the table of knobs.
fn room_of_all(room: &str) -> String {
    match room.split_once('.') {
        Some((folder, _)) => format!("{folder}.NAME"),
        None => room.to_owned(),
    }
}

/// The table that a knob of this name stands in.
fn home_of(name: &str) -> Option<&'static str> {
    let found = knobs().find(|(known, _)| *known == name);
    found.map(|(_, room)| room)
}

/// Every knob's name and table.
fn knobs() -> impl Iterator<Item = (&'static str, &'static str)> {
    let daemon = DAEMON_KNOBS.iter().map(|knob| (knob.name, knob.room));
    let tenant = TENANT_KNOBS.iter().map(|knob| (knob.name, knob.room));
    let disk = DISK_KNOBS.iter().map(|knob| (knob.name, knob.room));
    daemon.chain(tenant).chain(disk)
}
