//! The folders for backings that are named while the daemon runs.

use std::path::PathBuf;
use std::{fs, io};

use sublet_client::messages::{
    AllowFolder, ChangeLifetime, ConfigDifference, DiskFolders, VERSION,
};

use super::Daemon;
use super::request_error::RequestError;
use crate::disk::DiskError;
use crate::observe::events::{Actor, EventId, PostedEvent};

impl Daemon {
    /// Folders for backings that are named while the daemon runs.
    pub(super) fn allowed_folders(&self) -> Vec<PathBuf> {
        self.disks.allowed()
    }

    /// The same, for the admin interface.
    pub(crate) fn disk_folders(&self) -> DiskFolders {
        let folders = self.allowed_folders();
        DiskFolders {
            version: VERSION,
            folders: folders
                .iter()
                .map(|folder| folder.display().to_string())
                .collect(),
        }
    }

    /// Allows backings under one more folder. If the change lasts, this writes it down.
    pub fn allow_folder(
        &self,
        asked: &AllowFolder,
        by: Actor,
    ) -> Result<DiskFolders, RequestError> {
        let folder = PathBuf::from(&asked.folder);
        let refused = |source| DiskError::NoFolder {
            folder: folder.clone(),
            source,
        };
        if !folder.is_absolute() {
            let relative = "the path does not begin with /";
            return Err(refused(io::Error::other(relative)).into());
        }
        let facts = fs::metadata(&folder).map_err(refused)?;
        if !facts.is_dir() {
            return Err(refused(io::ErrorKind::NotADirectory.into()).into());
        }
        if asked.lasts == ChangeLifetime::Always && !self.written.disk.allow.contains(&folder) {
            self.live.persist(|live| live.with_folder(folder.clone()))?;
        }
        self.disks.allow(folder.clone());
        let allowed = PostedEvent::new(EventId::DiskAllowed, asked.lasts.into()).by(by);
        self.events.post(allowed.saying(folder.display()));
        Ok(self.disk_folders())
    }

    /// Where the folders differ from the config.
    pub(super) fn folder_difference(&self) -> Option<ConfigDifference> {
        let shown = |folders: &[PathBuf]| {
            let all: Vec<String> = folders.iter().map(|f| f.display().to_string()).collect();
            all.join(", ")
        };
        let (now, written) = (self.allowed_folders(), &self.written.disk.allow);
        let live = self.live.current();
        let mut added = now.iter().filter(|folder| !written.contains(folder));
        (now != *written).then(|| ConfigDifference {
            key: "disk.allow".to_owned(),
            config: shown(written),
            kept: added.all(|folder| live.folders().contains(folder)),
            now: shown(&now),
        })
    }
}
