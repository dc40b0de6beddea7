//! The catalogue as a page of the docs.

use std::fmt::Write as _;

use super::{CATALOGUE, Entry};

const HEADING: &str = "\
# Policies

Made from the catalogue of policies by `sublet generate policy-reference`; change it there.

Each second (`[policy] interval`) the Memory Manager takes a snapshot of every tenant, the policy says what each may hold, and what
changed is applied. A tenant at its target displaces its own coldest pages or items, a few of them ahead of its puts (targets are rounded down to blocks of 2 MiB, and items keep a block free: it holds one or two blocks less); its persistent puts are refused. A tenant above its
target is brought down to it (`shrink = \"never\"` leaves it, as the papers did).

```console
$ sublet policy list
$ sublet policy show smart-alloc
$ sublet policy set smart-alloc p=0.75     # live, kept over a restart; --temporary is not
$ sublet policy explain --tenant web --at 14:03
$ sublet policy what-if --tenant web --hits 95%
$ sublet policy what-if --tenant web --memory 4GiB
$ sublet policy what-if --policy mrc floor=40
```

`weights` decides where nothing is said. Under it what a tenant has filled up to its share it keeps, however idle it is; `utility` and
`mrc` move it. `mrc` measures pages and items, one in sixteen of each by hash; items weigh what they take. Who is not measured yet (its puts are less than its share) gets its weighted share. `mrc` sets targets,
and is slow to; `pooled` sets none: who gains nothing from more gives way first where nothing is free, and what is free anybody may fill.

| what you want | choose |
| --- | --- |
| each tenant its weighted share, whatever the others do; persistent pages | `weights` |
| most hits of all caches together | `pooled` |
| the same, by targets that move seldom and with a reason each | `mrc` |
| parts that never move | `static-alloc` |
| what the papers did | `greedy`, `reconf-static`, `smart-alloc`, `two-level`, `utility` |

`sublet-lab sim sharing` plays them on six sets of six tenants, and [the simulator's results](simulator/results.md#six-tenants-in-one-arena) says how they came out.
";

const ENDING: &str = "
A tenant's floor is what others never take from it, whatever the policy: in blocks of 2 MiB, rounded up. Below it the tenant is refused
nothing. Floors that are more together than there is are each cut in proportion, and `sublet status` says so. The host's own need comes before
floors.

Floors and ceilings hold after every policy; `sublet status` shows what is left over, and what `two-level` would ask of other nodes. Where
the papers' pseudo-code slips, their text is followed; each policy's file says how (`crates/policy/src/`). A put of an item that displaced
another counts as failed, else no target would ever grow.

## What if?

`sublet policy what-if` answers from the curves and counts of the last hour, of which a record is kept every two minutes (16 MiB of them at most).

- `--tenant web --hits 95%`: the least memory with which that part of what was asked would have been hits, and who would pay. What is free goes
  first, then what the policy in force would lower if that were the tenant's floor, then whoever has most above its weighted share gives; nobody below its floor.
  What cannot be is said with exit code 1: more hits than any memory brings, a ceiling in the way, others' floors.
- `--tenant web --memory 4GiB`: its hits with that; where it is less than it has, who would get the rest, or that it would be free.
- `--policy mrc floor=40`: that policy and the one in force, both replayed by one model on each record, up to a minute of decisions each. A tenant fills what it may
  as far as its puts lacked room, else it holds what it held; where that is too much, memory is divided by weight. A policy without targets is that
  division; where it makes one pool of all memory (`pooled`), what came first goes first instead, and each has what came to it since one moment.

Hits *by the curve* are those of an order by last use, learnt from one in sixteen; hits *counted* stand beside them, and how far the two are apart is how far
to trust the answer. How long memory takes to move is not in it. Who is not measured yet counts with its memory, not with its hits.

## Why did it lose memory?

Every change of a target by a block (2 MiB) and more, smaller ones when they have added up to that, and of who gives way first is an [event](events.md) with its reason; and so is every loss of a 64th of what a tenant held and
more: because it was over its target or a lowered ceiling, because its owner released memory by hand (with how much, whatever the policy; told however small), because the arena gave memory to the host, because others
put and it had most above its weighted share (or the oldest, under `pooled`), because it evicted its own ahead of its next puts, or because it let go itself (nothing of it was evicted). Each says
where what was lost went, to whom, to the free memory or to the host, and where what was got came from; the amounts are together as much as that. The five largest are
named; where several lost, each one's loss went to all who got some, in proportion. `sublet policy explain` tells them; `[policy] log_file` writes
them down besides, one JSON object a line.
";

/// The page.
pub fn reference() -> String {
    let mut page = String::from(HEADING);
    page.push_str("\n| policy | from | what |\n| --- | --- | --- |\n");
    for entry in &CATALOGUE {
        let Entry {
            name,
            summary,
            paper,
            ..
        } = entry;
        let _ = writeln!(page, "| `{name}` | {paper} | {summary} |");
    }
    page.push_str(
        "\n| knob | of | value | default | what it does | why that default |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    for entry in &CATALOGUE {
        for knob in entry.knobs {
            let _ = writeln!(
                page,
                "| `{}` | `{}` | {} to {} {} | `{}` | {} | {} |",
                knob.name,
                entry.name,
                knob.least,
                knob.most,
                knob.unit,
                knob.default,
                knob.help,
                knob.why
            );
        }
    }
    page.push_str(ENDING);
    page
}
