//! The host's figures, from `/proc` and the cgroups.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sublet_types::{Bytes, HostFigures, PAGE_BYTES, PressureTotals};

use super::cgroup::Cgroups;
use super::host_pressure::{HostPressure, PressureCounters};
use super::limited_cgroups::LimitedCgroups;
use super::proc_file::{ProcFile, entries, field};

/// Counters cost more to read than free memory (29 µs against 8 µs), so they are read at most this often.
const COUNTERS_EVERY: Duration = Duration::from_millis(20);
/// Watermarks and limits change only by hand.
const LIMITS_EVERY: Duration = Duration::from_secs(2);

/// Reads the host's figures: from the kernel, or from a replay of what it once said.
pub trait ReadHost {
    /// The figures at `at`, the time since the daemon's start, which never goes back.
    fn read(&mut self, at: Duration) -> Result<HostFigures, HostReadError>;
}

/// Why the host's figures could not be read.
#[derive(Debug, thiserror::Error)]
pub enum HostReadError {
    /// A file could not be opened or read.
    #[error("cannot read {}: {source}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file lacks what every Linux since 3.14 says.
    #[error("{} has no {key}", path.display())]
    Missing {
        /// Which file.
        path: PathBuf,
        /// The key that is missing.
        key: &'static str,
    },
}

/// This host, through `/proc`.
#[derive(Debug)]
pub struct ProcHost {
    meminfo: ProcFile,
    vmstat: Option<ProcFile>,
    pressure: Option<ProcFile>,
    zoneinfo: Option<ProcFile>,
    cgroups: Cgroups,
    limited: LimitedCgroups,
    wants: HostPressure,
    last: HostFigures,
    counters_at: Option<Duration>,
    limits_at: Option<Duration>,
}

impl ProcHost {
    /// Opens this host's files. Only `meminfo` must be there.
    pub fn open() -> Result<ProcHost, HostReadError> {
        ProcHost::open_in(Path::new("/proc"))
    }

    fn open_in(proc: &Path) -> Result<ProcHost, HostReadError> {
        let path = proc.join("meminfo");
        Ok(ProcHost {
            meminfo: ProcFile::open(&path)
                .map_err(|source| HostReadError::File { path, source })?,
            vmstat: ProcFile::open(proc.join("vmstat")).ok(),
            pressure: ProcFile::open(proc.join("pressure/memory")).ok(),
            zoneinfo: ProcFile::open(proc.join("zoneinfo")).ok(),
            cgroups: Cgroups::of_this_process(proc),
            limited: LimitedCgroups::of_this_host(proc),
            wants: HostPressure::default(),
            last: HostFigures::default(),
            counters_at: None,
            limits_at: None,
        })
    }
}

impl ProcHost {
    /// Reads the counters. While the host misses no memory, no cgroup is read.
    fn read_counters(&mut self, at: Duration) {
        let before = self.wants.counted();
        let mut now = PressureCounters {
            pressure: self.pressure.as_mut().and_then(read_pressure),
            ..before
        };
        read_vmstat(self.vmstat.as_mut(), &mut now);
        let is_missed = now.refaults > before.refaults
            || now.swapped_out > before.swapped_out
            || now.pressure != before.pressure;
        let missed = match is_missed {
            true => self.limited.poll(at, self.last.memory),
            false => self.wants.cgroup_refaults(),
        };
        self.wants.record(at, now, missed);
        self.wants.write_to(&mut self.last);
    }
}

impl ReadHost for ProcHost {
    fn read(&mut self, at: Duration) -> Result<HostFigures, HostReadError> {
        let is_due = |last: Option<Duration>, every| {
            last.is_none_or(|last| at.saturating_sub(last) >= every)
        };
        if is_due(self.limits_at, LIMITS_EVERY) {
            self.limits_at = Some(at);
            self.last.watermark = self.zoneinfo.as_mut().map_or(Bytes::ZERO, read_watermark);
            self.cgroups.read_limits();
        }
        if is_due(self.counters_at, COUNTERS_EVERY) {
            self.counters_at = Some(at);
            self.read_counters(at);
            self.cgroups.read_stats();
        }
        read_meminfo(&mut self.meminfo, &mut self.last)?;
        self.last.cgroup = self.cgroups.tightest(self.last.memory);
        self.last.at = at;
        Ok(self.last)
    }
}

fn read_meminfo(file: &mut ProcFile, figures: &mut HostFigures) -> Result<(), HostReadError> {
    let path = file.path().to_owned();
    let text = match file.read() {
        Ok(text) => text,
        Err(source) => return Err(HostReadError::File { path, source }),
    };
    figures.memory = Bytes::ZERO;
    figures.unwritten = Bytes::ZERO;
    for (key, kib) in entries(text) {
        let amount = Bytes::kib(kib);
        match key {
            b"MemTotal:" => figures.memory = amount,
            b"MemFree:" => figures.free = amount,
            b"MemAvailable:" => figures.available = amount,
            b"Inactive(file):" => figures.inactive_file = amount,
            b"Dirty:" | b"Writeback:" => figures.unwritten += amount,
            b"SwapTotal:" => figures.swap = amount,
            b"SwapFree:" => figures.swap_free = amount,
            _ => {}
        }
    }
    if figures.memory == Bytes::ZERO {
        let key = "MemTotal";
        return Err(HostReadError::Missing { path, key });
    }
    Ok(())
}

