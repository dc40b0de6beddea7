//! `sublet policy`: who may hold how much, and why.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::str::FromStr;

use jiff::tz::TimeZone;
use jiff::{Timestamp, ZonedDateTime, civil};
use sublet_client::messages::{
    ChangePolicy, Explained, Lasts, Policies, PolicyDecision, PolicyKnob, PolicyStatus,
};
use sublet_types::TenantName;

use crate::exit::Exit;
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
            let until = at.map_or_else(now, |at| at.0);
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

fn shown(unix: u64) -> String {
    let at = Timestamp::from_second(unix as i64).unwrap_or_default();
    at.to_zoned_datetime(TimeZone::system())
        .strftime("%Y-%m-%d %H:%M:%S")
        .to_string()
}

fn now() -> u64 {
    Timestamp::now().as_second() as u64
}

/// A moment, in Unix seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct At(u64);

/// Why a moment was refused.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is no time: write 14:03, 14:03:30, 2026-11-22T14:03, or -10m for ten minutes ago")]
struct AtError(String);

impl FromStr for At {
    type Err = AtError;

    fn from_str(text: &str) -> Result<At, AtError> {
        let moment = match text.strip_prefix('-') {
            Some(ago) => before_now(ago),
            None => on_the_clock(text),
        };
        moment.map(At).ok_or_else(|| AtError(text.to_owned()))
    }
}

fn before_now(ago: &str) -> Option<u64> {
    let span: jiff::Span = ago.parse().ok()?;
    let then = ZonedDateTime::now().checked_sub(span).ok()?;
    u64::try_from(then.timestamp().as_second()).ok()
}

/// A time of day is the last such one, by the clock of whoever asks. What is said to the minute means its end.
fn on_the_clock(text: &str) -> Option<u64> {
    if !text.contains(':') {
        return None; // an hour alone, or a day, is no moment
    }
    let now = ZonedDateTime::now().datetime();
    let when = match text.parse::<civil::DateTime>() {
        Ok(when) => when,
        Err(_) => {
            let time: civil::Time = text.parse().ok()?;
            match time <= now.time() {
                true => now.date().to_datetime(time),
                false => now.date().yesterday().ok()?.to_datetime(time),
            }
        }
    };
    let to_the_minute = text.matches(':').count() < 2;
    let rest = if to_the_minute { 59 } else { 0 };
    let zoned = when.to_zoned_datetime(TimeZone::system()).ok()?;
    u64::try_from(zoned.timestamp().as_second() + rest).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_read_as_people_write_them() {
        let ago = "-10m".parse::<At>().expect("ten minutes ago").0;
        assert!(now().abs_diff(ago + 600) <= 1);
        let minute = "2026-11-22T14:03".parse::<At>().expect("a minute").0;
        let second = "2026-11-22T14:03:30".parse::<At>().expect("a second").0;
        assert_eq!(minute, second + 29);
        let day_before = "2026-11-21T14:03".parse::<At>().expect("a minute").0;
        assert!((minute - day_before).abs_diff(24 * 3600) <= 3600);
        let minute_of_day = "14:03".parse::<At>().expect("the last one").0;
        let soonest = now().saturating_sub(25 * 3600);
        assert!((soonest..now() + 60).contains(&minute_of_day));
        for wrong in ["", "soon", "25:00", "-soon", "14"] {
            assert!(wrong.parse::<At>().is_err(), "{wrong}");
        }
    }
}
