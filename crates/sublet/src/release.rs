//! `sublet release`: it gives memory back to the host by hand.

use std::io::{self, Write};
use std::time::Duration;

use sublet_client::messages::{ReleaseReport, ReleaseRequest};
use sublet_types::{Bytes, ReleaseMode, TenantName};

use crate::admin_options::AdminOptions;
use crate::exit::Exit;
use crate::formatting::{format_count, millis};

/// How much to release, and how.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Release this much, such as 2GiB
    amount: Bytes,
    /// Release the coldest items first; hot items are copied together and survive
    #[arg(long, group = "mode")]
    ordered: bool,
    /// Release whole blocks, the least hit first
    #[arg(long, group = "mode")]
    fast: bool,
    /// Release from this tenant only
    #[arg(long, value_name = "NAME")]
    tenant: Option<TenantName>,
    /// Keep the arena from growing back for this long, such as 60s, 5m or 2h
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "0s")]
    hold: Duration,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: AdminOptions,
}

/// Releases memory, and says what was lost.
pub(crate) fn run(args: &Args) -> Exit {
    let request = ReleaseRequest {
        amount: args.amount,
        mode: args.mode(),
        tenant: args.tenant.clone(),
        hold_millis: u64::try_from(args.hold.as_millis()).unwrap_or(u64::MAX),
    };
    let report = match args.daemon.call(|admin| admin.release(&request)) {
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

/// The lost items and pages, as text.
pub(crate) fn lost(items: u64, pages: u64) -> String {
    match pages {
        0 => format_count(items, "item"),
        _ => format!(
            "{} and {}",
            format_count(items, "item"),
            format_count(pages, "page")
        ),
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

/// Parses `90`, `90s`, `5m`, `2h`.
fn parse_duration(text: &str) -> Result<Duration, NotADuration> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let number: u64 = text[..digits].parse().map_err(|_| NotADuration)?;
    let secs = match &text[digits..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err(NotADuration),
    };
    number
        .checked_mul(secs)
        .map(Duration::from_secs)
        .ok_or(NotADuration)
}

/// A text that is no duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write a time such as 60s, 5m or 2h")]
struct NotADuration;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_as_people_write_them() {
        for (text, secs) in [("0", 0), ("90s", 90), ("5m", 300), ("2h", 7200)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs(secs)));
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
            assert_eq!(parse_duration(wrong), Err(NotADuration), "{wrong}");
        }
    }
}
