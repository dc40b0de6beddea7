//! Spill files: they hold persistent pages that do not fit into memory.
//!
//! A pool has a file of its own in the tenant's spill folder:
//!
//! - It is preallocated, so that an accepted page always finds its place.
//! - Only the daemon's user may read it.
//! - It is locked, so that no second daemon takes it.
//! - It goes with its pool, because nobody else can make sense of it.
//!
//! ```text
//!  0      "SUBLSPIL" version:u32, little-endian; zeroes      4,096 bytes
//!  then   the slots' pages                                   4,096 bytes each
//! ```
//!
//! Version 1 had only the pages. A daemon removes what an earlier one left, except for a file of a newer release, which
//! may be worth more to that release.
//!
//! The kernel says that a page is written when it has taken it, and may fail to write it later. So a checksum of what
//! was written stays in memory. A page that a disk has lost is then an error, never another page.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use sublet_frontends::ring::SpillFactory;
use sublet_store::Spill;
use sublet_types::{Bytes, FileKind, PAGE_BYTES, UnreadVersion};
use xxhash_rust::xxh3::xxh3_64;

use crate::allocate_file::allocate_keeping_free;
use crate::headroom;
use crate::ofd::{self, LockMode};
use crate::retry::retry_on_shortage;

/// A tenant's folder for spill files.
#[derive(Debug)]
pub(crate) struct SpillFolder {
    folder: PathBuf,
    /// Bytes of each file's pages.
    size: Bytes,
    /// Bytes of all files together.
    size_max: Bytes,
    taken: Arc<Mutex<Bytes>>,
}

/// How many of a tenant's pools there is room for, unless its config says how many bytes.
const POOLS_AUTO: u64 = 16;

/// This much of the file system stays free for others: a hundredth of it, and at least this.
const KEPT_MIN: Bytes = Bytes::mib(64);
const KEPT_SHARE: u64 = 100;

fn space_kept_free(all: Bytes) -> Bytes {
    Bytes(all.0 / KEPT_SHARE).max(KEPT_MIN)
}

/// Devices on which files are being made, each with a lock, so that two files that are made at once do not count the
/// same space. A thread that waits for the lock waits for the disk that will have its own file.
static MAKING: Mutex<BTreeMap<u64, Weak<Mutex<()>>>> = Mutex::new(BTreeMap::new());

fn making_on(device: u64) -> Arc<Mutex<()>> {
    let mut all = MAKING.lock();
    all.retain(|_, lock| lock.strong_count() > 0);
    let known = all.get(&device).and_then(Weak::upgrade);
    known.unwrap_or_else(|| {
        let lock = Arc::default();
        all.insert(device, Arc::downgrade(&lock));
        lock
    })
}

/// Files that this process made, in any folder.
static MADE: AtomicU64 = AtomicU64::new(0);

impl SpillFolder {
    /// A folder whose files have `size` each, and `size_max` together. `None` stands for [`POOLS_AUTO`] files. Files
    /// that an ended daemon left behind are removed.
    ///
    /// # Errors
    ///
    /// The folder cannot be made or written to.
    pub(crate) fn open(
        folder: &Path,
        size: Bytes,
        size_max: Option<Bytes>,
    ) -> io::Result<SpillFolder> {
        fs::create_dir_all(folder)?;
        let system = rustix::fs::statvfs(folder)?;
        let free = Bytes(system.f_bavail * system.f_frsize);
        if free < size {
            tracing::warn!(folder = %folder.display(), %free, spill_size = %size, "the folder has no room for a spill file, and the daemon will refuse persistent pools; free space there, or lower `spill_size`");
        }
        if is_memory(folder)? {
            tracing::warn!(folder = %folder.display(), "the spill folder is on a file system in memory, and pages that do not fit into memory take memory there; set `spill` to a folder on a disk");
        }
        for left in fs::read_dir(folder)? {
            remove_if_left(&left?.path());
        }
        Ok(SpillFolder {
            folder: folder.to_owned(),
            size,
            size_max: size_max.unwrap_or(size * POOLS_AUTO),
            taken: Arc::default(),
        })
    }
}

