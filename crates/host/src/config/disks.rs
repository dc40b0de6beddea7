//! Disks, as a file, live changes and requests describe them, and what that means.

use std::collections::{BTreeMap, BTreeSet};

use sublet_types::{Bytes, DiskKind, DiskListen, DiskName, DiskSettings, Durability, TenantName};

use super::changes::DiskChange;
use super::faults::{ConfigFault, ConfigFaults, FaultKind, SourceLocation};
use super::knobs::{DISK_KNOBS, WrittenDisk};
use super::listen::ListenAddress;
use super::raw_value::RawValue;
use super::reading::unknown_key;
use super::written::WrittenConfig;

/// The disk that a request asks for: keys and values as in `[disks.NAME]`.
pub(crate) fn parse_requested_disk(
    name: &DiskName,
    said: impl IntoIterator<Item = (String, RawValue)>,
) -> Result<DiskSettings, ConfigFaults> {
    let mut disk = WrittenDisk::defaults();
    let mut wrongs = Vec::new();
    for (key, said) in said {
        wrongs.extend(disk.apply(name, &key, &said).err());
    }
    if wrongs.is_empty() {
        wrongs.extend(disk.fault_kinds(name).into_iter().map(|(_, wrong)| wrong));
        wrongs.extend(disk.duplicates(name));
    }
    let at_request = |wrong| SourceLocation::Request.fault(wrong);
    ConfigFaults::of(wrongs.into_iter().map(at_request).collect())?;
    disk.meaning(name)
        .map_err(|wrong| ConfigFaults::one(at_request(wrong)))
}

/// Checks that a disk may have that size.
pub(crate) fn check_disk_size(name: &DiskName, size: Bytes) -> Result<(), ConfigFaults> {
    let taken = WrittenDisk::defaults().apply(name, "size", &RawValue::Number(size.0));
    taken.map_err(|wrong| ConfigFaults::one(SourceLocation::Request.fault(wrong)))
}

impl WrittenDisk {
    /// Takes one key of a request. The key `removed` is not accepted here.
    fn apply(&mut self, name: &DiskName, key: &str, said: &RawValue) -> Result<(), FaultKind> {
        let mut known = DISK_KNOBS.iter().filter(|knob| knob.flag.is_some());
        let table = format!("disks.{name}");
        match known.find(|knob| knob.name == key) {
            None => Err(unknown_key(&table, key)),
            Some(knob) => (knob.set)(self, said).map_err(|unfit| FaultKind::Value {
                key: format!("{table}.{key}"),
                unfit,
            }),
        }
    }

    fn meaning(&self, name: &DiskName) -> Result<DiskSettings, FaultKind> {
        let tenant = self.tenant.clone();
        let tenant = tenant.ok_or_else(|| FaultKind::NoTenant(name.clone()))?;
        let mut disk = DiskSettings::of(name.clone(), tenant);
        self.apply_to(&mut disk);
        Ok(disk)
    }

    /// The faults of the disk, each with its key. A fault without a key is something that is missing.
    fn fault_kinds(&self, name: &DiskName) -> Vec<(Option<&'static str>, FaultKind)> {
        let mut wrongs = self.missing(name);
        wrongs.extend(self.misplaced(name));
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
                wrongs.push((Some(part), FaultKind::Needs { key, needs }));
            }
        }
        let is_tcp = |place: &DiskListen| matches!(place, DiskListen::Tcp(..));
        if self.tls_cert.is_some() && !self.listen.is_empty() && !self.listen.iter().any(is_tcp) {
            let key = format!("disks.{name}.tls_cert");
            wrongs.push((Some("tls_cert"), FaultKind::ForTcp(key)));
        }
        wrongs
    }

    /// Places that the disk names twice, whatever the protocol.
    fn duplicates(&self, name: &DiskName) -> Vec<FaultKind> {
        let mut named = BTreeSet::new();
        let places = self.listen.iter().filter(|listen| !is_any_port(listen));
        let twice = places.filter(|listen| !named.insert(socket_of(listen)));
        let wrong = |listen: &DiskListen| FaultKind::SaidTwice {
            key: format!("disks.{name}.listen"),
            listen: listen.to_string(),
        };
        twice.map(wrong).collect()
    }

    /// Keys that the disk must have and lacks.
    fn missing(&self, name: &DiskName) -> Vec<(Option<&'static str>, FaultKind)> {
        let is_disk = self.kind == DiskKind::Disk;
        let nothing_behind = self.backing.is_none() && (is_disk || self.size.is_none());
        let lacks = [
            (self.tenant.is_none(), FaultKind::NoTenant(name.clone())),
            (self.listen.is_empty(), FaultKind::NoPlace(name.clone())),
            (
                is_disk && nothing_behind,
                FaultKind::NoBacking(name.clone()),
            ),
            (!is_disk && nothing_behind, FaultKind::NoSize(name.clone())),
        ];
        let lacking = lacks.into_iter().filter(|(lacks, _)| *lacks);
        lacking.map(|(_, wrong)| (None, wrong)).collect()
    }

    /// Keys that mean something only for the other kind of disk.
    fn misplaced(&self, name: &DiskName) -> Vec<(Option<&'static str>, FaultKind)> {
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
                true => FaultKind::ForSwap(key),
                false => FaultKind::ForDisks(key),
            };
            (Some(part), wrong)
        };
        let misplaced = said.into_iter().filter(|(_, misplaced)| *misplaced);
        misplaced.map(wrong).collect()
    }
}

