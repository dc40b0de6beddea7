//! Makes a config from file, options and live changes.

use std::path::{Path, PathBuf};

use super::file::{LoadError, read_text};
use super::live_changes::LiveChanges;
use super::resolve::Config;
use super::written::WrittenConfig;

/// An option of `sublet serve` and the value given to it.
pub type CliFlag = (&'static str, String);

/// A config with everything it was made from.
#[derive(Debug)]
pub struct LoadedConfig {
    /// What holds now: file, command line and live changes.
    pub config: Config,
    /// What would hold without the live changes.
    pub written: Config,
    /// The live changes.
    pub live: LiveChanges,
    /// The file, if one was named.
    pub file: Option<PathBuf>,
    /// Keys of what was changed live and the config does not have (`tenants.web`).
    pub orphans: Vec<String>,
    /// What live changes say that daemons no longer have, as it is written.
    pub passed_over: Vec<String>,
    /// The file and the command line.
    base: WrittenConfig,
    /// What `live.toml` said.
    kept: Option<(PathBuf, String)>,
}

impl LoadedConfig {
    /// The same with what `live.toml` says now that no other daemon writes it. Its file system may hang.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or makes no sense.
    pub(crate) fn reload(self) -> Result<LoadedConfig, LoadError> {
        let kept = self.live.read()?;
        match kept == self.kept {
            true => Ok(self),
            false => loaded(self.base, self.file, self.live, kept),
        }
    }
}

/// Reads file, options and live changes, in this order.
pub fn load(file: Option<&Path>, flags: &[CliFlag]) -> Result<LoadedConfig, LoadError> {
    let mut written = match file {
        Some(path) => read_file(path)?,
        None => WrittenConfig::defaults(),
    };
    written.add_default_tenant();
    for (flag, text) in flags {
        written.apply_flag(flag, text)?;
    }
    let live = LiveChanges::none(written.resolve()?.daemon.state);
    let kept = live.read()?;
    loaded(written, file.map(Path::to_owned), live, kept)
}

fn loaded(
    base: WrittenConfig,
    file: Option<PathBuf>,
    live: LiveChanges,
    kept: Option<(PathBuf, String)>,
) -> Result<LoadedConfig, LoadError> {
    let (mut written, mut live) = (base.clone(), live.without_changes());
    let mut orphans = Vec::new();
    if let Some((path, text)) = &kept {
        orphans = written.read_live(path, text)?;
        live.import(path, text)?;
    }
    Ok(LoadedConfig {
        config: written.resolve()?,
        passed_over: written.passed_over,
        written: base.resolve()?,
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
    written.add_default_tenant();
    Ok(written.resolve()?)
}

fn read_file(path: &Path) -> Result<WrittenConfig, LoadError> {
    let mut written = WrittenConfig::defaults();
    written.read(path, &read_text(path)?)?;
    Ok(written)
}
