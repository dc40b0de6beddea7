//! The daemon's disks, as its owner adds, changes and ends them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Instant;

use sublet_client::messages::{
    AddDisk, ChangeLifetime, ConfigDifference, DiskStatus, OpenDiskRequest, ResizeDisk,
};
use sublet_types::{Bytes, DiskKind, DiskName, DiskSettings};

use super::Daemon;
use super::request_error::RequestError;
use crate::config::{
    DISKS_MAX, DiskChange, LiveChanges, RawValue, check_disk_size, disk_key_values,
    parse_requested_disk,
};
use crate::disk::{ANSWER_MAX, BackingProbe, DiskError, LostPages, NewImage, place_for};
use crate::observe::events::{Actor, EventAmount, EventId, EventReason, EventSubject, PostedEvent};

impl Daemon {
    /// One disk.
    pub fn disk(&self, name: &DiskName) -> Result<DiskStatus, RequestError> {
        let mut disk = self.disks.status(name)?;
        self.record_differences(&mut disk, &self.live.current());
        Ok(disk)
    }

    /// Opens a disk and serves it. If the disk lasts, this writes it down.
    pub fn add_disk(&self, asked: &AddDisk, by: Actor) -> Result<DiskStatus, RequestError> {
        let said = asked.said.iter().filter(|(_, value)| !value.is_null());
        let said = said.map(|(key, value)| (key.clone(), RawValue::from_json(value)));
        let mut said: BTreeMap<String, RawValue> = said.collect();
        let allowed = self.allowed_folders();
        if asked.create && !said.contains_key("backing") {
            let place = place_for(&asked.name, &allowed)?;
            said.insert(
                "backing".into(),
                RawValue::Text(place.display().to_string()),
            );
        }
        let mut disk = parse_requested_disk(&asked.name, said)?;
        let _turn = self.disks.lock(&disk.name)?;
        BackingProbe::start(&disk, Some(&allowed)).wait(Instant::now() + ANSWER_MAX)?;
        let adding = self.tenants.lock_adding()?;
        if self.disks.count() >= DISKS_MAX {
            return Err(RequestError::TooManyDisks);
        }
        let image = asked.create.then(|| image_of(&mut disk)).transpose()?;
        let made = adding.ensure_tenant(&disk.tenant)?;
        let name = disk.name.clone();
        if let Err(declined) = self.open_and_persist(disk, asked.lasts) {
            if let Some(tenant) = made {
                adding.remove_unused(tenant, || self.manager.decide_now());
            }
            return Err(declined);
        }
        image.into_iter().for_each(NewImage::keep);
        let added = self.disk_event(EventId::DiskAdded, asked.lasts.into(), &name);
        if let (Some(_), Some(tenant)) = (made, added.tenant()) {
            let tenant_added =
                PostedEvent::new(EventId::TenantAdded, EventReason::ForDisk).to_tenant(tenant);
            self.events.post(tenant_added.by(by));
        }
        self.events.post(added.by(by));
        self.disk(&name)
    }

    /// An event of a disk.
    pub(super) fn disk_event(&self, id: EventId, why: EventReason, name: &DiskName) -> PostedEvent {
        let tenant = self.disks.settings_of(name).map(|said| said.tenant);
        let name = name.clone();
        PostedEvent::new(id, why).to(EventSubject::Disk { name, tenant })
    }

    fn open_and_persist(
        &self,
        disk: DiskSettings,
        lasts: ChangeLifetime,
    ) -> Result<(), RequestError> {
        self.disks.add(&disk)?;
        if lasts == ChangeLifetime::UntilRestart {
            return Ok(());
        }
        let name = disk.name.clone();
        let added = DiskChange::Added(Box::new(disk));
        let next = |live: &LiveChanges| live.with_disk(name.clone(), Some(added));
        let kept = self.live.persist(next);
        if kept.is_err()
            && let Err(error) = self.disks.retract(&name)
        {
            tracing::error!(disk = %name, %error, "the daemon could not write the disk down, nor end it again; it serves the disk until the daemon ends, or until `sublet disk remove` ends it");
        }
        Ok(kept?)
    }

    /// Opens a disk that could not be opened at the start.
    pub fn open_disk(
        &self,
        name: &DiskName,
        how: OpenDiskRequest,
        by: Actor,
    ) -> Result<DiskStatus, RequestError> {
        let _turn = self.disks.lock(name)?;
        let said = self.disks.closed_settings(name)?;
        let was_added = self
            .live
            .current()
            .disk(name)
            .is_some_and(DiskChange::is_added);
        let allowed = self.allowed_folders();
        let allow = was_added.then_some(&allowed);
        BackingProbe::start(&said, allow).wait(Instant::now() + ANSWER_MAX)?;
        let lost = match how.force {
            true => LostPages::Accept,
            false => LostPages::Refuse,
        };
        self.disks.reopen(said, lost)?;
        let opened = self.disk_event(EventId::DiskOpened, EventReason::ByHand, name);
        self.events.post(opened.by(by));
        self.disk(name)
    }

