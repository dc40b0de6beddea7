//! Loads on a slow disk that has room here for a part of it: with pages of a lender for a larger part, and without. The
//! disk that people build by hand is compared as well: nbdkit's memory at the other host.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use sublet_types::Bytes;

use super::super::chart::{Chart, ChartCurve};
use super::super::disks::disk_server::DiskServer;
use super::super::disks::error::BlockError;
use super::super::disks::program::output_of;
use super::super::disks::slow::load::{AT_LENDERS, DiskLoad};
use super::super::disks::slow::sides::{ComparisonParameters, FioDraws, ServedSide};
use super::super::disks::slow::sweep::LoadFigure;
use super::super::folder::ScratchFolder;
use super::super::progress::BenchProgress;
use super::super::report::{BenchReport, BenchRow, Goal, RoundsSummary};
use super::args::FarDiskOptions;
use super::error::LendBenchError;
use super::far_side::FarSideDisk;
use super::lending_hosts::LendingHosts;

/// Lending never makes a load slower than this much of its speed without.
const NO_SLOWER: f64 = 0.97;

/// What lending is to bring where this share of the reads, in per cent, is at the lender, and the disk is slow enough.
const GAIN: f64 = 2.0;
const GAIN_AT_PERCENT: f64 = 55.0;
const GAIN_FROM: [&str; 2] = ["4ms", "1ms"];

/// The port of nbdkit.
const NBD_PORT: u16 = 10_809;

/// One disk, and the memory for it.
#[derive(Clone, Copy)]
struct FarDiskTrial<'a> {
    hosts: &'a LendingHosts,
    image: &'a Path,
    size: Bytes,
    slow: &'a str,
    /// Room here, in per cent of the disk.
    here: u64,
    /// Far memory, in per cent of the disk.
    far: u64,
}

impl FarDiskTrial<'_> {
    /// The disk with far memory, and without.
    fn sides(&self) -> Result<[ServedSide; 2], BlockError> {
        let far = Bytes(self.size.0 * self.far / 100);
        Ok([self.side(&self.hosts.borrower_tables(far))?, self.side("")?])
    }

    /// The disk with far memory, and nbdkit at the other host.
    fn beside_nbdkit(&self) -> Result<[ServedSide; 2], BlockError> {
        let far = Bytes(self.size.0 * self.far / 100);
        let lender = &self.hosts.namespaces.lender;
        let address = SocketAddr::from((lender.address, NBD_PORT));
        let served = DiskServer::nbdkit_in(&lender.name, address, self.size)?;
        let mut copy = Command::new("nbdcopy");
        output_of(copy.arg(self.image).arg(served.uri()))?;
        let folder = ScratchFolder::new()?;
        Ok([
            self.side(&self.hosts.borrower_tables(far))?,
            ServedSide { served, folder },
        ])
    }

    fn side(&self, tables: &str) -> Result<ServedSide, BlockError> {
        let disk = FarSideDisk {
            sublet: &self.hosts.sublet,
            image: self.image,
            slow: self.slow,
            here: Bytes(self.size.0 * self.here / 100),
        };
        disk.serve(tables)
    }

    fn name(&self, load: &str) -> String {
        let FarDiskTrial {
            slow, here, far, ..
        } = self;
        format!("{slow} disk, {load}, room for {here} %, far memory for {far} %")
    }
}

/// How large a load is.
struct LoadScale<'a> {
    options: &'a FarDiskOptions,
    size: Bytes,
    seconds: f64,
    rounds: usize,
}

impl LoadScale<'_> {
    /// The load's scale. A tree walk takes longer, and has a quarter of the disk. A database of half a disk has no room
    /// there for its log. Rounds of Zipf reads differ most: what is hot is drawn anew.
    fn of(load: DiskLoad, options: &FarDiskOptions) -> LoadScale<'_> {
        /// A round of pgbench is five times as long as one of fio.
        const PGBENCH_PART: f64 = 0.4;
        /// Rounds of Zipf reads for one of another load.
        const ZIPF_ROUNDS: usize = 3;
        let (whole, quarter) = (options.disk_size, Bytes(options.disk_size.0 / 4));
        let (size, seconds, rounds) = match load {
            DiskLoad::Fio => (
                whole,
                options.disk_seconds,
                ZIPF_ROUNDS * options.disk_rounds,
            ),
            DiskLoad::Uniform => (whole, options.disk_seconds, options.disk_rounds),
            DiskLoad::Pgbench => (
                whole,
                PGBENCH_PART * options.disk_seconds,
                options.disk_rounds,
            ),
            DiskLoad::Tree => (quarter, options.disk_seconds, options.disk_rounds),
        };
        LoadScale {
            options,
            size,
            seconds,
            rounds,
        }
    }
}

/// Tries every load on every disk with every amount of memory.
pub(super) fn run(
    options: &FarDiskOptions,
    sublet: PathBuf,
    progress: &BenchProgress,
    report: &mut BenchReport,
) -> Result<(), LendBenchError> {
    let most = options.far.iter().max().copied().unwrap_or_default();
    let hosts = LendingHosts::start(sublet, Bytes(options.disk_size.0 * most / 100))?;
    let trials = options.slow.len() * options.here.len() * (options.far.len() + 1);
    progress.expect(options.loads.len() * trials);
    hosts.namespaces.borrower.run(|| {
        for load in &options.loads {
            match load.missing() {
                Some(missing) => report
                    .notes
                    .push(format!("skipped: {}: {missing}", load.name())),
                None => {
                    let scale = LoadScale::of(*load, options);
                    let tried = try_load(*load, &scale, &hosts, progress, report);
                    report.record_failure(load.name(), tried);
                }
            }
        }
        Ok(())
    })?
}

