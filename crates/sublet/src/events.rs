//! `sublet events`: what happened, and what comes.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::thread;
use std::time::{Duration, Instant};

use sublet_client::messages::{AskEvents, Event, EventGap};
use sublet_client::{CallError, Followed};
use sublet_types::{Bytes, TenantName};

use crate::exit::{Exit, say};
use crate::moment::{Since, shown};
use crate::reach::Reach;

/// Which events.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Go on with what comes, until Ctrl-C; without --since only with that
    #[arg(long, short)]
    follow: bool,
    /// Not what was before: 1h, 30m, 14:03, 2026-11-22T14:03
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    since: Option<Since>,
    /// Only what befell this tenant, its disks and its listeners
    #[arg(long, value_name = "NAME")]
    tenant: Option<TenantName>,
    /// As one JSON object a line, for programs
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reach: Reach,
}

/// How long one who follows waits for a daemon that went away.
const AWAY_MAX: Duration = Duration::from_secs(30);

/// How often it is tried again.
const PAUSE: Duration = Duration::from_millis(500);

/// Shows them.
pub(crate) fn run(args: &Args) -> Exit {
    let asked = AskEvents {
        after: None,
        since: args.since.map(Since::unix),
        tenant: args.tenant.as_ref().map(TenantName::to_string),
    };
    match args.follow {
        true => follow(args, asked),
        false => show(args, asked),
    }
}

/// Those that are in memory, answer by answer.
fn show(args: &Args, mut asked: AskEvents) -> Exit {
    let admin = match args.reach.admin() {
        Ok(admin) => admin,
        Err(exit) => return exit,
    };
    loop {
        let answer = match admin.events(&asked) {
            Ok(answer) => answer,
            Err(error) => return Exit::uncalled(&error),
        };
        let is_first = asked.after.is_none();
        if is_first && asked.since.is_some_and(|since| since < answer.since) {
            say(format_args!(
                "what was before {} is not kept",
                shown(answer.since)
            ));
        }
        if answer.lost != Some(0) {
            tell(EventGap { lost: answer.lost });
        }
        let lines: String = answer
            .events
            .iter()
            .map(|event| line(args, event))
            .collect();
        let written = io::stdout().write_all(lines.as_bytes());
        if written.is_err() || !answer.more {
            return Exit::written(written);
        }
        asked.after = Some(answer.next);
    }
}

/// What comes, also after the connection was cut or another daemon took this one's place.
fn follow(args: &Args, mut asked: AskEvents) -> Exit {
    let admin = match args.reach.admin() {
        Ok(admin) => admin,
        Err(exit) => return exit,
    };
    let mut written = Ok(());
    let mut away: Option<Instant> = None;
    loop {
        let mut was_there = false;
        let followed = admin.follow(&mut asked, |followed| {
            was_there = true;
            match followed {
                Followed::Gap(gap) => tell(gap),
                Followed::Event(event) => {
                    let mut out = io::stdout();
                    let line = line(args, &event);
                    written = out.write_all(line.as_bytes()).and_then(|()| out.flush());
                }
            }
            match written {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        });
        let error = match followed {
            Ok(()) => return Exit::written(written),
            Err(error) => error,
        };
        if was_there {
            away = None;
        }
        let since = *away.get_or_insert_with(Instant::now);
        // Who never got there is told so at once.
        let may_come_back = asked.after.is_some() && matches!(error, CallError::Unreachable { .. });
        if !may_come_back || since.elapsed() >= AWAY_MAX {
            return Exit::uncalled(&error);
        }
        thread::sleep(PAUSE);
    }
}

fn tell(gap: EventGap) {
    match gap.lost {
        Some(lost) => say(format_args!("{lost} events are not kept any more")),
        None => say("the daemon was started anew; what happened before is not kept"),
    }
}

fn line(args: &Args, event: &Event) -> String {
    match args.json {
        true => serde_json::to_string(event).expect("an event is JSON") + "\n",
        false => text(event),
    }
}

/// `2026-11-27 00:31:02  release.fast  –  16.0 MiB  the arena gave way: 3 items and 0 pages lost (by-hand, by uid 0)`
fn text(event: &Event) -> String {
    let object = event.object.as_ref();
    let object = object.map_or("–".to_owned(), ToString::to_string);
    let unit = event.unit.as_deref().unwrap_or_default();
    let amount = match (event.amount, unit) {
        (None, _) => "–".to_owned(),
        (Some(bytes), "bytes") => Bytes(bytes).to_string(),
        (Some(amount), unit) => format!("{amount} {unit}"),
    };
    let times = match event.count {
        1 => String::new(),
        count => format!("; {count} times"),
    };
    format!(
        "{}  {:<20}  {object:<16}  {amount:>10}  {} ({}, by {}{times})\n",
        shown(event.at_millis / 1000),
        event.id,
        event.said,
        event.reason,
        event.actor
    )
}

#[cfg(test)]
mod tests {
    use sublet_client::messages::{EventActor, EventObject};

    use super::*;

    #[test]
    fn an_event_is_a_line() {
        let event = Event {
            seq: 7,
            at_millis: 1_764_202_749_123,
            id: "tenant.squeezed".to_owned(),
            level: "info".to_owned(),
            object: Some(EventObject::Tenant {
                name: "web".parse().expect("a name"),
            }),
            amount: Some(16 << 20),
            unit: Some("bytes".to_owned()),
            reason: "by-hand".to_owned(),
            actor: EventActor::Caller {
                uid: 0,
                pid: Some(4242),
            },
            count: 3,
            said: "a tenant lost memory".to_owned(),
        };
        let line = text(&event);
        assert!(
            line.ends_with(
                "  tenant.squeezed       tenant web          16.0 MiB  a tenant lost memory (by-hand, by uid 0 (process 4242); 3 times)\n"
            ),
            "{line}"
        );
    }
}
