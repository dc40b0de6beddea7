//! The sets of traces: which tenants share how much memory.

use std::io::{self, Read};

use crate::rng::mixed;
use crate::traces::synthetic::SyntheticTrace;
use crate::traces::{AddressSpace, EXTENT_PAGES, Trace, TraceError};

/// The run is divided into this many parts. A tenant that comes and goes stays for some of them.
const TWELFTHS: f64 = 12.0;
const STAYS: f64 = 7.0;

/// Six traces that share an arena.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TraceSetSpec {
    /// Its name.
    pub name: &'static str,
    /// Files of traces and names of synthetic ones, with a scale if they are larger.
    pub traces: [&'static str; 6],
    /// The arena, in percent of all pages or keys that the traces name.
    pub percent: f64,
    /// Whether the tenants come one after another, and go.
    pub comes_and_goes: bool,
}

const REAL: [&str; 6] = [
    "OLTP.lis.zst",
    "P3.lis.zst",
    "P6.lis.zst",
    "cloudPhysicsIO.vscsi",
    "orm-busy.trace.xz",
    "web12.trace.xz",
];

/// The sets that policies are judged by.
pub static SETS: [TraceSetSpec; 6] = [
    TraceSetSpec {
        name: "six real",
        traces: REAL,
        percent: 10.0,
        comes_and_goes: false,
    },
    TraceSetSpec {
        name: "come and go",
        traces: REAL,
        percent: 10.0,
        comes_and_goes: true,
    },
    TraceSetSpec {
        name: "loop and drift",
        traces: [
            "OLTP.lis.zst",
            "cloudPhysicsIO.vscsi",
            "orm-busy.trace.xz",
            "web07.trace.xz",
            "2 loop",
            "drift",
        ],
        percent: 10.0,
        comes_and_goes: false,
    },
    TraceSetSpec {
        name: "25 %",
        traces: REAL,
        percent: 25.0,
        comes_and_goes: false,
    },
    TraceSetSpec {
        name: "3 %",
        traces: REAL,
        percent: 3.0,
        comes_and_goes: false,
    },
    TraceSetSpec {
        name: "other six",
        traces: [
            "w106.trace.xz",
            "web07.trace.xz",
            "zipf-1.0",
            "zipf+scan",
            "kvcache-c4",
            "graph-c4",
        ],
        percent: 10.0,
        comes_and_goes: false,
    },
];

/// One tenant's requests.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantTrace {
    /// The name of its trace.
    pub name: String,
    /// Pages or keys, one request after another.
    pub ids: Vec<u64>,
    /// When it comes, as a part of the run from 0 to 1.
    pub comes: f64,
    /// When it goes, likewise.
    pub goes: f64,
}

impl TenantTrace {
    /// When request number `n` comes.
    pub(super) fn at(&self, n: usize) -> f64 {
        let way = (n as f64 + 0.5) / self.ids.len() as f64;
        self.comes + way * (self.goes - self.comes)
    }

    /// How many different ids it asks for.
    pub fn footprint(&self) -> u64 {
        self.different().len() as u64
    }

    /// The different ids, in order.
    pub(super) fn different(&self) -> Vec<u64> {
        let mut ids = self.ids.clone();
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}

/// A set that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceSet {
    /// Its name.
    pub name: String,
    /// The arena, in percent of all pages or keys that the traces name.
    pub percent: f64,
    /// The tenants.
    pub streams: Vec<TenantTrace>,
}

/// Why a set could not be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceSetError {
    /// A trace cannot be opened.
    #[error("cannot open {file}: {cause}")]
    File {
        /// The file.
        file: String,
        /// The cause.
        cause: io::Error,
    },
    /// A trace is damaged.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

impl TraceSetSpec {
    /// Reads the traces, up to `most` requests of each.
    ///
    /// # Errors
    ///
    /// A trace cannot be opened, or is damaged.
    pub fn read(
        &self,
        most: usize,
        open: &mut dyn FnMut(&str) -> io::Result<Box<dyn Read>>,
    ) -> Result<TraceSet, TraceSetError> {
        let mut streams = Vec::new();
        for (name, n) in self.traces.iter().zip(0u8..) {
            let comes = match self.comes_and_goes {
                true => f64::from(n) / TWELFTHS,
                false => 0.0,
            };
            let goes = match self.comes_and_goes {
                true => comes + STAYS / TWELFTHS,
                false => 1.0,
            };
            streams.push(TenantTrace {
                name: (*name).to_owned(),
                ids: ids(name, most, open)?,
                comes,
                goes,
            });
        }
        Ok(TraceSet {
            name: self.name.to_owned(),
            percent: self.percent,
            streams,
        })
    }
}

/// The pages that a trace asks for.
fn ids(
    name: &str,
    most: usize,
    open: &mut dyn FnMut(&str) -> io::Result<Box<dyn Read>>,
) -> Result<Vec<u64>, TraceSetError> {
    let wrong = |cause| TraceSetError::File {
        file: name.to_owned(),
        cause,
    };
    let (scale, stem) = match name.split_once(' ') {
        Some((scale, stem)) => (scale.parse().unwrap_or(1), stem),
        None => (1, name),
    };
    if let Ok(made) = stem.parse::<SyntheticTrace>() {
        let mut read = |file: &str| {
            let mut bytes = Vec::new();
            open(&format!("cachelib/{file}"))?.read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let ids = made.ids(scale, &mut read).map_err(wrong)?;
        return Ok(ids.take(most).collect());
    }
    let mut ids = Vec::new();
    for access in Trace::open(name, None, open(name).map_err(wrong)?)? {
        let access = access?;
        let first = match access.space {
            AddressSpace::Device => access.page.object.wrapping_mul(EXTENT_PAGES),
            AddressSpace::Objects => mixed(access.page.object),
        };
        let pages = (0..access.count).map(|n| first.wrapping_add(u64::from(access.page.index + n)));
        ids.extend(pages);
        if ids.len() >= most {
            break;
        }
    }
    ids.truncate(most);
    Ok(ids)
}
