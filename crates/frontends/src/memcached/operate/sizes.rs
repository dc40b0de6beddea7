//! `stats sizes`: how many items there are of each size.

use std::collections::BTreeMap;

use sublet_store::Item;

use super::super::numbers::item_size;
use super::super::wire::rows::{Rows, put};

/// Sizes are told apart in steps of so many bytes.
const STEP: usize = 32;

/// Items counted so far, each under its size rounded up.
#[derive(Clone, Debug, Default)]
pub(in crate::memcached) struct Sizes(BTreeMap<usize, u64>);

impl Sizes {
    pub(super) fn count(&mut self, item: &Item<'_>) {
        let size = item_size(item.key().len(), item.flags(), item.value().len());
        *self.0.entry(size.next_multiple_of(STEP)).or_default() += 1;
    }

    /// Writes a row for each size.
    pub(in crate::memcached) fn write(&self, rows: &mut dyn Rows) {
        for (size, count) in &self.0 {
            put(rows, &size.to_string(), count);
        }
    }
}
