//! Loads for the slow disk.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use sublet_types::Bytes;

use super::super::super::folder::ScratchFolder;
use super::super::super::paired_rounds::PairedRounds;
use super::super::error::BlockError;
use super::super::fio::{self, PlaceChoice};
use super::super::mounted;
use super::super::program::output_of;
use super::needs;
use super::page_reads::{PageReadCounts, ReadTotals, halves};
use super::postgres::{self, PgbenchScript, PostgresPrograms, RunningPostgres};
use super::sides::{ComparisonParameters, DiskGuest, FioDraws, page_cache};
use super::sweep::LoadFigure;
use super::tree::SourceTree;

/// A round of pgbench lasts this many times as long as one of fio.
const PGBENCH_ROUNDS: u32 = 5;

/// Rounds before the first one that counts, on a disk that nobody has read yet.
const WARM_ROUNDS: u32 = 4;

/// The name of the figure that says which share of the reads came from lenders.
pub(in crate::bench) const AT_LENDERS: &str = "of these at lenders";

/// Pages that fio reads before the first round that counts, where it draws them anew: so many times the disk's. A disk
/// keeps a page at its second miss.
const WARM_DISKS: u64 = 3;

/// Half of a file system is filled with tables and indexes, or with a tree.
const FILLED_PART: u64 = 2;

/// A load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(in crate::bench) enum DiskLoad {
    /// fio's Zipf reads of the disk itself.
    Fio,
    /// fio's reads of the disk itself, all pages alike.
    Uniform,
    /// pgbench: it reads rows and changes rows.
    Pgbench,
    /// Reads of a source tree, as compilers do them.
    Tree,
}

impl DiskLoad {
    /// The loads that memory for a part of the disk makes faster.
    pub(in crate::bench) const SKEWED: [DiskLoad; 3] =
        [DiskLoad::Fio, DiskLoad::Pgbench, DiskLoad::Tree];

    /// Its name.
    pub(in crate::bench) fn name(self) -> &'static str {
        match self {
            DiskLoad::Fio => "Zipf 1.1",
            DiskLoad::Uniform => "uniform",
            DiskLoad::Pgbench => "pgbench",
            DiskLoad::Tree => "tree walk",
        }
    }

    /// What prevents it from running here, and the command that helps.
    pub(in crate::bench) fn missing(self) -> Option<String> {
        let mounting = || needs::packages(&mounted::PROGRAMS).or_else(needs::rights);
        match self {
            DiskLoad::Fio | DiskLoad::Uniform => needs::packages(&[("fio", "fio")]),
            DiskLoad::Pgbench => match PostgresPrograms::find() {
                Some(_) => mounting(),
                None => Some(format!("apt-get install {}", postgres::PACKAGE)),
            },
            DiskLoad::Tree => mounting(),
        }
    }

    /// A note for the reader about it.
    pub(in crate::bench) fn remark(self, size: Bytes) -> Option<String> {
        let amount = Bytes(size.0 / FILLED_PART);
        match self {
            DiskLoad::Fio | DiskLoad::Uniform => None,
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
    pub(in crate::bench) fn image(
        self,
        folder: &ScratchFolder,
        size: Bytes,
    ) -> Result<PathBuf, BlockError> {
        let image = folder.join("made.img");
        let amount = Bytes(size.0 / FILLED_PART);
        match self {
            DiskLoad::Fio | DiskLoad::Uniform => return Ok(folder.image("made.img", size)?),
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
    pub(in crate::bench) fn compare(
        self,
        bench: &ComparisonParameters<'_>,
    ) -> Result<Vec<LoadFigure>, BlockError> {
        match self {
            DiskLoad::Fio => match bench.draws {
                FioDraws::Once => reads(bench, self, PlaceChoice::SameZipf),
                FioDraws::EachRound => reads(bench, self, PlaceChoice::FreshZipf),
            },
            DiskLoad::Uniform => reads(bench, self, PlaceChoice::FreshUniform),
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

fn reads(
    bench: &ComparisonParameters<'_>,
    load: DiskLoad,
    places: PlaceChoice,
) -> Result<Vec<LoadFigure>, BlockError> {
    let (warm_up, pattern) = (places.warm_up(), places.measured());
    let time = Duration::from_secs_f64(bench.seconds);
    let sides = (bench.sides)()?;
    for side in &sides {
        match bench.draws {
            FioDraws::Once => {
                fio::run(&side.served, &warm_up, bench.size, WARM_ROUNDS * time)?;
            }
            FioDraws::EachRound => {
                fio::read_times(&side.served, &warm_up, bench.size, WARM_DISKS)?;
            }
        }
    }
    let [mut rate, mut in_memory, mut at_lenders] = [(); 3].map(|()| PairedRounds::default());
    for _ in 0..bench.rounds.max(1) {
        for (place, side) in sides.iter().enumerate() {
            let before = PageReadCounts::of(side)?;
            let read = fio::run(&side.served, &pattern, bench.size, time)?;
            halves(&mut rate)[place].push(read.per_second);
            if let Some(counted) = PageReadCounts::since(before, side)? {
                let percent = |pages: f64| 100.0 * pages / read.requests;
                halves(&mut in_memory)[place].push(percent(counted.hits as f64));
                halves(&mut at_lenders)[place].push(percent(counted.far_hits as f64));
            }
        }
    }
    let figure = |what, unit, both| LoadFigure {
        load: load.name(),
        what,
        unit,
        both,
    };
    Ok(vec![
        figure("requests", "/s", rate),
        figure("of these in memory here", "%", in_memory),
        figure(AT_LENDERS, "%", at_lenders),
    ])
}

fn pgbench(bench: &ComparisonParameters<'_>) -> Result<Vec<LoadFigure>, BlockError> {
    let programs = programs()?;
    let time = PGBENCH_ROUNDS * Duration::from_secs_f64(bench.seconds);
    let memory = page_cache(bench.size) + postgres::MEMORY;
    let sides = (bench.sides)()?;
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
                if let Some(read) = PageReadCounts::since(before, side)? {
                    seen.add(place, read, found.transactions, script.name())?;
                }
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
        for (place, side) in (bench.sides)()?.iter().enumerate() {
            let guest = DiskGuest::on(side, "tree", page_cache(bench.size))?;
            for (walk, time) in times.iter_mut().enumerate() {
                let before = PageReadCounts::of(side)?;
                let took = guest.within(|| tree.walk(&guest.mounted.place))??;
                halves(time)[place].push(took.as_secs_f64());
                let read = PageReadCounts::since(before, side)?;
                if let Some(read) = read.filter(|_| walk > 0) {
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
