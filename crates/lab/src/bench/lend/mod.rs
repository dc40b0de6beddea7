//! `sublet-lab bench lend` measures what lending between two hosts costs and gains. Both hosts are network namespaces
//! of this machine, with a veth link between them:
//!
//! - `raw`: reads and writes of pages at a lender, beside other servers that hold the same pages;
//! - `recall`: how soon a lender has its memory back, whatever its borrower does;
//! - `disks`: what loads on slow disks gain from memory of a lender;
//! - `guard`: what lending costs while the lender answers late.

mod args;
pub(super) mod bare_responder;
mod borrowed_pages;
mod borrower_store;
pub(super) mod busy_borrower;
mod child_server;
mod delaying_proxy;
pub(super) mod error;
mod far_disks;
mod far_side;
mod fetch_pages;
mod goals;
mod guard_cell;
pub(super) mod lender_process;
mod lender_store;
mod lending_hosts;
pub(super) mod namespaces;
mod paced_socket;
mod page_protocol;
mod peer_pages;
pub(super) mod peer_pair;
mod raw;
mod raw_figures;
mod raw_servers;
mod recall;
mod relay_delay;
mod session;
mod slow_lender;
mod test_page;

use super::progress::BenchProgress;
use super::report::BenchReport;
pub(super) use args::Args;
use args::LendBenchKind;
use error::LendBenchError;

/// Runs the chosen measurements.
pub(super) fn run(args: &Args, progress: &BenchProgress) -> Result<BenchReport, LendBenchError> {
    let mut report = BenchReport::default();
    let chosen = |what| args.what.contains(&what);
    if chosen(LendBenchKind::Raw) {
        let measured = raw::run(args, progress, &mut report);
        report.record_failure("raw", measured);
    }
    if chosen(LendBenchKind::Recall) {
        let measured = recall::run(args, progress, &mut report);
        report.record_failure("recall", measured);
    }
    if chosen(LendBenchKind::Disks) {
        let sublet = args.ours.program()?;
        let measured = far_disks::run(&args.disks, sublet, progress, &mut report);
        report.record_failure("disks", measured);
    }
    if chosen(LendBenchKind::Guard) {
        let sublet = args.ours.program()?;
        let measured = slow_lender::run(&args.guard, sublet, progress, &mut report);
        report.record_failure("guard", measured);
    }
    Ok(report)
}
