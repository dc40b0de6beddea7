//! What the slow disk is loaded with.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use sublet_client::{Admin, Door};
use sublet_types::Bytes;

use super::super::super::both::Both;
use super::super::super::folder::Folder;
use super::super::error::BlockError;
use super::super::fio::{self, Pattern};
use super::super::mounted;
use super::super::program::told;
use super::needs;
use super::postgres::{self, Database, Programs, Script};
use super::sides::{Bench, Guest, Side, page_cache};
use super::sweep::Figure;
use super::tree::Tree;

/// A round of pgbench lasts for so many of fio's.
const PGBENCH_ROUNDS: u32 = 5;

/// Rounds before the first that counts, on a disk that nobody has read.
const WARM_ROUNDS: u32 = 4;

/// Half of a file system is filled: tables and indexes, or a tree.
const FILLED_PART: u64 = 2;

/// A load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Load {
    /// fio's Zipf reads, of the disk itself.
    Fio,
    /// pgbench: rows read, and rows changed.
    Pgbench,
    /// Compilers' reads of a source tree.
    Tree,
}

impl Load {
    /// All.
    pub(super) const ALL: [Load; 3] = [Load::Fio, Load::Pgbench, Load::Tree];

    /// What it is called.
    pub(super) fn name(self) -> &'static str {
        match self {
            Load::Fio => "Zipf 1.1",
            Load::Pgbench => "pgbench",
            Load::Tree => "tree walk",
        }
    }

    /// What keeps it from being run here, and what to type against it.
    pub(super) fn missing(self) -> Option<String> {
        let mounting = || needs::packages(&mounted::PROGRAMS).or_else(needs::rights);
        match self {
            Load::Fio => needs::packages(&[("fio", "fio")]),
            Load::Pgbench => match Programs::find() {
                Some(_) => mounting(),
                None => Some(format!("apt-get install {}", postgres::PACKAGE)),
            },
            Load::Tree => mounting(),
        }
    }

    /// What a reader must know of it.
    pub(super) fn note(self, size: Bytes) -> Option<String> {
        let amount = Bytes(size.0 / FILLED_PART);
        match self {
            Load::Fio => None,
            Load::Pgbench => Some(format!("pgbench has tables and indexes of about {amount}.")),
            Load::Tree => {
                let files = Tree::of(amount).files();
                Some(format!(
                    "The tree has {files} files that are {amount} together."
                ))
            }
        }
    }

    /// Makes what is on the disk.
    pub(super) fn image(self, folder: &Folder, size: Bytes) -> Result<PathBuf, BlockError> {
        let image = folder.join("made.img");
        let amount = Bytes(size.0 / FILLED_PART);
        match self {
            Load::Fio => return Ok(folder.image("made.img", size)?),
            Load::Pgbench => made(folder, &image, size, |top| {
                Ok(programs()?.make(folder, top, amount)?)
            })?,
            Load::Tree => made(folder, &image, size, |top| Ok(Tree::of(amount).write(top)?))?,
        }
        Ok(image)
    }

    /// Loads both sides in turns.
    pub(super) fn compare(self, bench: &Bench<'_>) -> Result<Vec<Figure>, BlockError> {
        match self {
            Load::Fio => zipf(bench),
            Load::Pgbench => pgbench(bench),
            Load::Tree => tree(bench),
        }
    }
}

fn programs() -> Result<Programs, BlockError> {
    Programs::find().ok_or_else(|| BlockError::Start {
        program: "pgbench",
        why: "it is not there".to_owned(),
        package: postgres::PACKAGE,
    })
}

/// A file system with what `fill` puts into a folder.
fn made(
    folder: &Folder,
    image: &Path,
    size: Bytes,
    fill: impl FnOnce(&Path) -> Result<(), BlockError>,
) -> Result<(), BlockError> {
    let top = folder.join("made");
    std::fs::create_dir(&top)?;
    fill(&top)?;
    file_system(image, size, &top)?;
    Ok(std::fs::remove_dir_all(&top)?)
}

/// A file system of `size` in the file `image`, with what lies in `top`.
fn file_system(image: &Path, size: Bytes, top: &Path) -> Result<(), BlockError> {
    let mut command = Command::new("mkfs.ext4");
    // All of it at once, so that the kernel has nothing to make later.
    command.args([
        "-q",
        "-F",
        "-E",
        "lazy_itable_init=0,lazy_journal_init=0",
        "-d",
    ]);
    command
        .arg(top)
        .arg(image)
        .arg(format!("{}k", size.0 >> 10));
    told(&mut command)?;
    Ok(())
}

fn zipf(bench: &Bench<'_>) -> Result<Vec<Figure>, BlockError> {
    let pattern = Pattern::ZIPF;
    let time = Duration::from_secs_f64(bench.seconds);
    let sides = bench.sides()?;
    for side in &sides {
        fio::run(&side.served, &pattern, bench.size, WARM_ROUNDS * time)?;
    }
    let mut rate = Both::default();
    for _ in 0..bench.rounds.max(1) {
        for (side, into) in sides.iter().zip(halves(&mut rate)) {
            into.push(fio::run(&side.served, &pattern, bench.size, time)?.per_second);
        }
    }
    Ok(vec![Figure {
        load: Load::Fio.name(),
        what: "requests",
        unit: "/s",
        both: rate,
    }])
}