fn read_vmstat(file: Option<&mut ProcFile>, figures: &mut PressureCounters) {
    let Some(Ok(text)) = file.map(ProcFile::read) else {
        return;
    };
    (figures.stalls, figures.scanned) = (0, 0);
    for (key, count) in entries(text) {
        match key {
            b"workingset_refault_file" | b"workingset_refault" => figures.refaults = count,
            b"pswpout" => figures.swapped_out = count,
            b"oom_kill" => figures.oom_kills = count,
            b"pgscan_kswapd" | b"pgscan_direct" => figures.scanned += count,
            _ if key.starts_with(b"allocstall") => figures.stalls += count,
            _ => {}
        }
    }
}

fn read_pressure(file: &mut ProcFile) -> Option<PressureTotals> {
    let text = file.read().ok()?;
    let total = |line: &[u8]| field(text, line, b"total=").map(Duration::from_micros);
    Some(PressureTotals {
        some: total(b"some")?,
        full: total(b"full").unwrap_or_default(),
    })
}

/// The sum of the zones' high watermarks. Above it the kernel reclaims nothing.
fn read_watermark(file: &mut ProcFile) -> Bytes {
    let pages = file.read().map_or(0, |text| {
        entries(text)
            .filter(|(key, _)| *key == b"high")
            .map(|(_, pages)| pages)
            .sum()
    });
    Bytes(pages * PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: &str = "MemTotal:       24684092 kB\nMemFree:        1000000 kB\n\
        MemAvailable:   3000000 kB\nInactive(file):   500000 kB\nSwapTotal:             2048 kB\n\
        SwapFree:              1024 kB\nDirty:               100 kB\nWriteback:             20 kB\n";
    const VMSTAT: &str = "nr_free_pages 1\nworkingset_refault_anon 3\nworkingset_refault_file 42\n\
        pswpin 1\npswpout 5\nallocstall_dma 1\nallocstall_normal 2\nallocstall_movable 4\noom_kill 6\n";
    const ZONEINFO: &str = "Node 0, zone      DMA\n  pages free     3840\n        boost    0\n        min      10\n\
        \x20       low      13\n        high     16\n        spanned  4095\n  pagesets\n    cpu: 0\n              count: 0\n\
        \x20             high:  13\nNode 0, zone   Normal\n        high     100\n";

    fn proc_with(files: &[(&str, &str)]) -> tempfile::TempDir {
        let proc = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = proc.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            std::fs::write(path, text).expect("written");
        }
        proc
    }

    #[test]
    fn every_figure_comes_from_its_line() {
        let proc = proc_with(&[
            ("meminfo", MEMINFO),
            ("vmstat", VMSTAT),
            ("zoneinfo", ZONEINFO),
            (
                "pressure/memory",
                "some avg10=0.00 avg60=0.00 avg300=0.00 total=12\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=3\n",
            ),
        ]);
        let mut host = ProcHost::open_in(proc.path()).expect("opened");
        let at = Duration::from_secs(3);
        assert_eq!(
            host.read(at).expect("read"),
            HostFigures {
                at,
                memory: Bytes::kib(24_684_092),
                free: Bytes::kib(1_000_000),
                available: Bytes::kib(3_000_000),
                inactive_file: Bytes::kib(500_000),
                unwritten: Bytes::kib(120),
                watermark: Bytes(116 * PAGE_BYTES),
                swap: Bytes::kib(2048),
                swap_free: Bytes::kib(1024),
                refaults: 42,
                stalls: 7,
                swapped_out: 5,
                oom_kills: 6,
                pressure: Some(PressureTotals {
                    some: Duration::from_micros(12),
                    full: Duration::from_micros(3),
                }),
                cgroup: None,
            }
        );
    }

    #[test]
    fn a_kernel_without_pressure_or_zones_is_read_too() {
        let proc = proc_with(&[("meminfo", MEMINFO)]);
        let mut host = ProcHost::open_in(proc.path()).expect("opened");
        let figures = host.read(Duration::ZERO).expect("read");
        assert_eq!(figures.pressure, None);
        assert_eq!(figures.watermark, Bytes::ZERO);
        assert_eq!(figures.memory, Bytes::kib(24_684_092));
    }

    #[test]
    fn without_meminfo_it_says_which_file() {
        let proc = proc_with(&[]);
        let error = ProcHost::open_in(proc.path()).expect_err("no meminfo");
        assert!(error.to_string().contains("meminfo"), "{error}");
        let proc = proc_with(&[("meminfo", "nothing here\n")]);
        let mut host = ProcHost::open_in(proc.path()).expect("opened");
        let error = host.read(Duration::ZERO).expect_err("no MemTotal");
        assert!(error.to_string().contains("MemTotal"), "{error}");
    }

    #[test]
    fn this_host_is_read() {
        let mut host = ProcHost::open().expect("opened");
        let figures = host.read(Duration::ZERO).expect("read");
        assert!(figures.memory > Bytes::mib(64));
        assert!(figures.free < figures.memory);
    }
}
