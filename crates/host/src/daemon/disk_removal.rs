//! Disks that their owner removes.

use sublet_client::messages::{self, Lasts, RemoveDisk, RemovedDisk};
use sublet_types::{DiskName, Pages};

use super::Daemon;
use super::declined::Declined;
use crate::config::DiskChange;
use crate::disk::Unwritten;
use crate::observe::events::{Actor, Amount, EventId};

impl Daemon {
    /// Ends a disk when its backing has everything, or what it does not take is given up, and writes that down where
    /// it lasts.
    pub fn remove_disk(
        &self,
        name: &DiskName,
        how: RemoveDisk,
        by: Actor,
    ) -> Result<RemovedDisk, Declined> {
        let _turn = self.disks.turn(name)?;
        let behind = self.disks.behind(name)?;
        let removed = self.of_disk(EventId::DiskRemoved, how.lasts.into(), name);
        if how.delete {
            behind.check_deletable(name, how.lasts)?;
        }
        let given_up = match how.force {
            true => self.remove_and_keep(name, Unwritten::GivenUp, how.lasts)?,
            false => {
                self.disks.clear(name)?;
                self.remove_and_keep(name, Unwritten::Kept, how.lasts)?
            }
        };
        self.events
            .post(removed.by(by).of(Amount::Pages(given_up.0)));
        Ok(RemovedDisk {
            version: messages::VERSION,
            given_up: given_up.0,
            left_behind: self.disks.left_of(name).0,
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
            return Ok(self.disks.remove(name, unwritten)?);
        }
        let before = self.live.now().disk(name).cloned();
        let change = self.written_disk(name).map(|_| DiskChange::Removed);
        self.live
            .keep(|live| live.with_disk(name.clone(), change))?;
        let removed = self.disks.remove(name, unwritten);
        if removed.is_err() {
            self.live
                .keep(|live| live.with_disk(name.clone(), before))?;
        }
        Ok(removed?)
    }
}
