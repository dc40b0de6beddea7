//! Loads for the slow disk.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use sublet_client::{Admin, AdminEndpoint};
use sublet_types::Bytes;

use super::super::super::folder::ScratchFolder;
use super::super::super::paired_rounds::PairedRounds;
use super::super::error::BlockError;
use super::super::fio::{self, FioPattern};
use super::super::mounted;
use super::super::program::output_of;
use super::needs;
use super::postgres::{self, PgbenchScript, PostgresPrograms, RunningPostgres};
use super::sides::{ComparisonParameters, DiskGuest, ServedSide, page_cache};
use super::sweep::LoadFigure;
use super::tree::SourceTree;

/// A round of pgbench lasts this many times as long as one of fio.
const PGBENCH_ROUNDS: u32 = 5;

/// Rounds before the first one that counts, on a disk that nobody has read yet.
const WARM_ROUNDS: u32 = 4;

/// Half of a file system is filled with tables and indexes, or with a tree.
const FILLED_PART: u64 = 2;

/// A load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum DiskLoad {
    /// fio's Zipf reads of the disk itself.
    Fio,
    /// pgbench: it reads rows and changes rows.
    Pgbench,
    /// Reads of a source tree, as compilers do them.
    Tree,
}

impl DiskLoad {
    /// All loads.
    pub(super) const ALL: [DiskLoad; 3] = [DiskLoad::Fio, DiskLoad::Pgbench, DiskLoad::Tree];

    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            DiskLoad::Fio => "Zipf 1.1",
            DiskLoad::Pgbench => "pgbench",
            DiskLoad::Tree => "tree walk",
        }
    }

    /// What prevents it from running here, and the command that helps.
    pub(super) fn missing(self) -> Option<String> {
        let mounting = || needs::packages(&mounted::PROGRAMS).or_else(needs::rights);
        match self {
            DiskLoad::Fio => needs::packages(&[("fio", "fio")]),
            DiskLoad::Pgbench => match PostgresPrograms::find() {
                Some(_) => mounting(),
                None => Some(format!("apt-get install {}", postgres::PACKAGE)),
            },
            DiskLoad::Tree => mounting(),
        }
    }

    /// A note for the reader about it.
    pub(super) fn remark(self, size: Bytes) -> Option<String> {
        let amount = Bytes(size.0 / FILLED_PART);
        match self {
            DiskLoad::Fio => None,
            DiskLoad::Pgbench => Some(format!("pgbench has tables and indexes of about {amount}.")),
            DiskLoad::Tree => {
                let files = SourceTree::of(amount).files();
                Some(format!(
                    "The tree has {files} files that are {amount} together."
                ))
            }
        }
    }

    /// Makes the content of the disk.
    pub(super) fn image(self, folder: &ScratchFolder, size: Bytes) -> Result<PathBuf, BlockError> {
        let image = folder.join("made.img");
        let amount = Bytes(size.0 / FILLED_PART);
        match self {
            DiskLoad::Fio => return Ok(folder.image("made.img", size)?),
            DiskLoad::Pgbench => make_image(folder, &image, size, |top| {
                Ok(programs()?.make(folder, top, amount)?)
            })?,
            DiskLoad::Tree => make_image(folder, &image, size, |top| {
                Ok(SourceTree::of(amount).write(top)?)
            })?,
        }
        Ok(image)
    }

    /// Runs the load on both sides in turns.
    pub(super) fn compare(
        self,
        bench: &ComparisonParameters<'_>,
    ) -> Result<Vec<LoadFigure>, BlockError> {
        match self {
            DiskLoad::Fio => zipf(bench),
            DiskLoad::Pgbench => pgbench(bench),
            DiskLoad::Tree => tree(bench),
        }
    }
}

fn programs() -> Result<PostgresPrograms, BlockError> {
    PostgresPrograms::find().ok_or_else(|| BlockError::Start {
        program: "pgbench",
        why: "it is not there".to_owned(),
        package: postgres::PACKAGE,
    })
}

