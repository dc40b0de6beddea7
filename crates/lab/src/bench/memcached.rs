//! `sublet-lab bench memcached`: throughput, round trips, CPU and memory beside those of memcached.

use std::time::Duration;

use sublet_types::Bytes;

use super::error::BenchError;
use super::keyspace::Keyspace;
use super::load_generator::{LoadProfile, ReplyWait, RunEnd};
use super::pair::{PeerOptions, ServerPair, drive, keys_that_fit, micros};
use super::paired_rounds::PairedRounds;
use super::progress::BenchProgress;
use super::report::{BenchReport, BenchRow, Goal, NO_WORSE, RoundsSummary};
use super::request_stream::{RequestMix, RequestStream};
use super::server_fleet::ServerFleet;
use super::tested_server::{StartOptions, TestedServer};

const KEY_BYTES: usize = 30;

/// Options of the bench.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    against: PeerOptions,
    /// Measure for this many seconds per round.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Measure this many rounds of each side.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Use values of these many bytes, with commas between.
    #[arg(long, value_delimiter = ',', default_values_t = [100, 4096])]
    values: Vec<usize>,
    /// Send this many requests at once; several numbers with commas between.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 32])]
    pipelines: Vec<usize>,
    /// Send these requests, with commas between: get, set, or gets and sets in per cent.
    #[arg(long, value_delimiter = ',', default_values_t = [RequestMix::GET, RequestMix { gets_percent: 90 }])]
    mixes: Vec<RequestMix>,
    /// Start this many server threads; several numbers with commas between. If cores are few, more than one thread is
    /// judged by CPU time only.
    #[arg(long, value_delimiter = ',', default_values_t = [1])]
    threads: Vec<usize>,
    /// Open this many connections, each of which has one batch under way.
    #[arg(long, default_value_t = 4)]
    connections: usize,
    /// Wait for replies in this way.
    #[arg(long, value_enum, default_value_t = ReplyWait::Polling)]
    waiting: ReplyWait,
    /// Skew the keys by this exponent of Zipf's law, 0 for none.
    #[arg(long, default_value_t = 0.99)]
    alpha: f64,
    /// Give each server this much memory (`-m`).
    #[arg(long, default_value = "1GiB")]
    memory: Bytes,
}

impl Args {
    fn load(&self, pipeline: usize) -> LoadProfile {
        LoadProfile {
            pipeline,
            connections: self.connections,
            waiting: self.waiting,
        }
    }

    /// The duration of a round.
    fn round(&self) -> Duration {
        Duration::from_secs_f64(self.seconds.clamp(0.01, 3600.0))
    }
}

/// Runs all scenarios.
pub(super) fn run(args: &Args, progress: &BenchProgress) -> Result<BenchReport, BenchError> {
    let scenarios = args.threads.len() * args.values.len();
    progress.expect(scenarios * args.mixes.len() * args.pipelines.len());
    let mut report = BenchReport::default();
    let mut alone: Vec<ScenarioFigures> = Vec::new();
    for &threads in &args.threads {
        for &value_bytes in &args.values {
            let figures = measure_values(args, threads, value_bytes, progress, &mut report)?;
            for figure in &figures {
                let single = alone
                    .iter()
                    .find(|one| one.scenario.is_like(&figure.scenario));
                report.rows.extend(figure.rows(single));
            }
            if threads == 1 {
                alone.extend(figures);
            }
        }
    }
    Ok(report)
}

/// One combination of settings.
#[derive(Clone, Copy)]
struct LoadScenario {
    threads: usize,
    value_bytes: usize,
    mix: RequestMix,
    pipeline: usize,
}

impl LoadScenario {
    /// Returns whether both are the same but for the server's threads.
    fn is_like(&self, other: &LoadScenario) -> bool {
        let key = |s: &LoadScenario| (s.value_bytes, s.mix, s.pipeline);
        key(self) == key(other)
    }

    fn name(&self) -> String {
        let LoadScenario {
            threads,
            value_bytes,
            mix,
            pipeline,
        } = self;
        let threads = match threads {
            1 => String::new(),
            n => format!(", {n} threads"),
        };
        format!("{value_bytes} B, {mix}, pipeline {pipeline}{threads}")
    }