/// Returns whether what is written there stays in memory, or goes to the swap device.
fn is_memory(folder: &Path) -> io::Result<bool> {
    const RAMFS_MAGIC: i64 = 0x8584_58f6;
    let system = rustix::fs::statfs(folder)?;
    Ok(matches!(system.f_type, libc::TMPFS_MAGIC | RAMFS_MAGIC))
}

const SUFFIX: &str = "spill";

fn remove_if_left(path: &Path) {
    if path.extension().is_none_or(|suffix| suffix != SUFFIX) {
        return;
    }
    let Ok(file) = File::options().read(true).write(true).open(path) else {
        return;
    };
    if !lock(&file).unwrap_or(false) {
        return;
    }
    let known = check_version(&file).map_err(io::Error::other);
    if let Err(error) = known.and_then(|()| fs::remove_file(path)) {
        let bytes = Bytes(file.metadata().map_or(0, |facts| facts.len()));
        tracing::warn!(path = %path.display(), %bytes, %error, "the daemon could not delete a spill file that no daemon uses; it serves on, and the file keeps its space: delete it by hand");
    }
}

const MAGIC: &[u8; 8] = b"SUBLSPIL";

/// The bytes before the pages.
const HEAD_BYTES: u64 = PAGE_BYTES;

fn write_head(file: &File) -> io::Result<()> {
    let mut head = [0; HEAD_BYTES as usize];
    head[..8].copy_from_slice(MAGIC);
    head[8..12].copy_from_slice(&FileKind::Spill.current().to_le_bytes());
    file.write_all_at(&head, 0)
}

/// Checks that this release reads the file's version. A file without a head has version 1, or was not finished.
fn check_version(file: &File) -> Result<(), UnreadVersion> {
    let mut head = [0; 12];
    let read = file.read_exact_at(&mut head, 0);
    match head.split_first_chunk() {
        Some((MAGIC, version)) if read.is_ok() => {
            let version = version.first_chunk().copied().unwrap_or_default();
            FileKind::Spill
                .version(u32::from_le_bytes(version))
                .map(drop)
        }
        _ => Ok(()),
    }
}

/// Locks a file. Returns whether no other open file has the lock. The lock is of the open file, not of the process,
/// because two tenants may share a folder.
fn lock(file: &File) -> io::Result<bool> {
    ofd::lock(file, LockMode::Exclusive, 0)
}

impl SpillFactory for SpillFolder {
    fn create(&self) -> io::Result<Arc<dyn Spill>> {
        self.new_file().inspect_err(|error| {
            let (folder, size) = (self.folder.display(), self.size);
            tracing::error!(%folder, spill_size = %size, %error, "the daemon cannot make a spill file and refused a program its persistent pool; free space in the folder, or lower `spill_size`");
        })
    }
}

impl SpillFolder {
    fn new_file(&self) -> io::Result<Arc<dyn Spill>> {
        // The pool's pages are lost with the daemon.
        headroom::protect_from_oom_killer();
        let share = SpillReservation::reserve(&self.taken, self.size, self.size_max)?;
        let (file, path) = self.new_name()?;
        let slots = slots(self.size);
        let spill = SpillFile {
            file,
            path,
            share,
            sums: Mutex::new(SlotChecksums {
                of_slot: vec![0; slots as usize],
                under_way: Vec::new(),
            }),
        };
        if !lock(&spill.file)? {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        let making = making_on(spill.file.metadata()?.dev());
        let _alone = making.lock();
        allocate_keeping_free(&spill.file, slot_offset(slots), space_kept_free)?;
        write_head(&spill.file)?;
        Ok(Arc::new(spill))
    }

    /// A new file that nobody else has. A daemon of another container may have the same process number as this one and
    /// must not have it either.
    fn new_name(&self) -> io::Result<(File, PathBuf)> {
        loop {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let name = format!("{}-{number}.{SUFFIX}", std::process::id());
            let path = self.folder.join(name);
            let made = OpenOptions::new()
                .read(true)
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&path);
            match made {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return Ok((made?, path)),
            }
        }
    }
}

