//! `sublet policy`: who may hold how much, and why.

use std::fmt::Write as _;
use std::io::{self, Write};

use sublet_client::messages::{
    ChangePolicy, Explained, Lasts, Policies, PolicyDecision, PolicyKnob, PolicyStatus,
};
use sublet_types::TenantName;

use crate::exit::Exit;
use crate::moment::{At, now, shown};
use crate::reach::Reach;
use crate::what_if;

/// What to do.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Show all policies and which one decides
    List {
        /// As JSON, for programs
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        reach: Reach,
    },
    /// Show one policy with its knobs; without a name, the one that decides
    Show {
        /// Which one
        name: Option<String>,
        /// As JSON, for programs
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        reach: Reach,
    },
    /// Have another policy decide, at once
    Set {
        /// Which one
        name: String,
        /// Its knobs, such as p=0.75
        #[arg(value_name = "KNOB=VALUE")]
        knobs: Vec<String>,
        /// Only until the daemon ends
        #[arg(long)]
        temporary: bool,
        #[command(flatten)]
        reach: Reach,
    },
    /// Say what would be: for so many hits, with so much memory, or under another policy, and who would pay
    WhatIf(what_if::Args),
    /// Say why a tenant may hold what it may, and why it lost memory
    Explain {
        /// Which tenant
        #[arg(long)]
        tenant: TenantName,
        /// When: 14:03, 14:03:30, 2026-11-22T14:03, or ago: -10m, -2h; now if nothing is said
        #[arg(long, allow_hyphen_values = true)]
        at: Option<At>,
        /// How many decisions and losses to show, 50 at most
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=50))]
        last: u8,
        /// As JSON, for programs
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        reach: Reach,
    },
}

/// Does it.
pub(crate) fn run(args: &Args) -> Exit {
    let text = match &args.verb {
        Verb::List { json, reach } => reach
            .ask(|admin| admin.policies())
            .map(|all| if *json { as_json(&all) } else { list(&all) }),
        Verb::Show { name, json, reach } => {
            let all = reach.ask(|admin| admin.policies());
            all.and_then(|all| {
                let policy = find(&all, name.as_deref())?;
                Ok(match json {
                    true => as_json(policy),
                    false => page(policy, policy.name == all.current),
                })
            })
        }
        Verb::Set {
            name,
            knobs,
            temporary,
            reach,
        } => {
            let change = ChangePolicy {
                name: name.clone(),
                knobs: knobs.clone(),
                lasts: match temporary {
                    true => Lasts::UntilRestart,
                    false => Lasts::Always,
                },
            };
            let changed = reach.ask(|admin| admin.change_policy(&change));
            changed.and_then(|all| Ok(page(find(&all, None)?, true)))
        }
        Verb::WhatIf(args) => args.ask(),
        Verb::Explain {
            tenant,
            at,
            last,
            json,
            reach,
        } => {
            let until = at.map_or_else(now, At::unix);
            let explained = reach.ask(|admin| admin.explain(tenant, until));
            explained.map(|mut told| {
                told.decisions.truncate(usize::from(*last));
                match json {
                    true => as_json(&told),
                    false => explain(tenant, &told),
                }
            })
        }
    };
    match text {
        Ok(text) => Exit::written(io::stdout().write_all(text.as_bytes())),
        Err(exit) => exit,
    }
}

fn as_json(answer: &impl serde::Serialize) -> String {
    format!(
        "{}\n",
        serde_json::to_string(answer).expect("an answer is JSON")
    )
}

fn list(all: &Policies) -> String {
    let mut text = String::new();
    for policy in &all.policies {
        let mark = if policy.name == all.current { '*' } else { ' ' };
        let _ = writeln!(text, "{mark} {:<14} {}", policy.name, policy.summary);
    }
    text
}

/// The policy of that name, or the one that decides.
fn find<'a>(all: &'a Policies, name: Option<&str>) -> Result<&'a PolicyStatus, Exit> {
    let name = name.unwrap_or(&all.current);
    let found = all.policies.iter().find(|policy| policy.name == name);
    found.ok_or_else(|| {
        Exit::failed(format!(
            "no policy is called {name:?}; `sublet policy list` shows them all"
        ))
    })
}

fn page(policy: &PolicyStatus, decides: bool) -> String {
    let PolicyStatus {
        name,
        summary,
        paper,
        knobs,
    } = policy;
    let state = if decides { ", which decides now" } else { "" };
    let mut text = format!("{name}{state}: {summary}\nfrom {paper}\n");
    for knob in knobs {
        let _ = write!(text, "\n{}", knob_page(knob));
    }
    text
}

fn knob_page(knob: &PolicyKnob) -> String {
    let PolicyKnob {
        name,
        unit,
        value,
        default,
        least,
        most,
        help,
        why,
    } = knob;
    format!(
        "{name} = {value} {unit}\n    {help}\n    {least} to {most} {unit}, {default} if nothing is said: {why}\n"
    )
}

fn explain(tenant: &TenantName, told: &Explained) -> String {
    if told.decisions.is_empty() {
        let since = told.since.map_or(String::new(), |since| {
            format!("; what was before {} is not kept", shown(since))
        });
        return format!(
            "until then no policy changed what {tenant} may hold, and it lost no memory{since}\n"
        );
    }
    let mut text = String::new();
    for decision in told.decisions.iter().rev() {
        let PolicyDecision {
            at, policy, why, ..
        } = decision;
        let _ = writeln!(text, "{}  {policy:<13} {tenant}: {why}", shown(*at));
    }
    text
}
