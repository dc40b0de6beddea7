//! How soon a lender has its memory back while its borrower reads and writes, is stopped, is dead, or cannot be reached.
//!
//! The lender runs in the bench. It gives all that it lent back to the kernel, as the daemon does when the host needs
//! memory. Then the bare kernel takes as much touched memory from the bench.

use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sublet_types::Bytes;

use super::super::cores::CoreAssignment;
use super::super::pair::micros;
use super::super::progress::BenchProgress;
use super::super::release::kernel_millis;
use super::super::report::{BenchReport, BenchRow, Goal, RoundsSummary};
use super::args::Args;
use super::busy_borrower::BusyBorrowerArgs;
use super::child_server::{ChildServer, any_port};
use super::error::LendBenchError;
use super::lender_store::LenderStore;
use super::namespaces::{LinkState, LinkedNamespaces};

/// The most that a recall may take: this many times the kernel's time for the same memory, and a millisecond.
const KERNEL_FACTOR: f64 = 1.5;
const BESIDE_MILLIS: f64 = 1.0;

/// How long the borrower works before its lender takes all back.
const BORROWED_FOR: Duration = Duration::from_millis(200);

/// What the borrower does while its lender takes its memory back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BorrowerState {
    Busy,
    Stopped,
    Dead,
    CutOff,
}

const STATES: [BorrowerState; 4] = [
    BorrowerState::Busy,
    BorrowerState::Stopped,
    BorrowerState::Dead,
    BorrowerState::CutOff,
];

impl BorrowerState {
    fn name(self) -> &'static str {
        match self {
            BorrowerState::Busy => "reads and writes",
            BorrowerState::Stopped => "is stopped",
            BorrowerState::Dead => "is dead",
            BorrowerState::CutOff => "is cut off",
        }
    }

    fn begin(
        self,
        borrower: &ChildServer,
        namespaces: &LinkedNamespaces,
    ) -> Result<(), LendBenchError> {
        let signal = |signal| {
            let process = Pid::from_raw(borrower.id() as i32);
            process.map_or(Ok(()), |process| kill_process(process, signal))
        };
        match self {
            BorrowerState::Busy => {}
            BorrowerState::Stopped => signal(Signal::STOP).map_err(std::io::Error::from)?,
            BorrowerState::Dead => signal(Signal::KILL).map_err(std::io::Error::from)?,
            BorrowerState::CutOff => namespaces.borrower.set_link(LinkState::Down)?,
        }
        Ok(())
    }
}

/// Milliseconds of each round.
#[derive(Default)]
struct RecallTimes {
    ours: Vec<f64>,
    kernel: Vec<f64>,
}

impl RecallTimes {
    fn rows(&self, lent: Bytes, state: BorrowerState) -> [BenchRow; 2] {
        let name = format!("recall of {lent} while the borrower {}", state.name());
        let ours = RoundsSummary::of(&self.ours);
        let bounds: Vec<f64> = self
            .kernel
            .iter()
            .map(|kernel| kernel * KERNEL_FACTOR + BESIDE_MILLIS)
            .collect();
        let beside = |peer: &str| format!("{name}, beside {peer}");
        [
            BenchRow::new(beside("the bare kernel's time"), "ms", ours)
                .against(RoundsSummary::of(&self.kernel)),
            BenchRow::new(beside("1.5 × that + 1 ms"), "ms", ours)
                .against(RoundsSummary::of(&bounds))
                .goal(Goal::RatioAtMost(1.0)),
        ]
    }
}

/// Times recalls in every state of the borrower.
pub(super) fn run(
    args: &Args,
    progress: &BenchProgress,
    report: &mut BenchReport,
) -> Result<(), LendBenchError> {
    let rounds = args.recalls.max(1);
    progress.expect(rounds * STATES.len());
    let namespaces = LinkedNamespaces::new()?;
    let times = namespaces
        .lender
        .run(|| measure(args, &namespaces, progress))??;
    for (times, state) in times.iter().zip(STATES) {
        report.rows.extend(times.rows(args.lent, state));
    }
    Ok(())
}

fn measure(
    args: &Args,
    namespaces: &LinkedNamespaces,
    progress: &BenchProgress,
) -> Result<[RecallTimes; STATES.len()], LendBenchError> {
    let cores = CoreAssignment::deal(1);
    let lender = LenderStore::start(args.lent, any_port(namespaces.lender.address))?;
    let mut times = STATES.map(|_| RecallTimes::default());
    for _ in 0..args.recalls.max(1) {
        for (times, state) in times.iter_mut().zip(STATES) {
            progress.show_message(format!("recall while the borrower {}", state.name()));
            let lent = lender.lend(args.lent)?;
            let arguments = BusyBorrowerArgs::command_line(lent);
            let arguments = arguments.each_ref().map(String::as_str);
            let (borrower, _) =
                ChildServer::start_own("the borrower", &arguments, &namespaces.borrower, &cores)?;
            let read_before = lender.pages_read();
            thread::sleep(BORROWED_FOR);
            if lender.pages_read() == read_before {
                return Err(LendBenchError::IdleBorrower);
            }
            state.begin(&borrower, namespaces)?;
            let began = Instant::now();
            let released = lender.release(args.lent);
            times.ours.push(micros(began.elapsed()) / 1000.0);
            if released.bytes < args.lent || lender.lent() > Bytes::ZERO {
                return Err(LendBenchError::NotBack(released.bytes));
            }
            lender.note_taken_back();
            drop(borrower);
            namespaces.borrower.set_link(LinkState::Up)?;
            times.kernel.push(kernel_millis(released.bytes)?);
            progress.step();
        }
    }
    Ok(times)
}
