//! Reads of pages at random, from a lender and from other servers that hold the same pages. The servers have turns, and
//! so have the lengths of messages. Then writes, by the daemon's courier.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};
use sublet_sim::rng::SimRng;
use sublet_types::PAGE_BYTES;

use super::super::chart::{Chart, ChartCurve};
use super::super::cores::CoreAssignment;
use super::super::progress::BenchProgress;
use super::super::report::{BenchReport, BenchRow, RoundsSummary};
use super::super::tested_server::cpu;
use super::args::Args;
use super::borrowed_pages::{BorrowedPages, FetchEnd, tickets};
use super::borrower_store::BorrowerStore;
use super::child_server::ChildServer;
use super::error::LendBenchError;
use super::fetch_pages::FetchPages;
use super::goals::PLAIN;
use super::namespaces::LinkedNamespaces;
use super::peer_pages::PeerPages;
use super::raw_figures::{RawFigure, RawFigures, RawRound};
use super::raw_servers::RawServers;
use super::test_page::TestPage;

/// A round's first part is not counted: this share of it.
const WARM_UP: f64 = 0.2;

/// Whose pages are read.
struct Contender<'s> {
    name: &'static str,
    server: &'s ChildServer,
    pages: Box<dyn FetchPages + 's>,
    /// By the place of the message's length in the options.
    figures: Vec<RawFigures>,
}

/// Measures reads, then writes.
pub(super) fn run(
    args: &Args,
    progress: &BenchProgress,
    report: &mut BenchReport,
) -> Result<(), LendBenchError> {
    let namespaces = LinkedNamespaces::new()?;
    let cores = CoreAssignment::deal(1);
    progress.show_message("starting servers");
    let servers = RawServers::start(args.size, &namespaces, &cores)?;
    report.notes.extend(servers.missing.iter().cloned());
    report.notes.push(cores.description().to_owned());
    namespaces.borrower.run(|| {
        cores.on_generators(|| {
            let borrower = BorrowerStore::new(servers.lent)?;
            reads(args, &servers, &borrower, progress, report)?;
            writes(args, &servers, &borrower, progress, report)
        })
    })?
}

fn reads(
    args: &Args,
    servers: &RawServers,
    borrower: &BorrowerStore,
    progress: &BenchProgress,
    report: &mut BenchReport,
) -> Result<(), LendBenchError> {
    progress.expect(args.rounds.max(1));
    let (mut contenders, mut late) = (contenders(args, servers, borrower, progress)?, 0);
    let mut rng = SimRng::seeded(11);
    for round in 0..args.rounds.max(1) {
        progress.show_message(format!("reads, round {}", round + 1));
        for (place, pages) in args.pages.iter().enumerate() {
            for contender in &mut contenders {
                measure(
                    contender,
                    usize::from(*pages),
                    args.seconds * WARM_UP,
                    &mut rng,
                )?;
                let (counted, gave_up) =
                    measure(contender, usize::from(*pages), args.seconds, &mut rng)?;
                contender.figures[place].push(&counted);
                late += gave_up;
            }
        }
        progress.step();
    }
    if late > 0 {
        report.notes.push(format!(
            "The borrower gave up {late} pages because they came late; their time limits count as round trips."
        ));
    }
    let (ours, peers) = contenders.split_at(1);
    for (place, pages) in args.pages.iter().enumerate() {
        for peer in peers {
            let rows = ours[0].figures[place].rows(*pages, peer.name, &peer.figures[place]);
            report.rows.extend(rows);
        }
    }
    report.charts.push(chart(args, &contenders));
    Ok(())
}

/// Fills all servers. The lender comes first.
fn contenders<'s>(
    args: &Args,
    servers: &'s RawServers,
    borrower: &'s BorrowerStore,
    progress: &BenchProgress,
) -> Result<Vec<Contender<'s>>, LendBenchError> {
    let count = (args.size.0 / PAGE_BYTES) as u32;
    progress.show_message("filling the lender");
    for page in (0..count).map(TestPage) {
        borrower.put(page)?;
    }
    borrower.await_outbox(0)?;
    let away = tickets(borrower, count)?;
    let new = |name, server, pages| Contender {
        name,
        server,
        pages,
        figures: args.pages.iter().map(|_| RawFigures::default()).collect(),
    };
    let ends = [
        ("the lender", FetchEnd::Opened),
        (PLAIN, FetchEnd::Received),
    ];
    let mut all: Vec<Contender<'_>> = Vec::new();
    for (name, end) in ends {
        let pages = BorrowedPages::new(borrower, &away, end);
        all.push(new(name, &servers.lender, Box::new(pages)));
    }
    for peer in &servers.peers {
        progress.show_message(format!("filling {}", peer.name));
        let address = peer.server.address;
        let pages = PeerPages::filled(peer.name, peer.protocol, address, count)?;
        all.push(new(peer.name, &peer.server, Box::new(pages)));
    }
    Ok(all)
}