    /// Returns whether copying dominates. The larger a value, the more of the work is the kernel's copying, which is
    /// the same for both.
    fn is_copying(&self) -> bool {
        const COPYING: usize = 1024;
        self.value_bytes >= COPYING
    }

    fn throughput_goal(&self) -> Goal {
        Goal::RatioAtLeast(match self.pipeline {
            _ if self.is_copying() => 1.0 / NO_WORSE,
            ..16 => 1.1,
            16.. => 1.3,
        })
    }

    fn cpu_goal(&self) -> Goal {
        Goal::RatioAtMost(match self.pipeline {
            _ if self.is_copying() => NO_WORSE,
            ..16 => 1.05,
            16.. => 0.7,
        })
    }
}

/// The results of one scenario.
struct ScenarioFigures {
    scenario: LoadScenario,
    throughput: PairedRounds,
    cpu: PairedRounds,
    p50: PairedRounds,
    p99: PairedRounds,
    p999: PairedRounds,
    generator_idle: PairedRounds,
    /// CPU of our threads, and of as many servers of one thread, if there are several.
    threads_cpu: Option<PairedRounds>,
}

impl ScenarioFigures {
    fn rows(&self, single: Option<&ScenarioFigures>) -> Vec<BenchRow> {
        let named = |what: &str| format!("{}: {what}", self.scenario.name());
        let cpu = self
            .cpu
            .row(named("server CPU per operation"), "µs")
            .goal(self.scenario.cpu_goal());
        if self.scenario.threads > 1 {
            let growth = |one: &ScenarioFigures| {
                let grown = |now: &[f64], then: &[f64]| {
                    RoundsSummary::once(
                        RoundsSummary::of(now).median / RoundsSummary::of(then).median,
                    )
                };
                let name = named("server CPU per operation ÷ one thread's");
                BenchRow::new(name, "", grown(&self.cpu.ours, &one.cpu.ours))
                    .against(grown(&self.cpu.peer, &one.cpu.peer))
            };
            let beside = |both: &PairedRounds| {
                let servers = format!("ours, and as {} servers", self.scenario.threads);
                both.row(named(&format!("CPU per operation, {servers}")), "µs")
                    .goal(Goal::RatioAtMost(NO_WORSE))
            };
            let threads_cpu = self.threads_cpu.as_ref().map(beside);
            let rows = std::iter::once(cpu).chain(single.map(growth));
            return rows.chain(threads_cpu).collect();
        }
        vec![
            self.throughput
                .row(named("throughput"), "ops/s")
                .goal(self.scenario.throughput_goal()),
            cpu,
            self.p50.row(named("p50"), "µs"),
            self.p99
                .row(named("p99"), "µs")
                .goal(Goal::RatioAtMost(NO_WORSE)),
            self.p999.row(named("p99.9"), "µs"),
            self.generator_idle.row(named("generator idle"), "%"),
        ]
    }
}

/// Starts both servers, fills them with values of one size, and runs every combination.
fn measure_values(
    args: &Args,
    threads: usize,
    value_bytes: usize,
    progress: &BenchProgress,
    report: &mut BenchReport,
) -> Result<Vec<ScenarioFigures>, BenchError> {
    let keyspace = Keyspace::new(KEY_BYTES, value_bytes);
    let keys = keys_that_fit(args.memory, &keyspace);
    progress.show_message(format!("filling with {keys} values of {value_bytes} B"));
    let start = StartOptions {
        memory: args.memory,
        threads,
        item_max: Bytes((2 * value_bytes as u64).max(1 << 20)),
    };
    let pair = ServerPair::start(&args.against, &start)?;
    let empty = pair.query(resident)?;
    pair.fill(&keyspace, keys)?;
    let full = pair.query(resident)?;
    if report.notes.is_empty() {
        report.notes = pair.notes()?;
    }
    if threads == 1 {
        let name = format!("{value_bytes} B: process memory per item");
        report
            .rows
            .push(memory_an_item(&empty, &full, keys).row(name, "B"));
    }
    let share = keys / threads.max(1) as u32;
    let fleet = match threads {
        ..=1 => None,
        2.. => Some(ServerFleet::start(
            &args.against.ours()?,
            &start,
            &keyspace,
            share,
        )?),
    };
    let mut all = Vec::new();
    for &mix in &args.mixes {
        for &pipeline in &args.pipelines {
            let scenario = LoadScenario {
                threads,
                value_bytes,
                mix,
                pipeline: pipeline.max(1),
            };
            progress.show_message(scenario.name());
            let mut figures = measure(args, &pair, scenario, &keyspace, keys)?;
            if let Some(fleet) = &fleet {
                let stream =
                    RequestStream::mixed(&keyspace, share, mix, args.alpha, scenario.pipeline);
                figures.threads_cpu = Some(beside_fleet(args, &pair, fleet, scenario, &stream)?);
            }
            all.push(figures);
            progress.step();
        }
    }
    Ok(all)
}

