//! The reference of events, made of their table.

use std::fmt::Write;

use super::id::ROWS;
use super::why::Why;
use super::{FOLLOWERS_MAX, RING_BYTES_MAX};

/// `docs/events.md`.
pub fn reference() -> String {
    let mut page = format!(
        "# Events

Made from the table of events by `sublet generate event-reference`; change it there.

What happens in the daemon that its owner may want to know is an event: with an id that never changes, to whom it happened (a tenant, a disk, a
listener, or nobody in particular), how much of what, a reason, by whose word, when, and a number. Numbers count from 1 since the daemon started.

`sublet events` shows those that are in memory, the latest {} MiB of them; `--follow` goes on with what comes, `--since 1h` leaves out what is
older, `--tenant web` shows what befell one tenant, its disks and its listeners, and `--json` has one JSON object a line. `GET /v1/events`
([admin.md](admin.md#get-v1events)) is the same for programs, {FOLLOWERS_MAX} followers at once; every event is a line of the log, at its level, up to ten a minute of one kind about one object and then their count; and
`/metrics` counts them by id and reason (`sublet_events_total`). `sublet policy explain` tells one tenant's `tenant.target`, `tenant.squeezed` and `tenant.shrank`.

What repeats, the same id to the same object for the same reason by the same word, is one event a second: `count` says how often, and the amounts
are added up.

By whose word: the user and process that asked at the daemon's Unix socket, as the kernel says (`uid 0 pid 4242`); the address of who showed the token over
TCP; a policy; a tenant's client; or the daemon's own.

| id | level | when it happens | for which reasons | what to do |
| --- | --- | --- | --- | --- |
",
        RING_BYTES_MAX >> 20
    );
    // Writing to a string does not fail.
    for row in ROWS {
        let whys: Vec<String> = row
            .whys
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
    for why in Why::ALL {
        let _ = writeln!(page, "| `{}` | {} |", why.name(), why.meaning());
    }
    page
}