fn pgbench(bench: &Bench<'_>) -> Result<Vec<Figure>, BlockError> {
    let programs = programs()?;
    let time = PGBENCH_ROUNDS * Duration::from_secs_f64(bench.seconds);
    let memory = page_cache(bench.size) + postgres::MEMORY;
    let sides = bench.sides()?;
    let mut running = Vec::new();
    for (side, name) in sides.iter().zip(["ours", "peer"]) {
        let guest = Guest::on(side, name, memory)?;
        let started =
            guest.within(|| Database::start(&programs, &side.folder, &guest.mounted.place))?;
        running.push((started?, guest));
    }
    let mut figures = Vec::new();
    // The second finds in memory what the first has left there.
    for (script, warm_rounds) in [(Script::Select, WARM_ROUNDS), (Script::TpcB, 1)] {
        for (database, _) in &running {
            database.transact(script, warm_rounds * time)?;
        }
        let (mut rate, mut seen) = (Both::default(), Seen::default());
        for _ in 0..bench.rounds.max(1) {
            let each = running.iter().zip(&sides).zip(halves(&mut rate));
            for (place, (((database, _), side), into)) in each.enumerate() {
                let before = Counts::of(side)?;
                let found = database.transact(script, time)?;
                into.push(found.per_second);
                let read = Counts::of(side)?.since(before);
                seen.add(place, read, found.transactions, script.name())?;
            }
        }
        figures.push(Figure {
            load: script.name(),
            what: "transactions",
            unit: "/s",
            both: rate,
        });
        figures.extend(seen.figures(script.name(), "pages read from the disk for each"));
    }
    Ok(figures)
}

/// Walks a tree twice on disks that nobody has read, as often as there are rounds.
fn tree(bench: &Bench<'_>) -> Result<Vec<Figure>, BlockError> {
    const WALKS: [&str; 2] = ["first walk", "second walk"];
    let load = Load::Tree.name();
    let tree = Tree::of(Bytes(bench.size.0 / FILLED_PART));
    let mut times = [Both::default(), Both::default()];
    let mut seen = Seen::default();
    for _ in 0..bench.rounds.max(1) {
        for (place, side) in bench.sides()?.iter().enumerate() {
            let guest = Guest::on(side, "tree", page_cache(bench.size))?;
            for (walk, time) in times.iter_mut().enumerate() {
                let before = Counts::of(side)?;
                let took = guest.within(|| tree.walk(&guest.mounted.place))??;
                halves(time)[place].push(took.as_secs_f64());
                let read = Counts::of(side)?.since(before);
                if walk > 0 {
                    seen.add(place, read, 1.0, load)?;
                }
            }
        }
    }
    let walks = WALKS.into_iter().zip(times);
    let mut figures: Vec<Figure> = walks
        .map(|(what, both)| Figure {
            load,
            what,
            unit: "s",
            both,
        })
        .collect();
    figures.extend(seen.figures(load, "pages read from the disk in the second"));
    Ok(figures)
}

/// Where figures of ours and of the peer go.
fn halves(both: &mut Both) -> [&mut Vec<f64>; 2] {
    [&mut both.ours, &mut both.peer]
}

/// Pages that clients of a disk have read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counts {
    hits: u64,
    misses: u64,
}

impl Counts {
    /// What the daemon says of its disk.
    fn of(side: &Side) -> Result<Counts, BlockError> {
        let admin = Admin::at(Door::Unix(side.folder.join("admin.sock")))?;
        let disks = admin.disks()?.disks;
        Ok(Counts {
            hits: disks.iter().map(|disk| disk.hits).sum(),
            misses: disks.iter().map(|disk| disk.misses).sum(),
        })
    }

    fn since(self, before: Counts) -> Counts {
        Counts {
            hits: self.hits.saturating_sub(before.hits),
            misses: self.misses.saturating_sub(before.misses),
        }
    }

    fn pages(self) -> f64 {
        (self.hits + self.misses) as f64
    }
}

/// What reached both disks: were it not the same for each piece of work, the sides would not be alike.
#[derive(Default)]
struct Seen {
    pages: Both,
    in_memory: Both,
}

impl Seen {
    /// Adds what a round read for so many pieces of work.
    fn add(
        &mut self,
        side: usize,
        read: Counts,
        pieces: f64,
        load: &'static str,
    ) -> Result<(), BlockError> {
        if read.pages() == 0.0 {
            return Err(BlockError::Unread(load));
        }
        halves(&mut self.pages)[side].push(read.pages() / pieces);
        halves(&mut self.in_memory)[side].push(100.0 * read.hits as f64 / read.pages());
        Ok(())
    }

    fn figures(self, load: &'static str, what: &'static str) -> [Figure; 2] {
        let figure = |what, unit, both| Figure {
            load,
            what,
            unit,
            both,
        };
        [
            figure(what, "pages", self.pages),
            figure("of these in memory", "%", self.in_memory),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_told_for_each_piece_of_work() -> Result<(), BlockError> {
        let before = Counts {
            hits: 10,
            misses: 10,
        };
        let read = Counts {
            hits: 40,
            misses: 20,
        }
        .since(before);
        assert_eq!(
            read,
            Counts {
                hits: 30,
                misses: 10
            }
        );
        let mut seen = Seen::default();
        seen.add(0, read, 20.0, "a load")?;
        seen.add(1, Counts { hits: 0, misses: 8 }, 4.0, "a load")?;
        assert_eq!((seen.pages.ours, seen.pages.peer), (vec![2.0], vec![2.0]));
        assert_eq!(seen.in_memory.ours, [75.0]);
        assert_eq!(seen.in_memory.peer, [0.0]);
        Ok(())
    }

    #[test]
    fn a_disk_that_nobody_reads_is_no_measurement() {
        let unread = Seen::default().add(0, Counts::default(), 5.0, "a load");
        assert!(matches!(unread, Err(BlockError::Unread("a load"))));
    }
}
