//! Tables and figures as the page writes them.

use super::error::ResultsError;
use super::record::{Row, Table};

/// A ratio within this of 1 is no change at one decimal.
const NO_CHANGE: f64 = 0.000_5;

/// The cell of a figure that is not there.
const NOTHING: &str = "–";

/// A table: the first `names` columns hold text, the others figures.
pub(super) fn table(names: usize, head: &[String], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rules: Vec<String> = (0..head.len())
        .map(|column| if column < names { "---" } else { "---:" }.to_owned())
        .collect();
    let rows: String = rows.iter().map(|row| line(row)).collect();
    let text = format!("{}{}{rows}", line(head), line(&rules));
    text.trim_end().to_owned()
}

/// A whole number with a comma between thousands.
pub(super) fn count(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A ratio as a change: 0.92 is −8.0 %.
pub(super) fn change(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    match percent {
        _ if (ratio - 1.0).abs() < NO_CHANGE => "0.0 %".to_owned(),
        p if p < 0.0 => format!("−{:.1} %", -p),
        p => format!("+{p:.1} %"),
    }
}

/// A share of one in percent, as short as it can be.
pub(super) fn percent(share: f64) -> String {
    format!("{} %", (share * 1000.0).round() / 10.0)
}

pub(super) fn bold(text: &str) -> String {
    format!("**{text}**")
}

pub(super) fn code(text: &str) -> String {
    format!("`{text}`")
}

/// A comparison of columns with the first of them, row by row, then in the mean and at the worst.
///
/// `names` are the heads of the rows' names; `asked` is the column that says of how many, `columns` the others.
///
/// # Errors
///
/// A column is not there.
pub(super) fn comparison(
    of: &Table,
    names: &[&str],
    asked: &str,
    columns: &[&str],
) -> Result<String, ResultsError> {
    let words = names.iter().chain([&asked]).map(|word| (*word).to_owned());
    let head: Vec<String> = words.chain(columns.iter().map(|name| code(name))).collect();
    let asked = of.place(asked)?;
    let places: Result<Vec<usize>, _> = columns.iter().map(|name| of.place(name)).collect();
    let places = places?;
    let row = |row: &Row| {
        let asked = figure_of(row, asked).map_or(NOTHING.to_owned(), count);
        let cells = row.name.iter().cloned().chain([asked]);
        cells.chain(compared(row, &places)).collect()
    };
    let mut rows: Vec<Vec<String>> = of.rows.iter().map(row).collect();
    rows.extend(summary(of, names.len() + 2, columns)?);
    Ok(table(names.len(), &head, &rows))
}

fn figure_of(row: &Row, place: usize) -> Option<f64> {
    row.values.get(place).copied().flatten()
}

/// The first figure, and the others as changes to it.
fn compared(row: &Row, places: &[usize]) -> Vec<String> {
    let base = places.first().and_then(|place| figure_of(row, *place));
    let cell = |(number, place): (usize, &usize)| match (figure_of(row, *place), base) {
        (Some(value), _) if number == 0 => count(value),
        (Some(value), Some(base)) if base != 0.0 => change(value / base),
        _ => NOTHING.to_owned(),
    };
    places.iter().enumerate().map(cell).collect()
}

/// The mean and the worst of each column but the first; `blank` cells stand before them.
fn summary(of: &Table, blank: usize, columns: &[&str]) -> Result<[Vec<String>; 2], ResultsError> {
    let Some((base, others)) = columns.split_first() else {
        return Ok([Vec::new(), Vec::new()]);
    };
    let named = |name: &str| {
        let mut cells = vec![String::new(); blank];
        cells[0] = bold(name);
        cells
    };
    let (mut means, mut worsts) = (named("mean"), named("worst"));
    for column in others {
        let (mean, worst) = of.mean_and_worst(column, base)?;
        means.push(bold(&change(mean)));
        worsts.push(change(worst));
    }
    Ok([means, worsts])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_written_for_people() {
        assert_eq!([count(1_742_724.0), count(512.0)], ["1,742,724", "512"]);
        assert_eq!(
            [change(0.92), change(1.1), change(0.9999)],
            ["−8.0 %", "+10.0 %", "0.0 %"]
        );
        assert_eq!([percent(0.02), percent(0.005)], ["2 %", "0.5 %"]);
    }

    #[test]
    fn a_comparison_has_changes_their_mean_and_the_worst() {
        let mut of = Table::of("t", ["gets", "lru", "mq"].map(str::to_owned).to_vec());
        of.add(&["a"], [Some(1000.0), Some(100.0), Some(90.0)]);
        of.add(&["b"], [Some(2000.0), Some(0.0), Some(0.0)]);
        let text = comparison(&of, &["trace"], "gets", &["lru", "mq"]).expect("all is there");
        let expected = "| trace | gets | `lru` | `mq` |\n| --- | ---: | ---: | ---: |\n\
                        | a | 1,000 | 100 | −10.0 % |\n| b | 2,000 | 0 | – |\n\
                        | **mean** |  |  | **−5.0 %** |\n| **worst** |  |  | 0.0 % |";
        assert_eq!(text, expected);
        assert!(comparison(&of, &["trace"], "gets", &["lru", "x"]).is_err());
    }
}
