//! The two disks that are compared, and who has a file system on them.

use std::fs;
use std::path::Path;

use sublet_types::Bytes;

use super::super::super::folder::Folder;
use super::super::super::group::{Group, GroupError};
use super::super::error::BlockError;
use super::super::mounted::Mounted;
use super::super::served::Served;

/// How slow the disk is.
const SLOW: &str = "4ms, 100MB/s";

/// What memory the peer's daemon has for the disk: the least that it takes, with what it needs beside.
const BARE: Bytes = Bytes::mib(2);

/// What the page cache of a guest may hold of the disk: one part of so many.
const GUEST_PART: u64 = 8;

/// What a comparison has to know.
pub(super) struct Bench<'a> {
    /// The `sublet` that serves it.
    pub(super) sublet: &'a Path,
    /// The disk's size.
    pub(super) size: Bytes,
    /// Seconds of a round.
    pub(super) seconds: f64,
    /// Rounds of each side.
    pub(super) rounds: usize,
    /// What is on the disk.
    pub(super) image: &'a Path,
    /// The part that memory may hold, in per cent.
    pub(super) share: u64,
}

impl Bench<'_> {
    /// Serves the same disk twice: with memory for its share, and with next to none.
    pub(super) fn sides(&self) -> Result<[Side; 2], BlockError> {
        let memory = Bytes(self.size.0 * self.share / 100);
        Ok([self.side(memory)?, self.side(BARE)?])
    }

    fn side(&self, memory: Bytes) -> Result<Side, BlockError> {
        let folder = Folder::new()?;
        let image = folder.join("ours.img");
        fs::copy(self.image, &image)?;
        Ok(Side {
            served: Served::ours(self.sublet, &folder, &image, Some(SLOW), memory)?,
            folder,
        })
    }
}

/// One of two disks that hold the same.
pub(super) struct Side {
    // In the order in which they end.
    pub(super) served: Served,
    pub(super) folder: Folder,
}

/// A disk's file system, and the cgroup of those who use it.
pub(super) struct Guest {
    pub(super) mounted: Mounted,
    group: Group,
}

impl Guest {
    /// Mounts a side's disk.
    pub(super) fn on(side: &Side, name: &str, memory: Bytes) -> Result<Guest, BlockError> {
        Ok(Guest {
            mounted: Mounted::on(&side.served, &side.folder)?,
            group: Group::make(name, memory)?,
        })
    }

    /// What `work` reads and starts belongs to the cgroup.
    pub(super) fn within<R>(&self, work: impl FnOnce() -> R) -> Result<R, GroupError> {
        self.group.within(work)
    }
}

/// What is there for the page cache of whoever uses the disk's file system.
pub(super) fn page_cache(size: Bytes) -> Bytes {
    Bytes(size.0 / GUEST_PART)
}
