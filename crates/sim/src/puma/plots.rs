//! The figures as plots: figure 4, figure 5 and figure 7.

use super::setting::SettingName;
use crate::figures::{FigureRow, FigureTable};
use crate::plot::{Corner, Curves, Panel, Plot, PlotCurve};

/// Speed-ups beyond this are cut off in figure 7, where slow-downs matter.
const SPEED_UP_MAX: f64 = 3.0;

/// Draws the figures of these tables: figures 4, 5 and 7. Each plot has panels for the tables of one figure.
pub fn plots(tables: &[FigureTable]) -> Vec<Plot> {
    let of = |figure: &'static str| {
        let is_of = move |table: &&FigureTable| table.title.starts_with(figure);
        tables.iter().filter(is_of)
    };
    vec![
        Plot {
            title: "PUMA, figure 4: pages fetched and sent".to_owned(),
            about: ABOUT.to_owned(),
            panels: of("Figure 4").map(over_far_memory).collect(),
        },
        Plot {
            title: "PUMA, figure 5: speed-up by far memory".to_owned(),
            about: ABOUT.to_owned(),
            panels: of("Figure 5").map(over_far_memory).collect(),
        },
        Plot {
            title: "PUMA, figure 7: speed-up with latency injected".to_owned(),
            about: format!("5 GB far; speed-ups beyond {SPEED_UP_MAX} are cut off"),
            panels: of("Figure 7").flat_map(over_latency).collect(),
        },
    ]
}

const ABOUT: &str =
    "Solid: the paper's network and disks. Dashed: the same disks, far memory in 25 µs";

/// A panel of a table whose columns are amounts of far memory.
fn over_far_memory(table: &FigureTable) -> Panel {
    let curves = |setting: SettingName| {
        let rows = table.rows.iter();
        rows.filter(move |row| row.name[0] == setting.words())
    };
    let curve = |(row, quick): (&FigureRow, &FigureRow)| PlotCurve {
        name: row.name[1].clone(),
        points: points(table, row, f64::MAX),
        dashed: points(table, quick, f64::MAX),
    };
    let pairs = curves(SettingName::Paper).zip(curves(SettingName::Quick));
    Panel::Curves(Curves {
        title: table.title.clone(),
        x: "GB of far memory".to_owned(),
        y: "times, or pages".to_owned(),
        behind: Vec::new(),
        curves: pairs.map(curve).collect(),
        names: Corner::UpperLeft,
    })
}

/// A panel for each way to protect the guest, with a curve for each benchmark.
fn over_latency(table: &FigureTable) -> Vec<Panel> {
    let mut ways: Vec<&str> = Vec::new();
    for row in &table.rows {
        if !ways.contains(&row.name[1].as_str()) {
            ways.push(&row.name[1]);
        }
    }
    let panel = |way: &&str| {
        let rows = table.rows.iter().filter(|row| row.name[1] == **way);
        let curve = |row: &FigureRow| PlotCurve {
            name: row.name[0].clone(),
            points: points(table, row, SPEED_UP_MAX),
            dashed: Vec::new(),
        };
        Panel::Curves(Curves {
            title: format!("{way}: {}", place(table)),
            x: "ms injected".to_owned(),
            y: "speed-up".to_owned(),
            behind: Vec::new(),
            curves: rows.map(curve).collect(),
            names: Corner::LowerRight,
        })
    };
    ways.iter().map(panel).collect()
}

/// What stands behind the title's last semicolon.
fn place(table: &FigureTable) -> &str {
    table.title.rsplit("; ").next().unwrap_or_default()
}

fn points(table: &FigureTable, row: &FigureRow, most: f64) -> Vec<(f64, f64)> {
    let values = table.columns.iter().zip(&row.values);
    let point =
        |(column, value): (&String, &Option<f64>)| Some((number_in(column)?, (*value)?.min(most)));
    values.filter_map(point).collect()
}

/// The number that a column's name begins with.
fn number_in(column: &str) -> Option<f64> {
    let number = column.split_whitespace().next()?;
    number.trim_start_matches('+').parse().ok()
}
