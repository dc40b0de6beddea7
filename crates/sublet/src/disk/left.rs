//! Pages of swap that were left behind, for people.

use sublet_client::messages::{Deserted, Disks, LeftBehind};
use sublet_types::{DiskName, Pages};

/// What happened, and what can be done.
pub(crate) fn said(left: &LeftBehind) -> String {
    let LeftBehind { name, pages, why } = left;
    let pages = Pages(*pages);
    let (reason, remedy, toll) = match why {
        Deserted::NoDisk => (
            "no disk of that name is served",
            "add it again with the same name and backing",
            "",
        ),
        Deserted::OtherBacking => (
            "the disk of that name has another backing now",
            "remove it, add it with the backing it had before",
            " with the disk",
        ),
    };
    format!(
        "{pages} were left behind that its backing did not take, and {reason}; {remedy} and they are written, \
         or give them up{toll}: sublet disk remove {name} --force"
    )
}

/// What was left behind under a name.
pub(super) fn of<'a>(all: &'a Disks, name: &DiskName) -> Option<&'a LeftBehind> {
    all.left_behind.iter().find(|left| left.name == *name)
}
