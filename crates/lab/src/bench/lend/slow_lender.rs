//! Reads of a disk whose pages are at a lender that answers late, beside the same disk without lending. A relay beside
//! the lender adds the delay. The guard is to see to it that lending costs next to nothing where it brings nothing.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sublet_client::messages::LendPeer;
use sublet_client::{Admin, AdminEndpoint};
use sublet_types::{Bytes, PAGE_BYTES};

use super::super::disks::fio::{self, FioPattern, PlaceChoice};
use super::super::disks::slow::sides::ServedSide;
use super::super::folder::ScratchFolder;
use super::super::paired_rounds::{PairedRounds, Side};
use super::super::progress::BenchProgress;
use super::super::report::{BenchReport, BenchRow, RoundsSummary};
use super::args::SlowLenderOptions;
use super::delaying_proxy::{AddedDelay, DelayingProxy};
use super::error::LendBenchError;
use super::far_side::FarSideDisk;
use super::guard_cell::{LenderDelay, ReadDepth};
use super::lending_hosts::LendingHosts;
use super::relay_delay::RelayGauge;

/// Room here, and memory of the lender, in per cent of the disk. All pages are read alike.
const HERE_PERCENT: u64 = 10;
const FAR_PERCENT: u64 = 60;

/// The lender has its part of the pages if so many of the reads, in per cent, would be its.
const AT_LENDER_MIN: f64 = 50.0;

/// The pages of the disk are read so many times at the most, until the lender has its part.
const FILLS_MAX: usize = 20;

/// The same before each cell after the first.
const REFILLS_MAX: usize = 8;

/// Rounds of depth 8. Its row has no goal.
const DEEP_ROUNDS: usize = 1;

/// The disk with lending and without, on one backing.
struct GuardTrial<'a> {
    options: &'a SlowLenderOptions,
    relay: &'a DelayingProxy,
    backing: &'a str,
    lending: ServedSide,
    alone: ServedSide,
}

/// How full the lender is after reads without a delay.
#[derive(Clone, Copy, Debug, Default)]
struct LenderFill {
    /// Which share of the last reads were of pages that it has, in per cent.
    share: f64,
    /// Whether it is asked for them.
    is_asked: bool,
}

/// What the borrower has done with its lender so far.
#[derive(Clone, Copy)]
struct LenderUse {
    hits: u64,
    /// Pages that the lender had, whether it was asked or not.
    at_lender: u64,
    is_asked: bool,
}

/// The figures of a cell at one depth.
#[derive(Default)]
struct CellFigures {
    rate: PairedRounds,
    from_lender: Vec<f64>,
}

/// Tries every delay on every backing.
pub(super) fn run(
    options: &SlowLenderOptions,
    sublet: PathBuf,
    progress: &BenchProgress,
    report: &mut BenchReport,
) -> Result<(), LendBenchError> {
    progress.expect(options.delays.len() * options.backings.len() + 1);
    let far = Bytes(options.guard_disk.0 * FAR_PERCENT / 100);
    let hosts = LendingHosts::start(sublet, far)?;
    progress.show_message("the relay's own delay");
    report.rows.extend(relay_rows(options, &hosts)?);
    progress.step();
    let relay = hosts.relay()?;
    let folder = ScratchFolder::new()?;
    let image = folder.image("made.img", options.guard_disk)?;
    hosts.namespaces.borrower.run(|| {
        for backing in &options.backings {
            progress.show_message(format!("{backing} disk: filling the lender"));
            let trial = GuardTrial::start(options, &hosts, &relay, &image, backing)?;
            for delay in &options.delays {
                progress.show_message(format!("{backing} disk, {}", delay.label()));
                report.rows.extend(trial.cell(*delay, &mut report.notes)?);
                progress.step();
            }
        }
        Ok::<(), LendBenchError>(())
    })??;
    let tally = relay.tally();
    report.notes.push(format!(
        "Under these loads the relay held what it carried {:.0} µs longer than asked in the mean ({} chunks).",
        tally.mean().as_secs_f64() * 1e6,
        tally.chunks
    ));
    Ok(())
}

/// What the relay adds without being asked, and for each delay of the options.
fn relay_rows(
    options: &SlowLenderOptions,
    hosts: &LendingHosts,
) -> Result<Vec<BenchRow>, LendBenchError> {
    let mut gauge = RelayGauge::start(&hosts.namespaces)?;
    let mut asked: Vec<Duration> = options.delays.iter().map(|delay| delay.longest()).collect();
    asked.push(Duration::ZERO);
    asked.sort_unstable();
    asked.dedup();
    let rows = asked
        .into_iter()
        .map(|asked| gauge.row(asked, options.guard_rounds));
    Ok(rows.collect::<Result<_, _>>()?)
}

