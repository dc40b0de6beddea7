//! The versions of the files that one release leaves for the next.

use std::fmt;

/// A kind of file that one release leaves for the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// What was changed while the daemon ran (`live.toml`).
    LiveChanges,
    /// What the daemon knows of a disk, in the state folder.
    DiskNote,
    /// A pool's pages that do not fit into memory.
    Spill,
    /// A tenant's settings, pools and persistent pages.
    Save,
    /// Swap pages that their backings do not have yet.
    Stage,
}

/// A version that this release reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileVersion {
    /// The version that the previous release wrote.
    Previous,
    /// The version that this release writes.
    Current,
}

impl FileKind {
    /// The version that this release writes.
    pub const fn current(self) -> u32 {
        match self {
            FileKind::LiveChanges
            | FileKind::DiskNote
            | FileKind::Spill
            | FileKind::Save
            | FileKind::Stage => 2,
        }
    }

    /// The oldest version that this release reads. A stage of version 1 does not say which backing its pages are for.
    const fn oldest(self) -> u32 {
        match self {
            FileKind::Stage => self.current(),
            _ => self.current() - 1,
        }
    }

    /// Which version a number found in a file stands for. A file of a kind that once had no number counts as version 1.
    ///
    /// # Errors
    ///
    /// This release does not read the version. Leave the file as it is.
    pub fn version(self, found: u32) -> Result<FileVersion, UnreadVersion> {
        match found {
            _ if found == self.current() => Ok(FileVersion::Current),
            _ if found < self.current() && found >= self.oldest() => Ok(FileVersion::Previous),
            _ => Err(UnreadVersion { kind: self, found }),
        }
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FileKind::LiveChanges => "live.toml",
            FileKind::DiskNote => "the disk's note",
            FileKind::Spill => "the spill file",
            FileKind::Save => "the save file",
            FileKind::Stage => "the stage of swap pages",
        })
    }
}

/// Why a file is not read: this release does not know its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} Sublet wrote {kind}: it has version {found}, and this Sublet reads {}; it stays as it is",
    writer(self),
    read(*kind)
)]
pub struct UnreadVersion {
    /// The kind of file.
    pub kind: FileKind,
    /// The version that was found.
    pub found: u32,
}

fn writer(unread: &UnreadVersion) -> &'static str {
    match unread.found > unread.kind.current() {
        true => "a newer",
        false => "an older",
    }
}

fn read(kind: FileKind) -> String {
    match (kind.oldest(), kind.current()) {
        (oldest, today) if oldest == today => format!("version {today}"),
        (oldest, today) => format!("versions {oldest} and {today}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_reads_the_version_before_its_own_and_names_both_where_it_does_not() {
        let save = FileKind::Save;
        assert_eq!(save.version(1), Ok(FileVersion::Previous));
        assert_eq!(save.version(2), Ok(FileVersion::Current));
        let newer = save.version(3).expect_err("newer").to_string();
        assert_eq!(
            newer,
            "a newer Sublet wrote the save file: it has version 3, and this Sublet reads versions 1 and 2; it stays as it is"
        );
        let older = FileKind::Stage.version(1).expect_err("older").to_string();
        assert!(
            older.starts_with("an older Sublet wrote the stage"),
            "{older}"
        );
        assert!(older.contains("reads version 2;"), "{older}");
    }
}
