//! A complaint of tidy about a place.

use std::fmt;
use std::path::{Path, PathBuf};

/// A breach of a rule of this project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Complaint {
    pub(super) path: PathBuf,
    pub(super) line: usize,
    pub(super) what: String,
    pub(super) instead: String,
}

impl Complaint {
    pub(super) fn new(
        path: &Path,
        line: usize,
        what: impl Into<String>,
        instead: impl Into<String>,
    ) -> Self {
        Complaint {
            path: path.to_path_buf(),
            line,
            what: what.into(),
            instead: instead.into(),
        }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Complaint {
            path,
            line,
            what,
            instead,
        } = self;
        write!(f, "{}:{line}: {what}; {instead}", path.display())
    }
}
