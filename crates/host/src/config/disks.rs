//! Disks, as they are said in a file, in live changes and in requests, and what that means.

use std::collections::{BTreeMap, BTreeSet};

use sublet_types::{Bytes, DiskKind, DiskListen, DiskName, DiskSettings, Durability, TenantName};

use super::changes::DiskChange;
use super::faults::{Fault, Faults, Place, Wrong};
use super::knobs::{DISK_KNOBS, WrittenDisk};
use super::listen::Listen;
use super::reading::unknown_key;
use super::said::Said;
use super::written::Written;

/// The disk that a request asks for: keys and values as in `[disks.NAME]`.
pub(crate) fn disk_asked(
    name: &DiskName,
    said: impl IntoIterator<Item = (String, Said)>,
) -> Result<DiskSettings, Faults> {
    let mut disk = WrittenDisk::defaults();
    let mut wrongs = Vec::new();
    for (key, said) in said {
        wrongs.extend(disk.take(name, &key, &said).err());
    }
    if wrongs.is_empty() {
        wrongs.extend(disk.wrongs(name).into_iter().map(|(_, wrong)| wrong));
        wrongs.extend(disk.doubles(name));
    }
    let at_request = |wrong| Place::Request.wrong(wrong);
    Faults::of(wrongs.into_iter().map(at_request).collect())?;
    disk.meaning(name)
        .map_err(|wrong| Faults::one(at_request(wrong)))
}

/// That a disk may have that size.
pub(crate) fn check_disk_size(name: &DiskName, size: Bytes) -> Result<(), Faults> {
    let taken = WrittenDisk::defaults().take(name, "size", &Said::Number(size.0));
    taken.map_err(|wrong| Faults::one(Place::Request.wrong(wrong)))
}

impl WrittenDisk {
    /// Takes one key of a request. That a disk is removed is said in another way.
    fn take(&mut self, name: &DiskName, key: &str, said: &Said) -> Result<(), Wrong> {
        let mut known = DISK_KNOBS.iter().filter(|knob| knob.flag.is_some());
        let room = format!("disks.{name}");
        match known.find(|knob| knob.name == key) {
            None => Err(unknown_key(&room, key)),
            Some(knob) => (knob.set)(self, said).map_err(|unfit| Wrong::Value {
                key: format!("{room}.{key}"),
                unfit,
            }),
        }
    }

    fn meaning(&self, name: &DiskName) -> Result<DiskSettings, Wrong> {
        let tenant = self.tenant.clone();
        let tenant = tenant.ok_or_else(|| Wrong::NoTenant(name.clone()))?;
        let mut disk = DiskSettings::of(name.clone(), tenant);
        self.give(&mut disk);
        Ok(disk)
    }

    /// What is wrong with it, and with which key; no key where it is something that was not said.
    fn wrongs(&self, name: &DiskName) -> Vec<(Option<&'static str>, Wrong)> {
        let mut wrongs = self.lacks(name);
        wrongs.extend(self.out_of_place(name));
        let parts = [
            ("tls_cert", &self.tls_cert, &self.tls_key, "tls_key"),
            ("tls_key", &self.tls_key, &self.tls_cert, "tls_cert"),
            (
                "tls_client_ca",
                &self.tls_client_ca,
                &self.tls_cert,
                "tls_cert",
            ),
        ];
        for (part, said, other, needs) in parts {
            if said.is_some() && other.is_none() {
                let key = format!("disks.{name}.{part}");
                wrongs.push((Some(part), Wrong::Needs { key, needs }));
            }
        }
        let is_tcp = |place: &DiskListen| matches!(place, DiskListen::Tcp(..));
        if self.tls_cert.is_some() && !self.listen.is_empty() && !self.listen.iter().any(is_tcp) {
            let key = format!("disks.{name}.tls_cert");
            wrongs.push((Some("tls_cert"), Wrong::ForTcp(key)));
        }
        wrongs
    }

    /// Places that it names twice, as which of the protocols ever.
    fn doubles(&self, name: &DiskName) -> Vec<Wrong> {
        let mut named = BTreeSet::new();
        let places = self.listen.iter().filter(|listen| !is_any_port(listen));
        let twice = places.filter(|listen| !named.insert(socket_of(listen)));
        let wrong = |listen: &DiskListen| Wrong::SaidTwice {
            key: format!("disks.{name}.listen"),
            listen: listen.to_string(),
        };
        twice.map(wrong).collect()
    }

