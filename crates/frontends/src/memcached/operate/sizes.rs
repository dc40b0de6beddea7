//! `stats sizes`: the number of items of each size.

use std::collections::BTreeMap;

use sublet_store::Item;

use super::super::numbers::item_size;
use super::super::wire::stat_writer::{StatWriter, write_one};

/// The step of the sizes, in bytes.
const STEP: usize = 32;

/// The items counted so far, each under its size rounded up.
#[derive(Clone, Debug, Default)]
pub(in crate::memcached) struct SizeHistogram(BTreeMap<usize, u64>);

impl SizeHistogram {
    pub(super) fn count(&mut self, item: &Item<'_>) {
        let size = item_size(item.key().len(), item.flags(), item.value().len());
        *self.0.entry(size.next_multiple_of(STEP)).or_default() += 1;
    }

    /// Writes a row per size.
    pub(in crate::memcached) fn write(&self, writer: &mut dyn StatWriter) {
        for (size, count) in &self.0 {
            write_one(writer, &size.to_string(), count);
        }
    }
}
