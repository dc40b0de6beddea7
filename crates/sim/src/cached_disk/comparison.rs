//! Results of all setups on all traces, grouped by comparison.

use serde::Serialize;
use serde_json::Value;

use super::setup::CachingSetup;
use super::setup_comparisons::{ComparedFigure, SetupComparison, questions};
use super::simulated_disk::CachedDiskCounts;
use crate::compare::FootprintShares;
use crate::misses::{MissComparison, MissRow};
use crate::outcome::VERSION;
use crate::plot::{BarGroup, Bars, Panel, Plot, PlotError};

/// All setups on all traces.
#[derive(Clone, Debug)]
pub struct CachingComparison {
    questions: Vec<SetupComparison>,
    /// Each setup once, in the order in which comparisons name them first.
    pub setups: Vec<CachingSetup>,
    /// One row per trace and size of the guest.
    pub rows: Vec<ComparisonRow>,
    /// Sentences about what could not be done.
    pub notes: Vec<String>,
}

/// One trace with one size of the guest.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparisonRow {
    /// The trace.
    pub trace: String,
    /// The guest's memory, as a share of the trace's footprint.
    pub client: f64,
    /// The disk's memory, as a share of the same.
    pub tier: f64,
    /// The counts of each setup.
    pub counts: Vec<CachedDiskCounts>,
}

impl Default for CachingComparison {
    fn default() -> CachingComparison {
        let questions = questions();
        let mut setups: Vec<CachingSetup> = Vec::new();
        for setup in questions.iter().flat_map(|question| &question.setups) {
            if !setups.contains(setup) {
                setups.push(*setup);
            }
        }
        CachingComparison {
            questions,
            setups,
            rows: Vec::new(),
            notes: Vec::new(),
        }
    }
}

impl CachingComparison {
    /// Adds the counts of the setups on one trace.
    pub fn add(&mut self, trace: &str, shares: FootprintShares, counts: Vec<CachedDiskCounts>) {
        self.rows.push(ComparisonRow {
            trace: trace.rsplit('/').next().unwrap_or(trace).to_owned(),
            client: shares.guest,
            tier: shares.tier,
            counts,
        });
    }

    /// Returns whether every page that came back was the one that was put last.
    pub fn holds(&self) -> bool {
        let mut counts = self.rows.iter().flat_map(|row| &row.counts);
        counts.all(|counts| counts.pages_wrong == 0)
    }

    /// The form for people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for question in &self.questions {
            let gets_title = question.figure.denominator(&CachedDiskCounts::default()).0;
            let table = self.misses_of(question).table(gets_title);
            text.push_str(&format!("{}\n{table}\n\n", question.title));
        }
        let notes = self.notes.iter();
        notes.for_each(|note| text.push_str(&format!("{note}\n")));
        text
    }

    /// The machine-readable form.
    pub fn json(&self) -> Value {
        let labels = |setups: &[CachingSetup]| {
            setups
                .iter()
                .map(CachingSetup::to_string)
                .collect::<Vec<_>>()
        };
        let question = |question: &SetupComparison| {
            let ratios = self.misses_of(question).means();
            serde_json::json!({
                "title": question.title,
                "setups": labels(&question.setups),
                "mean_ratios": ratios.iter().map(|mean| mean.0).collect::<Vec<f64>>(),
                "worst_ratios": ratios.iter().map(|mean| mean.1).collect::<Vec<f64>>(),
            })
        };
        serde_json::json!({
            "version": VERSION,
            "setups": labels(&self.setups),
            "rows": self.rows,
            "questions": self.questions.iter().map(question).collect::<Vec<Value>>(),
            "notes": self.notes,
        })
    }

    /// Draws one panel per comparison: each setup relative to the first.
    ///
    /// # Errors
    ///
    /// None that we know of: text in memory takes everything.
    pub fn draw(&self) -> Result<String, PlotError> {
        let panel = |question: &SetupComparison| {
            Panel::Bars(Bars {
                title: question.title.to_owned(),
                unit: "relative to the first",
                groups: self.misses_of(question).rows.iter().map(bars).collect(),
                labels: CachingSetup::labels(&question.setups),
            })
        };
        let plot = Plot {
            title: "sublet-lab sim disk".to_owned(),
            about: String::new(),
            panels: self.questions.iter().map(panel).collect(),
        };
        plot.draw()
    }

    /// The misses, or another figure, of one comparison.
    pub fn misses_of(&self, question: &SetupComparison) -> MissComparison {
        let of_row = |row: &ComparisonRow| {
            let counts = question.setups.iter().filter_map(|setup| {
                let place = self.setups.iter().position(|known| known == setup)?;
                row.counts.get(place)
            });
            answer_row(row, question.figure, &counts.collect::<Vec<_>>())
        };
        MissComparison {
            labels: CachingSetup::labels(&question.setups),
            rows: self.rows.iter().map(of_row).collect(),
        }
    }
}

fn answer_row(
    row: &ComparisonRow,
    figure: ComparedFigure,
    counts: &[&CachedDiskCounts],
) -> MissRow {
    MissRow {
        trace: row.trace.clone(),
        client: row.client,
        tier: row.tier,
        sizes: None,
        gets: counts
            .first()
            .map_or(0, |counts| figure.denominator(counts).1),
        misses: counts.iter().map(|counts| figure.of(counts)).collect(),
    }
}

fn bars(row: &MissRow) -> BarGroup {
    let trace = row.trace.split('.').next().unwrap_or("");
    BarGroup {
        name: format!("{trace} {}%", row.client * 100.0),
        values: row.ratios().into_iter().map(Some).collect(),
    }
}
