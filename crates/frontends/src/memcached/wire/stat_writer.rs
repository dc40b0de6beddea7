//! Writes named figures in the form of each protocol.

use std::fmt::{self, Display, Formatter};

/// The number of the only class. memcached sorts items into classes by size, but here all are in one.
pub(in crate::memcached) const CLASS: u32 = 1;

/// Writes figures in the form of one protocol.
pub(in crate::memcached) trait StatWriter {
    /// Writes one figure.
    fn write_stat(&mut self, name: &str, value: &str);
}

/// Writes named figures, with `prefix` before each name.
pub(in crate::memcached) fn write_all(
    writer: &mut dyn StatWriter,
    prefix: &str,
    figures: &[(&str, u64)],
) {
    for (name, figure) in figures {
        write_one(writer, &format!("{prefix}{name}"), figure);
    }
}

/// Writes one figure.
pub(in crate::memcached) fn write_one(
    writer: &mut dyn StatWriter,
    name: &str,
    value: impl Display,
) {
    writer.write_stat(name, &value.to_string());
}

/// A setting that is on or off, as memcached writes it: `yes` or `no`.
pub(in crate::memcached) struct YesNo(pub(in crate::memcached) bool);

impl Display for YesNo {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            true => "yes",
            false => "no",
        })
    }
}
