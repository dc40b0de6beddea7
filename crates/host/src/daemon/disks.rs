//! The daemon's disks, as its owner adds, changes and ends them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Instant;

use sublet_client::messages::{AddDisk, Difference, DiskStatus, Lasts, OpenDisk, ResizeDisk};
use sublet_types::{Bytes, DiskKind, DiskName, DiskSettings};

use super::Daemon;
use super::declined::Declined;
use crate::config::{DISKS_MAX, DiskChange, Live, Said, check_disk_size, disk_asked, shown_disk};
use crate::disk::{ANSWER_MAX, DiskError, Image, Look, place_for};
use crate::observe::events::{Actor, Amount, Cause, EventId, Object, Why};

impl Daemon {
    /// One disk.
    pub fn disk(&self, name: &DiskName) -> Result<DiskStatus, Declined> {
        let mut disk = self.disks.status(name)?;
        self.note_differences(&mut disk, &self.live.now());
        Ok(disk)
    }

    /// Opens a disk, serves it, and writes it down where it lasts.
    pub fn add_disk(&self, asked: &AddDisk, by: Actor) -> Result<DiskStatus, Declined> {
        let said = asked.said.iter().filter(|(_, value)| !value.is_null());
        let said = said.map(|(key, value)| (key.clone(), Said::from_json(value)));
        let mut said: BTreeMap<String, Said> = said.collect();
        let allowed = self.allowed_folders();
        if asked.create && !said.contains_key("backing") {
            let place = place_for(&asked.name, &allowed)?;
            said.insert("backing".into(), Said::Text(place.display().to_string()));
        }
        let mut disk = disk_asked(&asked.name, said)?;
        let _turn = self.disks.turn(&disk.name)?;
        Look::at(&disk, Some(&allowed)).wait(Instant::now() + ANSWER_MAX)?;
        let adding = self.tenants.begin_adding()?;
        if self.disks.count() >= DISKS_MAX {
            return Err(Declined::TooManyDisks);
        }
        let image = asked.create.then(|| image_of(&mut disk)).transpose()?;
        let made = adding.enter(&disk.tenant)?;
        let name = disk.name.clone();
        if let Err(declined) = self.open_and_keep(disk, asked.lasts) {
            if let Some(tenant) = made {
                adding.take_back(tenant, || self.manager.look());
            }
            return Err(declined);
        }
        image.into_iter().for_each(Image::keep);
        let added = self.of_disk(EventId::DiskAdded, asked.lasts.into(), &name);
        if let (Some(_), Some(tenant)) = (made, added.tenant()) {
            let tenant_added = Cause::new(EventId::TenantAdded, Why::ForDisk).to_tenant(tenant);
            self.events.post(tenant_added.by(by));
        }
        self.events.post(added.by(by));
        self.disk(&name)
    }

    /// Something happened to a disk.
    pub(super) fn of_disk(&self, id: EventId, why: Why, name: &DiskName) -> Cause {
        let tenant = self.disks.said(name).map(|said| said.tenant);
        let name = name.clone();
        Cause::new(id, why).to(Object::Disk { name, tenant })
    }

    fn open_and_keep(&self, disk: DiskSettings, lasts: Lasts) -> Result<(), Declined> {
        self.disks.add(&disk)?;
        if lasts == Lasts::UntilRestart {
            return Ok(());
        }
        let name = disk.name.clone();
        let added = DiskChange::Added(Box::new(disk));
        let next = |live: &Live| live.with_disk(name.clone(), Some(added));
        let kept = self.live.keep(next);
        if kept.is_err()
            && let Err(error) = self.disks.retract(&name)
        {
            tracing::error!(disk = %name, %error, "a disk that could not be written down is served until it is removed or the daemon ends");
        }
        Ok(kept?)
    }

    /// Opens a disk that could not be opened at the start.
    pub fn open_disk(
        &self,
        name: &DiskName,
        how: OpenDisk,
        by: Actor,
    ) -> Result<DiskStatus, Declined> {
        let _turn = self.disks.turn(name)?;
        let said = self.disks.closed(name)?;
        let was_added = self.live.now().disk(name).is_some_and(DiskChange::is_added);
        let allowed = self.allowed_folders();
        let allow = was_added.then_some(&allowed);
        Look::at(&said, allow).wait(Instant::now() + ANSWER_MAX)?;
        self.disks.reopen(said, how.force)?;
        let opened = self.of_disk(EventId::DiskOpened, Why::ByHand, name);
        self.events.post(opened.by(by));
        self.disk(name)
    }

