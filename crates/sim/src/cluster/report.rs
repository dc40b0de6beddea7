//! What runs of clusters came to, for people and for programs.

use std::fmt::Write as _;

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::{Value, json};

use sublet_policy::placement::catalogue::{PLACEMENTS, PlacementEntry};

use super::leadership::Leadership;
use super::mutation::Mutation;
use super::plan::ClusterPlan;
use super::run::ClusterOutcome;
use super::tally::ClusterTally;
use super::traffic::{ControlTrafficFigures, NodeTrafficFigures};

/// What runs of one cluster came to, seed by seed.
#[derive(Clone, Debug)]
pub struct ClusterReport {
    /// The cluster.
    pub plan: ClusterPlan,
    /// The rule that the runs left out.
    pub mutation: Option<Mutation>,
    /// The runs, in the order of their seeds.
    pub outcomes: Vec<ClusterOutcome>,
}

impl ClusterReport {
    /// Returns whether no judge found anything.
    pub fn holds(&self) -> bool {
        self.first_failure().is_none()
    }

    /// The first run in which a judge found something.
    pub fn first_failure(&self) -> Option<&ClusterOutcome> {
        let mut outcomes = self.outcomes.iter();
        outcomes.find(|outcome| outcome.verdict.is_some())
    }

    fn tally(&self) -> ClusterTally {
        let mut sum = ClusterTally::default();
        self.outcomes
            .iter()
            .for_each(|outcome| sum += outcome.tally);
        sum
    }

    /// The command that plays a seed again.
    pub fn replay(&self, seed: u64) -> String {
        let rule = self.mutation.map(|rule| format!(" --mutate {rule}"));
        let leader = self.plan.leadership.map(|way| format!(" --leader {way}"));
        let is_it = |entry: &&PlacementEntry| Some(entry.policy) == self.plan.placement;
        let placement = PLACEMENTS.iter().find(is_it);
        let placement = placement.map(|entry| format!(" --placement {}", entry.name));
        let options: String = [leader, placement, rule].into_iter().flatten().collect();
        format!(
            "sublet-lab sim cluster --nodes {} --seed {seed}{options} --trace",
            self.plan.nodes,
        )
    }

    /// The control traffic of the run whose busiest node is the farthest above what it may have, or nearest to it.
    fn traffic(&self) -> ControlTrafficFigures {
        let figures = self.outcomes.iter().map(|outcome| outcome.traffic);
        let excess = |figures: &ControlTrafficFigures| figures.busiest.excess();
        figures.max_by_key(excess).unwrap_or_default()
    }

    fn led_by(&self) -> String {
        let count = |way: Leadership| {
            let outcomes = self.outcomes.iter();
            outcomes.filter(|outcome| outcome.leadership == way).count()
        };
        let counts = Leadership::ALL.map(|way| (way, count(way)));
        let counts = counts.iter().filter(|(_, count)| *count > 0);
        let words: Vec<String> = counts
            .map(|(way, count)| format!("{count} {way}"))
            .collect();
        words.join(", ")
    }

    /// The report as text.
    pub fn text(&self) -> String {
        let failures = self
            .outcomes
            .iter()
            .filter(|outcome| outcome.verdict.is_some());
        let found = match failures.count() {
            0 => "the judges found nothing".to_owned(),
            count => format!("the judges found something in {count}"),
        };
        let mut text = format!(
            "{} runs of {} nodes ({}): {found}\n",
            self.outcomes.len(),
            self.plan.nodes,
            self.led_by(),
        );
        let mut table = table_of(&["what", "in all runs"]);
        for (what, count) in figures(&self.tally()) {
            table.add_row([what.to_owned(), count.to_string()]);
        }
        let traffic = self.traffic();
        for (what, node) in [
            ("busiest", Some(traffic.busiest)),
            ("leading", traffic.leader),
        ] {
            if let Some(node) = node {
                table.add_row(traffic_row(what, node));
            }
        }
        let _ = writeln!(text, "{table}");
        for outcome in &self.outcomes {
            if !outcome.trace.is_empty() && outcome.verdict.is_none() {
                let _ = writeln!(
                    text,
                    "\nseed {}:\n{}",
                    outcome.seed,
                    outcome.trace.join("\n")
                );
            }
        }
        if let Some(failure) = self.first_failure()
            && let Some(verdict) = &failure.verdict
        {
            let _ = writeln!(text, "\nseed {}: {verdict}", failure.seed);
            let _ = writeln!(text, "what happened last:\n{}", failure.trace.join("\n"));
            let _ = writeln!(text, "to see it all:\n  {}", self.replay(failure.seed));
        }
        text
    }

