//! The comparison of cas uniques.

use sublet_store::Item;

use crate::memcached::caller::Caller;

/// The order of a client's cas unique and an item's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::memcached) enum CasOrdering {
    Same,
    Older,
    Newer,
}

/// Compares a client's cas unique with an item's. A client's 0 stands for none and counts as newer. So does every cas
/// unique if the instance keeps none.
pub(in crate::memcached) fn compare_cas(
    caller: Caller<'_>,
    item: &Item<'_>,
    cas: u64,
) -> CasOrdering {
    let cas_kept = caller.instance.settings.cas;
    match (cas_kept && cas != 0).then(|| cas.cmp(&item.cas())) {
        Some(std::cmp::Ordering::Equal) => CasOrdering::Same,
        Some(std::cmp::Ordering::Less) => CasOrdering::Older,
        _ => CasOrdering::Newer,
    }
}