    /// Gives a disk another size, and writes it down where it lasts.
    pub fn resize_disk(
        &self,
        name: &DiskName,
        asked: &ResizeDisk,
        by: Actor,
    ) -> Result<DiskStatus, Declined> {
        check_disk_size(name, asked.size)?;
        let _turn = self.disks.turn(name)?;
        self.disks.check_open(name)?;
        if asked.lasts == Lasts::UntilRestart && self.says_size(name) {
            return Err(DiskError::Outgrows(name.clone()).into());
        }
        self.disks.resize(name, asked.size, || match asked.lasts {
            Lasts::Always => self.keep_size(name, asked.size),
            Lasts::UntilRestart => Ok(()),
        })?;
        let resized = self.of_disk(EventId::DiskResized, asked.lasts.into(), name);
        self.events
            .post(resized.by(by).of(Amount::Bytes(asked.size)));
        self.disk(name)
    }

    /// Returns when the backing has everything that was written before.
    pub fn flush_disk(&self, name: &DiskName) -> Result<DiskStatus, Declined> {
        self.disks.flush(name)?;
        self.disk(name)
    }

    /// Whether the config says how large a backing is that its owner named: then no other size opens.
    fn says_size(&self, name: &DiskName) -> bool {
        let written = self.written_disk(name);
        written.is_some_and(|disk| disk.backing.is_some() && disk.size.is_some())
    }

    /// A disk that ends with the daemon has nothing to keep.
    fn keep_size(&self, name: &DiskName, size: Bytes) -> Result<(), Declined> {
        let turn = self.live.turn()?;
        let change = match self.live.now().disk(name) {
            Some(DiskChange::Added(disk)) => {
                let mut disk = disk.clone();
                disk.size = Some(size);
                Some(DiskChange::Added(disk))
            }
            _ => self.written_disk(name).map(|_| DiskChange::Resized(size)),
        };
        match change {
            Some(change) => Ok(turn.keep(|live| live.with_disk(name.clone(), Some(change)))?),
            None => Ok(()),
        }
    }

    pub(super) fn written_disk(&self, name: &DiskName) -> Option<&DiskSettings> {
        self.written.disks.iter().find(|disk| disk.name == *name)
    }

    /// All disks, each with where it is not what the config says.
    pub(super) fn disk_statuses(&self) -> Vec<DiskStatus> {
        let mut all = self.disks.list();
        let live = self.live.now();
        all.iter_mut()
            .for_each(|disk| self.note_differences(disk, &live));
        all
    }

    /// Notes where a disk is not what the config says.
    fn note_differences(&self, disk: &mut DiskStatus, live: &Live) {
        let name = &disk.settings.name;
        if let Some(said) = self.disks.said(name) {
            disk.differences = differences(&said, self.written_disk(name), live);
        }
    }

    /// Disks of the config that were removed.
    pub(super) fn removed_disks(&self) -> Vec<Difference> {
        let live = self.live.now();
        let written = self.written.disks.iter();
        let removed = written.filter(|disk| self.disks.said(&disk.name).is_none());
        let difference = |disk: &DiskSettings| Difference {
            key: format!("disks.{}", disk.name),
            config: "served".to_owned(),
            now: "removed".to_owned(),
            kept: live.disk(&disk.name) == Some(&DiskChange::Removed),
        };
        removed.map(difference).collect()
    }

    /// What holds of all disks, by its keys.
    pub(super) fn disk_settings(&self) -> BTreeMap<String, String> {
        let all = self.disks.list();
        all.iter()
            .flat_map(|disk| shown_disk(&disk.settings))
            .collect()
    }
}

/// Makes a disk's image. A disk is as large as that from then on; of swap the size is said.
fn image_of(disk: &mut DiskSettings) -> Result<Image, DiskError> {
    let path = PathBuf::from(disk.backing.as_deref().unwrap_or_default());
    let size = match disk.kind {
        DiskKind::Swap => disk.size,
        DiskKind::Disk => disk.size.take(),
    };
    let size = size.ok_or_else(|| DiskError::NoImageSize(disk.name.clone()))?;
    Image::make(&path, size)
}

/// Where a disk is not what the config says.
fn differences(now: &DiskSettings, written: Option<&DiskSettings>, live: &Live) -> Vec<Difference> {
    let change = live.disk(&now.name);
    let Some(written) = written.map(shown_disk) else {
        return vec![Difference {
            key: format!("disks.{}", now.name),
            config: "none".to_owned(),
            now: "added".to_owned(),
            kept: change.is_some_and(DiskChange::is_added),
        }];
    };
    let kept = match change {
        Some(DiskChange::Added(disk)) => shown_disk(disk),
        Some(DiskChange::Resized(size)) => shown_disk(&DiskSettings {
            size: Some(*size),
            ..now.clone()
        }),
        Some(DiskChange::Removed) | None => BTreeMap::new(),
    };
    let now = shown_disk(now);
    let keys: BTreeSet<&String> = now.keys().chain(written.keys()).collect();
    let said =
        |all: &BTreeMap<String, String>, key| all.get(key).cloned().unwrap_or("none".to_owned());
    let differs = keys
        .into_iter()
        .filter(|key| now.get(*key) != written.get(*key));
    differs
        .map(|key| Difference {
            key: key.clone(),
            config: said(&written, key),
            now: said(&now, key),
            kept: kept.get(key) == now.get(key),
        })
        .collect()
}