    /// What it must have and has not.
    fn lacks(&self, name: &DiskName) -> Vec<(Option<&'static str>, Wrong)> {
        let is_disk = self.kind == DiskKind::Disk;
        let nothing_behind = self.backing.is_none() && (is_disk || self.size.is_none());
        let lacks = [
            (self.tenant.is_none(), Wrong::NoTenant(name.clone())),
            (self.listen.is_empty(), Wrong::NoPlace(name.clone())),
            (is_disk && nothing_behind, Wrong::NoBacking(name.clone())),
            (!is_disk && nothing_behind, Wrong::NoSize(name.clone())),
        ];
        let lacking = lacks.into_iter().filter(|(lacks, _)| *lacks);
        lacking.map(|(_, wrong)| (None, wrong)).collect()
    }

    /// What was said of it and means something for the other kind only.
    fn out_of_place(&self, name: &DiskName) -> Vec<(Option<&'static str>, Wrong)> {
        let is_disk = self.kind == DiskKind::Disk;
        let behind = matches!(self.durability, Some(d) if d != Durability::WriteThrough);
        let said = [
            ("durability", is_disk && behind),
            ("read_only", !is_disk && self.read_only),
            ("fill", !is_disk && self.fill.is_some()),
            ("windows", !is_disk && self.windows.is_some()),
            ("sequential_max", !is_disk && self.sequential_max.is_some()),
        ];
        let wrong = |(part, _)| {
            let key = format!("disks.{name}.{part}");
            let wrong = match is_disk {
                true => Wrong::ForSwap(key),
                false => Wrong::ForDisks(key),
            };
            (Some(part), wrong)
        };
        let misplaced = said.into_iter().filter(|(_, misplaced)| *misplaced);
        misplaced.map(wrong).collect()
    }
}

impl Written {
    /// Those that are served.
    fn served(&self) -> impl Iterator<Item = (&DiskName, &WrittenDisk)> {
        self.disks.iter().filter(|(_, disk)| !disk.removed)
    }

    /// Tenants whose memory disks use.
    pub(super) fn disk_tenants(&self) -> BTreeSet<TenantName> {
        let tenants = self.served().filter_map(|(_, disk)| disk.tenant.clone());
        tenants.collect()
    }

    /// What it means that disks were named.
    pub(super) fn disks_meant(&self, faults: &mut Vec<Fault>) -> Vec<DiskSettings> {
        self.shared_faults(faults);
        let mut meant = Vec::new();
        for (name, disk) in self.served() {
            let wrongs = disk.wrongs(name).into_iter();
            faults.extend(wrongs.map(|(key, wrong)| self.disk_place(name, key).wrong(wrong)));
            meant.extend(disk.meaning(name));
        }
        meant
    }

    fn disk_place(&self, name: &DiskName, key: Option<&str>) -> Place {
        match key {
            Some(key) => self.place(&format!("disks.{name}.{key}")),
            None => self.place(&format!("disks.{name}")),
        }
    }

    /// Places and backings that are named more than once.
    fn shared_faults(&self, faults: &mut Vec<Fault>) {
        let mut listed = BTreeMap::new();
        for (name, tenant) in &self.tenants {
            let place = self.place(&format!("tenants.{name}.listen"));
            let places = tenant.listen.iter();
            listed.extend(places.map(|listen| (socket_of_tenant(listen), (place.clone(), None))));
        }
        let mut backings = BTreeMap::new();
        for (name, disk) in self.served() {
            let place = self.disk_place(name, Some("listen"));
            for listen in disk.listen.iter().filter(|listen| !is_any_port(listen)) {
                let here = (place.clone(), Some((name, disk, listen)));
                let before = listed.insert(socket_of(listen), here);
                let Some((first, other)) = before else {
                    continue;
                };
                let sharing = other.map_or(Sharing::Never, |other| {
                    may_share((name, disk, listen), other)
                });
                let (key, listen) = (format!("disks.{name}.listen"), listen.to_string());
                let wrong = match sharing {
                    Sharing::Fits => continue,
                    Sharing::Never => Wrong::ListedTwice { key, listen, first },
                    Sharing::WithSame(knobs) => Wrong::SharedApart {
                        key,
                        listen,
                        knobs,
                        first,
                    },
                };
                faults.push(place.clone().wrong(wrong));
            }
            let place = self.disk_place(name, Some("backing"));
            if let Some(backing) = &disk.backing
                && let Some((first, is_read)) =
                    backings.insert(backing, (place.clone(), disk.read_only))
                && !(is_read && disk.read_only)
            {
                let (key, backing) = (format!("disks.{name}.backing"), backing.clone());
                faults.push(place.wrong(Wrong::BackingTwice {
                    key,
                    backing,
                    first,
                }));
            }
        }
    }

