//! `sublet release`: gives memory back to the host by hand.

use std::io::{self, Write};
use std::time::Duration;

use sublet_client::messages::{ReleaseReport, ReleaseRequest};
use sublet_types::{Bytes, ReleaseMode, TenantName};

use crate::exit::Exit;
use crate::print::{counted, millis};
use crate::reach::Reach;

/// How much, and how.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How much, such as 2GiB
    amount: Bytes,
    /// Coldest items first; what is hot is copied together and survives
    #[arg(long, group = "mode")]
    ordered: bool,
    /// Whole blocks, least hit first
    #[arg(long, group = "mode")]
    fast: bool,
    /// From this tenant only
    #[arg(long, value_name = "NAME")]
    tenant: Option<TenantName>,
    /// How long the arena does not grow back, such as 60s, 5m or 2h
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "0s")]
    hold: Duration,
    /// As JSON, for programs
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reach: Reach,
}

/// Gives it back, and says what that took.
pub(crate) fn run(args: &Args) -> Exit {
    let request = ReleaseRequest {
        amount: args.amount,
        mode: args.mode(),
        tenant: args.tenant.clone(),
        hold_millis: u64::try_from(args.hold.as_millis()).unwrap_or(u64::MAX),
    };
    let report = match args.reach.ask(|admin| admin.release(&request)) {
        Ok(report) => report,
        Err(exit) => return exit,
    };
    let text = match args.json {
        true => serde_json::to_string(&report).expect("a report is JSON") + "\n",
        false => text(&report, args),
    };
    let written = Exit::written(io::stdout().write_all(text.as_bytes()));
    match written {
        Exit::Done if report.released < args.amount => Exit::failed(format_args!(
            "released {} of {} asked: there was no more to give",
            report.released, args.amount
        )),
        _ => written,
    }
}

impl Args {
    fn mode(&self) -> Option<ReleaseMode> {
        let modes = [
            (self.ordered, ReleaseMode::Ordered),
            (self.fast, ReleaseMode::Fast),
        ];
        modes
            .into_iter()
            .find(|(said, _)| *said)
            .map(|(_, mode)| mode)
    }
}

/// What was lost, of either kind.
pub(crate) fn lost(items: u64, pages: u64) -> String {
    match pages {
        0 => counted(items, "item"),
        _ => format!("{} and {}", counted(items, "item"), counted(pages, "page")),
    }
}

fn text(report: &ReleaseReport, args: &Args) -> String {
    let text = format!(
        "{} released in {} ({:?}); {} lost ({}), {} copied together\n",
        report.released,
        millis(report.micros),
        report.mode,
        lost(report.items_lost, report.pages_lost),
        report.bytes_lost,
        report.bytes_kept
    );
    let grows = match args.hold.is_zero() {
        true => "it may grow back at once; --hold 60s keeps it".to_owned(),
        false => format!("it stays so for {} s", args.hold.as_secs()),
    };
    text + &format!("the arena holds {} now; {grows}\n", report.held)
}

/// `90`, `90s`, `5m`, `2h`.
fn time(text: &str) -> Result<Duration, NoTime> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let number: u64 = text[..digits].parse().map_err(|_| NoTime)?;
    let secs = match &text[digits..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err(NoTime),
    };
    number
        .checked_mul(secs)
        .map(Duration::from_secs)
        .ok_or(NoTime)
}

/// Not a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write a time such as 60s, 5m or 2h")]
struct NoTime;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_as_people_write_them() {
        for (text, secs) in [("0", 0), ("90s", 90), ("5m", 300), ("2h", 7200)] {
            assert_eq!(time(text), Ok(Duration::from_secs(secs)));
        }
        for wrong in [
            "",
            "s",
            "-1",
            "5 m",
            "3d",
            "99999999999999999999",
            "9999999999999999999h",
        ] {
            assert_eq!(time(wrong), Err(NoTime), "{wrong}");
        }
    }
}
