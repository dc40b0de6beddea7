//! What is behind a disk: a raw file or a block device, opened for direct I/O and locked as QEMU locks its images.

mod backing_path;
mod error;
mod format;
mod image_lock;

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use rustix::fs::{OFlags, XattrFlags, fcntl_setfl};
use sublet_frontends::block_device::{Buffer, Extent, Hole, SECTOR_BYTES};
use sublet_types::{Bytes, PAGE_BYTES};
use xxhash_rust::xxh3::xxh3_64;

use self::backing_path::identity;
pub(in crate::disk) use self::backing_path::{BackingPath, PathMismatch};
pub use self::error::BackingError;
use super::engine::{IoEngine, IoOperation, IoPriority};
use crate::allocate_file::allocate;

/// An open backing.
#[derive(Debug)]
pub(super) struct Backing {
    path: PathBuf,
    /// Bypasses the page cache, if the file system can.
    direct: Arc<File>,
    /// For pieces that are not whole pages, as the last one can be.
    plain: Arc<File>,
    is_device: bool,
    identity: [u64; 2],
    is_direct: bool,
    /// The file was made for this disk.
    is_new: bool,
}

/// What a backing is opened and locked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BackingAccess {
    /// Reading only.
    ReadOnly,
    /// Reading and writing.
    ReadWrite,
}

/// Whether a file that grows gets its blocks at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileAllocation {
    /// The file system gives the file all of its blocks.
    Full,
    /// The file grows without blocks.
    Sparse,
}

/// The file attribute that holds the name of the owning tenant.
const OWNER: &str = "user.sublet.tenant";

/// The longest name of a tenant, and more.
const OWNER_BYTES_MAX: usize = 256;