fn slots(size: Bytes) -> u32 {
    u32::try_from(size.0 / PAGE_BYTES).unwrap_or(u32::MAX)
}

/// The offset of a slot's page.
fn slot_offset(slot: u32) -> u64 {
    HEAD_BYTES + u64::from(slot) * PAGE_BYTES
}

/// The spill file of one pool.
#[derive(Debug)]
struct SpillFile {
    file: File,
    path: PathBuf,
    share: SpillReservation,
    sums: Mutex<SlotChecksums>,
}

/// The bytes that a file takes of what its tenant may have. They are given back when this is dropped.
#[derive(Debug)]
struct SpillReservation {
    size: Bytes,
    taken: Arc<Mutex<Bytes>>,
}

impl SpillReservation {
    fn reserve(
        taken: &Arc<Mutex<Bytes>>,
        size: Bytes,
        most: Bytes,
    ) -> io::Result<SpillReservation> {
        let mut all = taken.lock();
        if *all + size > most {
            let what = format!("the tenant's spill files have {all} of {most} (`spill_total`)");
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, what));
        }
        *all += size;
        Ok(SpillReservation {
            size,
            taken: Arc::clone(taken),
        })
    }
}

impl Drop for SpillReservation {
    fn drop(&mut self) {
        let mut all = self.taken.lock();
        *all -= self.size;
    }
}

/// What a spill file should contain.
#[derive(Debug)]
struct SlotChecksums {
    /// Checksums of what was last written to each slot. The kernel gives memory only for those that were written.
    of_slot: Vec<u32>,
    /// Slots that are being written.
    under_way: Vec<u32>,
}

impl SlotChecksums {
    fn begin_write(&mut self, slot: u32, sum: u32) {
        self.of_slot[slot as usize] = sum;
        self.under_way.push(slot);
    }

    fn end_write(&mut self, slot: u32) {
        let place = self.under_way.iter().position(|other| *other == slot);
        place.map(|place| self.under_way.swap_remove(place));
    }

    /// What a slot should contain. `None` while it is being written.
    fn expected(&self, slot: u32) -> Option<u32> {
        let is_certain = !self.under_way.contains(&slot);
        is_certain.then(|| self.of_slot[slot as usize])
    }
}

impl Spill for SpillFile {
    fn slots(&self) -> u32 {
        slots(self.share.size)
    }

    fn write(&self, slot: u32, page: &[u8]) -> io::Result<()> {
        self.sums.lock().begin_write(slot, sum(page));
        let at = slot_offset(slot);
        let written = retry_on_shortage(|| self.file.write_all_at(page, at));
        self.sums.lock().end_write(slot);
        self.log_failure(
            written,
            at,
            "a page cannot be written to its spill file and stays in memory; check the folder's file system",
        )
    }

    fn read(&self, slot: u32, page: &mut [u8]) -> io::Result<()> {
        let expected = self.sums.lock().expected(slot);
        let at = slot_offset(slot);
        let read = retry_on_shortage(|| self.file.read_exact_at(page, at));
        let read = read.and_then(|()| match expected == Some(sum(page)) {
            true => Ok(()),
            false => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "what is there is not what was written; the disk may be failing",
            )),
        });
        if expected.is_none() || self.sums.lock().expected(slot) != expected {
            return read; // written anew meanwhile: nobody wants what was there before
        }
        self.log_failure(
            read,
            at,
            "a page cannot be read from its spill file, and its program gets an error; check the folder's disk",
        )
    }
}

fn sum(page: &[u8]) -> u32 {
    xxh3_64(page) as u32
}

impl SpillFile {
    fn log_failure(&self, done: io::Result<()>, at: u64, what: &str) -> io::Result<()> {
        if let Err(error) = &done {
            tracing::error!(path = %self.path.display(), at, %error, "{what}");
        }
        done
    }
}

