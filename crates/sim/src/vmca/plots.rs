//! The scenarios as one plot: running times as bars, then gains beside the paper's.

use crate::figures::{FigureRow, FigureTable};
use crate::plot::{BarGroup, Bars, Panel, Plot};

/// Draws these tables. A panel for each table of running times comes first, then one for each table of gains.
pub fn plots(tables: &[FigureTable]) -> Vec<Plot> {
    let of = |words: &'static str, unit: &'static str| {
        let is_of = move |table: &&FigureTable| table.title.contains(words);
        tables
            .iter()
            .filter(is_of)
            .map(move |table| panel(table, unit))
    };
    vec![Plot {
        title: "vMCA, figures 3 to 6: running times".to_owned(),
        about: "Less time is better, and a larger gain; the paper's running times are in its plots only"
            .to_owned(),
        panels: of("running times", "s").chain(of("less time", "%")).collect(),
    }]
}

/// Bars in a group for each row that is no bound of a spread.
fn panel(table: &FigureTable, unit: &'static str) -> Panel {
    let is_shown = |row: &&FigureRow| row.name[1] != "least" && row.name[1] != "most";
    // P is no gain.
    let columns = table.columns.iter().filter(|column| *column != "its P");
    let labels: Vec<String> = columns.cloned().collect();
    let group = |row: &FigureRow| BarGroup {
        name: row.name.join(" "),
        values: row.values.iter().copied().take(labels.len()).collect(),
    };
    Panel::Bars(Bars {
        title: table.title.clone(),
        unit,
        groups: table.rows.iter().filter(is_shown).map(group).collect(),
        labels: labels.clone(),
    })
}