/// Reads for a while. Returns what was measured, and how many pages came too late.
fn measure(
    contender: &mut Contender<'_>,
    pages: usize,
    seconds: f64,
    rng: &mut SimRng,
) -> Result<(RawRound, usize), LendBenchError> {
    let time = Duration::from_secs_f64(seconds.clamp(0.001, 3600.0));
    let mut round_trips = histogram();
    let mut places = vec![0; pages];
    let (server_before, client_before) = (contender.server.cpu()?, thread_cpu());
    let (began, mut late) = (Instant::now(), 0);
    while began.elapsed() < time {
        for place in &mut places {
            *place = rng.below(contender.pages.len() as u64) as usize;
        }
        let fetched = contender.pages.fetch(&places)?;
        round_trips.saturating_record(fetched.took.as_nanos() as u64);
        late += fetched.late;
    }
    let client = thread_cpu().saturating_sub(client_before);
    let server = contender.server.cpu()?.saturating_sub(server_before);
    let round = RawRound {
        pages: round_trips.len() as f64 * pages as f64,
        round_trips,
        server_cpu_nanos: server.as_nanos() as f64,
        client_cpu_nanos: client.as_nanos() as f64,
    };
    Ok((round, late))
}

/// A histogram of nanoseconds, to three digits, up to a minute.
fn histogram() -> Histogram<u64> {
    const MINUTE: u64 = 60_000_000_000;
    Histogram::new_with_bounds(1, MINUTE, 3).expect("a minute and three digits are within bounds")
}

/// The CPU time that this thread has used.
fn thread_cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// Puts pages without a pause, so that the courier always has some to carry.
fn writes(
    args: &Args,
    servers: &RawServers,
    borrower: &BorrowerStore,
    progress: &BenchProgress,
    report: &mut BenchReport,
) -> Result<(), LendBenchError> {
    progress.show_message("writes");
    let time = Duration::from_secs_f64(args.seconds.clamp(0.001, 3600.0));
    let [mut rate, mut lender_cpu, mut borrower_cpu] = [const { Vec::new() }; 3];
    let mut next = 0u32;
    for _ in 0..args.rounds.max(1) {
        let own = std::process::id();
        let (before, borrower_before) = (servers.lender.cpu()?, cpu(own)?);
        let (carried_before, began) = (borrower.carried(), Instant::now());
        while began.elapsed() < time {
            borrower.put(TestPage(next))?;
            next = (next + 1) % (args.size.0 / PAGE_BYTES) as u32;
        }
        borrower.await_outbox(0)?;
        let took = began.elapsed();
        let taken = borrower.carried().pages_taken - carried_before.pages_taken;
        let nanos = |used: Duration| used.as_nanos() as f64 / taken as f64;
        rate.push(taken as f64 / took.as_secs_f64());
        lender_cpu.push(nanos(servers.lender.cpu()?.saturating_sub(before)));
        borrower_cpu.push(nanos(cpu(own)?.saturating_sub(borrower_before)));
    }
    for (name, unit, rounds) in [
        ("pages that the lender took", "/s", rate),
        ("lender's CPU a page", "ns", lender_cpu),
        (
            "borrower's CPU a page, with puts and evictions",
            "ns",
            borrower_cpu,
        ),
    ] {
        let name = format!("write by the courier: {name}");
        report
            .rows
            .push(BenchRow::new(name, unit, RoundsSummary::of(&rounds)));
    }
    Ok(())
}

fn chart(args: &Args, contenders: &[Contender<'_>]) -> Chart {
    let curve = |contender: &Contender<'_>| {
        let figures = contender.figures.iter();
        let medians = figures.map(|figures| figures.median(RawFigure::Median));
        let lengths = args.pages.iter().map(|pages| f64::from(*pages));
        let mut points: Vec<(f64, f64)> = lengths.zip(medians).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        ChartCurve {
            name: contender.name.to_owned(),
            points,
        }
    };
    Chart {
        title: "Round trip of a read by the pages of its message".into(),
        x: "pages".into(),
        y: "p50, µs".into(),
        curves: contenders.iter().map(curve).collect(),
    }
}
