//! The config: a table of knobs, what was written, what it means, and what was changed while running.

mod claim;
mod disks;
mod faults;
mod knobs;
mod listen;
mod live;
mod meant;
mod nearest;
mod page;
mod said;
mod shown;
mod written;

#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

pub use claim::Claim;
pub use disks::{DISKS_MAX, WrittenDisk, check_disk_size, disk_asked};
pub use faults::{Fault, Faults, Place, Wrong};
pub use knobs::{DAEMON_KNOBS, DISK_KNOBS, Knob, RETIRED_KNOBS, Retired, TENANT_KNOBS, WEIGHT_MAX};
pub use listen::{Listen, ListenError};
pub use live::{DiskChange, KeepError, Live, PolicyChange, TenantChange};
pub use meant::{
    AdminConfig, AdminTcp, ArenaConfig, Config, DiskConfig, LogFormat, SharedConfig, TenantConfig,
    Tls,
};
pub use nearest::nearest;
pub use page::{default_file, reference};
pub use said::{Said, Unfit};
pub(crate) use shown::shown_disk;
pub use written::{Written, WrittenTenant};

/// An option of `sublet serve` and the value given to it.
pub type Flag = (&'static str, String);

/// A config with what it was made of.
#[derive(Debug)]
pub struct Loaded {
    /// What holds now: file, command line, live changes.
    pub config: Config,
    /// What would hold without the live changes.
    pub written: Config,
    /// The live changes.
    pub live: Live,
    /// The file, if one was named.
    pub file: Option<PathBuf>,
    /// What was changed live and the config does not have, by its key (`tenants.web`).
    pub orphans: Vec<String>,
    /// The file and the command line.
    base: Written,
    /// What `live.toml` said.
    kept: Option<(PathBuf, String)>,
}

impl Loaded {
    /// The same by what `live.toml` says now that nobody else writes it. Its file system may hang.
    ///
    /// # Errors
    ///
    /// It cannot be read, or makes no sense.
    pub(crate) fn read_again(self) -> Result<Loaded, LoadError> {
        let kept = self.live.read()?;
        match kept == self.kept {
            true => Ok(self),
            false => loaded(self.base, self.file, self.live, kept),
        }
    }
}

/// Why there is no config.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file could not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It was read and makes no sense.
    #[error(transparent)]
    Faults(#[from] Faults),
}

/// The most bytes that a config file may have: 1024 tenants with all they can say.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Reads file, options and live changes, in this order.
pub fn load(file: Option<&Path>, flags: &[Flag]) -> Result<Loaded, LoadError> {
    let mut written = match file {
        Some(path) => read_file(path)?,
        None => Written::defaults(),
    };
    written.settle();
    for (flag, text) in flags {
        written.take_flag(flag, text)?;
    }
    let live = Live::none(written.meaning()?.state);
    let kept = live.read()?;
    loaded(written, file.map(Path::to_owned), live, kept)
}

fn loaded(
    base: Written,
    file: Option<PathBuf>,
    live: Live,
    kept: Option<(PathBuf, String)>,
) -> Result<Loaded, LoadError> {
    let (mut written, mut live) = (base.clone(), live.without_changes());
    let mut orphans = Vec::new();
    if let Some((path, text)) = &kept {
        orphans = written.read_live(path, text)?;
        live.adopt(path, text)?;
    }
    Ok(Loaded {
        config: written.meaning()?,
        written: base.meaning()?,
        live,
        file,
        orphans,
        base,
        kept,
    })
}

/// Reads a file alone, for `sublet config check`.
pub fn check(path: &Path) -> Result<Config, LoadError> {
    let mut written = read_file(path)?;
    written.settle();
    Ok(written.meaning()?)
}

fn read_file(path: &Path) -> Result<Written, LoadError> {
    let mut written = Written::defaults();
    written.read(path, &read_text(path)?)?;
    Ok(written)
}

fn read_text(path: &Path) -> Result<String, LoadError> {
    let unreadable = |source| LoadError::Read {
        path: path.to_owned(),
        source,
    };
    sublet_tls::read_text(path, FILE_BYTES_MAX).map_err(unreadable)
}
