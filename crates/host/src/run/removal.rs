//! Disks that their owner removes.

use std::fs;
use std::io;
use std::path::PathBuf;

use sublet_client::messages::{self, Lasts, RemoveDisk, RemovedDisk};
use sublet_types::{DiskKind, DiskName, Pages};

use super::daemon::{Daemon, Declined};
use super::disks::Shelf;
use crate::config::DiskChange;
use crate::disk::{DiskError, Unwritten};

/// The backing of a disk that goes.
struct Behind {
    path: Option<PathBuf>,
    /// Nobody named it: it was made for the disk.
    is_ours: bool,
}

impl Behind {
    /// That it may go with its disk.
    fn check_deletable(&self, name: &DiskName, lasts: Lasts) -> Result<(), DiskError> {
        if lasts == Lasts::UntilRestart {
            return Err(DiskError::NeedsFile(name.clone()));
        }
        match (&self.path, self.is_ours) {
            (Some(path), false) => Err(DiskError::NotOurs { path: path.clone() }),
            _ => Ok(()),
        }
    }

    /// Deletes it. Says whether it is gone.
    fn delete(&self) -> bool {
        let Some(path) = &self.path else {
            return false;
        };
        let deleted = fs::remove_file(path);
        if let Err(error) = &deleted {
            tracing::warn!(path = %path.display(), %error, "the file of a disk that was removed stays");
        }
        deleted.is_ok()
    }
}

/// How a disk stands that is to go.
enum Standing {
    Open,
    /// It could not be opened, for that reason.
    Closed(String),
    /// It is served no more; pages may have been left behind.
    Gone,
}

impl Shelf {
    fn behind(&self, name: &DiskName) -> Result<Behind, DiskError> {
        let said = self.named.lock().get(name).map(|named| named.said.clone());
        let Some(said) = said else {
            return self.behind_left(name);
        };
        let ours = match said.kind {
            DiskKind::Swap => self.disks.own_file(name),
            DiskKind::Disk => None,
        };
        Ok(Behind {
            path: said.backing.as_ref().map(PathBuf::from).or(ours),
            is_ours: said.backing.is_none(),
        })
    }

    /// Of a disk that left pages behind only the file is known that may have been made for it.
    fn behind_left(&self, name: &DiskName) -> Result<Behind, DiskError> {
        match self.disks.left_of(name) {
            Pages(0) if !self.disks.is_pledged(name) => Err(DiskError::NoDisk(name.clone())),
            _ => Ok(Behind {
                path: self.disks.own_file(name).filter(|file| file.exists()),
                is_ours: true,
            }),
        }
    }

    /// Finds out whether a disk can go without a loss: brings everything to its backing.
    fn clear(&self, name: &DiskName) -> Result<(), DiskError> {
        let standing = self.standing(name);
        let kind = self.named.lock().get(name).map(|named| named.said.kind);
        if matches!(standing, Standing::Closed(_)) && kind == Some(DiskKind::Swap) {
            self.disks.find_stage()?; // where nobody can say what is staged, nobody knows what would be lost
        }
        let (name, left) = (name.clone(), self.disks.left_of(name));
        match (standing, left) {
            (Standing::Open, _) => self.disks.clear(&name),
            (_, Pages(0)) => Ok(()),
            (Standing::Closed(why), left) => Err(DiskError::Unwritten {
                name,
                source: io::Error::other(why),
                left,
            }),
            (Standing::Gone, left) => Err(DiskError::LeftBehind { name, left }),
        }
    }

    /// Ends a disk; says how much was given up.
    pub(super) fn remove(&self, name: &DiskName, unwritten: Unwritten) -> Result<Pages, DiskError> {
        let given_up = match self.standing(name) {
            Standing::Open => self.disks.remove(name, unwritten)?,
            Standing::Closed(_) | Standing::Gone => {
                self.disks.check_gives_up(name)?;
                self.disks.forget(name)
            }
        };
        self.named.lock().remove(name);
        self.disks.fold_stage();
        Ok(given_up)
    }

    fn standing(&self, name: &DiskName) -> Standing {
        let all = self.named.lock();
        match all.get(name).map(|named| named.closed.clone()) {
            Some(None) => Standing::Open,
            Some(Some(why)) => Standing::Closed(why),
            None => Standing::Gone,
        }
    }
}

impl Daemon {
    /// Ends a disk when its backing has everything, or what it does not take is given up, and writes that down where
    /// it lasts.
    pub fn remove_disk(&self, name: &DiskName, how: RemoveDisk) -> Result<RemovedDisk, Declined> {
        let _turn = self.shelf.turn(name)?;
        let behind = self.shelf.behind(name)?;
        if how.delete {
            behind.check_deletable(name, how.lasts)?;
        }
        let given_up = match how.force {
            true => self.remove_and_keep(name, Unwritten::GivenUp, how.lasts)?,
            false => {
                self.shelf.clear(name)?;
                self.remove_and_keep(name, Unwritten::Kept, how.lasts)?
            }
        };
        tracing::info!(disk = %name, given_up = given_up.0, "disk removed by its owner");
        Ok(RemovedDisk {
            version: messages::VERSION,
            given_up: given_up.0,
            left_behind: self.shelf.disks.left_of(name).0,
            deleted: how.delete && behind.delete(),
            made: behind.is_ours,
            backing: behind
                .path
                .filter(|path| how.delete || path.exists())
                .map(|path| path.display().to_string()),
            disks: self.disk_statuses(),
        })
    }

    fn remove_and_keep(
        &self,
        name: &DiskName,
        unwritten: Unwritten,
        lasts: Lasts,
    ) -> Result<Pages, Declined> {
        if lasts == Lasts::UntilRestart {
            return Ok(self.shelf.remove(name, unwritten)?);
        }
        let before = self.live.now().disk(name).cloned();
        let change = self.written_disk(name).map(|_| DiskChange::Removed);
        self.live
            .keep(|live| live.with_disk(name.clone(), change))?;
        let removed = self.shelf.remove(name, unwritten);
        if removed.is_err() {
            self.live
                .keep(|live| live.with_disk(name.clone(), before))?;
        }
        Ok(removed?)
    }
}
