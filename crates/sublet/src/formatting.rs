//! The form of figures and answers, for people and for programs.

use std::ops::Range;

use comfy_table::{CellAlignment, Table};
use sublet_types::Bytes;

/// A table's lines. The figures of some columns are aligned.
pub(crate) fn format_table(mut table: Table, figures: Range<usize>) -> String {
    for column in figures {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    if let Some(first) = table.column_mut(0) {
        first.set_padding((0, 1));
    }
    let lines = table.to_string();
    lines
        .lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

/// `1 item`, `2 items`.
pub(crate) fn format_count(count: u64, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {thing}{plural}")
}

/// A part of something in percent. A dash if there is nothing.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    match whole {
        0 => "–".to_owned(),
        _ => format!("{:.1} %", part as f64 / whole as f64 * 100.0),
    }
}

/// Microseconds as milliseconds, with the significant digits.
pub(crate) fn millis(micros: u64) -> String {
    match micros {
        0..100_000 => format!("{:.1} ms", micros as f64 / 1e3),
        _ => format!("{:.0} ms", micros as f64 / 1e3),
    }
}

/// `3d 4h`, `5m 2s`.
pub(crate) fn duration(secs: u64) -> String {
    match secs {
        0..60 => format!("{secs}s"),
        60..3600 => format!("{}m {}s", secs / 60, secs % 60),
        3600..86_400 => format!("{}h {}m", secs / 3600, secs % 3600 / 60),
        _ => format!("{}d {}h", secs / 86_400, secs % 86_400 / 3600),
    }
}

/// An amount, or "none".
pub(crate) fn or_none(amount: Option<Bytes>) -> String {
    amount.map_or("none".to_owned(), |amount| amount.to_string())
}

/// The form for programs.
pub(crate) fn json(answer: &impl serde::Serialize) -> String {
    format!(
        "{}\n",
        serde_json::to_string(answer).expect("an answer is JSON")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_well() {
        assert_eq!(duration(59), "59s");
        assert_eq!(duration(3599), "59m 59s");
        assert_eq!(duration(90_000), "1d 1h");
        assert_eq!(millis(1234), "1.2 ms");
        assert_eq!(millis(123_456), "123 ms");
        assert_eq!(format_count(1, "item"), "1 item");
        assert_eq!(format_count(0, "item"), "0 items");
    }
}
