//! Traces of a host's free memory over time.

use std::io::Read;

use sublet_types::Bytes;

use super::compression;
use super::faults::{TraceError, TraceFault, TraceName, TracePosition};
use super::records::LineReader;
use crate::virtual_time::{VirtualDuration, VirtualInstant};

/// The format of a host-memory trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostFormat {
    /// `t_s,h0,h1,…`, then a row `cap_MiB` of the hosts' sizes, then seconds and free MiB.
    Bitbrains,
    /// Alibaba 2018, `machine_usage`: machine, second, CPU %, memory %, … The trace does not tell the machines' size,
    /// so it is given here.
    Alibaba {
        /// The memory of a machine.
        memory: Bytes,
    },
}

/// A host's free memory from one instant on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostSample {
    /// The time since the trace's beginning.
    pub at: VirtualInstant,
    /// What was free.
    pub free: Bytes,
}

/// One host's free memory over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostSeries {
    /// Samples in the order of time.
    pub samples: Vec<HostSample>,
}

/// The most samples of a series: one every 30 seconds for a year.
const SAMPLES_MAX: usize = 1 << 20;

impl HostSeries {
    /// Reads one host of a trace, and ignores the rows of others.
    ///
    /// # Errors
    ///
    /// The host is not in the trace, or a row does not follow the format.
    pub fn read(
        name: &str,
        format: HostFormat,
        host: &str,
        bytes: impl Read + 'static,
    ) -> Result<HostSeries, TraceError> {
        let mut samples = HostSeries::rows(name, format, host, bytes)?
            .take(SAMPLES_MAX)
            .collect::<Result<Vec<HostSample>, TraceError>>()?;
        samples.sort_by_key(|sample| sample.at);
        let start = samples
            .first()
            .map_or(VirtualInstant::START, |first| first.at);
        for sample in &mut samples {
            sample.at = VirtualInstant(sample.at.0 - start.0);
        }
        match samples.is_empty() {
            true => Err(no_host(&TraceName::named(name), host)),
            false => Ok(HostSeries { samples }),
        }
    }

    /// The rows of one host as they come, in the file's order and time.
    ///
    /// # Errors
    ///
    /// The header does not name this host, or the head of a compressed file is damaged.
    pub fn rows(
        name: &str,
        format: HostFormat,
        host: &str,
        bytes: impl Read + 'static,
    ) -> Result<Box<dyn Iterator<Item = Result<HostSample, TraceError>>>, TraceError> {
        let source = TraceName::named(name);
        let bytes = compression::reader(&source, bytes)?;
        let mut lines = LineReader::of(source, bytes);
        let columns = match format {
            HostFormat::Bitbrains => bitbrains_columns(&mut lines, host)?,
            HostFormat::Alibaba { .. } => HostColumns { time: 1, memory: 3 },
        };
        let host = host.to_owned();
        Ok(Box::new(std::iter::from_fn(move || {
            next_row(&mut lines, format, columns, &host).transpose()
        })))
    }

    /// What is free at `at`: the sample before it, or the first one before the first.
    pub(crate) fn free_at(&self, at: VirtualInstant) -> Bytes {
        let after = self.samples.partition_point(|sample| sample.at <= at);
        self.samples
            .get(after.saturating_sub(1))
            .map_or(Bytes::ZERO, |sample| sample.free)
    }

    /// The least that is ever free.
    pub fn least(&self) -> Bytes {
        let free = self.samples.iter().map(|sample| sample.free);
        free.min().unwrap_or(Bytes::ZERO)
    }

    /// The most that is ever free.
    pub fn most(&self) -> Bytes {
        let free = self.samples.iter().map(|sample| sample.free);
        free.max().unwrap_or(Bytes::ZERO)
    }

    /// The same series in `1/speed` of the time, scaled so that its peak is `peak`.
    pub(crate) fn condensed(mut self, speed: f64, peak: Option<Bytes>) -> HostSeries {
        let most = self.samples.iter().map(|sample| sample.free.0).max();
        let scale = match (peak, most) {
            (Some(peak), Some(most)) if most > 0 => peak.0 as f64 / most as f64,
            _ => 1.0,
        };
        for sample in &mut self.samples {
            sample.at = VirtualInstant((sample.at.0 as f64 / speed) as u64);
            sample.free = Bytes((sample.free.0 as f64 * scale) as u64);
        }
        self
    }
}

#[derive(Clone, Copy, Debug)]
struct HostColumns {
    time: usize,
    memory: usize,
}

fn no_host(source: &TraceName, host: &str) -> TraceError {
    let fault = TraceFault::Field {
        field: "host",
        value: host.to_owned(),
        wanted: "the name of a host of this trace, as h0 (bitbrains) or m_1932 (alibaba)",
        format: "host memory",
    };
    source.wrong(TracePosition::Line(1), fault)
}

fn bitbrains_columns<R: Read>(
    lines: &mut LineReader<R>,
    host: &str,
) -> Result<HostColumns, TraceError> {
    lines.advance()?;
    let column = lines.text().split(',').position(|name| name == host);
    match column {
        Some(memory) if memory > 0 => Ok(HostColumns { time: 0, memory }),
        _ => Err(no_host(&lines.source, host)),
    }
}

fn next_row<R: Read>(
    lines: &mut LineReader<R>,
    format: HostFormat,
    columns: HostColumns,
    host: &str,
) -> Result<Option<HostSample>, TraceError> {
    while lines.advance()? {
        let cells: Vec<&str> = lines.text().split(',').collect();
        let is_ours = match format {
            HostFormat::Bitbrains => cells[0] != "cap_MiB",
            HostFormat::Alibaba { .. } => {
                cells[0] == host && cells.get(columns.memory) != Some(&"")
            }
        };
        if is_ours {
            return sample(&cells, format, columns)
                .map(Some)
                .map_err(|fault| lines.wrong(fault));
        }
    }
    Ok(None)
}

fn sample(
    cells: &[&str],
    format: HostFormat,
    columns: HostColumns,
) -> Result<HostSample, TraceFault> {
    let seconds = number("time", cells.get(columns.time))?;
    let amount = number("memory", cells.get(columns.memory))?;
    let free = match format {
        HostFormat::Bitbrains => Bytes((amount * (1u64 << 20) as f64) as u64),
        HostFormat::Alibaba { memory } => {
            Bytes((memory.0 as f64 * (100.0 - amount).max(0.0) / 100.0) as u64)
        }
    };
    Ok(HostSample {
        at: VirtualInstant::START + VirtualDuration((seconds * 1e9) as u64),
        free,
    })
}

fn number(field: &'static str, cell: Option<&&str>) -> Result<f64, TraceFault> {
    let value = cell.copied().unwrap_or("");
    let number: Option<f64> = value.parse().ok();
    number
        .filter(|number| number.is_finite() && *number >= 0.0)
        .ok_or_else(|| TraceFault::Field {
            field,
            value: value.to_owned(),
            wanted: "a number",
            format: "host memory",
        })
}
