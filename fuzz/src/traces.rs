//! Reads bytes in each of the simulator's formats. A wrong input gives an error that names a place, and ends the trace.

use std::io::Cursor;

use sublet_sim::scenario::Scenario;
use sublet_sim::traces::{HostFormat, HostSeries, Trace, TraceFormat};
use sublet_types::Bytes;

/// The most requests that are read from one input. Inputs are small, but their unpacked content may not be.
const ACCESSES_MAX: usize = 1 << 16;

const FORMATS: [&str; 7] = [
    "lis",
    "lis-page",
    "raw32le",
    "i32be",
    "vscsi",
    "oracle-general",
    "csv",
];

/// The endings that tell how a file is compressed.
const PACKINGS: [&str; 4] = ["", ".gz", ".xz", ".zst"];

/// Reads an input. The first byte selects the format of the others.
pub fn read(input: &[u8]) {
    let Some((kind, bytes)) = input.split_first() else {
        return;
    };
    let packing = PACKINGS[usize::from(kind >> 4) % PACKINGS.len()];
    match usize::from(kind & 15) {
        format if format < FORMATS.len() => read_trace(FORMATS[format], packing, bytes),
        7 | 8 => read_host(usize::from(kind & 15), packing, bytes),
        _ => read_scenario(bytes),
    }
}

fn read_trace(format: &str, packing: &str, bytes: &[u8]) {
    let format: Option<TraceFormat> = format.parse().ok();
    let name = format!("fuzz.trace{packing}");
    let Ok(mut trace) = Trace::open(&name, format, Cursor::new(bytes.to_vec())) else {
        return;
    };
    let wrong = trace.by_ref().take(ACCESSES_MAX).find_map(Result::err);
    if let Some(error) = wrong {
        assert!(
            error.to_string().starts_with(&name),
            "an error without a place"
        );
        assert!(
            trace.next().is_none(),
            "a trace that goes on after its error"
        );
    }
}

fn read_host(kind: usize, packing: &str, bytes: &[u8]) {
    let format = match kind {
        7 => HostFormat::Bitbrains,
        _ => HostFormat::Alibaba {
            memory: Bytes::gib(64),
        },
    };
    let name = format!("fuzz.csv{packing}");
    if let Ok(series) = HostSeries::read(&name, format, "h1", Cursor::new(bytes.to_vec())) {
        assert!(series.least() <= series.most());
    }
}

fn read_scenario(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    match Scenario::parse("fuzz.toml", text) {
        Ok(scenario) => assert!(!scenario.machines().is_empty()),
        Err(error) => assert!(error.to_string().starts_with("fuzz.toml, line "), "{error}"),
    }
}
