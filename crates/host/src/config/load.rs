//! From file, options and live changes to a config.

use std::path::{Path, PathBuf};

use super::file::{LoadError, read_text};
use super::live::Live;
use super::meant::Config;
use super::written::Written;

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
    /// What live changes say that daemons have no more, as it is written.
    pub passed_over: Vec<String>,
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
    let live = Live::none(written.meaning()?.daemon.state);
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
        live.import(path, text)?;
    }
    Ok(Loaded {
        config: written.meaning()?,
        passed_over: written.passed_over,
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
