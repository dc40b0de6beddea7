//! Images that the daemon makes for disks, and the folders where backings may lie.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use sublet_types::{Bytes, DiskName};

use super::backing::BackingError;
use super::error::DiskError;

/// An image that was made for a disk. Dropping this removes the image, unless the disk has it.
pub(crate) struct NewImage(Option<PathBuf>);

impl NewImage {
    /// Makes a file of that size, without blocks. Only the daemon's user may read it.
    pub(crate) fn make(path: &Path, size: Bytes) -> Result<NewImage, DiskError> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::AlreadyExists => DiskError::ImageExists(path.to_owned()),
            _ => BackingError::making(path, source).into(),
        };
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(failed)?;
        let image = NewImage(Some(path.to_owned()));
        file.set_len(size.0).map_err(failed)?;
        Ok(image)
    }

    /// Leaves the image to its disk from now on.
    pub(crate) fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for NewImage {
    fn drop(&mut self) {
        if let Some(path) = &self.0
            && let Err(error) = fs::remove_file(path)
        {
            tracing::warn!(path = %path.display(), %error, "the daemon could not delete an image that it made for a disk which was not added; delete it by hand");
        }
    }
}

/// The place of an image for which nobody named one: the first folder that is there or can be made.
pub(crate) fn place_for(name: &DiskName, folders: &[PathBuf]) -> Result<PathBuf, DiskError> {
    let mut failed = None;
    for folder in folders {
        match make_folder(folder) {
            Ok(()) => return Ok(folder.join(format!("{name}.img"))),
            Err(source) => failed = failed.or(Some((folder.clone(), source))),
        }
    }
    Err(match failed {
        Some((folder, source)) => DiskError::NoFolder { folder, source },
        None => DiskError::NotAllowed {
            path: PathBuf::from(format!("{name}.img")),
            folders: list_folders(folders),
        },
    })
}

/// Makes a folder for images. Only its owner may list it. A process that knows a name may pass through it.
fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o711).create(folder)
}

/// Checks that a backing lies where the owner allows it, with links followed.
pub(crate) fn check_allowed(backing: &Path, folders: &[PathBuf]) -> Result<(), DiskError> {
    let not_allowed = || DiskError::NotAllowed {
        path: backing.to_owned(),
        folders: list_folders(folders),
    };
    match real_path(backing) {
        Ok(real) => {
            let real_folders = folders.iter();
            let mut real_folders = real_folders.filter_map(|folder| fs::canonicalize(folder).ok());
            let is_inside = real_folders.any(|folder| real.starts_with(folder));
            is_inside.then_some(()).ok_or_else(not_allowed)
        }
        // Callers do not learn what there is elsewhere.
        Err(source) if folders.iter().any(|folder| begins_in(backing, folder)) => {
            let folder = backing.parent().unwrap_or(backing).to_owned();
            Err(DiskError::NoFolder { folder, source })
        }
        Err(_) => Err(not_allowed()),
    }
}

/// Returns whether a path is written as one in a folder, and the part of it that exists lies there, with links
/// followed.
fn begins_in(path: &Path, folder: &Path) -> bool {
    let climbs = path.components().any(|part| part == Component::ParentDir);
    if climbs || !path.starts_with(folder) {
        return false;
    }
    let Ok(real_folder) = fs::canonicalize(folder) else {
        return true;
    };
    let there = |part: &&Path| part.symlink_metadata().is_ok();
    let real = path.ancestors().find(there).map(fs::canonicalize);
    real.is_some_and(|real| real.is_ok_and(|real| real.starts_with(real_folder)))
}

/// Where a path leads. For a file that is still to be made, where its folder leads.
fn real_path(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(error) if path.symlink_metadata().is_err() => {
            let (folder, name) = path.parent().zip(path.file_name()).ok_or(error)?;
            Ok(fs::canonicalize(folder)?.join(name))
        }
        real => real,
    }
}

/// The folders as text, for a message on where backings may lie.
fn list_folders(folders: &[PathBuf]) -> String {
    let each = folders.iter().map(|folder| match folder.is_dir() {
        true => folder.display().to_string(),
        false => format!("{} (which is not there)", folder.display()),
    });
    let all: Vec<String> = each.collect();
    match all.is_empty() {
        true => "none".to_owned(),
        false => all.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_true_reason_is_said_why_a_backing_may_not_lie_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("there")).expect("made");
        let folders = [at("there"), at("missing")];
        let why = |path: &str| match check_allowed(&at(path), &folders) {
            Ok(()) => String::new(),
            Err(error) => error.to_string(),
        };
        assert_eq!(why("there/new.img"), "");
        assert!(why("missing/a.img").contains("No such file"));
        assert!(why("there/sub/a.img").contains("No such file"));
        let elsewhere = why("elsewhere.img");
        assert!(
            elsewhere.contains("lies in none of the folders"),
            "{elsewhere}"
        );
        assert!(
            elsewhere.contains("missing (which is not there)"),
            "{elsewhere}"
        );
        std::os::unix::fs::symlink(at("elsewhere.img"), at("there/link")).expect("linked");
        assert!(!why("there/link").is_empty(), "it leads out");
    }

    #[test]
    fn nobody_learns_what_there_is_elsewhere() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("vm")).expect("made");
        fs::create_dir(at("secret")).expect("made");
        std::os::unix::fs::symlink(at("secret"), at("vm/link")).expect("linked");
        std::os::unix::fs::symlink(at("nothing"), at("vm/dangling")).expect("linked");
        for path in [
            "vm/../secret/x",
            "vm/../nothing/x",
            "vm/link/x",
            "vm/link/nothing/x",
            "vm/dangling",
            "vm/dangling/x",
        ] {
            let refused = check_allowed(&at(path), &[at("vm")]);
            assert!(
                matches!(refused, Err(DiskError::NotAllowed { .. })),
                "{path}: {refused:?}"
            );
        }
    }

    #[test]
    fn an_image_is_its_owners_and_goes_unless_it_is_kept() {
        use std::os::unix::fs::MetadataExt;

        let folder = tempfile::tempdir().expect("a folder");
        let name: DiskName = "db".parse().expect("a name");
        let path = place_for(&name, &[folder.path().join("vm")]).expect("a place");
        let image = NewImage::make(&path, Bytes(1 << 30)).expect("made");
        let facts = fs::metadata(&path).expect("there");
        assert_eq!((facts.len(), facts.mode() & 0o777), (1 << 30, 0o600));
        assert!(facts.blocks() * 512 < 1 << 20, "it has no blocks yet");
        let again = NewImage::make(&path, Bytes(1 << 20));
        assert!(matches!(again, Err(DiskError::ImageExists(_))));
        assert!(path.exists(), "what was there stays");
        drop(image);
        assert!(!path.exists());
        NewImage::make(&path, Bytes(1 << 20)).expect("made").keep();
        assert!(path.exists());
    }
}
