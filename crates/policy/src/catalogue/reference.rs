//! The catalogue as a page of the documentation.

use std::fmt::Write as _;

use super::{CATALOGUE, PolicyEntry, PolicyKnobSpec};
use crate::placement::catalogue::{DEFAULT_PLACEMENT, PLACEMENTS};

const HEADING: &str = "\
# Policies

This page describes the policies of the Memory Manager. `sublet generate policy-reference` makes it from the catalogue
of policies. Change the catalogue, not this page.

Each second (`[policy] interval`) the Memory Manager takes a snapshot of every tenant. The policy says what each tenant
may hold, and the Memory Manager applies what changed.

- A tenant at its target displaces its own coldest pages or items, a few of them ahead of its puts. The daemon refuses
  its persistent puts. Targets are rounded down to blocks of 2 MiB, and items keep a block free. So the tenant holds one
  or two blocks less than its target.
- A tenant above its target is brought down to it. With `shrink = \"never\"` it stays above, as in the papers.

```console
$ sublet policy list
$ sublet policy show smart-alloc
$ sublet policy set smart-alloc p=0.75     # live, kept over a restart; --temporary is not
$ sublet policy explain --tenant web --at 14:03
$ sublet policy what-if --tenant web --hits 95%
$ sublet policy what-if --tenant web --memory 4GiB
$ sublet policy what-if --policy mrc floor=40
```

`weights` is the default. Under it a tenant keeps what it has filled up to its share, however idle it is. `utility`,
`mrc`, `pooled` and `smart-alloc` move that memory.

`mrc` measures pages and items, one in sixteen of each by hash. Items weigh what they take. A tenant that is not
measured yet, because its puts are less than its share, gets its weighted share. `mrc` sets targets, and is slow to
change them. `pooled` sets no targets. If nothing is free, a tenant that gains nothing from more memory gives way
first. Any tenant may fill what is free.

| what you want | choose |
| --- | --- |
| Each tenant can claim its weighted share at any time; what is free is anybody's. The tenants have persistent pages. | `weights` |
| All caches together have the most hits. | `pooled` |
| The same, by targets that move seldom and with a reason each. | `mrc` |
| Parts never move. | `static-alloc` |
| The daemon does what the papers did. | `greedy`, `reconf-static`, `smart-alloc`, `two-level`, `utility` |

`sublet-lab sim sharing` plays the policies on six sets of six tenants. [The
simulator's results](simulator/results.md#six-tenants-in-one-arena) says how they came out.
";

const ENDING: &str = "
A tenant's floor is the memory that other tenants never take from it, whatever the policy. The daemon rounds it up to
blocks of 2 MiB. A tenant below its floor is refused nothing. If the floors together are more than there is, the daemon
cuts each in proportion, and `sublet status` says so. The host's own need comes before floors.

Floors and ceilings hold after every policy. `sublet status` shows what is left over, and what `two-level` would ask of
other nodes. Where the papers' pseudo-code slips, the policies follow the papers' text. Each policy's file says how
(`crates/policy/src/`). A put of an item that displaced another item counts as failed, because otherwise no target would
ever grow.

## What if?

`sublet policy what-if` answers from the curves and counts of the last hour. The daemon keeps a record of them every two
minutes, 16 MiB of records at most.

`--tenant web --hits 95%` finds the least memory with which that part of the tenant's requests would have been hits. It
also says which tenants would pay:

1. Free memory goes first.
2. Then goes what the policy in force would lower if that memory were the tenant's floor.
3. Then the tenant that has most above its weighted share gives. No tenant goes below its floor.

If that cannot be, the command says why and exits with code 1. The reasons are: no memory brings so many hits, a ceiling
is in the way, or the floors of other tenants are.

`--tenant web --memory 4GiB` shows the tenant's hits with that memory. If that is less than the tenant has, the command
also says which tenants would get the rest, or that it would be free.

`--policy mrc floor=40` compares that policy with the one in force. One model replays both on each record, up to a
minute of decisions each:

- A tenant fills what it may, as far as its puts lacked room. Otherwise it holds what it held.
- If that is too much, the model divides memory by weight. A policy without targets is that division.
- If a policy makes one pool of all memory (`pooled`), what came first goes first instead. Each tenant then has what
  came to it since one moment.

Hits *by the curve* are those of an order by last use, learnt from one request in sixteen. Hits *counted* stand beside
them. The nearer the two are, the more you can trust the answer. The answer leaves out how long memory takes to move. A
tenant that is not measured yet counts with its memory, not with its hits.

## Why did it lose memory?

These changes are [events](events.md), each with its reason:

- A target changes by at least a block (2 MiB). Smaller changes are one event when they have added up to a block.
- Another tenant gives way first.
- A tenant loses at least a 64th of what it held.

A tenant loses memory for one of these reasons:

- It was over its target or over a lowered ceiling.
- Its owner released memory by hand. The event says how much, whatever the policy and however small the loss.
- The arena gave memory to the host.
- Other tenants put, and this tenant had most above its weighted share (or the oldest, under `pooled`).
- It evicted its own ahead of its next puts.
- It let go of memory itself. Nothing of it was evicted.

Each event says where lost memory went: to which tenants, to the free memory or to the host. Each event also says where
gained memory came from. The amounts add up to the loss or the gain. The event names the five largest. If several
tenants lost, the loss of each went in proportion to all that gained.

`sublet policy explain` shows these events. `[policy] log_file` also writes them down, one JSON object per line.
";

const PLACEMENT: &str = "
## Who borrows of whom

In a cluster with a leader, nodes report to it once a second. Each second a placement policy names lenders for the nodes
that want memory. The leader only advises: a lender decides itself what it grants. A node that wants memory lends none.
`sublet-lab sim placement` compares the policies on 300 nodes.
";

/// The page.
pub fn reference() -> String {
    let mut page = String::from(HEADING);
    page.push_str("\n| policy | from | what |\n| --- | --- | --- |\n");
    for entry in &CATALOGUE {
        let PolicyEntry {
            name,
            summary,
            paper,
            ..
        } = entry;
        let _ = writeln!(page, "| `{name}` | {paper} | {summary} |");
    }
    page.push_str(
        "\n| knob | policy | value | default | what it does | why that default |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    for entry in &CATALOGUE {
        for knob in entry.knobs {
            page.push_str(&knob_row(entry.name, knob));
        }
    }
    page.push_str(ENDING);
    page.push_str(PLACEMENT);
    let _ = writeln!(page, "`{DEFAULT_PLACEMENT}` is the default.\n");
    page.push_str("| policy | from | what |\n| --- | --- | --- |\n");
    for entry in &PLACEMENTS {
        let _ = writeln!(
            page,
            "| `{}` | {} | {} |",
            entry.name, entry.paper, entry.summary
        );
    }
    page.push_str(
        "\n| knob | policy | value | default | what it does | why that default |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    for entry in &PLACEMENTS {
        for knob in entry.knobs {
            page.push_str(&knob_row(entry.name, knob));
        }
    }
    page
}

fn knob_row(policy: &str, knob: &PolicyKnobSpec) -> String {
    format!(
        "| `{}` | `{policy}` | {} to {} {} | `{}` | {} | {} |\n",
        knob.name, knob.least, knob.most, knob.unit, knob.default, knob.help, knob.why
    )
}