fn try_load(
    load: DiskLoad,
    scale: &LoadScale<'_>,
    hosts: &LendingHosts,
    progress: &BenchProgress,
    report: &mut BenchReport,
) -> Result<(), LendBenchError> {
    report.notes.extend(load.remark(scale.size));
    let folder = ScratchFolder::new()?;
    let image = load.image(&folder, scale.size)?;
    for slow in &scale.options.slow {
        let mut curves = Vec::new();
        for here in &scale.options.here {
            let mut figures = Vec::new();
            for far in &scale.options.far {
                let trial = FarDiskTrial {
                    hosts,
                    image: &image,
                    size: scale.size,
                    slow,
                    here: *here,
                    far: *far,
                };
                progress.show_message(trial.name(load.name()));
                let compared = compare(load, scale, &|| trial.sides())?;
                report.rows.extend(rows(&trial, &compared));
                figures.push((*far, compared));
                progress.step();
            }
            curves.push((*here, figures));
        }
        report.charts.extend(charts(slow, &curves));
    }
    beside_nbdkit(load, scale, hosts, &image, report)
}

fn compare(
    load: DiskLoad,
    scale: &LoadScale<'_>,
    sides: &dyn Fn() -> Result<[ServedSide; 2], BlockError>,
) -> Result<Vec<LoadFigure>, BlockError> {
    load.compare(&ComparisonParameters {
        size: scale.size,
        seconds: scale.seconds,
        rounds: scale.rounds,
        draws: FioDraws::EachRound,
        sides,
    })
}

/// Returns whether a figure is a rate or a time.
fn is_speed(figure: &LoadFigure) -> bool {
    matches!(figure.unit, "/s" | "s")
}

/// Rows of a trial. Rates and times have a goal.
fn rows(trial: &FarDiskTrial<'_>, figures: &[LoadFigure]) -> Vec<BenchRow> {
    let fetched = figures.iter().find(|figure| figure.what == AT_LENDERS);
    let fetched = fetched.map_or(0.0, |figure| RoundsSummary::of(&figure.both.ours).median);
    let gain = match fetched >= GAIN_AT_PERCENT && GAIN_FROM.contains(&trial.slow) {
        true => GAIN,
        false => NO_SLOWER,
    };
    let row = |figure: &LoadFigure| {
        let name = format!("{}: {}", trial.name(figure.load), figure.what);
        let row = figure.both.row(name, figure.unit);
        match figure.unit {
            "/s" => row.goal(Goal::RatioAtLeast(gain)),
            "s" => row.goal(Goal::RatioAtMost(1.0 / NO_SLOWER)),
            _ => row,
        }
    };
    figures.iter().map(row).collect()
}

/// The first disk with the most memory, beside the disk that people build by hand.
fn beside_nbdkit(
    load: DiskLoad,
    scale: &LoadScale<'_>,
    hosts: &LendingHosts,
    image: &Path,
    report: &mut BenchReport,
) -> Result<(), LendBenchError> {
    let most = |shares: &[u64]| shares.iter().max().copied().unwrap_or_default();
    for slow in &scale.options.slow {
        let trial = FarDiskTrial {
            hosts,
            image,
            size: scale.size,
            slow,
            here: most(&scale.options.here),
            far: most(&scale.options.far),
        };
        let compared = compare(load, scale, &|| trial.beside_nbdkit())?;
        for figure in compared.iter().filter(|figure| is_speed(figure)) {
            let name = trial.name(figure.load);
            let name = format!("{name}, beside a disk in nbdkit's memory: {}", figure.what);
            report.rows.push(figure.both.row(name, figure.unit));
        }
    }
    Ok(())
}

/// The figures by the far memory, for each amount of room here.
type FarSweep = (u64, Vec<(u64, Vec<LoadFigure>)>);

/// A chart for each figure that is a rate or a time. Without far memory, the figure is the mean of all trials'.
fn charts(slow: &str, curves: &[FarSweep]) -> Vec<Chart> {
    let Some((_, first)) = curves.first().and_then(|(_, figures)| figures.first()) else {
        return Vec::new();
    };
    let places = (0..first.len()).filter(|place| is_speed(&first[*place]));
    places
        .map(|place| Chart {
            title: format!("{slow} disk, {}: {}", first[place].load, first[place].what),
            x: "far memory, % of the disk".to_owned(),
            y: first[place].unit.to_owned(),
            curves: curves.iter().map(|sweep| curve(sweep, place)).collect(),
        })
        .collect()
}

fn curve((here, figures): &FarSweep, place: usize) -> ChartCurve {
    let alone: Vec<f64> = figures
        .iter()
        .flat_map(|(_, figures)| figures[place].both.peer.iter().copied())
        .collect();
    let mut points = vec![(0.0, RoundsSummary::of(&alone).median)];
    points.extend(figures.iter().map(|(far, figures)| {
        let median = RoundsSummary::of(&figures[place].both.ours).median;
        (*far as f64, median)
    }));
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    ChartCurve {
        name: format!("room for {here} %"),
        points,
    }
}
