//! The table of all policies and scenes, beside the design's figures.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use serde::Serialize;
use serde_json::Value;
use sublet_policy::placement::PlacementChoice;
use sublet_policy::placement::catalogue::PLACEMENTS;

use super::outcome::PlacementOutcome;
use super::play;
use super::scene::PlacementScene;

/// The form of the JSON.
const VERSION: u32 = 1;

/// The seeds that are played. The least of all nodes' figures needs some.
const SEEDS: u64 = 8;

/// What the design's own model found: recalled ÷ granted, unmet ÷ wanted, share at one lender, lenders.
const DESIGN: [(&str, PlacementScene, [f64; 4]); 6] = [
    ("two-level", PlacementScene::Plenty, [0.007, 0.0, 0.82, 2.9]),
    ("two-level", PlacementScene::Scarce, [0.107, 0.0, 0.68, 3.7]),
    ("spread", PlacementScene::Plenty, [0.002, 0.0, 0.52, 3.9]),
    ("spread", PlacementScene::Scarce, [0.108, 0.0, 0.51, 4.4]),
    (
        "two-choices",
        PlacementScene::Plenty,
        [0.035, 0.0, 0.76, 3.1],
    ),
    (
        "two-choices",
        PlacementScene::Scarce,
        [0.115, 0.015, 0.47, 6.0],
    ),
];

/// A policy in a scene. Shares go from 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlacementRow {
    /// The policy.
    pub policy: &'static str,
    /// The scene.
    pub scene: PlacementScene,
    /// Blocks recalled ÷ granted.
    pub recalled: f64,
    /// Unmet ÷ wanted.
    pub unmet: f64,
    /// The part of a borrower's far memory at one lender.
    pub largest_share: f64,
    /// The lenders of a borrower.
    pub lenders: f64,
    /// The least of all nodes' granted ÷ wanted, over the median of them.
    pub fairness: f64,
    /// The first four as the design's model has them.
    pub design: Option<[f64; 4]>,
}

/// All policies in all scenes.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacementReport {
    seed: u64,
    /// The rows, scene by scene.
    pub rows: Vec<PlacementRow>,
}

impl PlacementReport {
    /// Plays all policies in all scenes, eight seeds each from `seed` on.
    pub fn of_all(seed: u64) -> PlacementReport {
        let names = || PLACEMENTS.iter().map(|entry| entry.name);
        let rows = PlacementScene::ALL
            .into_iter()
            .flat_map(|scene| names().map(move |policy| row(policy, scene, seed)));
        PlacementReport {
            seed,
            rows: rows.collect(),
        }
    }

    /// The row of a policy in a scene.
    pub fn row(&self, policy: &str, scene: PlacementScene) -> Option<&PlacementRow> {
        self.rows
            .iter()
            .find(|row| row.policy == policy && row.scene == scene)
    }

    /// The table as text.
    pub fn text(&self) -> String {
        let mut table = Table::new();
        table
            .load_style(presets::ASCII_MARKDOWN)
            .set_content_arrangement(ContentArrangement::Disabled)
            .set_header([
                "scene", "policy", "recalled", "unmet", "share", "lenders", "fairness", "design",
            ]);
        for row in &self.rows {
            let figures = [
                percent(row.recalled),
                percent(row.unmet),
                format!("{:.2}", row.largest_share),
                format!("{:.1}", row.lenders),
                format!("{:.2}", row.fairness),
                row.design.map_or(String::new(), design_text),
            ];
            let names = [row.scene.to_string(), row.policy.to_owned()];
            let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
            let names = names.into_iter().map(Cell::new);
            table.add_row(names.chain(figures.into_iter().map(right)));
        }
        format!(
            "{table}\n\nrecalled ÷ granted; unmet ÷ wanted; the part of a borrower's far memory at one lender; its \
             lenders;\nthe least granted ÷ wanted of a node over the median; and the first four as the design's model \
             has them.\n"
        )
    }

    /// The table for programs.
    pub fn json(&self) -> Value {
        serde_json::json!({ "version": VERSION, "seed": self.seed, "rows": self.rows })
    }
}

/// A policy in a scene.
pub(super) fn row(policy: &'static str, scene: PlacementScene, seed: u64) -> PlacementRow {
    let choice = PlacementChoice::new(policy, []).expect("it is of the catalogue");
    let outcomes: Vec<PlacementOutcome> = (seed..)
        .take(SEEDS as usize)
        .map(|seed| play(scene, &choice, seed))
        .collect();
    let mean = |figure: fn(&PlacementOutcome) -> f64| {
        outcomes.iter().map(figure).sum::<f64>() / SEEDS as f64
    };
    let is_it = |(of, at, _): &&(&str, PlacementScene, [f64; 4])| *of == policy && *at == scene;
    PlacementRow {
        policy,
        scene,
        recalled: mean(PlacementOutcome::recalled_share),
        unmet: mean(PlacementOutcome::unmet_share),
        largest_share: mean(PlacementOutcome::largest_share),
        lenders: mean(PlacementOutcome::lenders),
        fairness: mean(PlacementOutcome::fairness),
        design: DESIGN.iter().find(is_it).map(|(_, _, figures)| *figures),
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn design_text([recalled, unmet, share, lenders]: [f64; 4]) -> String {
    let (recalled, unmet) = (percent(recalled), percent(unmet));
    format!("{recalled}, {unmet}, {share:.2}, {lenders:.1}")
}
