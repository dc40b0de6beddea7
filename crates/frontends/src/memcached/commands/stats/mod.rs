//! Figures of one tenant, under the names that memcached's clients and exporters read.

mod conns;
mod general;
mod items;
mod settings;
mod slabs;

use crate::memcached::caller::Caller;
use crate::memcached::wire::stat_writer::{StatWriter, write_one};

/// A group of figures that one command requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatsGroup {
    General,
    Settings,
    Items,
    Slabs,
    Sizes,
    Conns,
}

impl StatsGroup {
    /// Returns the group of this name. The general group has none.
    pub(super) fn named(name: &[u8]) -> Option<StatsGroup> {
        Some(match name {
            b"" => StatsGroup::General,
            b"settings" => StatsGroup::Settings,
            b"items" => StatsGroup::Items,
            b"slabs" => StatsGroup::Slabs,
            b"sizes" => StatsGroup::Sizes,
            b"conns" => StatsGroup::Conns,
            _ => return None,
        })
    }
}

/// Writes the figures of a group. If the sizes of all items are counted, that is a
/// [`Listing`](crate::memcached::operate::listing::Listing) of its own.
pub(super) fn write(caller: Caller<'_>, group: StatsGroup, writer: &mut dyn StatWriter) {
    match group {
        StatsGroup::General => general::write(caller, writer),
        StatsGroup::Settings => settings::write(caller, writer),
        StatsGroup::Items => items::write(caller, writer),
        StatsGroup::Slabs => slabs::write(caller, writer),
        StatsGroup::Sizes => write_sizes_disabled(writer),
        StatsGroup::Conns => conns::write(caller, writer),
    }
}

/// Replies that sizes are not counted. The instance scans every item only if that was enabled at the start
/// (`-o track_sizes`).
fn write_sizes_disabled(writer: &mut dyn StatWriter) {
    write_one(writer, "sizes_status", "disabled");
}