impl Backing {
    /// Opens a backing and locks it.
    pub(super) fn open(path: &Path, access: BackingAccess) -> Result<Backing, BackingError> {
        let failed = |source| BackingError::opening(path, source);
        // Without this flag, opening a pipe would wait until another process opens its other end.
        let nonblocking = OFlags::NONBLOCK.bits() as i32;
        let mut options = options(access);
        let plain = options.custom_flags(nonblocking).open(path);
        let plain = plain.map_err(failed)?;
        let facts = plain.metadata().map_err(failed)?;
        let kind = facts.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(BackingError::Kind(path.to_owned()));
        }
        fcntl_setfl(&plain, OFlags::empty()).map_err(|error| failed(error.into()))?;
        if let Some(format) = format::recognised(&plain).map_err(failed)? {
            let path = path.to_owned();
            return Err(BackingError::Format { path, format });
        }
        match image_lock::acquire(&plain, access) {
            Ok(true) => {}
            Ok(false) => return Err(BackingError::InUse(path.to_owned())),
            Err(error) => {
                tracing::warn!(path = %path.display(), bytes = facts.len(), %error, "the daemon cannot lock the backing and serves it unlocked; see that no other program opens it")
            }
        }
        let (direct, is_direct) = direct(&plain, path, access).map_err(failed)?;
        // Writes that are under way when the daemon is killed hold only this file.
        if let Err(error) = image_lock::relock(&direct, access) {
            tracing::debug!(path = %path.display(), bytes = facts.len(), %error, "the daemon cannot lock the backing a second time; after a kill, the next daemon may open it before the last writes end");
        }
        let backing = Backing {
            direct: Arc::new(direct),
            is_direct,
            plain: Arc::new(plain),
            path: path.to_owned(),
            is_device: kind.is_block_device(),
            identity: identity(&facts),
            is_new: false,
        };
        let bytes = backing.all_bytes().map_err(failed)?;
        if bytes < PAGE_BYTES {
            let path = backing.path;
            return Err(BackingError::Size { path, bytes });
        }
        Ok(backing)
    }

    /// Makes a file of that size, if there is none, and opens it. The file gets its blocks at once. So a page that
    /// memory has no room for always finds its place.
    pub(super) fn make(path: &Path, size: Bytes) -> Result<Backing, BackingError> {
        if path.exists() {
            return Backing::open(path, BackingAccess::ReadWrite);
        }
        let failed = |source| BackingError::making(path, source);
        let file = options(BackingAccess::ReadWrite)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(failed)?;
        let filled = file.set_len(size.0).map_err(failed);
        let made = filled.and_then(|()| {
            let backing = Backing::open(path, BackingAccess::ReadWrite)?;
            backing.allocate(size.0).map_err(failed)?;
            Ok(Backing {
                is_new: true,
                ..backing
            })
        });
        if made.is_err() {
            let _ = std::fs::remove_file(path);
        }
        made
    }

    /// Returns whether the backing's file was made for this disk.
    pub(super) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Returns whether writes bypass the page cache.
    pub(super) fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// The path of the backing.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The path at which the backing was opened.
    pub(super) fn at_path(&self) -> BackingPath {
        BackingPath {
            path: self.path.clone(),
            identity: self.identity,
        }
    }

    /// Returns whether `path` is a path of the backing. Asks nothing of the backing's own file system, which may hang.
    pub(super) fn is_at(&self, path: &Path) -> bool {
        std::fs::metadata(path).is_ok_and(|facts| identity(&facts) == self.identity)
    }

    /// Tells the backing from others for as long as the host runs: the file and when it was made, or the device. The
    /// number of a file is not enough, because a file system gives the number of a deleted file to the next one.
    pub(super) fn mark(&self) -> io::Result<u64> {
        let facts = self.plain.metadata()?;
        let born = facts.created().ok();
        let born = born.and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        let born = born.map_or(0, |born| born.as_nanos() as u64);
        let which = match self.is_device {
            true => [facts.rdev(), u64::MAX, 0],
            false => [facts.dev(), facts.ino(), born],
        };
        let bytes = which.map(u64::to_le_bytes);
        Ok(xxh3_64(bytes.as_flattened()))
    }

    /// The tenant whose pages were written to the backing, if the file system keeps such a note.
    pub(super) fn owner(&self) -> Option<String> {
        let mut note = [0; OWNER_BYTES_MAX];
        let len = rustix::fs::fgetxattr(&*self.plain, OWNER, &mut note[..]).ok()?;
        String::from_utf8(note[..len].to_vec()).ok()
    }

    /// Notes the tenant whose pages are written to the backing.
    pub(super) fn set_owner(&self, owner: &str) -> io::Result<()> {
        Ok(rustix::fs::fsetxattr(
            &*self.plain,
            OWNER,
            owner.as_bytes(),
            XattrFlags::empty(),
        )?)
    }

    /// The bytes of the backing that a disk has now: whole sectors.
    pub(super) fn bytes(&self) -> io::Result<u64> {
        Ok(whole_sectors(self.all_bytes()?))
    }

    /// The backing's last bytes that are no whole sector.
    pub(super) fn partial_sector_bytes(&self) -> io::Result<u64> {
        self.all_bytes().map(|bytes| bytes - whole_sectors(bytes))
    }

    /// The backing's size now.
    pub(super) fn all_bytes(&self) -> io::Result<u64> {
        (&*self.plain).seek(SeekFrom::End(0))
    }

    /// Reserves all blocks of a file, if its file system can do that and has them all. Otherwise it reserves none.
    pub(super) fn reserve(&self) -> io::Result<()> {
        if self.is_device {
            return Ok(());
        }
        self.allocate(self.bytes()?)
    }

    /// Reserves blocks for this many bytes of a file, which becomes that large, if its file system can do that and has
    /// them all.
    fn allocate(&self, bytes: u64) -> io::Result<()> {
        match allocate(&self.plain, bytes) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
            reserved => reserved,
        }
    }

    /// Makes a file larger. A device must have the size already. A file that cannot be made that large stays as it was.
    pub(super) fn grow(&self, size: Bytes, allocation: FileAllocation) -> io::Result<()> {
        match self.is_device {
            true if self.bytes()? < size.0 => Err(io::Error::other(
                "a block device is made larger by whoever made it",
            )),
            true => Ok(()),
            false => {
                let had = self.all_bytes()?;
                let grown = match allocation {
                    FileAllocation::Full => self.allocate(size.0),
                    FileAllocation::Sparse => Ok(()),
                };
                let grown = grown.and_then(|()| self.plain.set_len(size.0.max(had)));
                grown.inspect_err(|_| _ = self.plain.set_len(had))
            }
        }
    }

    /// Makes a file that has just grown as small as it was.
    pub(super) fn shrink_back(&self, bytes: u64) {
        if !self.is_device
            && let Err(error) = self.plain.set_len(bytes)
        {
            let has = self.all_bytes().unwrap_or_default();
            tracing::warn!(path = %self.path.display(), has = %Bytes(has), wanted = %Bytes(bytes), %error, "the daemon cannot cut the backing to its former size; the disk keeps that size: `sublet disk resize` can use the rest");
        }
    }

    /// The file for a piece at that offset and of that length.
    fn file(&self, at: u64, len: usize) -> &Arc<File> {
        let whole = at.is_multiple_of(PAGE_BYTES) && (len as u64).is_multiple_of(PAGE_BYTES);
        match whole {
            true => &self.direct,
            false => &self.plain,
        }
    }

    /// Fills a part of the buffer. What lies beyond `end`, where the disk ends, is zero.
    pub(super) async fn read(
        &self,
        engine: &IoEngine,
        at: u64,
        buffer: Buffer,
        part: Range<usize>,
        end: u64,
    ) -> (io::Result<()>, Buffer) {
        let from = part.start;
        let (read, mut buffer) = self
            .transfer(engine, IoOperation::Read, at, buffer, part)
            .await;
        let read = read.and_then(|left| {
            let stopped = at + (left.start - from) as u64;
            if !left.is_empty() && stopped < end {
                return Err(io::Error::other(
                    "the backing has become shorter than its disk",
                ));
            }
            buffer[left].fill(0);
            Ok(())
        });
        (read, buffer)
    }

    /// Writes a part of the buffer.
    pub(super) async fn write(
        &self,
        engine: &IoEngine,
        priority: IoPriority,
        at: u64,
        buffer: Buffer,
        part: Range<usize>,
    ) -> (io::Result<()>, Buffer) {
        let operation = IoOperation::Write(priority);
        let (wrote, buffer) = self.transfer(engine, operation, at, buffer, part).await;
        let wrote = wrote.and_then(|left| match left.is_empty() {
            true => Ok(()),
            false => Err(io::ErrorKind::WriteZero.into()),
        });
        (wrote, buffer)
    }

    /// Reads or writes piece by piece. Returns what is left if the file takes or gives no more.
    async fn transfer(
        &self,
        engine: &IoEngine,
        operation: IoOperation,
        mut at: u64,
        mut buffer: Buffer,
        mut part: Range<usize>,
    ) -> (io::Result<Range<usize>>, Buffer) {
        while !part.is_empty() {
            let file = self.file(at, part.len());
            let (moved, back) = engine
                .execute(operation, file, at, buffer, part.clone())
                .await;
            buffer = back;
            match moved {
                Ok(0) => break,
                Ok(bytes) => {
                    part.start += bytes;
                    at += bytes as u64;
                }
                Err(error) => return (Err(error), buffer),
            }
        }
        (Ok(part), buffer)
    }

    /// Makes everything that was written last.
    pub(super) async fn sync(&self, engine: &IoEngine) -> io::Result<()> {
        let nothing = Buffer::default();
        let (synced, _) = engine
            .execute(IoOperation::Sync, &self.plain, 0, nothing, 0..0)
            .await;
        synced.map(|_| ())
    }

    /// Makes a range zero without writing it, as a hole or not. Fails if the file system cannot.
    pub(super) async fn zero(
        &self,
        engine: &IoEngine,
        range: Range<u64>,
        hole: Hole,
    ) -> io::Result<()> {
        let len = range.end - range.start;
        let operation = match hole {
            Hole::Allowed => IoOperation::Punch(len),
            Hole::Forbidden => IoOperation::Zero(len),
        };
        let nothing = Buffer::default();
        let (done, _) = engine
            .execute(operation, &self.plain, range.start, nothing, 0..0)
            .await;
        done.map(|_| ())
    }

    /// Holes and bytes of a range, in order, at most `most` of them.
    pub(super) fn extents(&self, range: Range<u64>, most: usize) -> Vec<Extent> {
        let mut extents = Vec::new();
        let mut at = range.start;
        while at < range.end && extents.len() < most {
            let (until, hole) = self.next_change(at).unwrap_or((range.end, false));
            let until = until.clamp(at + 1, range.end);
            extents.push(Extent {
                len: until - at,
                hole,
            });
            at = until;
        }
        extents
    }

    /// Where the hole or the bytes at an offset end, and whether it is a hole.
    fn next_change(&self, at: u64) -> Option<(u64, bool)> {
        let seek = |whence| rustix::fs::seek(&*self.plain, whence);
        let begins = match seek(rustix::fs::SeekFrom::Data(at)) {
            Ok(begins) => begins,
            Err(rustix::io::Errno::NXIO) => return Some((u64::MAX, true)), // nothing but a hole
            Err(_) => return None,
        };
        match begins > at {
            true => Some((begins, true)),
            false => Some((seek(rustix::fs::SeekFrom::Hole(at)).ok()?, false)),
        }
    }
}

