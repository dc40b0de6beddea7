//! What all setups came to on all traces, question by question.

use serde::Serialize;
use serde_json::Value;

use super::disk::DiskCounts;
use super::questions::{Figure, Question, questions};
use super::setup::Setup;
use crate::compare::Shares;
use crate::misses::{MissRow, Misses};
use crate::outcome::VERSION;
use crate::plot::{Bars, Group, Panel, Plot, PlotError};

/// All setups on all traces.
#[derive(Clone, Debug)]
pub struct Comparison {
    questions: Vec<Question>,
    /// Each setup once, in the order in which questions name them first.
    pub setups: Vec<Setup>,
    /// A row for each trace and size of the guest.
    pub rows: Vec<ComparisonRow>,
    /// Sentences on what could not be done.
    pub notes: Vec<String>,
}

/// One trace with one size of the guest.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparisonRow {
    /// The trace.
    pub trace: String,
    /// The guest's memory, as a share of the trace's footprint.
    pub client: f64,
    /// The disk's, likewise.
    pub tier: f64,
    /// What each setup came to.
    pub counts: Vec<DiskCounts>,
}

impl Default for Comparison {
    fn default() -> Comparison {
        let questions = questions();
        let mut setups: Vec<Setup> = Vec::new();
        for setup in questions.iter().flat_map(|question| &question.setups) {
            if !setups.contains(setup) {
                setups.push(*setup);
            }
        }
        Comparison {
            questions,
            setups,
            rows: Vec::new(),
            notes: Vec::new(),
        }
    }
}

impl Comparison {
    /// Adds what the setups came to on one trace.
    pub fn add(&mut self, trace: &str, shares: Shares, counts: Vec<DiskCounts>) {
        self.rows.push(ComparisonRow {
            trace: trace.rsplit('/').next().unwrap_or(trace).to_owned(),
            client: shares.guest,
            tier: shares.tier,
            counts,
        });
    }

    /// Whether every page that came back was the one that was put last.
    pub fn holds(&self) -> bool {
        let mut counts = self.rows.iter().flat_map(|row| &row.counts);
        counts.all(|counts| counts.pages_wrong == 0)
    }

    /// The form for people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for question in &self.questions {
            let asked = question.figure.asked(&DiskCounts::default()).0;
            let table = self.answer(question).table(asked);
            text.push_str(&format!("{}\n{table}\n\n", question.title));
        }
        let notes = self.notes.iter();
        notes.for_each(|note| text.push_str(&format!("{note}\n")));
        text
    }

    /// The machine-readable form.
    pub fn json(&self) -> Value {
        let labels = |setups: &[Setup]| setups.iter().map(Setup::to_string).collect::<Vec<_>>();
        let question = |question: &Question| {
            let ratios = self.answer(question).means();
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

    /// A panel for each question: each setup relative to the first.
    ///
    /// # Errors
    ///
    /// None that we know of: text in memory takes everything.
    pub fn draw(&self) -> Result<String, PlotError> {
        let panel = |question: &Question| {
            Panel::Bars(Bars {
                title: question.title.to_owned(),
                unit: "relative to the first",
                groups: self.answer(question).rows.iter().map(bars).collect(),
                labels: Setup::labels(&question.setups),
            })
        };
        let plot = Plot {
            title: "sublet-lab sim disk".to_owned(),
            about: String::new(),
            panels: self.questions.iter().map(panel).collect(),
        };
        plot.draw()
    }

    /// One question's figures.
    pub fn answer(&self, question: &Question) -> Misses {
        let of_row = |row: &ComparisonRow| {
            let counts = question.setups.iter().filter_map(|setup| {
                let place = self.setups.iter().position(|known| known == setup)?;
                row.counts.get(place)
            });
            answer_row(row, question.figure, &counts.collect::<Vec<_>>())
        };
        Misses {
            labels: Setup::labels(&question.setups),
            rows: self.rows.iter().map(of_row).collect(),
        }
    }
}

fn answer_row(row: &ComparisonRow, figure: Figure, counts: &[&DiskCounts]) -> MissRow {
    MissRow {
        trace: row.trace.clone(),
        client: row.client,
        tier: row.tier,
        sizes: None,
        gets: counts.first().map_or(0, |counts| figure.asked(counts).1),
        misses: counts.iter().map(|counts| figure.of(counts)).collect(),
    }
}

fn bars(row: &MissRow) -> Group {
    let trace = row.trace.split('.').next().unwrap_or("");
    Group {
        name: format!("{trace} {}%", row.client * 100.0),
        values: row.ratios().into_iter().map(Some).collect(),
    }
}
