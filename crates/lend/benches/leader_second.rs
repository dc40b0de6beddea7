//! A leader's second: as many reports as there are nodes, from bytes to advice. Sockets and TLS are left out.
//!
//! `cargo bench -p sublet-lend --bench leader_second`

use std::time::{Duration, Instant};

use sublet_lend::control::{
    BlockCount, ClusterReport, ControlLine, ControlMessage, LineReader, PairCounts, encode_line,
};
use sublet_lend::ids::{NodeName, RackName, Term};
use sublet_lend::leader::{Ledger, LedgerAction, LedgerSettings};
use sublet_policy::placement::{DrawStream, PlacementChoice};

const NODES: usize = 10_000;

/// The nodes with which each has a lease.
const PAIRS: usize = 4;

const SECONDS: u64 = 21;

fn name(n: usize) -> NodeName {
    format!("node-{n:05}.west").parse().expect("a name")
}

/// What all nodes send in a second, each with its name. One in three borrows, of four others each.
fn lines(draws: &mut DrawStream) -> Vec<(NodeName, Vec<u8>)> {
    let line = |n: usize| {
        let is_borrower = n.is_multiple_of(3);
        let others = (1..=PAIRS).map(|step| (n + step * 37) % NODES);
        let (pairs, _) = PairCounts::largest(others.map(|other| (name(other), 20)));
        let amount = BlockCount::saturating(1 + draws.below(400) as u32);
        let report = ClusterReport {
            total: BlockCount::saturating(4096),
            free: BlockCount::saturating(1000),
            lendable: if is_borrower {
                BlockCount::default()
            } else {
                amount
            },
            wanted: if is_borrower {
                amount
            } else {
                BlockCount::default()
            },
            rack: Some(RackName(format!("r{}", n / 40).parse().expect("a name"))),
            lent: if is_borrower {
                PairCounts::default()
            } else {
                pairs.clone()
            },
            borrowed: if is_borrower {
                pairs
            } else {
                PairCounts::default()
            },
            pairs_left_off: 0,
            leaving: false,
        };
        let mut line = Vec::new();
        encode_line(&ControlMessage::ClusterReport(Box::new(report)), &mut line);
        (name(n), line)
    };
    (0..NODES).map(line).collect()
}

fn main() {
    let settings = LedgerSettings {
        term: Term(1),
        placement: PlacementChoice::default(),
        seed: 1,
    };
    let mut ledger = Ledger::new(Duration::ZERO, settings, (0..NODES).map(name));
    let mut draws = DrawStream::new(9);
    let mut took: Vec<(f64, f64)> = Vec::new();
    let (mut bytes, mut advised) = (0, 0);
    for second in 0..SECONDS {
        let lines = lines(&mut draws);
        bytes = lines.iter().map(|(_, line)| line.len()).sum();
        let now = Duration::from_secs(second);
        let began = Instant::now();
        for (name, line) in &lines {
            let mut reader = LineReader::default();
            let read = reader.read(&mut &line[..]);
            let Ok(Some(ControlLine::Message(ControlMessage::ClusterReport(report)))) = read else {
                panic!("a good line was refused");
            };
            ledger.report(now, name, *report);
        }
        let reported = began.elapsed();
        ledger.tick(now);
        advised = 0;
        while let Some(action) = ledger.poll_action() {
            advised += usize::from(matches!(action, LedgerAction::Advise(_)));
        }
        let all = began.elapsed();
        took.push((all.as_secs_f64() * 1000.0, reported.as_secs_f64() * 1000.0));
    }
    took.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (least, median) = (took[0], took[took.len() / 2]);
    println!(
        "{NODES} nodes, {bytes} bytes of reports, {advised} pieces of advice: median {:.1} ms ({:.1} ms of it reading), \
         least {:.1} ms",
        median.0, median.1, least.0
    );
}
