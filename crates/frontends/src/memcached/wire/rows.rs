//! Figures with their names, however a protocol writes them.

use std::fmt::Display;

/// memcached sorts items into classes by size. Here all are of one, and this is its number.
pub(in crate::memcached) const CLASS: u32 = 1;

/// Where figures are written to.
pub(in crate::memcached) trait Rows {
    /// Writes one.
    fn row(&mut self, name: &str, value: &str);
}

/// Writes named figures, each name behind `prefix`.
pub(in crate::memcached) fn write_all(rows: &mut dyn Rows, prefix: &str, figures: &[(&str, u64)]) {
    for (name, figure) in figures {
        put(rows, &format!("{prefix}{name}"), figure);
    }
}

/// Writes one figure.
pub(in crate::memcached) fn put(rows: &mut dyn Rows, name: &str, value: impl Display) {
    rows.row(name, &value.to_string());
}

/// How memcached writes what is so or not.
pub(in crate::memcached) fn yes_no(yes: bool) -> &'static str {
    match yes {
        true => "yes",
        false => "no",
    }
}