    /// What this file, read alone, says of disks that were changed live.
    pub(super) fn disk_changes(&self) -> BTreeMap<DiskName, DiskChange> {
        let change = |(name, disk): (&DiskName, &WrittenDisk)| {
            let change = match (disk.removed, disk.meaning(name)) {
                (true, _) => Some(DiskChange::Removed),
                (false, Ok(whole)) => Some(DiskChange::Added(Box::new(whole))),
                (false, Err(_)) => disk.size.map(DiskChange::Resized),
            };
            Some((name.clone(), change?))
        };
        self.disks.iter().filter_map(change).collect()
    }

    /// Takes live changes over disks that were named before: one that was added is no mixture with one of the
    /// same name. Returns the changes of disks that nobody names.
    pub(super) fn take_disk_changes(
        &mut self,
        changes: &BTreeMap<DiskName, DiskChange>,
        read: impl FnOnce(&mut Written) -> Result<(), Faults>,
    ) -> Result<Vec<DiskName>, Faults> {
        for name in changes
            .iter()
            .filter(|(_, c)| c.is_added())
            .map(|(name, _)| name)
        {
            self.disks.remove(name);
        }
        let named: BTreeSet<DiskName> = self.disks.keys().cloned().collect();
        read(self)?;
        let lost = changes
            .iter()
            .filter(|(name, change)| !change.is_added() && !named.contains(*name));
        let lost: Vec<DiskName> = lost.map(|(name, _)| name.clone()).collect();
        self.disks.retain(|name, _| !lost.contains(name));
        Ok(lost)
    }
}

/// A disk, and a place of it.
type Listening<'a> = (&'a DiskName, &'a WrittenDisk, &'a DiskListen);

/// Whether two disks may be served at one place.
enum Sharing {
    Fits,
    /// Once these knobs of theirs are the same, of which the place has one each.
    WithSame(&'static str),
    Never,
}

/// Whether two disks may be served at one place: over NBD, which tells them apart by their names, and to the same clients.
fn may_share((name, disk, listen): Listening<'_>, other: Listening<'_>) -> Sharing {
    let (other_name, other_disk, other_listen) = other;
    let is_nbd = !matches!(listen, DiskListen::VhostUser(_));
    let is_tcp = matches!(listen, DiskListen::Tcp(..));
    let tls = |disk: &WrittenDisk| {
        (
            disk.tls_cert.clone(),
            disk.tls_key.clone(),
            disk.tls_client_ca.clone(),
        )
    };
    if !is_nbd || name == other_name || listen != other_listen {
        Sharing::Never
    } else if disk.mode != other_disk.mode {
        Sharing::WithSame("mode")
    } else if is_tcp && tls(disk) != tls(other_disk) {
        Sharing::WithSame("tls_cert, tls_key and tls_client_ca")
    } else {
        Sharing::Fits
    }
}

/// What can be listened at once only.
fn socket_of(listen: &DiskListen) -> String {
    match listen {
        DiskListen::Unix(path) | DiskListen::VhostUser(path) => path.clone(),
        DiskListen::Tcp(..) => listen.to_string(),
    }
}

fn socket_of_tenant(listen: &Listen) -> String {
    match listen {
        Listen::Unix(path) | Listen::Ring(path) => path.display().to_string(),
        Listen::Tcp(..) => listen.to_string(),
    }
}

fn is_any_port(listen: &DiskListen) -> bool {
    matches!(listen, DiskListen::Tcp(_, 0))
}
