//! `sublet-lab bench memcached`: throughput, round trips, CPU and memory beside memcached's.

use std::time::Duration;

use sublet_types::Bytes;

use super::both::Both;
use super::error::BenchError;
use super::gang::Gang;
use super::keyspace::Keyspace;
use super::load::{Load, Until, Waiting};
use super::pair::{Against, Pair, drive, keys_that_fit, micros};
use super::progress::Progress;
use super::report::{Goal, Measured, NO_WORSE, Report, Row};
use super::stream::{Mix, Stream};
use super::subject::{Start, Subject};

const KEY_BYTES: usize = 30;

/// What is measured.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    against: Against,
    /// Seconds of a round.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Rounds of each side.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Bytes of a value, with commas between.
    #[arg(long, value_delimiter = ',', default_values_t = [100, 4096])]
    values: Vec<usize>,
    /// Requests that are sent at once, with commas between.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 32])]
    pipelines: Vec<usize>,
    /// What is asked, with commas between: get, set, or gets and sets in per cent.
    #[arg(long, value_delimiter = ',', default_values_t = [Mix::GET, Mix { gets_percent: 90 }])]
    mixes: Vec<Mix>,
    /// Server threads, with commas between. Where cores are few, more than one is judged by CPU time only.
    #[arg(long, value_delimiter = ',', default_values_t = [1])]
    threads: Vec<usize>,
    /// Connections that each have one batch under way.
    #[arg(long, default_value_t = 4)]
    connections: usize,
    /// How the generator waits for replies.
    #[arg(long, value_enum, default_value_t = Waiting::Polling)]
    waiting: Waiting,
    /// Skew of the keys: Zipf's exponent, 0 for none.
    #[arg(long, default_value_t = 0.99)]
    alpha: f64,
    /// Memory of each server (`-m`).
    #[arg(long, default_value = "1GiB")]
    memory: Bytes,
}

impl Args {
    fn load(&self, pipeline: usize) -> Load {
        Load {
            pipeline,
            connections: self.connections,
            waiting: self.waiting,
        }
    }

    /// How long a round takes.
    fn round(&self) -> Duration {
        Duration::from_secs_f64(self.seconds.clamp(0.01, 3600.0))
    }
}

