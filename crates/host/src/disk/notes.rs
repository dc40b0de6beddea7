//! Small files in the state folder that one daemon leaves for the next.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::OFlags;
use rustix::time::{ClockId, clock_gettime};
use sublet_types::{FileKind, UnreadVersion};

use crate::config::{PersistError, StateFolderClaim};
use crate::retry::retry_for_killed_daemon;

/// The host's start. No guest that ran before it is left.
pub(super) fn host_start() -> io::Result<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(boot.trim().to_owned())
}

/// The folder of the notes.
pub(super) fn folder(state: &StateFolderClaim) -> Option<PathBuf> {
    state.folder().map(|folder| folder.join("disks"))
}

/// The error that there is no folder for notes.
pub(super) fn no_folder() -> io::Error {
    io::Error::new(
        io::ErrorKind::NotFound,
        "there is no state folder (--state FOLDER)",
    )
}

/// The most bytes of a note.
const NOTE_MAX: u64 = 64 << 10;

/// How the first line of a note begins. Version 1 had no such line: it began with the host's start.
const VERSION: &str = "version ";

/// A note with its version in front.
fn export(says: &str) -> String {
    format!("{VERSION}{}\n{says}", FileKind::DiskNote.current())
}

/// What a note says after its version.
fn import(note: &str) -> Result<&str, UnreadVersion> {
    let (first, rest) = note.split_once('\n').unwrap_or((note, ""));
    let found = first.strip_prefix(VERSION).map(str::parse);
    let Some(Ok(found)) = found else {
        return Ok(note);
    };
    FileKind::DiskNote.version(found).map(|_| rest)
}

/// What a note says, if there is one of a known version.
pub(super) fn read(path: &Path) -> Option<String> {
    let note = text(path)?;
    import(&note).ok().map(str::to_owned)
}

/// Returns whether anything that was written since the host's start is in a note's place. A file that cannot be
/// examined may have been. A host that loses power may leave half a note, but then no guest is left to be harmed.
pub(super) fn is_there_since_start(path: &Path) -> bool {
    match fs::symlink_metadata(path) {
        Ok(facts) => facts.modified().is_ok_and(|at| at >= host_start_time()),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

/// When the host was started, to within a second, by today's clock.
fn host_start_time() -> SystemTime {
    let up = clock_gettime(ClockId::Boottime);
    let up = Duration::new(up.tv_sec.max(0) as u64 + 1, 0);
    SystemTime::now().checked_sub(up).unwrap_or(UNIX_EPOCH)
}

/// Checks that a note, if there is one, has a version that this release reads.
pub(super) fn check_version(path: &Path) -> Result<(), UnreadVersion> {
    text(path).map_or(Ok(()), |note| import(&note).map(drop))
}

/// The text of a note. What is not a file counts as no note, and nobody waits for what may be written into it.
fn text(path: &Path) -> Option<String> {
    let mut options = File::options();
    let opened = options
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32);
    let file = opened.open(path).ok()?;
    let is_file = file.metadata().is_ok_and(|facts| facts.is_file());
    let mut text = String::new();
    let read = is_file.then(|| file.take(NOTE_MAX).read_to_string(&mut text));
    read?.ok().map(|_| text)
}

/// Claims the folder. Another daemon's notes are not touched, and a killed daemon is waited for.
fn acquire_claim(state: &StateFolderClaim) -> io::Result<()> {
    let may_pass = |error: &PersistError| matches!(error, PersistError::Shared(_));
    let laid = retry_for_killed_daemon(may_pass, || state.acquire().map(|_| ()));
    laid.map_err(io::Error::other)
}

/// Writes a note. The note before stays until the new one is whole, because half a note would be none. A note of a
/// version that is not read stays.
pub(super) fn write(state: &StateFolderClaim, path: &Path, says: &str) -> io::Result<()> {
    acquire_claim(state)?;
    check_version(path).map_err(io::Error::other)?;
    let note = export(says);
    if text(path).is_some_and(|there| there == note) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let left = fs::write(&beside, note).and_then(|()| fs::rename(&beside, path));
    left.inspect_err(|_| _ = fs::remove_file(&beside))
}

/// Removes a note, if there is one of a version that is read.
pub(super) fn remove(state: &StateFolderClaim, path: &Path) -> io::Result<()> {
    if !path.exists() {
        return Ok(());
    }
    acquire_claim(state)?;
    check_version(path).map_err(io::Error::other)?;
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        taken => taken,
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn what_is_no_file_is_no_note_and_nobody_waits_for_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let (note, pipe) = (folder.path().join("note"), folder.path().join("pipe"));
        fs::write(&note, "said").expect("written");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("made");
        assert_eq!(read(&note).as_deref(), Some("said"));
        assert_eq!(read(&pipe), None);
        assert_eq!(read(folder.path()), None);
        assert_eq!(read(&folder.path().join("none")), None);
    }
    /// A note as an older daemon left it, without a version.
    #[test]
    fn a_note_has_a_version_and_one_of_a_newer_release_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = StateFolderClaim::for_folder(Some(folder.path().to_owned()));
        let note = folder.path().join("note");
        fs::write(&note, "said\nbefore\n").expect("written");
        assert_eq!(read(&note).as_deref(), Some("said\nbefore\n"));
        write(&state, &note, "said\ntoday\n").expect("left");
        let text = fs::read_to_string(&note).expect("text");
        assert_eq!(text, "version 2\nsaid\ntoday\n");
        assert_eq!(read(&note).as_deref(), Some("said\ntoday\n"));
        check_version(&note).expect("today's");

        let newer = "version 3\nwhatever\n";
        fs::write(&note, newer).expect("written");
        assert_eq!(read(&note), None);
        let refused = write(&state, &note, "said\n")
            .expect_err("newer")
            .to_string();
        assert!(
            refused.contains("has version 3, and this Sublet reads versions 1 and 2"),
            "{refused}"
        );
        remove(&state, &note).expect_err("newer");
        assert_eq!(fs::read_to_string(&note).expect("text"), newer);
    }
}
