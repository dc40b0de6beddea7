//! How settings are shown: as a file would say them.

use std::fmt::Display;
use std::path::Path;

use sublet_types::Bytes;

pub(super) fn path(path: &Path) -> String {
    path.display().to_string()
}

/// What is not there.
pub(super) fn none() -> String {
    "none".to_owned()
}

pub(super) fn path_or_none(said: Option<&Path>) -> String {
    said.map_or_else(none, path)
}

/// An amount, or the word for its absence.
pub(super) fn amount_or(word: &str, amount: Option<Bytes>) -> String {
    amount.map_or_else(|| word.to_owned(), |amount| amount.to_string())
}

pub(super) fn listed(all: impl IntoIterator<Item = impl Display>) -> String {
    let all: Vec<String> = all.into_iter().map(|one| one.to_string()).collect();
    all.join(", ")
}

/// A list, if anything is in it.
pub(super) fn some_of(all: &[impl Display]) -> Option<String> {
    (!all.is_empty()).then(|| listed(all))
}

/// The word that stands for a value.
pub(super) fn word_of<T: PartialEq>(all: &[(&str, T)], value: T) -> String {
    let found = all.iter().find(|(_, meant)| *meant == value);
    found.map_or_else(none, |(word, _)| (*word).to_owned())
}