    /// Gives a disk another size. If the change lasts, this writes it down.
    pub fn resize_disk(
        &self,
        name: &DiskName,
        asked: &ResizeDisk,
        by: Actor,
    ) -> Result<DiskStatus, RequestError> {
        check_disk_size(name, asked.size)?;
        let _turn = self.disks.lock(name)?;
        self.disks.check_open(name)?;
        if asked.lasts == ChangeLifetime::UntilRestart && self.config_says_size(name) {
            return Err(DiskError::Outgrows(name.clone()).into());
        }
        self.disks.resize(name, asked.size, || match asked.lasts {
            ChangeLifetime::Always => self.persist_size(name, asked.size),
            ChangeLifetime::UntilRestart => Ok(()),
        })?;
        let resized = self.disk_event(EventId::DiskResized, asked.lasts.into(), name);
        self.events
            .post(resized.by(by).of(EventAmount::Bytes(asked.size)));
        self.disk(name)
    }

    /// Returns when the backing has everything that was written before the call.
    pub fn flush_disk(&self, name: &DiskName) -> Result<DiskStatus, RequestError> {
        self.disks.flush(name)?;
        self.disk(name)
    }

    /// Returns whether the config says the size of a backing that its owner named. The disk then opens with no other
    /// size.
    fn config_says_size(&self, name: &DiskName) -> bool {
        let written = self.written_disk(name);
        written.is_some_and(|disk| disk.backing.is_some() && disk.size.is_some())
    }

    /// Writes a disk's size down. A disk that ends with the daemon has nothing to keep.
    fn persist_size(&self, name: &DiskName, size: Bytes) -> Result<(), RequestError> {
        let turn = self.live.lock()?;
        let change = match self.live.current().disk(name) {
            Some(DiskChange::Added(disk)) => {
                let mut disk = disk.clone();
                disk.size = Some(size);
                Some(DiskChange::Added(disk))
            }
            _ => self.written_disk(name).map(|_| DiskChange::Resized(size)),
        };
        match change {
            Some(change) => Ok(turn.persist(|live| live.with_disk(name.clone(), Some(change)))?),
            None => Ok(()),
        }
    }

    pub(super) fn written_disk(&self, name: &DiskName) -> Option<&DiskSettings> {
        self.written.disks.iter().find(|disk| disk.name == *name)
    }

    /// All disks, each with its differences from the config.
    pub(super) fn disk_statuses(&self) -> Vec<DiskStatus> {
        let mut all = self.disks.list();
        let live = self.live.current();
        all.iter_mut()
            .for_each(|disk| self.record_differences(disk, &live));
        all
    }

    /// Records where a disk differs from the config.
    fn record_differences(&self, disk: &mut DiskStatus, live: &LiveChanges) {
        let name = &disk.settings.name;
        if let Some(said) = self.disks.settings_of(name) {
            disk.differences = differences(&said, self.written_disk(name), live);
        }
    }

    /// Disks of the config that were removed.
    pub(super) fn removed_disks(&self) -> Vec<ConfigDifference> {
        let live = self.live.current();
        let written = self.written.disks.iter();
        let removed = written.filter(|disk| self.disks.settings_of(&disk.name).is_none());
        let difference = |disk: &DiskSettings| ConfigDifference {
            key: format!("disks.{}", disk.name),
            config: "served".to_owned(),
            now: "removed".to_owned(),
            kept: live.disk(&disk.name) == Some(&DiskChange::Removed),
        };
        removed.map(difference).collect()
    }

    /// Settings of all disks, by their keys.
    pub(super) fn disk_settings(&self) -> BTreeMap<String, String> {
        let all = self.disks.list();
        all.iter()
            .flat_map(|disk| disk_key_values(&disk.settings))
            .collect()
    }
}

/// Makes a disk's image. A disk of files then has the image's size. The size of swap is always given.
fn image_of(disk: &mut DiskSettings) -> Result<NewImage, DiskError> {
    let path = PathBuf::from(disk.backing.as_deref().unwrap_or_default());
    let size = match disk.kind {
        DiskKind::Swap => disk.size,
        DiskKind::Disk => disk.size.take(),
    };
    let size = size.ok_or_else(|| DiskError::NoImageSize(disk.name.clone()))?;
    NewImage::make(&path, size)
}

/// Where a disk differs from the config.
fn differences(
    now: &DiskSettings,
    written: Option<&DiskSettings>,
    live: &LiveChanges,
) -> Vec<ConfigDifference> {
    let change = live.disk(&now.name);
    let Some(written) = written.map(disk_key_values) else {
        return vec![ConfigDifference {
            key: format!("disks.{}", now.name),
            config: "none".to_owned(),
            now: "added".to_owned(),
            kept: change.is_some_and(DiskChange::is_added),
        }];
    };
    let kept = match change {
        Some(DiskChange::Added(disk)) => disk_key_values(disk),
        Some(DiskChange::Resized(size)) => disk_key_values(&DiskSettings {
            size: Some(*size),
            ..now.clone()
        }),
        Some(DiskChange::Removed) | None => BTreeMap::new(),
    };
    let now = disk_key_values(now);
    let keys: BTreeSet<&String> = now.keys().chain(written.keys()).collect();
    let said =
        |all: &BTreeMap<String, String>, key| all.get(key).cloned().unwrap_or("none".to_owned());
    let differs = keys
        .into_iter()
        .filter(|key| now.get(*key) != written.get(*key));
    differs
        .map(|key| ConfigDifference {
            key: key.clone(),
            config: said(&written, key),
            now: said(&now, key),
            kept: kept.get(key) == now.get(key),
        })
        .collect()
}