/// Runs all scenarios.
pub(super) fn run(args: &Args, progress: &Progress) -> Result<Report, BenchError> {
    let scenarios = args.threads.len() * args.values.len();
    progress.expect(scenarios * args.mixes.len() * args.pipelines.len());
    let mut report = Report::default();
    let mut alone: Vec<Figures> = Vec::new();
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

/// One way of asking.
#[derive(Clone, Copy)]
struct Scenario {
    threads: usize,
    value_bytes: usize,
    mix: Mix,
    pipeline: usize,
}

impl Scenario {
    /// The same but for the server's threads.
    fn is_like(&self, other: &Scenario) -> bool {
        let key = |s: &Scenario| (s.value_bytes, s.mix, s.pipeline);
        key(self) == key(other)
    }

    fn name(&self) -> String {
        let Scenario {
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

    /// The larger a value, the more of the work is the kernel's copying, which is the same for both.
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

/// What was measured of one scenario.
struct Figures {
    scenario: Scenario,
    throughput: Both,
    cpu: Both,
    p50: Both,
    p99: Both,
    p999: Both,
    generator_idle: Both,
    /// CPU of our threads, and of as many servers of one thread, where there are several.
    threads_cpu: Option<Both>,
}

impl Figures {
    fn rows(&self, single: Option<&Figures>) -> Vec<Row> {
        let named = |what: &str| format!("{}: {what}", self.scenario.name());
        let cpu = self
            .cpu
            .row(named("server CPU per operation"), "µs")
            .goal(self.scenario.cpu_goal());
        if self.scenario.threads > 1 {
            let growth = |one: &Figures| {
                let grown = |now: &[f64], then: &[f64]| {
                    Measured::once(Measured::of(now).median / Measured::of(then).median)
                };
                let name = named("server CPU per operation ÷ one thread's");
                Row::new(name, "", grown(&self.cpu.ours, &one.cpu.ours))
                    .against(grown(&self.cpu.peer, &one.cpu.peer))
            };
            let beside = |both: &Both| {
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

/// Starts both servers, fills them with values of one size, and asks in every way.
fn measure_values(
    args: &Args,
    threads: usize,
    value_bytes: usize,
    progress: &Progress,
    report: &mut Report,
) -> Result<Vec<Figures>, BenchError> {
    let keyspace = Keyspace::new(KEY_BYTES, value_bytes);
    let keys = keys_that_fit(args.memory, &keyspace);
    progress.say(format!("filling with {keys} values of {value_bytes} B"));
    let start = Start {
        memory: args.memory,
        threads,
        item_max: Bytes((2 * value_bytes as u64).max(1 << 20)),
    };
    let pair = Pair::start(&args.against, &start)?;
    let empty = pair.ask(resident)?;
    pair.fill(&keyspace, keys)?;
    let full = pair.ask(resident)?;
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
    let gang = match threads {
        ..=1 => None,
        2.. => Some(Gang::start(
            &args.against.ours()?,
            &start,
            &keyspace,
            share,
        )?),
    };
    let mut all = Vec::new();
    for &mix in &args.mixes {
        for &pipeline in &args.pipelines {
            let scenario = Scenario {
                threads,
                value_bytes,
                mix,
                pipeline: pipeline.max(1),
            };
            progress.say(scenario.name());
            let mut figures = measure(args, &pair, scenario, &keyspace, keys)?;
            if let Some(gang) = &gang {
                let stream = Stream::mixed(&keyspace, share, mix, args.alpha, scenario.pipeline);
                figures.threads_cpu = Some(beside_gang(args, &pair, gang, scenario, &stream)?);
            }
            all.push(figures);
            progress.step();
        }
    }
    Ok(all)
}

fn resident(subject: &Subject) -> Result<f64, BenchError> {
    Ok(subject.resident()?.0 as f64)
}

fn memory_an_item(empty: &Both, full: &Both, keys: u32) -> Both {
    let each = |full: &[f64], empty: &[f64]| vec![(full[0] - empty[0]) / f64::from(keys)];
    Both {
        ours: each(&full.ours, &empty.ours),
        peer: each(&full.peer, &empty.peer),
    }
}

fn measure(
    args: &Args,
    pair: &Pair,
    scenario: Scenario,
    keyspace: &Keyspace,
    keys: u32,
) -> Result<Figures, BenchError> {
    let Scenario { mix, pipeline, .. } = scenario;
    let stream = Stream::mixed(keyspace, keys, mix, args.alpha, pipeline);
    let (load, seconds) = (args.load(pipeline), args.round());
    let [throughput, cpu, p50, p99, p999, generator_idle] =
        pair.measure(args.rounds, |subject| {
            drive(subject, &load, &stream, Until::Elapsed(seconds / 5))?;
            let before = subject.cpu()?;
            let outcome = drive(subject, &load, &stream, Until::Elapsed(seconds))?;
            let cpu = subject.cpu()?.saturating_sub(before);
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
    Ok(Figures {
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

/// CPU per operation of our threads and of a gang of servers, in turns. Ours is asked for the gang's keys only.
fn beside_gang(
    args: &Args,
    pair: &Pair,
    gang: &Gang,
    scenario: Scenario,
    stream: &Stream<'_>,
) -> Result<Both, BenchError> {
    let (load, seconds) = (args.load(scenario.pipeline), args.round());
    let mut both = Both::default();
    for _ in 0..args.rounds.max(1) {
        drive(pair.ours(), &load, stream, Until::Elapsed(seconds / 5))?;
        let before = pair.ours().cpu()?;
        let outcome = drive(pair.ours(), &load, stream, Until::Elapsed(seconds))?;
        let cpu = pair.ours().cpu()?.saturating_sub(before);
        both.ours.push(micros(cpu) / outcome.requests as f64);
        gang.drive(&load, stream, Until::Elapsed(seconds / 5))?;
        let before = gang.cpu()?;
        let outcome = gang.drive(&load, stream, Until::Elapsed(seconds))?;
        let cpu = gang.cpu()?.saturating_sub(before);
        both.peer.push(micros(cpu) / outcome.requests as f64);
    }
    Ok(both)
}
