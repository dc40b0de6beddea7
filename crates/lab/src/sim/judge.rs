//! `sublet-lab sim judge`: the simulated cluster's judges over the history of a live one.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use serde_json::json;
use sublet_sim::cluster::history::{History, HistoryReport};

use super::error::SimError;
use super::run_options::RunOptions;
use crate::exit::Exit;

/// The format of the files.
const FORMAT: &str = r#"Files have a line of JSON for each call. Each client may write its own file.
One clock makes the times of all, in nanoseconds. A call is of pages that follow
each other.

  {"kind": "pool", "pool": "a/disk", "promise": "disk"}
  {"kind": "write", "client": "c", "began": 1, "ended": 5,
   "pool": "a/disk", "page": 7, "wrote": [3, 4]}
  {"kind": "read", "client": "c", "began": 6, "ended": 9,
   "pool": "a/disk", "page": 7, "found": [3, null]}
  {"kind": "flush", "client": "c", "began": 10, "ended": 12,
   "pool": "a/ring", "page": 7, "pages": 2}

Each is one line. A pool is declared before its first call.

promise  "disk": a page is there in version 0 at first, and can always be read
         "taking": a page may vanish, and a hit takes it
         "keeping": a page may vanish, and a hit leaves it
         "persistent": a page that is stored stays until a flush or a later put
wrote    versions; null for a page that was refused: an older one is gone then
found    versions; null for a miss, "damaged" for bytes that nobody wrote, or what
         another page says: {"pool": "b/disk", "page": 9, "version": 1}
ended    null if a write or flush was not answered: it may happen ever after

A read that overlaps a write may see either. The exit code is 1 if a judge
objects, and 2 if a line makes no sense."#;

/// Options of judging.
#[derive(Debug, clap::Args)]
#[command(after_long_help = FORMAT)]
pub(super) struct Args {
    /// Files of the history
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Judges a history.
pub(super) fn run(args: &Args, how: &RunOptions) -> Result<Exit, SimError> {
    let mut history = History::default();
    for path in &args.files {
        let file = path.to_string_lossy().into_owned();
        let opened = File::open(path);
        let bytes = opened.map_err(|cause| SimError::NoHistory {
            file: file.clone(),
            cause,
        })?;
        history.read(&file, bytes)?;
    }
    let report = history.judge();
    let mut out = io::stdout().lock();
    let written = Exit::written(match how.json {
        true => writeln!(out, "{:#}", json_of(&report)),
        false => writeln!(out, "{}", words(&report)),
    });
    Ok(match report.violation {
        None => written,
        Some(violation) => Exit::failed(violation),
    })
}

fn words(report: &HistoryReport) -> String {
    let HistoryReport {
        clients,
        pools,
        calls,
        made,
        read,
        hits,
        violation,
    } = report;
    let end = match violation {
        None => "Each page that came was the right one.",
        Some(_) => "A judge objects.",
    };
    format!(
        "{calls} calls of {clients} clients at {pools} pools: {made} pages written or flushed, {read} read, {hits} of \
         these found. {end}"
    )
}

fn json_of(report: &HistoryReport) -> serde_json::Value {
    let violation = report.violation.as_ref().map(|violation| {
        json!({
            "file": violation.file,
            "line": violation.line,
            "judge": violation.judge.name(),
            "what": violation.what,
        })
    });
    json!({
        "clients": report.clients,
        "pools": report.pools,
        "calls": report.calls,
        "pages_made": report.made,
        "pages_read": report.read,
        "pages_found": report.hits,
        "violation": violation,
    })
}
