//! Where a trace's ids and its values' sizes come from.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use sublet_sim::traces::made::Made;
use sublet_sim::traces::{self, EXTENT_PAGES, Format, Trace};

use super::super::sizes::Sizes;

/// Which sizes values have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum ValueSizes {
    /// 1,000 bytes each.
    One,
    /// As CacheLib recorded them.
    Real,
}

impl fmt::Display for ValueSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ValueSizes::One => "one size",
            ValueSizes::Real => "real sizes",
        })
    }
}

/// The one size of values, bytes.
const ONE_SIZE: u32 = 1_000;

/// CacheLib's sizes of a key-value store's values, and of a social graph's, which the made trace of its popularity has.
const SIZES: &str = "kvcache_reg.sizes.json";
const GRAPH_SIZES: &str = "graph_cache_leader_fbobj.sizes.json";

/// Why a trace was not replayed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TraceError {
    /// A file is not there, or not what it should be.
    #[error("cannot read {path}: {cause}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why not.
        cause: io::Error,
    },
    /// Something in the trace is wrong.
    #[error(transparent)]
    Trace(#[from] traces::TraceError),
}

/// A trace that can be read.
#[derive(Debug)]
pub(super) struct Source {
    folder: PathBuf,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Made(Made),
    File(PathBuf),
}

impl Source {
    /// The made trace of that name, or a file of the folder; nothing where there is neither.
    pub(super) fn find(folder: &Path, name: &str) -> Result<Option<Source>, TraceError> {
        let kind = match name.parse() {
            Ok(made) => Some(Kind::Made(made)),
            Err(_) => file_of(folder, name)?.map(Kind::File),
        };
        let folder = folder.join("cachelib");
        Ok(kind.map(|kind| Source { folder, kind }))
    }

    /// Its ids, a request of several pages as several.
    pub(super) fn ids(&self) -> Result<Vec<u64>, TraceError> {
        match &self.kind {
            Kind::Made(made) => {
                let read = |file: &str| fs::read(self.folder.join(file));
                let file = made.popularity().unwrap_or_default();
                let unreadable = |cause| unreadable(&self.folder.join(file), cause);
                Ok(made.ids(1, read).map_err(unreadable)?.collect())
            }
            Kind::File(path) => ids_of_file(path),
        }
    }

    /// The size of the value of each id.
    pub(super) fn size_of(&self, sizes: ValueSizes) -> Result<Box<dyn Fn(u64) -> u32>, TraceError> {
        if sizes == ValueSizes::One {
            return Ok(Box::new(|_| ONE_SIZE));
        }
        let path = self.folder.join(match self.kind {
            Kind::Made(Made::GraphC4) => GRAPH_SIZES,
            _ => SIZES,
        });
        let parsed = fs::read(&path).and_then(|json| Sizes::parse(&json));
        let sizes = parsed.map_err(|cause| unreadable(&path, cause))?;
        Ok(Box::new(move |id| sizes.of(id)))
    }
}

fn unreadable(path: &Path, cause: io::Error) -> TraceError {
    TraceError::Unreadable {
        path: path.display().to_string(),
        cause,
    }
}

/// The file of a folder whose name is `name` up to its first dot, and tells a trace's format.
fn file_of(folder: &Path, name: &str) -> Result<Option<PathBuf>, TraceError> {
    let listed = fs::read_dir(folder).map_err(|cause| unreadable(folder, cause))?;
    let mut files: Vec<PathBuf> = listed
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| {
            let file = path.file_name().and_then(|file| file.to_str());
            file.is_some_and(|file| {
                file.split('.').next() == Some(name) && Format::of_name(file).is_ok()
            })
        })
        .collect();
    files.sort();
    Ok(files.into_iter().next())
}

fn ids_of_file(path: &Path) -> Result<Vec<u64>, TraceError> {
    let file = File::open(path).map_err(|cause| unreadable(path, cause))?;
    let mut ids = Vec::new();
    for access in Trace::open(&path.to_string_lossy(), None, file)? {
        let access = access?;
        let first = access.page.object.wrapping_mul(EXTENT_PAGES) + u64::from(access.page.index);
        ids.extend(first..first + u64::from(access.count));
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_a_made_one_or_a_file_whose_name_tells_its_format() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::write(at("P9.txt"), b"no trace").expect("written");
        fs::write(at("P9.lis"), "16 8 0 0\n32 24 0 1\n").expect("written");
        let find = |name: &str| Source::find(folder.path(), name).expect("a folder");
        let ids = find("P9").expect("it is there").ids();
        assert_eq!(ids.expect("a trace"), [2, 4, 5, 6]);
        assert!(find("P8").is_none());
        let made = find("loop").expect("made").ids().expect("made of nothing");
        assert_eq!(made[..3], [0, 1, 2]);
        let refused = find("graph-c4").expect("made").ids();
        let said = refused.expect_err("there is no popularity").to_string();
        assert!(said.contains("graph_cache_leader_fbobj.pop.json"), "{said}");
    }
}
