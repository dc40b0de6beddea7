//! Figures under the names that memcached's clients and exporters read; this tenant's alone.

mod conns;
pub(super) mod dump;
mod general;
mod items;
mod settings;
pub(super) mod sizes;
mod slabs;

use std::fmt::Display;

use super::turn::Turn;

/// memcached sorts items into classes by size. Here all are of one, and this is its number.
pub(super) const CLASS: u32 = 1;

/// Where figures are written to.
pub(super) trait Rows {
    /// Writes one.
    fn row(&mut self, name: &str, value: &str);
}

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
/// [`Dump`](dump::Dump) of their own.
pub(super) fn write(turn: Turn<'_>, group: Group, rows: &mut dyn Rows) {
    match group {
        Group::General => general::write(turn, rows),
        Group::Settings => settings::write(turn, rows),
        Group::Items => items::write(turn, rows),
        Group::Slabs => slabs::write(turn, rows),
        Group::Sizes => sizes::write_disabled(rows),
        Group::Conns => conns::write(turn, rows),
    }
}

/// Writes named figures, each name behind `prefix`.
fn write_all(rows: &mut dyn Rows, prefix: &str, figures: &[(&str, u64)]) {
    for (name, figure) in figures {
        put(rows, &format!("{prefix}{name}"), figure);
    }
}

fn put(rows: &mut dyn Rows, name: &str, value: impl Display) {
    rows.row(name, &value.to_string());
}

fn yes_no(yes: bool) -> &'static str {
    match yes {
        true => "yes",
        false => "no",
    }
}
