//! `sublet events`: it shows past events, and follows new ones.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::thread;
use std::time::{Duration, Instant};

use sublet_client::messages::{Event, EventGap, EventsQuery};
use sublet_client::{AdminError, EventOrGap};
use sublet_types::{Bytes, TenantName};

use crate::admin_options::AdminOptions;
use crate::exit::{Exit, print_error};
use crate::timestamp::{SinceTimestamp, format_time};

/// Which events to show.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Go on with new events until Ctrl-C; without --since, show only those
    #[arg(long, short)]
    follow: bool,
    /// Show no events from before: 1h, 30m, 14:03, 2026-11-22T14:03
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    since: Option<SinceTimestamp>,
    /// Show only events of this tenant, its disks and its listeners
    #[arg(long, value_name = "NAME")]
    tenant: Option<TenantName>,
    /// Print one JSON object per line, for programs
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: AdminOptions,
}

/// How long a follower waits for a daemon that went away.
const AWAY_MAX: Duration = Duration::from_secs(30);

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(500);

/// Shows the events.
pub(crate) fn run(args: &Args) -> Exit {
    let query = EventsQuery {
        after: None,
        since: args.since.map(SinceTimestamp::unix),
        tenant: args.tenant.as_ref().map(TenantName::to_string),
    };
    match args.follow {
        true => follow(args, query),
        false => show(args, query),
    }
}

/// Shows the events that are in memory, answer by answer.
fn show(args: &Args, mut query: EventsQuery) -> Exit {
    let admin = match args.daemon.admin() {
        Ok(admin) => admin,
        Err(exit) => return exit,
    };
    loop {
        let answer = match admin.events(&query) {
            Ok(answer) => answer,
            Err(error) => return Exit::call_failed(&error),
        };
        let is_first = query.after.is_none();
        if is_first && query.since.is_some_and(|since| since < answer.since) {
            print_error(format_args!(
                "what was before {} is not kept",
                format_time(answer.since)
            ));
        }
        if answer.lost != Some(0) {
            report_gap(EventGap { lost: answer.lost });
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
        query.after = Some(answer.next);
    }
}

/// Follows new events, also after the connection was cut or another daemon took over.
fn follow(args: &Args, mut query: EventsQuery) -> Exit {
    let admin = match args.daemon.admin() {
        Ok(admin) => admin,
        Err(exit) => return exit,
    };
    let mut written = Ok(());
    let mut away: Option<Instant> = None;
    loop {
        let mut was_there = false;
        let followed = admin.follow(&mut query, |followed| {
            was_there = true;
            match followed {
                EventOrGap::Gap(gap) => report_gap(gap),
                EventOrGap::Event(event) => {
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
        // A follower that never reached a daemon fails at once.
        let may_come_back =
            query.after.is_some() && matches!(error, AdminError::Unreachable { .. });
        if !may_come_back || since.elapsed() >= AWAY_MAX {
            return Exit::call_failed(&error);
        }
        thread::sleep(PAUSE);
    }
}

fn report_gap(gap: EventGap) {
    match gap.lost {
        Some(lost) => print_error(format_args!("{lost} events are not kept any more")),
        None => print_error("the daemon was started anew; what happened before is not kept"),
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
        format_time(event.at_millis / 1000),
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