impl WrittenConfig {
    /// The disks that are served.
    fn served(&self) -> impl Iterator<Item = (&DiskName, &WrittenDisk)> {
        self.disks.iter().filter(|(_, disk)| !disk.removed)
    }

    /// Tenants whose memory disks use.
    pub(super) fn disk_tenants(&self) -> BTreeSet<TenantName> {
        let tenants = self.served().filter_map(|(_, disk)| disk.tenant.clone());
        tenants.collect()
    }

    /// The settings of the named disks.
    pub(super) fn resolve_disks(&self, faults: &mut Vec<ConfigFault>) -> Vec<DiskSettings> {
        self.shared_faults(faults);
        let mut meant = Vec::new();
        for (name, disk) in self.served() {
            let wrongs = disk.fault_kinds(name).into_iter();
            faults.extend(wrongs.map(|(key, wrong)| self.disk_place(name, key).fault(wrong)));
            meant.extend(disk.meaning(name));
        }
        meant
    }

    fn disk_place(&self, name: &DiskName, key: Option<&str>) -> SourceLocation {
        match key {
            Some(key) => self.location(&format!("disks.{name}.{key}")),
            None => self.location(&format!("disks.{name}")),
        }
    }

    /// Places and backings that are named more than once.
    fn shared_faults(&self, faults: &mut Vec<ConfigFault>) {
        let mut listed = BTreeMap::new();
        for (name, tenant) in &self.tenants {
            let place = self.location(&format!("tenants.{name}.listen"));
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
                let sharing = other.map_or(EndpointSharing::Never, |other| {
                    may_share((name, disk, listen), other)
                });
                let (key, listen) = (format!("disks.{name}.listen"), listen.to_string());
                let wrong = match sharing {
                    EndpointSharing::Fits => continue,
                    EndpointSharing::Never => FaultKind::ListedTwice { key, listen, first },
                    EndpointSharing::WithSame(knobs) => FaultKind::SharedApart {
                        key,
                        listen,
                        knobs,
                        first,
                    },
                };
                faults.push(place.clone().fault(wrong));
            }
            let place = self.disk_place(name, Some("backing"));
            if let Some(backing) = &disk.backing
                && let Some((first, is_read)) =
                    backings.insert(backing, (place.clone(), disk.read_only))
                && !(is_read && disk.read_only)
            {
                let (key, backing) = (format!("disks.{name}.backing"), backing.clone());
                faults.push(place.fault(FaultKind::BackingTwice {
                    key,
                    backing,
                    first,
                }));
            }
        }
    }

    /// What this file alone says of disks that were changed live.
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

    /// Puts live changes over disks that were named before. A disk that was added live replaces one of the same name.
    /// Returns the changes of disks that nobody names.
    pub(super) fn apply_disk_changes(
        &mut self,
        changes: &BTreeMap<DiskName, DiskChange>,
        read: impl FnOnce(&mut WrittenConfig) -> Result<(), ConfigFaults>,
    ) -> Result<Vec<DiskName>, ConfigFaults> {
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
type DiskEndpoint<'a> = (&'a DiskName, &'a WrittenDisk, &'a DiskListen);

/// Whether two disks may be served at one place.
enum EndpointSharing {
    Fits,
    /// They may, if these knobs are the same, because the place has one value of each.
    WithSame(&'static str),
    Never,
}

/// Returns whether two disks may be served at one place. They may over NBD, which tells them apart by their names, and
/// to the same clients.
fn may_share((name, disk, listen): DiskEndpoint<'_>, other: DiskEndpoint<'_>) -> EndpointSharing {
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
        EndpointSharing::Never
    } else if disk.mode != other_disk.mode {
        EndpointSharing::WithSame("mode")
    } else if is_tcp && tls(disk) != tls(other_disk) {
        EndpointSharing::WithSame("tls_cert, tls_key and tls_client_ca")
    } else {
        EndpointSharing::Fits
    }
}

/// The socket of a place. Only one listener can have it.
fn socket_of(listen: &DiskListen) -> String {
    match listen {
        DiskListen::Unix(path) | DiskListen::VhostUser(path) => path.clone(),
        DiskListen::Tcp(..) => listen.to_string(),
    }
}

fn socket_of_tenant(listen: &ListenAddress) -> String {
    match listen {
        ListenAddress::Unix(path) | ListenAddress::Ring(path) => path.display().to_string(),
        ListenAddress::Tcp(..) => listen.to_string(),
    }
}

fn is_any_port(listen: &DiskListen) -> bool {
    matches!(listen, DiskListen::Tcp(_, 0))
}