impl<'a> GuardTrial<'a> {
    /// Starts both daemons, and reads until the lender has its part of the pages.
    fn start(
        options: &'a SlowLenderOptions,
        hosts: &LendingHosts,
        relay: &'a DelayingProxy,
        image: &Path,
        backing: &'a str,
    ) -> Result<GuardTrial<'a>, LendBenchError> {
        let disk = FarSideDisk {
            sublet: &hosts.sublet,
            image,
            slow: backing,
            here: Bytes(options.guard_disk.0 * HERE_PERCENT / 100),
        };
        let far = Bytes(options.guard_disk.0 * FAR_PERCENT / 100);
        relay.set_delay(AddedDelay::NONE);
        let tables = hosts.borrower_tables_by(relay.address, far) + options.guard_rule.setting();
        let trial = GuardTrial {
            options,
            relay,
            backing,
            lending: disk.serve(&tables)?,
            alone: disk.serve("")?,
        };
        let filled = trial.fill(FILLS_MAX)?;
        // A disk sends nothing while its guard is shut. That is so if the disk is hardly slower than the relay itself.
        if filled.share < AT_LENDER_MIN && filled.is_asked {
            return Err(LendBenchError::FewAtLender(filled.share));
        }
        // A disk keeps a page at its second miss.
        fio::read_times(
            &trial.alone.served,
            &PlaceChoice::FreshUniform.warm_up(),
            options.guard_disk,
            2,
        )?;
        Ok(trial)
    }

    /// Reads with a quick lender until the lender is asked and has its part of the pages.
    fn fill(&self, most: usize) -> Result<LenderFill, LendBenchError> {
        self.relay.set_delay(AddedDelay::NONE);
        let size = self.options.guard_disk;
        let warm_up = PlaceChoice::FreshUniform.warm_up();
        let mut filled = LenderFill::default();
        for _ in 0..most {
            let before = self.lender_use()?;
            fio::read_times(&self.lending.served, &warm_up, size, 1)?;
            let after = self.lender_use()?;
            let reads = (size.0 / PAGE_BYTES) as f64;
            filled = LenderFill {
                share: 100.0 * (after.at_lender - before.at_lender) as f64 / reads,
                is_asked: after.is_asked,
            };
            if filled.share >= AT_LENDER_MIN && filled.is_asked {
                break;
            }
        }
        Ok(filled)
    }

    /// Measures a cell.
    fn cell(
        &self,
        delay: LenderDelay,
        notes: &mut Vec<String>,
    ) -> Result<Vec<BenchRow>, LendBenchError> {
        let name = format!("{} disk, {}", self.backing, delay.label());
        let filled = self.fill(REFILLS_MAX)?;
        if filled.share < AT_LENDER_MIN {
            let why = match filled.is_asked {
                true => "",
                false => ", because its guard was shut without a delay, too",
            };
            notes.push(format!(
                "{name}: the lender had the pages of {:.0} % of the reads when it began{why}.",
                filled.share
            ));
        }
        self.relay.set_delay(delay.added());
        let settles = delay.settles();
        if !settles.is_zero() {
            fio::run(
                &self.lending.served,
                &pattern(ReadDepth::One),
                self.options.guard_disk,
                settles,
            )?;
        }
        let mut rows = Vec::new();
        for (depth, rounds) in [
            (ReadDepth::One, self.options.guard_rounds.max(1)),
            (ReadDepth::Eight, DEEP_ROUNDS),
        ] {
            let figures = self.compare(delay, depth, rounds)?;
            rows.extend(self.rows(&format!("{name}, {}", depth.label()), depth, &figures));
        }
        Ok(rows)
    }

    /// Reads with and without lending in turns.
    fn compare(
        &self,
        delay: LenderDelay,
        depth: ReadDepth,
        rounds: usize,
    ) -> Result<CellFigures, LendBenchError> {
        let (pattern, size) = (pattern(depth), self.options.guard_disk);
        let usual = Duration::from_secs_f64(self.options.guard_seconds.clamp(0.1, 3600.0));
        let mut figures = CellFigures::default();
        for _ in 0..rounds {
            // Spells are counted from here.
            self.relay.set_delay(delay.added());
            let before = self.lender_use()?;
            let read = fio::run(&self.lending.served, &pattern, size, delay.round(usual))?;
            let hits = self.lender_use()?.hits - before.hits;
            figures.rate.push(Side::Ours, read.per_second);
            let share = 100.0 * hits as f64 / read.requests.max(1.0);
            figures.from_lender.push(share);
            let alone = fio::run(&self.alone.served, &pattern, size, usual)?;
            figures.rate.push(Side::Peer, alone.per_second);
        }
        Ok(figures)
    }

    fn rows(&self, name: &str, depth: ReadDepth, figures: &CellFigures) -> [BenchRow; 2] {
        let reads = figures.rate.row(format!("{name}: reads"), "/s");
        let goal = self
            .options
            .guard_rule
            .goal()
            .filter(|_| depth == ReadDepth::One);
        let from_lender = RoundsSummary::of(&figures.from_lender);
        [
            match goal {
                Some(goal) => reads.goal(goal),
                None => reads,
            },
            BenchRow::new(format!("{name}: of these at the lender"), "%", from_lender),
        ]
    }

    /// What the borrower's daemon tells of its lender.
    fn lender_use(&self) -> Result<LenderUse, LendBenchError> {
        let socket = self.lending.served.admin.clone().unwrap_or_default();
        let lending = Admin::at(AdminEndpoint::Unix(socket))?.lending()?;
        let sum = |count: fn(&LendPeer) -> u64| lending.peers.iter().map(count).sum();
        let mut guards = lending.peers.iter().flat_map(|peer| &peer.guards);
        Ok(LenderUse {
            hits: sum(|peer| peer.pages.hits),
            at_lender: sum(|peer| peer.pages.fetched + peer.pages.not_asked),
            is_asked: guards.all(|guard| guard.open),
        })
    }
}

fn pattern(depth: ReadDepth) -> FioPattern {
    match depth {
        ReadDepth::One => FioPattern::UNIFORM_ALONE,
        ReadDepth::Eight => PlaceChoice::FreshUniform.measured(),
    }
}

impl LendingHosts {
    /// A relay at the lender's host, without a delay yet.
    fn relay(&self) -> Result<DelayingProxy, LendBenchError> {
        let any_port = SocketAddr::from((self.namespaces.lender.address, 0));
        let start = || DelayingProxy::start(any_port, self.lender_address());
        Ok(self.namespaces.lender.run(start)??)
    }
}