/// Makes a file system. `fill` puts its content into a folder.
fn make_image(
    folder: &ScratchFolder,
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

/// Makes a file system of `size` in the file `image`, with the content of `top`.
fn file_system(image: &Path, size: Bytes, top: &Path) -> Result<(), BlockError> {
    let mut command = Command::new("mkfs.ext4");
    // Writes all of it at once, so that the kernel has nothing to make later.
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
    output_of(&mut command)?;
    Ok(())
}

fn zipf(bench: &ComparisonParameters<'_>) -> Result<Vec<LoadFigure>, BlockError> {
    let pattern = FioPattern::ZIPF;
    let time = Duration::from_secs_f64(bench.seconds);
    let sides = bench.sides()?;
    for side in &sides {
        fio::run(&side.served, &pattern, bench.size, WARM_ROUNDS * time)?;
    }
    let mut rate = PairedRounds::default();
    for _ in 0..bench.rounds.max(1) {
        for (side, into) in sides.iter().zip(halves(&mut rate)) {
            into.push(fio::run(&side.served, &pattern, bench.size, time)?.per_second);
        }
    }
    Ok(vec![LoadFigure {
        load: DiskLoad::Fio.name(),
        what: "requests",
        unit: "/s",
        both: rate,
    }])
}

fn pgbench(bench: &ComparisonParameters<'_>) -> Result<Vec<LoadFigure>, BlockError> {
    let programs = programs()?;
    let time = PGBENCH_ROUNDS * Duration::from_secs_f64(bench.seconds);
    let memory = page_cache(bench.size) + postgres::MEMORY;
    let sides = bench.sides()?;
    let mut running = Vec::new();
    for (side, name) in sides.iter().zip(["ours", "peer"]) {
        let guest = DiskGuest::on(side, name, memory)?;
        let started = guest
            .within(|| RunningPostgres::start(&programs, &side.folder, &guest.mounted.place))?;
        running.push((started?, guest));
    }
    let mut figures = Vec::new();
    // The second script finds in memory what the first has left there.
    for (script, warm_rounds) in [
        (PgbenchScript::Select, WARM_ROUNDS),
        (PgbenchScript::TpcB, 1),
    ] {
        for (database, _) in &running {
            database.transact(script, warm_rounds * time)?;
        }
        let (mut rate, mut seen) = (PairedRounds::default(), ReadTotals::default());
        for _ in 0..bench.rounds.max(1) {
            let each = running.iter().zip(&sides).zip(halves(&mut rate));
            for (place, (((database, _), side), into)) in each.enumerate() {
                let before = PageReadCounts::of(side)?;
                let found = database.transact(script, time)?;
                into.push(found.per_second);
                let read = PageReadCounts::of(side)?.since(before);
                seen.add(place, read, found.transactions, script.name())?;
            }
        }
        figures.push(LoadFigure {
            load: script.name(),
            what: "transactions",
            unit: "/s",
            both: rate,
        });
        figures.extend(seen.figures(script.name(), "pages read from the disk for each"));
    }
    Ok(figures)
}

/// Walks a tree twice on disks that nobody has read yet, once per round.
fn tree(bench: &ComparisonParameters<'_>) -> Result<Vec<LoadFigure>, BlockError> {
    const WALKS: [&str; 2] = ["first walk", "second walk"];
    let load = DiskLoad::Tree.name();
    let tree = SourceTree::of(Bytes(bench.size.0 / FILLED_PART));
    let mut times = [PairedRounds::default(), PairedRounds::default()];
    let mut seen = ReadTotals::default();
    for _ in 0..bench.rounds.max(1) {
        for (place, side) in bench.sides()?.iter().enumerate() {
            let guest = DiskGuest::on(side, "tree", page_cache(bench.size))?;
            for (walk, time) in times.iter_mut().enumerate() {
                let before = PageReadCounts::of(side)?;
                let took = guest.within(|| tree.walk(&guest.mounted.place))??;
                halves(time)[place].push(took.as_secs_f64());
                let read = PageReadCounts::of(side)?.since(before);
                if walk > 0 {
                    seen.add(place, read, 1.0, load)?;
                }
            }
        }
    }
    let walks = WALKS.into_iter().zip(times);
    let mut figures: Vec<LoadFigure> = walks
        .map(|(what, both)| LoadFigure {
            load,
            what,
            unit: "s",
            both,
        })
        .collect();
    figures.extend(seen.figures(load, "pages read from the disk in the second"));
    Ok(figures)
}

/// The lists for our figures and for the peer's.
fn halves(both: &mut PairedRounds) -> [&mut Vec<f64>; 2] {
    [&mut both.ours, &mut both.peer]
}

/// Pages that clients of a disk have read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct PageReadCounts {
    hits: u64,
    misses: u64,
}

impl PageReadCounts {
    /// Takes what the daemon tells of its disk.
    fn of(side: &ServedSide) -> Result<PageReadCounts, BlockError> {
        let admin = Admin::at(AdminEndpoint::Unix(side.folder.join("admin.sock")))?;
        let disks = admin.disks()?.disks;
        Ok(PageReadCounts {
            hits: disks.iter().map(|disk| disk.hits).sum(),
            misses: disks.iter().map(|disk| disk.misses).sum(),
        })
    }

    fn since(self, before: PageReadCounts) -> PageReadCounts {
        PageReadCounts {
            hits: self.hits.saturating_sub(before.hits),
            misses: self.misses.saturating_sub(before.misses),
        }
    }

    fn pages(self) -> f64 {
        (self.hits + self.misses) as f64
    }
}

/// Pages that reached both disks. If a piece of work read different numbers of pages, the sides would not be
/// comparable.
#[derive(Default)]
struct ReadTotals {
    pages: PairedRounds,
    in_memory: PairedRounds,
}

impl ReadTotals {
    /// Adds what a round read for this many pieces of work.
    fn add(
        &mut self,
        side: usize,
        read: PageReadCounts,
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

    fn figures(self, load: &'static str, what: &'static str) -> [LoadFigure; 2] {
        let figure = |what, unit, both| LoadFigure {
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
        let before = PageReadCounts {
            hits: 10,
            misses: 10,
        };
        let read = PageReadCounts {
            hits: 40,
            misses: 20,
        }
        .since(before);
        assert_eq!(
            read,
            PageReadCounts {
                hits: 30,
                misses: 10
            }
        );
        let mut seen = ReadTotals::default();
        seen.add(0, read, 20.0, "a load")?;
        seen.add(1, PageReadCounts { hits: 0, misses: 8 }, 4.0, "a load")?;
        assert_eq!((seen.pages.ours, seen.pages.peer), (vec![2.0], vec![2.0]));
        assert_eq!(seen.in_memory.ours, [75.0]);
        assert_eq!(seen.in_memory.peer, [0.0]);
        Ok(())
    }

    #[test]
    fn a_disk_that_nobody_reads_is_no_measurement() {
        let unread = ReadTotals::default().add(0, PageReadCounts::default(), 5.0, "a load");
        assert!(matches!(unread, Err(BlockError::Unread("a load"))));
    }
}