impl Drop for SpillFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_holds_pages_and_goes_with_its_pool() {
        let folder = tempfile::tempdir().expect("a folder");
        let spills = SpillFolder::open(folder.path(), Bytes::mib(1), None).expect("opened");
        let spill = spills.create().expect("made");
        assert_eq!(spill.slots(), 256);
        spill.write(255, &[7; 4096]).expect("written");
        let mut page = [0; 4096];
        spill.read(255, &mut page).expect("read");
        assert_eq!(page, [7; 4096]);
        let files = || fs::read_dir(folder.path()).expect("a folder").flatten();
        let file = files().next().expect("a file");
        let facts = file.metadata().expect("facts");
        assert_eq!(
            (facts.len(), facts.permissions().mode() & 0o777),
            (HEAD_BYTES + (1 << 20), 0o600)
        );
        drop(spill);
        assert_eq!(files().count(), 0);
    }

    #[test]
    fn a_tenants_files_have_a_total_and_give_their_part_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let total = Some(Bytes::mib(3));
        let spills = SpillFolder::open(folder.path(), Bytes::mib(1), total).expect("opened");
        let mut made: Vec<_> = (0..3).map(|_| spills.create().expect("made")).collect();
        let refused = spills.create().err().expect("the fourth");
        assert_eq!(refused.kind(), io::ErrorKind::QuotaExceeded);
        assert!(
            refused.to_string().contains("3.00 MiB of 3.00 MiB"),
            "{refused}"
        );
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 3);
        made.pop();
        spills.create().expect("made");
        let many = SpillFolder::open(folder.path(), Bytes::mib(1), None).expect("opened");
        let made: Vec<_> = (0..17).map(|_| many.create()).collect();
        assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 16);
    }

    /// A file system that has room for the file, and not for what stays free beside it.
    #[test]
    fn some_of_the_file_system_stays_free() {
        let folder = tempfile::tempdir().expect("a folder");
        let system = rustix::fs::statvfs(folder.path()).expect("facts");
        let free = system.f_bavail * system.f_frsize;
        let nearly_all = Bytes(free - KEPT_MIN.0 / 2);
        let total = Some(nearly_all);
        let spills = SpillFolder::open(folder.path(), nearly_all, total).expect("opened");
        let refused = spills.create().err().expect("too much");
        assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
        assert!(
            refused.to_string().contains("stay free for others"),
            "{refused}"
        );
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
        assert_eq!(space_kept_free(Bytes::gib(1)), Bytes::mib(64));
        assert_eq!(space_kept_free(Bytes::gib(100)), Bytes::gib(1));
    }

    /// As while the other file's file system hangs.
    #[test]
    fn a_file_is_made_while_one_is_being_made_on_another_device() {
        let folder = tempfile::tempdir().expect("a folder");
        let spills = SpillFolder::open(folder.path(), Bytes::mib(1), None).expect("opened");
        let here = fs::metadata(folder.path()).expect("facts").dev();
        let (elsewhere, same) = (making_on(here + 1), making_on(here));
        let _hangs = elsewhere.lock();
        let (done, is_done) = std::sync::mpsc::channel();
        std::thread::spawn(move || _ = done.send(spills.create().map(drop)));
        let made = is_done.recv_timeout(std::time::Duration::from_secs(30));
        made.expect("nobody is waited for").expect("made");
        let _one = same.lock();
        assert!(making_on(here).try_lock().is_none(), "one at a time");
    }

    #[test]
    fn a_folder_in_memory_is_known() {
        assert!(is_memory(Path::new("/dev/shm")).expect("there"));
        assert!(!is_memory(Path::new("/proc")).expect("there"));
    }

    /// A disk that took a page and lost it, as one that fails after the kernel has said that the page is written.
    #[test]
    fn what_a_disk_has_lost_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let spills = SpillFolder::open(folder.path(), Bytes::mib(1), None).expect("opened");
        let spill = spills.create().expect("made");
        spill.write(3, &[7; 4096]).expect("written");
        spill.write(4, &[8; 4096]).expect("written");
        let path = fs::read_dir(folder.path())
            .expect("a folder")
            .flatten()
            .next();
        let behind = File::options()
            .write(true)
            .open(path.expect("a file").path());
        let behind = behind.expect("opened");
        let mut page = [0; 4096];
        for lost in [[0; 4096], [8; 4096]] {
            behind.write_all_at(&lost, slot_offset(3)).expect("written");
            let error = spill.read(3, &mut page).expect_err("another page");
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
        spill.read(4, &mut page).expect("read");
        assert_eq!(page, [8; 4096]);
    }

    /// Two daemons in containers may each have process number 1.
    #[test]
    fn a_name_that_is_taken_is_passed_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let spills = SpillFolder::open(folder.path(), Bytes::mib(1), None).expect("opened");
        let next = MADE.load(Ordering::Relaxed);
        for number in next..next + 100 {
            let name = format!("{}-{number}.{SUFFIX}", std::process::id());
            fs::write(folder.path().join(name), b"").expect("written");
        }
        assert!(spills.create().is_ok());
    }

    /// Another tenant's file, and another daemon's.
    #[test]
    fn a_file_in_use_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = SpillFolder::open(folder.path(), Bytes::mib(1), None).expect("opened");
        let spill = first.create().expect("made");
        SpillFolder::open(folder.path(), Bytes::mib(1), None).expect("opened");
        let files = || fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(files(), 1);
        drop(spill);
        assert_eq!(files(), 0);
    }

    #[test]
    fn what_a_dead_daemon_left_is_removed_and_other_files_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("1-0.spill"), b"left").expect("written");
        fs::write(folder.path().join("notes.txt"), b"mine").expect("written");
        SpillFolder::open(folder.path(), Bytes::mib(1), None).expect("opened");
        let left: Vec<_> = fs::read_dir(folder.path())
            .expect("a folder")
            .flatten()
            .collect();
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].file_name(), "notes.txt");
    }

    #[test]
    fn what_is_being_written_is_no_disk_that_fails() {
        let mut sums = SlotChecksums {
            of_slot: vec![0; 4],
            under_way: Vec::new(),
        };
        sums.begin_write(2, 7);
        sums.begin_write(2, 8);
        assert_eq!((sums.expected(2), sums.expected(1)), (None, Some(0)));
        sums.end_write(2);
        assert_eq!(sums.expected(2), None, "one is under way still");
        sums.end_write(2);
        assert_eq!(sums.expected(2), Some(8));
    }
    /// See `tests/golden/README.md`. What a newer release left may have pages that it can use.
    #[test]
    fn what_a_newer_release_left_stays_and_is_named_by_its_version() {
        let before = include_bytes!("../tests/golden/spill-1");
        let today = include_bytes!("../tests/golden/spill-2");
        let mut newer = today.to_vec();
        newer[8] = 3;
        let folder = tempfile::tempdir().expect("a folder");
        let files: [(_, &[u8]); 3] = [("1-0", before), ("1-1", today), ("1-2", &newer)];
        let path = |name| folder.path().join(format!("{name}.{SUFFIX}"));
        for (name, bytes) in files {
            fs::write(path(name), bytes).expect("written");
        }
        let left = File::open(path("1-2")).expect("a file");
        let unread = check_version(&left).expect_err("newer").to_string();
        assert_eq!(
            unread,
            "a newer Sublet wrote the spill file: it has version 3, and this Sublet reads versions 1 and 2; it stays as it is"
        );
        let spills = SpillFolder::open(folder.path(), Bytes(PAGE_BYTES), None).expect("opened");
        assert_eq!(fs::read(path("1-2")).expect("it stays"), newer);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);

        fs::remove_file(path("1-2")).expect("removed");
        let spill = spills.create().expect("made");
        spill.write(0, &[7; PAGE_BYTES as usize]).expect("written");
        let mut files = fs::read_dir(folder.path()).expect("a folder").flatten();
        let made = files.next().expect("a file").path();
        assert_eq!(fs::read(made).expect("read"), today);
    }
}
