//! The two disks that are compared, and guests that have a file system on them.

use std::fs;
use std::path::Path;

use sublet_types::Bytes;

use super::super::super::cgroup::{BenchCgroup, CgroupError};
use super::super::super::folder::ScratchFolder;
use super::super::disk_server::DiskServer;
use super::super::error::BlockError;
use super::super::mounted::MountedDisk;

/// The delay and speed of the disk.
const SLOW: &str = "4ms, 100MB/s";

/// The memory of the peer's daemon for the disk: the least that it takes, and what it needs besides.
const BARE: Bytes = Bytes::mib(2);

/// The page cache of a guest may hold one in this many parts of the disk.
const GUEST_PART: u64 = 8;

/// Whether each round of fio reads other pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bench) enum FioDraws {
    /// Each round reads the same pages in the same order.
    Once,
    /// Each round draws its pages anew. Before the first that counts, fio fills the memory quickly.
    EachRound,
}

/// The parameters of a comparison.
pub(in crate::bench) struct ComparisonParameters<'a> {
    /// The disk's size.
    pub(in crate::bench) size: Bytes,
    /// Seconds of a round.
    pub(in crate::bench) seconds: f64,
    /// Rounds of each side.
    pub(in crate::bench) rounds: usize,
    /// Whether each of fio's rounds draws its pages anew.
    pub(in crate::bench) draws: FioDraws,
    /// Serves the same disk twice: ours, then the peer.
    pub(in crate::bench) sides: &'a dyn Fn() -> Result<[ServedSide; 2], BlockError>,
}

/// A slow disk with memory for a part of it.
pub(super) struct PartlyCachedDisk<'a> {
    /// The `sublet` that serves it.
    pub(super) sublet: &'a Path,
    /// The content of the disk.
    pub(super) image: &'a Path,
    /// The disk's size.
    pub(super) size: Bytes,
    /// The part of it that memory may hold, in per cent.
    pub(super) share: u64,
}

impl PartlyCachedDisk<'_> {
    /// Serves the same disk twice: with memory for its share, and with next to none.
    pub(super) fn sides(&self) -> Result<[ServedSide; 2], BlockError> {
        let memory = Bytes(self.size.0 * self.share / 100);
        Ok([self.side(memory)?, self.side(BARE)?])
    }

    fn side(&self, memory: Bytes) -> Result<ServedSide, BlockError> {
        let folder = ScratchFolder::new()?;
        let image = folder.join("ours.img");
        fs::copy(self.image, &image)?;
        Ok(ServedSide {
            served: DiskServer::ours(self.sublet, &folder, &image, Some(SLOW), memory)?,
            folder,
        })
    }
}

/// One of two disks with the same content.
pub(in crate::bench) struct ServedSide {
    // In the order in which they end.
    pub(in crate::bench) served: DiskServer,
    pub(in crate::bench) folder: ScratchFolder,
}

/// A disk's file system, and the cgroup of its users.
pub(super) struct DiskGuest {
    pub(super) mounted: MountedDisk,
    group: BenchCgroup,
}

impl DiskGuest {
    /// Mounts a side's disk.
    pub(super) fn on(
        side: &ServedSide,
        name: &str,
        memory: Bytes,
    ) -> Result<DiskGuest, BlockError> {
        Ok(DiskGuest {
            mounted: MountedDisk::on(&side.served, &side.folder)?,
            group: BenchCgroup::make(name, memory)?,
        })
    }

    /// Runs `work` in the cgroup: what it reads and starts belongs to it.
    pub(super) fn within<R>(&self, work: impl FnOnce() -> R) -> Result<R, CgroupError> {
        self.group.within(work)
    }
}

/// The memory for the page cache of those that use the disk's file system.
pub(super) fn page_cache(size: Bytes) -> Bytes {
    Bytes(size.0 / GUEST_PART)
}