    /// The report as JSON.
    pub fn json(&self) -> Value {
        let failures = self.outcomes.iter().filter_map(|outcome| {
            let verdict = outcome.verdict.as_ref()?;
            Some(json!({
                "seed": outcome.seed,
                "judge": verdict.judge.name(),
                "node": verdict.node.0,
                "at_secs": verdict.at.secs(),
                "what": verdict.what,
                "trace": outcome.trace,
                "replay": self.replay(outcome.seed),
            }))
        });
        json!({
            "version": 1,
            "nodes": self.plan.nodes,
            "runs": self.outcomes.len(),
            "first_seed": self.outcomes.first().map(|outcome| outcome.seed),
            "mutation": self.mutation.map(Mutation::name),
            "failures": failures.collect::<Vec<_>>(),
            "tally": self.tally(),
            "control_traffic": self.traffic(),
        })
    }
}

fn traffic_row(what: &str, figures: NodeTrafficFigures) -> [String; 2] {
    let connections = figures.connections_hundredths as f64 / 100.0;
    let (bytes, most) = (figures.bytes_per_sec, figures.bytes_max());
    [
        format!("control traffic of the {what} node"),
        format!("{bytes} B/s with {connections:.1} connections; {most} B/s are allowed"),
    ]
}

fn table_of(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::ASCII_MARKDOWN)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header.iter().copied());
    table
}

/// The figures of a tally, each with its words.
fn figures(tally: &ClusterTally) -> [(&'static str, u64); 19] {
    [
        ("events", tally.events),
        ("faults", tally.faults),
        ("starts of nodes", tally.starts),
        ("pages that guests read", tally.pages_read),
        ("pages that guests wrote", tally.pages_written),
        ("pages that lenders took", tally.sent),
        ("pages lost on the way to lenders", tally.sent_lost),
        ("pages that came from lenders", tally.far_hits),
        ("pages that lenders did not give", tally.far_lost),
        ("blocks granted", tally.granted),
        ("blocks taken back at once", tally.taken),
        ("blocks that nobody claimed", tally.unclaimed),
        ("times that a node began to lead", tally.elections),
        ("pieces of advice", tally.advised),
        ("of those, followed", tally.followed),
        ("times that members were drawn", tally.drawn),
        ("borrowed leases that were lost", tally.leases_lost),
        ("bytes of control lines", tally.control_bytes),
        ("bytes of page messages", tally.page_bytes),
    ]
}

/// What judges found of a rule that runs left out.
#[derive(Clone, Debug)]
pub struct MutationRow {
    /// The rule.
    pub mutation: Mutation,
    /// The runs until a judge found it, or all.
    pub runs: usize,
    /// The run in which one did.
    pub found: Option<ClusterOutcome>,
}

impl MutationRow {
    /// Returns whether the judge found it that is to.
    pub fn holds(&self) -> bool {
        let verdict = self.found.as_ref().and_then(|found| found.verdict.as_ref());
        verdict.is_some_and(|verdict| verdict.judge == self.mutation.found_by())
    }

    fn cells(&self) -> [String; 5] {
        let verdict = self.found.as_ref().and_then(|found| found.verdict.as_ref());
        let found_by = verdict.map_or("nobody", |verdict| verdict.judge.name());
        [
            self.mutation.name().to_owned(),
            self.mutation.found_by().name().to_owned(),
            found_by.to_owned(),
            self.runs.to_string(),
            verdict.map_or_else(String::new, |verdict| verdict.what.clone()),
        ]
    }
}

/// Rules that runs left out, one at a time, and what judges found.
#[derive(Clone, Debug)]
pub struct MutationReport {
    /// Nodes of the cluster.
    pub nodes: u16,
    /// Each rule.
    pub rows: Vec<MutationRow>,
}

impl MutationReport {
    /// Returns whether each rule was found by the judge that is to find it.
    pub fn holds(&self) -> bool {
        self.rows.iter().all(MutationRow::holds)
    }

    /// The report as text.
    pub fn text(&self) -> String {
        let header = [
            "rule left out",
            "to be found by",
            "found by",
            "runs",
            "what it saw",
        ];
        let mut table = table_of(&header);
        self.rows.iter().for_each(|row| {
            table.add_row(row.cells());
        });
        format!("{table}\n")
    }

    /// The report as JSON.
    pub fn json(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
            let [rule, meant, found_by, _, what] = row.cells();
            json!({
                "rule": rule,
                "to_be_found_by": meant,
                "found_by": row.found.is_some().then_some(found_by),
                "runs": row.runs,
                "seed": row.found.as_ref().map(|found| found.seed),
                "what": row.found.is_some().then_some(what),
            })
        });
        json!({ "version": 1, "nodes": self.nodes, "mutations": rows.collect::<Vec<_>>() })
    }
}
