//! `stats sizes`: how many items there are of each size.

use std::collections::BTreeMap;

use super::super::numbers::item_size;
use super::super::turn::Turn;
use super::{Rows, put};

/// Sizes are told apart in steps of so many bytes.
const STEP: usize = 32;

/// Looks at every item, so it answers only where it was asked for at the start (`-o track_sizes`).
pub(super) fn write(turn: Turn<'_>, rows: &mut dyn Rows) {
    if !turn.face.settings.track_sizes {
        return put(rows, "sizes_status", "disabled");
    }
    let mut counts: BTreeMap<usize, u64> = BTreeMap::new();
    let mut cursor = Some(0);
    while let Some(at) = cursor {
        cursor = turn.tenancy.scan(at, |item| {
            let size = item_size(item.key().len(), item.flags(), item.value().len());
            *counts.entry(size.next_multiple_of(STEP)).or_default() += 1;
        });
    }
    for (size, count) in counts {
        put(rows, &size.to_string(), count);
    }
}
