//! A daemon of the borrower's host, with a disk that is slow and room for a part of it.

use std::fs;
use std::path::Path;

use sublet_types::Bytes;

use super::super::disks::disk_server::DiskServer;
use super::super::disks::error::BlockError;
use super::super::disks::slow::sides::ServedSide;
use super::super::folder::ScratchFolder;

/// What the arena holds beside pages: the item index, and what is kept free for eviction.
const BESIDE: Bytes = Bytes::mib(18);

/// A disk and the room for it.
#[derive(Clone, Copy)]
pub(super) struct FarSideDisk<'a> {
    /// The `sublet` that serves it.
    pub(super) sublet: &'a Path,
    /// The content of the disk.
    pub(super) image: &'a Path,
    /// How soon it answers.
    pub(super) slow: &'a str,
    /// Room here for so much of it.
    pub(super) here: Bytes,
}

impl FarSideDisk<'_> {
    /// Starts a daemon that serves a copy of it. `tables` is the end of the daemon's config.
    pub(super) fn serve(&self, tables: &str) -> Result<ServedSide, BlockError> {
        let folder = ScratchFolder::new()?;
        let image = folder.join("ours.img");
        fs::copy(self.image, &image)?;
        let arena = self.here + BESIDE;
        let (sublet, slow) = (self.sublet, Some(self.slow));
        let served = DiskServer::ours_in_arena(sublet, &folder, &image, slow, arena, tables)?;
        Ok(ServedSide { served, folder })
    }
}
