//! `sublet-lab sim list`: the built-in scenarios.

use std::io::{self, Write};

use sublet_sim::scenario::{SHIPPED, Scenario};

use super::run_options::RunOptions;
use crate::exit::Exit;

/// Lists the built-in scenarios, one line each.
pub(super) fn run(how: &RunOptions) -> Exit {
    let read = |shipped: sublet_sim::scenario::BuiltInScenario| shipped.scenario();
    let scenarios: Result<Vec<Scenario>, _> = SHIPPED.into_iter().map(read).collect();
    match scenarios {
        Ok(scenarios) => Exit::written(write(how, &scenarios)),
        Err(error) => Exit::failed(error),
    }
}

fn write(how: &RunOptions, scenarios: &[Scenario]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if how.json {
        let entry = |scenario: &Scenario| serde_json::json!({"name": scenario.name, "about": scenario.about});
        let list: Vec<_> = scenarios.iter().map(entry).collect();
        return writeln!(
            out,
            "{:#}",
            serde_json::json!({"version": 1, "scenarios": list})
        );
    }
    scenarios
        .iter()
        .try_for_each(|scenario| writeln!(out, "{:16} {}", scenario.name, scenario.about))
}
