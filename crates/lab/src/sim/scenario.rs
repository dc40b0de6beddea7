//! Where scenarios and the files that they name come from.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sublet_sim::scenario::{Scenario, Shipped};
use sublet_types::Shrinking;

use super::error::SimError;
use super::made;

/// A scenario, and the folder in which the files that it names lie.
pub(super) struct Found {
    pub(super) scenario: Scenario,
    pub(super) folder: PathBuf,
}

/// The scenario in the file `name`, or the shipped one of this name.
pub(super) fn find(name: &str) -> Result<Found, SimError> {
    match fs::read_to_string(name) {
        Ok(text) => Ok(Found {
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

fn shipped(name: &str) -> Result<Found, SimError> {
    let shipped = Shipped::find(name).ok_or_else(|| SimError::NoScenario(name.to_owned()))?;
    Ok(Found {
        scenario: shipped.scenario()?,
        folder: PathBuf::new(),
    })
}

/// Opens files beside a scenario; a full path stands for itself.
pub(super) fn files_beside(folder: &Path) -> impl FnMut(&str) -> io::Result<Box<dyn Read>> {
    let folder = folder.to_owned();
    move |name| match made::is_made(name) {
        true => made::bytes(name),
        false => Ok(Box::new(File::open(folder.join(name))?)),
    }
}

/// A way of shrinking that is none.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0:?} is no way of shrinking; write active or never")]
pub(super) struct NoShrinking(String);

/// Reads `active` or `never`.
pub(super) fn shrinking(text: &str) -> Result<Shrinking, NoShrinking> {
    match text {
        "active" => Ok(Shrinking::Active),
        "never" => Ok(Shrinking::Never),
        _ => Err(NoShrinking(text.to_owned())),
    }
}
