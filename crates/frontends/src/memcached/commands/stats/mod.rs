//! Figures under the names that memcached's clients and exporters read; this tenant's alone.

mod conns;
mod general;
mod items;
mod settings;
mod slabs;

use crate::memcached::caller::Caller;
use crate::memcached::wire::rows::{Rows, put};

/// Figures that are asked for together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    General,
    Settings,
    Items,
    Slabs,
    Sizes,
    Conns,
}

impl Group {
    /// The group of this name; the general one has none.
    pub(super) fn named(name: &[u8]) -> Option<Group> {
        Some(match name {
            b"" => Group::General,
            b"settings" => Group::Settings,
            b"items" => Group::Items,
            b"slabs" => Group::Slabs,
            b"sizes" => Group::Sizes,
            b"conns" => Group::Conns,
            _ => return None,
        })
    }
}

/// Writes the figures of a group. The sizes of all items, where they are counted, are a
/// [`Listing`](crate::memcached::operate::listing::Listing) of their own.
pub(super) fn write(caller: Caller<'_>, group: Group, rows: &mut dyn Rows) {
    match group {
        Group::General => general::write(caller, rows),
        Group::Settings => settings::write(caller, rows),
        Group::Items => items::write(caller, rows),
        Group::Slabs => slabs::write(caller, rows),
        Group::Sizes => write_sizes_disabled(rows),
        Group::Conns => conns::write(caller, rows),
    }
}

/// Looking at every item is offered only where it was asked for at the start (`-o track_sizes`).
fn write_sizes_disabled(rows: &mut dyn Rows) {
    put(rows, "sizes_status", "disabled");
}