fn resident(server: &TestedServer) -> Result<f64, BenchError> {
    Ok(server.resident()?.0 as f64)
}

fn memory_an_item(empty: &PairedRounds, full: &PairedRounds, keys: u32) -> PairedRounds {
    let each = |full: &[f64], empty: &[f64]| vec![(full[0] - empty[0]) / f64::from(keys)];
    PairedRounds {
        ours: each(&full.ours, &empty.ours),
        peer: each(&full.peer, &empty.peer),
    }
}

fn measure(
    args: &Args,
    pair: &ServerPair,
    scenario: LoadScenario,
    keyspace: &Keyspace,
    keys: u32,
) -> Result<ScenarioFigures, BenchError> {
    let LoadScenario { mix, pipeline, .. } = scenario;
    let stream = RequestStream::mixed(keyspace, keys, mix, args.alpha, pipeline);
    let (load, seconds) = (args.load(pipeline), args.round());
    let [throughput, cpu, p50, p99, p999, generator_idle] =
        pair.measure(args.rounds, |server| {
            drive(server, &load, &stream, RunEnd::Elapsed(seconds / 5))?;
            let before = server.cpu()?;
            let outcome = drive(server, &load, &stream, RunEnd::Elapsed(seconds))?;
            let cpu = server.cpu()?.saturating_sub(before);
            let quantile = |q| outcome.round_trips.value_at_quantile(q) as f64 / 1000.0;
            let requests = outcome.requests as f64;
            Ok([
                requests / outcome.elapsed.as_secs_f64(),
                micros(cpu) / requests,
                quantile(0.5),
                quantile(0.99),
                quantile(0.999),
                100.0 * outcome.idle.as_secs_f64() / outcome.elapsed.as_secs_f64(),
            ])
        })?;
    Ok(ScenarioFigures {
        scenario,
        throughput,
        cpu,
        p50,
        p99,
        p999,
        generator_idle,
        threads_cpu: None,
    })
}

/// CPU per operation of our threads and of a fleet of servers, in turns. Our server gets requests for the fleet's keys
/// only.
fn beside_fleet(
    args: &Args,
    pair: &ServerPair,
    fleet: &ServerFleet,
    scenario: LoadScenario,
    stream: &RequestStream<'_>,
) -> Result<PairedRounds, BenchError> {
    let (load, seconds) = (args.load(scenario.pipeline), args.round());
    let mut both = PairedRounds::default();
    for _ in 0..args.rounds.max(1) {
        drive(pair.ours(), &load, stream, RunEnd::Elapsed(seconds / 5))?;
        let before = pair.ours().cpu()?;
        let outcome = drive(pair.ours(), &load, stream, RunEnd::Elapsed(seconds))?;
        let cpu = pair.ours().cpu()?.saturating_sub(before);
        both.ours.push(micros(cpu) / outcome.requests as f64);
        fleet.drive(&load, stream, RunEnd::Elapsed(seconds / 5))?;
        let before = fleet.cpu()?;
        let outcome = fleet.drive(&load, stream, RunEnd::Elapsed(seconds))?;
        let cpu = fleet.cpu()?.saturating_sub(before);
        both.peer.push(micros(cpu) / outcome.requests as f64);
    }
    Ok(both)
}
