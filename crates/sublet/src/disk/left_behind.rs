//! Pages of swap that were left behind, as text for people.

use sublet_client::messages::{DiskList, OrphanReason, OrphanedPages};
use sublet_types::{DiskName, Pages};

/// Says what happened, and what can be done.
pub(crate) fn describe(left: &OrphanedPages) -> String {
    let OrphanedPages { name, why, .. } = left;
    let pages = Pages(left.pages);
    let (reason, remedy, toll) = match why {
        OrphanReason::NoDisk => (
            "no disk of that name is served",
            "add it again with the same name, tenant and backing",
            "",
        ),
        OrphanReason::OtherBacking => (
            "the disk of that name has another backing now",
            "remove it, add it with the backing it had before",
            " with the disk",
        ),
    };
    let tenant = left.tenant.as_ref();
    let tenant = tenant.map_or(String::new(), |tenant| format!(" of tenant {tenant}"));
    let backing = left.backing.as_ref();
    let backing = backing.map_or(String::new(), |backing| format!(" {backing}"));
    format!(
        "{pages}{tenant} were left behind that its backing{backing} did not take, and {reason}; {remedy} and they are written, \
         or give them up{toll}: sublet disk remove {name} --force"
    )
}

/// The pages that were left behind under a name.
pub(super) fn of<'a>(all: &'a DiskList, name: &DiskName) -> Option<&'a OrphanedPages> {
    all.left_behind.iter().find(|left| left.name == *name)
}
