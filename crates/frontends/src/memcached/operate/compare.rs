//! Cas uniques, compared.

use sublet_store::Item;

/// A client's cas unique beside an item's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::memcached) enum Compared {
    Same,
    Older,
    Newer,
}

/// Compares a client's cas unique with an item's. 0 is none, and so are all where cas uniques are not kept.
pub(in crate::memcached) fn compare(item: &Item<'_>, cas: u64, cas_kept: bool) -> Compared {
    match (cas_kept && cas != 0).then(|| cas.cmp(&item.cas())) {
        Some(std::cmp::Ordering::Equal) => Compared::Same,
        Some(std::cmp::Ordering::Less) => Compared::Older,
        _ => Compared::Newer,
    }
}
