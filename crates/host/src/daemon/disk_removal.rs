//! Disks that their owner removes.

use sublet_client::messages::{self, ChangeLifetime, RemoveDisk, RemovedDisk};
use sublet_types::{DiskName, Pages};

use super::Daemon;
use super::request_error::RequestError;
use crate::config::DiskChange;
use crate::disk::UnwrittenAction;
use crate::observe::events::{Actor, EventAmount, EventId};

impl Daemon {
    /// Ends a disk when its backing has everything, or when what it does not take is given up. If the change lasts,
    /// this writes it down.
    pub fn remove_disk(
        &self,
        name: &DiskName,
        how: RemoveDisk,
        by: Actor,
    ) -> Result<RemovedDisk, RequestError> {
        let _turn = self.disks.lock(name)?;
        let behind = self.disks.find_backing(name)?;
        let removed = self.disk_event(EventId::DiskRemoved, how.lasts.into(), name);
        if how.delete {
            behind.check_deletable(name, how.lasts)?;
        }
        let given_up = match how.force {
            true => self.remove_and_persist(name, UnwrittenAction::Discard, how.lasts)?,
            false => {
                self.disks.drain_for_removal(name)?;
                self.remove_and_persist(name, UnwrittenAction::Keep, how.lasts)?
            }
        };
        self.events
            .post(removed.by(by).of(EventAmount::Pages(given_up.0)));
        Ok(RemovedDisk {
            version: messages::VERSION,
            given_up: given_up.0,
            left_behind: self.disks.left_pages(name).0,
            deleted: how.delete && behind.delete(),
            made: behind.is_ours,
            backing: behind
                .path
                .filter(|path| how.delete || path.exists())
                .map(|path| path.display().to_string()),
            disks: self.disk_statuses(),
        })
    }

    fn remove_and_persist(
        &self,
        name: &DiskName,
        unwritten: UnwrittenAction,
        lasts: ChangeLifetime,
    ) -> Result<Pages, RequestError> {
        if lasts == ChangeLifetime::UntilRestart {
            return Ok(self.disks.remove(name, unwritten)?);
        }
        let before = self.live.current().disk(name).cloned();
        let change = self.written_disk(name).map(|_| DiskChange::Removed);
        self.live
            .persist(|live| live.with_disk(name.clone(), change))?;
        let removed = self.disks.remove(name, unwritten);
        if removed.is_err() {
            self.live
                .persist(|live| live.with_disk(name.clone(), before))?;
        }
        Ok(removed?)
    }
}
