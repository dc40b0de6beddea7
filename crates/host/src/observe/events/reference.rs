//! The reference page of events, made from their table.

use std::fmt::Write;

use super::id::ROWS;
use super::reason::EventReason;
use super::{FOLLOWERS_MAX, RING_BYTES_MAX};

/// `docs/events.md`.
pub fn reference() -> String {
    let mut page = heading();
    // Writing to a string does not fail.
    for row in ROWS {
        let whys: Vec<String> = row
            .reasons
            .iter()
            .map(|why| format!("`{}`", why.name()))
            .collect();
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} | {} |",
            row.name,
            row.level.name(),
            row.happens,
            whys.join(", "),
            row.then
        );
    }
    page.push_str("\n| reason | what it says |\n| --- | --- |\n");
    for why in EventReason::ALL {
        let _ = writeln!(page, "| `{}` | {} |", why.name(), why.meaning());
    }
    page
}

/// The page up to the rows of the first table.
fn heading() -> String {
    format!(
        "# Events

This page lists every event of the daemon. `sublet generate event-reference` makes it from the table of events. Change
that table, not this page.

An event is something in the daemon that its owner may want to know. It has these parts:

- an id that never changes
- the object to which it happened: a tenant, a disk, a listener, a peer, or none in particular
- an amount
- a reason
- the actor: by whose word it happened
- a time
- a number. Numbers count from 1 since the daemon started.

`sublet events` shows the events that are in memory, the latest {} MiB of them:

- `--follow` shows new events as they come. With `--since` it shows the past ones first.
- `--since 1h` leaves out older events.
- `--tenant web` shows what befell one tenant, its disks and its listeners.
- `--json` prints one JSON object per line.

Programs find events in three more places:

- `GET /v1/events` ([admin.md](admin.md#get-v1events)) serves the same events, to {FOLLOWERS_MAX} followers at once.
- Every event is a line of the log, at the event's level. The daemon logs up to ten lines per minute of one kind about
  one object, and then their count.
- `/metrics` counts events by id and reason (`sublet_events_total`).

`sublet policy explain` shows the `tenant.target`, `tenant.squeezed` and `tenant.shrank` events of one tenant.

The daemon joins events that repeat: those with the same id, object, reason and actor become one event per second.
`count` says how often it happened, and the daemon adds up the amounts.

The actor is one of these:

- The user and process that asked at the daemon's Unix socket, as the kernel says (`uid 0 pid 4242`).
- The address of the caller that showed the token over TCP.
- A policy.
- A tenant's client.
- The daemon itself.

| id | level | when it happens | reasons | what to do |
| --- | --- | --- | --- | --- |
",
        RING_BYTES_MAX >> 20
    )
}
