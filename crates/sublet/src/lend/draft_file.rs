//! Files that are written beside their place and moved there when they are whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::ca_error::CaError;

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadableBy {
    /// Its owner.
    Owner,
    /// Everybody, less what the user's umask takes away.
    Everybody,
}

/// A file that is on the disk and not in its place yet. It is removed unless it is moved there.
pub(super) struct DraftFile {
    draft: PathBuf,
    place: PathBuf,
}

impl DraftFile {
    /// Writes a file beside its place, down to the disk.
    pub(super) fn write(
        place: PathBuf,
        text: &str,
        readable: ReadableBy,
    ) -> Result<DraftFile, CaError> {
        let file_name = place.file_name().unwrap_or_default().to_string_lossy();
        let draft_name = format!(".{file_name}.{}.new", std::process::id());
        let mode = match readable {
            ReadableBy::Owner => 0o600,
            ReadableBy::Everybody => 0o644,
        };
        let draft = place.with_file_name(draft_name);
        let opened = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&draft);
        let unwritable = |path: &Path, source| CaError::Unwritable {
            path: path.to_owned(),
            source,
        };
        let mut file = opened.map_err(|source| unwritable(&draft, source))?;
        let written = DraftFile { draft, place };
        let whole = file
            .write_all(text.as_bytes())
            .and_then(|()| file.sync_all());
        whole.map_err(|source| unwritable(&written.place, source))?;
        Ok(written)
    }

    /// The path that it has until it is moved.
    pub(super) fn path(&self) -> &Path {
        &self.draft
    }

    /// Moves it to its place, where no file may be.
    pub(super) fn place_new(self) -> Result<(), CaError> {
        move_without_replacing(&self.draft, &self.place)
            .and_then(|()| sync_folder_of(&self.place))
            .map_err(|error| self.refused(error))
    }

    /// Moves it to its place. A reader sees the old file or the new one, even after a crash.
    pub(super) fn replace(self) -> Result<(), CaError> {
        fs::rename(&self.draft, &self.place)
            .and_then(|()| sync_folder_of(&self.place))
            .map_err(|error| self.refused(error))
    }

    fn refused(&self, source: io::Error) -> CaError {
        let path = self.place.clone();
        match source.kind() {
            ErrorKind::AlreadyExists => CaError::Exists(path),
            _ => CaError::Unwritable { path, source },
        }
    }
}

impl Drop for DraftFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.draft);
    }
}

/// Moves a key and its certificate to their places, where no files may be: both or none.
pub(super) fn place_new_pair(key: DraftFile, certificate: DraftFile) -> Result<(), CaError> {
    let key_place = key.place.clone();
    key.place_new()?;
    certificate.place_new().inspect_err(|_| {
        let _ = fs::remove_file(&key_place);
    })
}

fn move_without_replacing(draft: &Path, place: &Path) -> io::Result<()> {
    match renameat_with(CWD, draft, CWD, place, RenameFlags::NOREPLACE) {
        // Some file systems, NFS among them, know no such move. They know links, which replace nothing either.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => fs::hard_link(draft, place),
        moved => Ok(moved?),
    }
}

fn sync_folder_of(place: &Path) -> io::Result<()> {
    let folder = place
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("read");
        let mut names: Vec<String> = entries
            .map(|entry| {
                entry
                    .expect("one")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        names.sort();
        names
    }

    fn draft(folder: &Path, name: &str, text: &str) -> DraftFile {
        DraftFile::write(folder.join(name), text, ReadableBy::Owner).expect("written")
    }

    #[test]
    fn a_pair_is_placed_whole_or_not_at_all() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        fs::write(folder.join("a.crt"), "old").expect("written");
        let pair = (draft(folder, "a.key", "key"), draft(folder, "a.crt", "new"));
        let error = place_new_pair(pair.0, pair.1).expect_err("one is there");
        assert!(matches!(error, CaError::Exists(path) if path.ends_with("a.crt")));
        assert_eq!(names(folder), ["a.crt"]);
        assert_eq!(fs::read(folder.join("a.crt")).expect("read"), b"old");

        let pair = (draft(folder, "b.key", "key"), draft(folder, "b.crt", "new"));
        place_new_pair(pair.0, pair.1).expect("placed");
        assert_eq!(names(folder), ["a.crt", "b.crt", "b.key"]);
        let pair = (
            draft(folder, "b.key", "other"),
            draft(folder, "c.crt", "new"),
        );
        place_new_pair(pair.0, pair.1).expect_err("the key is there");
        assert_eq!(fs::read(folder.join("b.key")).expect("read"), b"key");
        assert_eq!(names(folder), ["a.crt", "b.crt", "b.key"]);
    }

    #[test]
    fn what_is_not_placed_leaves_nothing_and_only_its_owner_reads_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let key = draft(folder, "a.key", "key");
        let mode = fs::metadata(key.path())
            .expect("there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(key);
        assert!(names(folder).is_empty());
        draft(folder, "a.crt", "one").replace().expect("placed");
        draft(folder, "a.crt", "two").replace().expect("replaced");
        assert_eq!(fs::read(folder.join("a.crt")).expect("read"), b"two");
        assert_eq!(names(folder), ["a.crt"]);
    }
}