/// The part of a size that is whole sectors. A guest can address no more.
pub(super) fn whole_sectors(bytes: u64) -> u64 {
    bytes - bytes % SECTOR_BYTES
}

fn options(access: BackingAccess) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(access == BackingAccess::ReadWrite);
    options
}

/// Opens the file so that it bypasses the page cache. If the file system has no direct I/O, the file goes through the
/// page cache.
fn direct(plain: &File, path: &Path, access: BackingAccess) -> io::Result<(File, bool)> {
    let flags = OFlags::DIRECT.bits() as i32;
    // This opens the same file, whatever the path leads to now.
    let same = format!("/proc/self/fd/{}", plain.as_raw_fd());
    match options(access).custom_flags(flags).open(&same) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            tracing::warn!(
                path = %path.display(),
                bytes = plain.metadata().map_or(0, |facts| facts.len()),
                "the file system has no direct I/O, and the host's page cache keeps a second copy of the backing; put it on a file system with O_DIRECT"
            );
            Ok((options(access).open(&same)?, false))
        }
        opened => Ok((opened?, true)),
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{Mode, mkfifoat};

    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn what_is_no_raw_image_is_refused_by_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk");
        let mut image = vec![0; 1 << 20];
        image[..4].copy_from_slice(b"QFI\xfb");
        std::fs::write(&path, &image).expect("written");
        let refused = Backing::open(&path, BackingAccess::ReadWrite).expect_err("refused");
        assert!(refused.to_string().contains("qcow2"), "{refused}");
        std::fs::write(&path, vec![0; 4000]).expect("written");
        assert!(matches!(
            Backing::open(&path, BackingAccess::ReadWrite),
            Err(BackingError::Size { bytes: 4000, .. })
        ));
        let refused = Backing::open(folder.path(), BackingAccess::ReadOnly).expect_err("refused");
        assert!(matches!(refused, BackingError::Kind(_)), "{refused}");
        let pipe = folder.path().join("pipe");
        mkfifoat(rustix::fs::CWD, &pipe, Mode::RWXU).expect("a pipe");
        for access in [BackingAccess::ReadOnly, BackingAccess::ReadWrite] {
            let refused = Backing::open(&pipe, access).expect_err("refused, and at once");
            assert!(matches!(refused, BackingError::Kind(_)), "{refused}");
        }
    }

    #[test]
    fn a_sparse_file_is_given_its_blocks() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("swap");
        let file = std::fs::File::create(&path).expect("made");
        file.set_len(1 << 20).expect("it grows");
        let backing = Backing::open(&path, BackingAccess::ReadWrite).expect("opened");
        backing.reserve().expect("room");
        let blocks = file.metadata().expect("facts").blocks();
        assert!(blocks * 512 >= 1 << 20, "{blocks}");
    }

    #[test]
    fn a_backing_is_one_writers() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk");
        std::fs::write(&path, vec![0; 8192]).expect("written");
        let first = Backing::open(&path, BackingAccess::ReadWrite).expect("opened");
        assert!(matches!(
            Backing::open(&path, BackingAccess::ReadWrite),
            Err(BackingError::InUse(_))
        ));
        assert!(matches!(
            Backing::open(&path, BackingAccess::ReadOnly),
            Err(BackingError::InUse(_))
        ));
        drop(first);
        let _one = Backing::open(&path, BackingAccess::ReadOnly).expect("readers share");
        let _other = Backing::open(&path, BackingAccess::ReadOnly).expect("readers share");
        assert!(matches!(
            Backing::open(&path, BackingAccess::ReadWrite),
            Err(BackingError::InUse(_))
        ));
    }

    /// A file system gives a new file the number of a deleted one. The mark still differs.
    #[test]
    fn a_file_that_takes_anothers_place_has_a_mark_of_its_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk");
        let mut marks = Vec::new();
        for _ in 0..8 {
            std::fs::write(&path, vec![0; 1 << 20]).expect("written");
            let mark = Backing::open(&path, BackingAccess::ReadWrite)
                .expect("opened")
                .mark();
            marks.push(mark.expect("a mark"));
            let again = Backing::open(&path, BackingAccess::ReadWrite)
                .expect("opened")
                .mark();
            assert_eq!(again.expect("a mark"), marks[marks.len() - 1]);
            std::fs::remove_file(&path).expect("removed");
        }
        marks.sort_unstable();
        marks.dedup();
        assert_eq!(marks.len(), 8);
    }

    #[test]
    fn a_file_that_its_file_system_has_no_room_for_stays_as_it_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk");
        std::fs::write(&path, vec![1; 1 << 20]).expect("written");
        let backing = Backing::open(&path, BackingAccess::ReadWrite).expect("opened");
        let refused = backing
            .grow(Bytes(1 << 50), FileAllocation::Full)
            .expect_err("no room");
        assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
        // A file cannot be that large.
        assert!(
            backing
                .grow(Bytes(1 << 62), FileAllocation::Sparse)
                .is_err()
        );
        assert_eq!(backing.bytes().expect("a size"), 1 << 20);
        backing
            .grow(Bytes(2 << 20), FileAllocation::Full)
            .expect("grown");
        assert_eq!(backing.bytes().expect("a size"), 2 << 20);
        backing
            .grow(Bytes(1 << 20), FileAllocation::Sparse)
            .expect("large enough");
        assert_eq!(backing.bytes().expect("a size"), 2 << 20);
        let blocks = std::fs::metadata(&path).expect("facts").blocks();
        assert!(blocks * 512 >= 2 << 20, "{blocks}");
    }

    #[test]
    fn holes_are_told_from_bytes() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk");
        std::fs::write(&path, vec![1; 1 << 20]).expect("written");
        let file = OpenOptions::new().write(true).open(&path).expect("opened");
        file.set_len(4 << 20).expect("grown");
        let backing = Backing::open(&path, BackingAccess::ReadOnly).expect("opened");
        let found = |range| {
            let extents = backing.extents(range, 10).into_iter();
            extents.map(|it| (it.len, it.hole)).collect::<Vec<_>>()
        };
        assert_eq!(found(4096..8192), [(4096, false)]);
        // A file system without holes reports the whole file as data.
        let data_end = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(0)).expect("an end");
        if data_end == 4 << 20 {
            eprintln!("skipped: files have no holes in {}", path.display());
            return assert_eq!(found(0..4 << 20), [(4 << 20, false)]);
        }
        assert_eq!(found(0..4 << 20), [(1 << 20, false), (3 << 20, true)]);
        assert_eq!(found(2 << 20..3 << 20), [(1 << 20, true)]);
        file.write_all_at(&[1; 1 << 20], 3 << 20).expect("written");
        let ends = [(1 << 20, false), (2 << 20, true), (1 << 20, false)];
        assert_eq!(found(0..4 << 20), ends);
    }

    /// Compares the extents of a file with a list of its written pages, from every page on, for one extent and for all.
    #[test]
    fn extents_are_those_of_the_file_from_wherever_they_are_asked() {
        const PAGES: usize = 96;
        const PAGE: u64 = 4096;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk");
        let file = std::fs::File::create(&path).expect("made");
        file.set_len(PAGES as u64 * PAGE).expect("grown");
        let is_hole: Vec<bool> = (0..PAGES).map(|page| page * page % 7 != 2).collect();
        for page in (0..PAGES).filter(|page| !is_hole[*page]) {
            file.write_all_at(&[7; PAGE as usize], page as u64 * PAGE)
                .expect("written");
        }
        let backing = Backing::open(&path, BackingAccess::ReadOnly).expect("opened");
        for from in 0..PAGES {
            let range = from as u64 * PAGE..PAGES as u64 * PAGE;
            let runs: Vec<(u64, bool)> = is_hole[from..]
                .chunk_by(|a, b| a == b)
                .map(|run| (run.len() as u64 * PAGE, run[0]))
                .collect();
            let found = |most| {
                let found = backing.extents(range.clone(), most);
                let pairs = found.iter().map(|extent| (extent.len, extent.hole));
                pairs.collect::<Vec<_>>()
            };
            assert_eq!(found(PAGES), runs, "from {from}");
            assert_eq!(found(1), runs[..1], "from {from}");
        }
    }
}
