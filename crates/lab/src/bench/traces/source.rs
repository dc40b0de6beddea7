//! The source of a trace's ids and of its values' sizes.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use sublet_sim::traces::synthetic::SyntheticTrace;
use sublet_sim::traces::{self, EXTENT_PAGES, Trace, TraceFormat};

use super::super::sizes::SizeDistribution;

/// The sizes of values.
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

/// The size of all values, in bytes, if there is one size.
const ONE_SIZE: u32 = 1_000;

/// CacheLib's sizes of values: of a key-value store, and of a social graph. The synthetic trace of a popularity uses
/// the sizes of the same system.
const SIZES: &str = "kvcache_reg.sizes.json";
const GRAPH_SIZES: &str = "graph_cache_leader_fbobj.sizes.json";

/// Why a trace was not replayed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TraceSourceError {
    /// A file is not there, or has another content.
    #[error("cannot read {path}: {cause}")]
    Unreadable {
        /// The file.
        path: String,
        /// The cause.
        cause: io::Error,
    },
    /// The trace is damaged.
    #[error(transparent)]
    Trace(#[from] traces::TraceError),
}

/// A trace that can be read.
#[derive(Debug)]
pub(super) struct TraceSource {
    folder: PathBuf,
    kind: TraceOrigin,
}

#[derive(Debug)]
enum TraceOrigin {
    Made(SyntheticTrace),
    File(PathBuf),
}

impl TraceSource {
    /// The synthetic trace of that name, or a file of the folder. Nothing if there is neither.
    pub(super) fn find(folder: &Path, name: &str) -> Result<Option<TraceSource>, TraceSourceError> {
        let kind = match name.parse() {
            Ok(made) => Some(TraceOrigin::Made(made)),
            Err(_) => file_of(folder, name)?.map(TraceOrigin::File),
        };
        let folder = folder.join("cachelib");
        Ok(kind.map(|kind| TraceSource { folder, kind }))
    }

    /// Its ids. A request of several pages counts as several.
    pub(super) fn ids(&self) -> Result<Vec<u64>, TraceSourceError> {
        match &self.kind {
            TraceOrigin::Made(made) => {
                let read = |file: &str| fs::read(self.folder.join(file));
                let file = made.popularity().unwrap_or_default();
                let unreadable = |cause| unreadable(&self.folder.join(file), cause);
                Ok(made.ids(1, read).map_err(unreadable)?.collect())
            }
            TraceOrigin::File(path) => ids_of_file(path),
        }
    }

    /// The size of each id's value.
    pub(super) fn size_of(
        &self,
        sizes: ValueSizes,
    ) -> Result<Box<dyn Fn(u64) -> u32>, TraceSourceError> {
        if sizes == ValueSizes::One {
            return Ok(Box::new(|_| ONE_SIZE));
        }
        let path = self.folder.join(match self.kind {
            TraceOrigin::Made(SyntheticTrace::GraphC4) => GRAPH_SIZES,
            _ => SIZES,
        });
        let parsed = fs::read(&path).and_then(|json| SizeDistribution::parse(&json));
        let sizes = parsed.map_err(|cause| unreadable(&path, cause))?;
        Ok(Box::new(move |id| sizes.of(id)))
    }
}

fn unreadable(path: &Path, cause: io::Error) -> TraceSourceError {
    TraceSourceError::Unreadable {
        path: path.display().to_string(),
        cause,
    }
}

/// The file of a folder whose name up to its first dot is `name`, and tells a trace's format.
fn file_of(folder: &Path, name: &str) -> Result<Option<PathBuf>, TraceSourceError> {
    let listed = fs::read_dir(folder).map_err(|cause| unreadable(folder, cause))?;
    let mut files: Vec<PathBuf> = listed
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| {
            let file = path.file_name().and_then(|file| file.to_str());
            file.is_some_and(|file| {
                file.split('.').next() == Some(name) && TraceFormat::of_name(file).is_ok()
            })
        })
        .collect();
    files.sort();
    Ok(files.into_iter().next())
}

fn ids_of_file(path: &Path) -> Result<Vec<u64>, TraceSourceError> {
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
        let find = |name: &str| TraceSource::find(folder.path(), name).expect("a folder");
        let ids = find("P9").expect("it is there").ids();
        assert_eq!(ids.expect("a trace"), [2, 4, 5, 6]);
        assert!(find("P8").is_none());
        let made = find("loop").expect("made").ids().expect("made of nothing");
        assert_eq!(made[..3], [0, 1, 2]);
        let refused = find("graph-c4").expect("made").ids();
        let message = refused.expect_err("there is no popularity").to_string();
        assert!(
            message.contains("graph_cache_leader_fbobj.pop.json"),
            "{message}"
        );
    }
}
