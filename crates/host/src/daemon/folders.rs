//! The folders where backings may lie that are named while the daemon runs.

use std::path::PathBuf;
use std::{fs, io};

use sublet_client::messages::{AllowFolder, Difference, DiskFolders, Lasts, VERSION};

use super::Daemon;
use super::declined::Declined;
use crate::disk::DiskError;
use crate::observe::events::{Actor, Cause, EventId};

impl Daemon {
    /// Where backings may lie that are named while it runs.
    pub(super) fn allowed_folders(&self) -> Vec<PathBuf> {
        self.disks.allowed()
    }

    /// The same, for its owner.
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

    /// Lets backings lie under one folder more, and writes that down where it lasts.
    pub fn allow_folder(&self, asked: &AllowFolder, by: Actor) -> Result<DiskFolders, Declined> {
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
        if asked.lasts == Lasts::Always && !self.written.disk.allow.contains(&folder) {
            self.live.keep(|live| live.with_folder(folder.clone()))?;
        }
        self.disks.allow(folder.clone());
        let allowed = Cause::new(EventId::DiskAllowed, asked.lasts.into()).by(by);
        self.events.post(allowed.saying(folder.display()));
        Ok(self.disk_folders())
    }

    /// Where the folders are not what the config says.
    pub(super) fn folder_difference(&self) -> Option<Difference> {
        let shown = |folders: &[PathBuf]| {
            let all: Vec<String> = folders.iter().map(|f| f.display().to_string()).collect();
            all.join(", ")
        };
        let (now, written) = (self.allowed_folders(), &self.written.disk.allow);
        let live = self.live.now();
        let mut added = now.iter().filter(|folder| !written.contains(folder));
        (now != *written).then(|| Difference {
            key: "disk.allow".to_owned(),
            config: shown(written),
            kept: added.all(|folder| live.folders().contains(folder)),
            now: shown(&now),
        })
    }
}
