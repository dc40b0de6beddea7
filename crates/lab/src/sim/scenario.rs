//! The sources of scenarios and of the files that they name.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sublet_sim::scenario::{BuiltInScenario, Scenario};
use sublet_types::ShrinkMode;

use super::error::SimError;
use super::synthetic;

/// A scenario, and the folder of the files that it names.
pub(super) struct LoadedScenario {
    pub(super) scenario: Scenario,
    pub(super) folder: PathBuf,
}

/// The scenario in the file `name`, or the built-in one of this name.
pub(super) fn find(name: &str) -> Result<LoadedScenario, SimError> {
    match fs::read_to_string(name) {
        Ok(text) => Ok(LoadedScenario {
            scenario: Scenario::parse(name, &text)?,
            folder: Path::new(name).parent().unwrap_or(Path::new("")).into(),
        }),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => shipped(name),
        Err(cause) => Err(SimError::Unreadable {
            file: name.to_owned(),
            cause,
        }),
    }
}

fn shipped(name: &str) -> Result<LoadedScenario, SimError> {
    let shipped =
        BuiltInScenario::find(name).ok_or_else(|| SimError::NoScenario(name.to_owned()))?;
    Ok(LoadedScenario {
        scenario: shipped.scenario()?,
        folder: PathBuf::new(),
    })
}

/// Opens files beside a scenario. An absolute path stands for itself.
pub(super) fn files_beside(folder: &Path) -> impl FnMut(&str) -> io::Result<Box<dyn Read>> {
    let folder = folder.to_owned();
    move |name| match synthetic::is_synthetic(name) {
        true => synthetic::bytes(name),
        false => Ok(Box::new(File::open(folder.join(name))?)),
    }
}

/// A text that is no way of shrinking.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0:?} is no way of shrinking; write active or never")]
pub(super) struct ShrinkModeError(String);

/// Parses `active` or `never`.
pub(super) fn shrinking(text: &str) -> Result<ShrinkMode, ShrinkModeError> {
    match text {
        "active" => Ok(ShrinkMode::Active),
        "never" => Ok(ShrinkMode::Never),
        _ => Err(ShrinkModeError(text.to_owned())),
    }
}
