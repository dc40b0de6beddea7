//! `sublet policy`: how much each tenant may hold, and why.

use std::fmt::Write as _;
use std::io::{self, Write};

use sublet_client::messages::{
    ChangePolicy, Policies, PolicyDecision, PolicyExplanation, PolicyKnob, PolicyStatus,
};
use sublet_types::TenantName;

use crate::admin_options::AdminOptions;
use crate::exit::Exit;
use crate::grants::TemporaryFlag;
use crate::timestamp::{Timestamp, format_time, now};
use crate::what_if;

/// What to do with policies.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: PolicyCommand,
}

#[derive(clap::Subcommand)]
enum PolicyCommand {
    /// Show all policies, and mark the one that decides
    List {
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        daemon: AdminOptions,
    },
    /// Show one policy with its knobs; without a name, the one that decides
    Show {
        /// Show this policy
        name: Option<String>,
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        daemon: AdminOptions,
    },
    /// Let another policy decide, at once
    Set {
        /// Choose this policy
        name: String,
        /// Set its knobs, such as p=0.75
        #[arg(value_name = "KNOB=VALUE")]
        knobs: Vec<String>,
        #[command(flatten)]
        lifetime: TemporaryFlag,
        #[command(flatten)]
        daemon: AdminOptions,
    },
    /// Say what would be for so many hits, with so much memory, or under another policy, and who would pay
    WhatIf(what_if::Args),
    /// Say why a tenant may hold what it may, and why it lost memory
    Explain {
        /// Ask about this tenant
        #[arg(long)]
        tenant: TenantName,
        /// Ask about this time: 14:03, 14:03:30, 2026-11-22T14:03, or ago: -10m, -2h [default: now]
        #[arg(long, allow_hyphen_values = true)]
        at: Option<Timestamp>,
        /// Show this many decisions and losses, 50 at most
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=50))]
        last: u8,
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        daemon: AdminOptions,
    },
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Exit {
    let text = match &args.verb {
        PolicyCommand::List { json, daemon } => daemon
            .call(|admin| admin.policies())
            .map(|all| if *json { as_json(&all) } else { list(&all) }),
        PolicyCommand::Show { name, json, daemon } => {
            let all = daemon.call(|admin| admin.policies());
            all.and_then(|all| {
                let policy = find(&all, name.as_deref())?;
                Ok(match json {
                    true => as_json(policy),
                    false => policy_page(policy, &all),
                })
            })
        }
        PolicyCommand::Set {
            name,
            knobs,
            lifetime,
            daemon,
        } => {
            let change = ChangePolicy {
                name: name.clone(),
                knobs: knobs.clone(),
                lasts: lifetime.lasts(),
            };
            let changed = daemon.call(|admin| admin.change_policy(&change));
            changed.and_then(|all| Ok(policy_page(find(&all, None)?, &all)))
        }
        PolicyCommand::WhatIf(args) => args.call(),
        PolicyCommand::Explain {
            tenant,
            at,
            last,
            json,
            daemon,
        } => {
            let until = at.map_or_else(now, Timestamp::unix);
            let explained = daemon.call(|admin| admin.explain(tenant, until));
            explained.map(|mut explanation| {
                explanation.decisions.truncate(usize::from(*last));
                match json {
                    true => as_json(&explanation),
                    false => explain(tenant, &explanation),
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

/// A policy of `all` in full.
fn policy_page(policy: &PolicyStatus, all: &Policies) -> String {
    let PolicyStatus {
        name,
        summary,
        paper,
        knobs,
    } = policy;
    let state = match *name == all.current {
        true => ", which decides now",
        false => "",
    };
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

fn explain(tenant: &TenantName, explanation: &PolicyExplanation) -> String {
    if explanation.decisions.is_empty() {
        let since = explanation.since.map_or(String::new(), |since| {
            format!("; what was before {} is not kept", format_time(since))
        });
        return format!(
            "until then no policy changed what {tenant} may hold, and it lost no memory{since}\n"
        );
    }
    let mut text = String::new();
    for decision in explanation.decisions.iter().rev() {
        let PolicyDecision {
            at, policy, why, ..
        } = decision;
        let _ = writeln!(text, "{}  {policy:<13} {tenant}: {why}", format_time(*at));
    }
    text
}
