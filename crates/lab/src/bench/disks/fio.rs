//! fio's NBD engine, and its results.

use std::process::{Command, Stdio};
use std::time::Duration;

use sublet_types::Bytes;

use super::disk_server::DiskServer;
use super::error::BlockError;

/// A way of reading.
pub(in crate::bench) struct FioPattern {
    pub(super) name: &'static str,
    options: &'static [&'static str],
    /// The ratio to the peer that is to be reached.
    pub(super) rate_goal: f64,
    pub(super) cpu_goal: Option<f64>,
}

impl FioPattern {
    /// Zipf reads: some pages are read far more often than others.
    pub(super) const ZIPF: FioPattern = FioPattern {
        name: "4 KiB Zipf, depth 8",
        options: &[
            "--rw=randread",
            "--bs=4k",
            "--iodepth=8",
            "--random_distribution=zipf:1.1",
        ],
        rate_goal: 1.0,
        cpu_goal: None,
    };

    /// Reads of all pages alike, one at a time. Each call draws its pages anew.
    pub(in crate::bench) const UNIFORM_ALONE: FioPattern = FioPattern {
        name: "4 KiB random, depth 1",
        options: &[
            "--rw=randread",
            "--bs=4k",
            "--iodepth=1",
            "--norandommap",
            "--randrepeat=0",
        ],
        ..FioPattern::ZIPF
    };
}

/// Random reads on a slow disk: which pages, and whether each call reads others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bench) enum PlaceChoice {
    /// Some pages are read far more often than others, and each call reads the same ones in the same order.
    SameZipf,
    /// The same law, and each call draws its pages anew.
    FreshZipf,
    /// All pages are read alike, and each call draws its pages anew.
    FreshUniform,
}

impl PlaceChoice {
    /// The reads that are measured.
    pub(in crate::bench) fn measured(self) -> FioPattern {
        match self {
            PlaceChoice::SameZipf => FioPattern::ZIPF,
            PlaceChoice::FreshZipf => FioPattern {
                options: &[
                    "--rw=randread",
                    "--bs=4k",
                    "--iodepth=8",
                    "--random_distribution=zipf:1.1",
                    "--randrepeat=0",
                ],
                ..FioPattern::ZIPF
            },
            PlaceChoice::FreshUniform => FioPattern {
                name: "4 KiB random, depth 8",
                options: &[
                    "--rw=randread",
                    "--bs=4k",
                    "--iodepth=8",
                    "--norandommap",
                    "--randrepeat=0",
                ],
                ..FioPattern::ZIPF
            },
        }
    }

    /// The reads before. Where each call reads other pages, so many are under way that memory fills soon.
    pub(in crate::bench) fn warm_up(self) -> FioPattern {
        match self {
            PlaceChoice::SameZipf => FioPattern::ZIPF,
            PlaceChoice::FreshZipf => FioPattern {
                options: &[
                    "--rw=randread",
                    "--bs=4k",
                    "--iodepth=64",
                    "--random_distribution=zipf:1.1",
                    "--randrepeat=0",
                ],
                ..FioPattern::ZIPF
            },
            PlaceChoice::FreshUniform => FioPattern {
                options: &[
                    "--rw=randread",
                    "--bs=4k",
                    "--iodepth=64",
                    "--norandommap",
                    "--randrepeat=0",
                ],
                ..FioPattern::ZIPF
            },
        }
    }
}

/// The patterns that are read over NBD.
pub(super) const NBD: [FioPattern; 3] = [
    FioPattern {
        name: "4 KiB random, depth 1",
        options: &["--rw=randread", "--bs=4k", "--iodepth=1"],
        rate_goal: 1.3,
        cpu_goal: Some(1.05),
    },
    FioPattern {
        name: "4 KiB random, depth 16",
        options: &["--rw=randread", "--bs=4k", "--iodepth=16"],
        rate_goal: 1.3,
        cpu_goal: Some(0.8),
    },
    FioPattern {
        name: "128 KiB sequential, depth 4",
        options: &["--rw=read", "--bs=128k", "--iodepth=4"],
        rate_goal: 0.9,
        cpu_goal: None,
    },
];

/// The results of a round of reads.
pub(in crate::bench) struct FioRound {
    pub(in crate::bench) requests: f64,
    pub(in crate::bench) per_second: f64,
    pub(super) p99_micros: f64,
}

/// Writes the whole disk, so that all of it is in memory.
pub(super) fn fill(served: &DiskServer, size: Bytes) -> Result<(), BlockError> {
    let options = ["--rw=write", "--bs=1M", "--iodepth=4"];
    call(served, &options, size, None).map(drop)
}

/// Reads for a while.
pub(in crate::bench) fn run(
    served: &DiskServer,
    pattern: &FioPattern,
    size: Bytes,
    time: Duration,
) -> Result<FioRound, BlockError> {
    let found = call(served, pattern.options, size, Some(time))?;
    let read = &found["jobs"][0]["read"];
    let number = |value: &serde_json::Value| {
        let missing = || BlockError::Fio("it does not say what it did".to_owned());
        value.as_f64().ok_or_else(missing)
    };
    Ok(FioRound {
        requests: number(&read["total_ios"])?,
        per_second: number(&read["iops"])?,
        p99_micros: number(&read["clat_ns"]["percentile"]["99.000000"])? / 1e3,
    })
}

/// Reads as many pages as the disk has, this many times.
pub(in crate::bench) fn read_times(
    served: &DiskServer,
    pattern: &FioPattern,
    size: Bytes,
    times: u64,
) -> Result<(), BlockError> {
    let all = format!("--io_size={}", size.0 * times);
    let options = [pattern.options, &[&all]].concat();
    call(served, &options, size, None).map(drop)
}

fn call(
    served: &DiskServer,
    options: &[&str],
    size: Bytes,
    time: Option<Duration>,
) -> Result<serde_json::Value, BlockError> {
    let mut command = Command::new("fio");
    command.args(["--name=bench", "--ioengine=nbd", "--output-format=json"]);
    command.arg(format!("--uri={}", served.uri()));
    command.arg(format!("--size={}", size.0)).args(options);
    if let Some(time) = time {
        command.arg("--time_based");
        command.arg(format!("--runtime={}ms", time.as_millis()));
    }
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| BlockError::Start {
        program: "fio",
        why: error.to_string(),
        package: "fio",
    })?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(BlockError::Fio(why));
    }
    // Some versions print text before the JSON.
    let from = text.find('{').unwrap_or(0);
    serde_json::from_str(&text[from..]).map_err(|error| BlockError::Fio(error.to_string()))
}
