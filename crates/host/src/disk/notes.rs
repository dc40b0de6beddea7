//! Small files in the state folder that one daemon leaves for the next.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::OFlags;
use rustix::time::{ClockId, clock_gettime};
use sublet_types::{FileKind, UnreadVersion};

use crate::config::{Claim, KeepError};
use crate::patience::patiently;

/// The host's start: no guest that ran before it is left.
pub(super) fn host_start() -> io::Result<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(boot.trim().to_owned())
}

/// Where they are.
pub(super) fn folder(state: &Claim) -> Option<PathBuf> {
    state.folder().map(|folder| folder.join("disks"))
}

/// There is no folder for them.
pub(super) fn nowhere() -> io::Error {
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
    format!("{VERSION}{}\n{says}", FileKind::DiskNote.today())
}

/// What a note says behind its version.
fn import(note: &str) -> Result<&str, UnreadVersion> {
    let (first, rest) = note.split_once('\n').unwrap_or((note, ""));
    let found = first.strip_prefix(VERSION).map(str::parse);
    let Some(Ok(found)) = found else {
        return Ok(note);
    };
    FileKind::DiskNote.version(found).map(|_| rest)
}

/// What a note says, if there is one that is read.
pub(super) fn read(path: &Path) -> Option<String> {
    let note = text(path)?;
    import(&note).ok().map(str::to_owned)
}

/// Whether there is anything in a note's place, be it a note or not, that was written since the host's start. What cannot be looked at may
/// have been. A host that loses power may leave half a note, of which no guest is left to be harmed.
pub(super) fn is_there_since_start(path: &Path) -> bool {
    match fs::symlink_metadata(path) {
        Ok(facts) => facts.modified().is_ok_and(|at| at >= host_start_time()),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

/// When the host was started, to within a second, by the clock of today.
fn host_start_time() -> SystemTime {
    let up = clock_gettime(ClockId::Boottime);
    let up = Duration::new(up.tv_sec.max(0) as u64 + 1, 0);
    SystemTime::now().checked_sub(up).unwrap_or(UNIX_EPOCH)
}

/// That a note, if there is one, has a version that is read.
pub(super) fn check_version(path: &Path) -> Result<(), UnreadVersion> {
    text(path).map_or(Ok(()), |note| import(&note).map(drop))
}

/// The whole of a note; what is no file is none, and nobody waits for what may be written into it.
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

/// Another daemon's notes are not touched; one that was killed is waited for.
fn lay(state: &Claim) -> io::Result<()> {
    let may_pass = |error: &KeepError| matches!(error, KeepError::Shared(_));
    let laid = patiently(may_pass, || state.lay().map(|_| ()));
    laid.map_err(io::Error::other)
}

/// Leaves a note. Half of one would be none: the one before stays until this one is whole. One of a version that is not
/// read stays.
pub(super) fn leave(state: &Claim, path: &Path, says: &str) -> io::Result<()> {
    lay(state)?;
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

/// Takes a note away, if there is one of a version that is read.
pub(super) fn take(state: &Claim, path: &Path) -> io::Result<()> {
    if !path.exists() {
        return Ok(());
    }
    lay(state)?;
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
    /// As an older daemon left it: with no version.
    #[test]
    fn a_note_has_a_version_and_one_of_a_newer_release_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = Claim::to(Some(folder.path().to_owned()));
        let note = folder.path().join("note");
        fs::write(&note, "said\nbefore\n").expect("written");
        assert_eq!(read(&note).as_deref(), Some("said\nbefore\n"));
        leave(&state, &note, "said\ntoday\n").expect("left");
        let text = fs::read_to_string(&note).expect("text");
        assert_eq!(text, "version 2\nsaid\ntoday\n");
        assert_eq!(read(&note).as_deref(), Some("said\ntoday\n"));
        check_version(&note).expect("today's");

        let newer = "version 3\nwhatever\n";
        fs::write(&note, newer).expect("written");
        assert_eq!(read(&note), None);
        let refused = leave(&state, &note, "said\n")
            .expect_err("newer")
            .to_string();
        assert!(
            refused.contains("has version 3, and this Sublet reads versions 1 and 2"),
            "{refused}"
        );
        take(&state, &note).expect_err("newer");
        assert_eq!(fs::read_to_string(&note).expect("text"), newer);
    }
}
