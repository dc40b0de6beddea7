//! This process as the kernel sees it.

use std::fs;
use std::io;

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};
use sublet_frontends::memcached::metrics::CpuTime;
use sublet_types::Bytes;

/// Memory of this process that is in RAM (RSS).
pub fn resident() -> io::Result<Bytes> {
    let text = fs::read_to_string("/proc/self/statm")?;
    let pages = text
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    pages
        .map(|pages| Bytes(pages) * page_size() as u64)
        .ok_or(io::ErrorKind::InvalidData.into())
}

/// Memory of this process in RAM that it shares with others: mapped memfds and files in memory.
pub fn shared() -> io::Result<Bytes> {
    let text = fs::read_to_string("/proc/self/status")?;
    shmem(&text).ok_or(io::ErrorKind::InvalidData.into())
}

fn shmem(status: &str) -> Option<Bytes> {
    let mut lines = status.lines();
    let said = lines.find_map(|line| line.strip_prefix("RssShmem:"))?;
    let kib = said.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(Bytes::kib(kib))
}

/// What monitors ask of any process. Figures that cannot be read are left out.
#[derive(Debug, Default)]
pub(crate) struct ProcessFigures {
    /// Processor time, user and system.
    pub cpu_secs: Option<f64>,
    /// Memory that is in RAM.
    pub resident: Option<Bytes>,
    /// Address space.
    pub address_space: Option<Bytes>,
    /// When the process began.
    pub start_unix_secs: Option<f64>,
    /// Open descriptors.
    pub descriptors: Option<u64>,
    /// The most descriptors that the process may have.
    pub descriptors_max: Option<u64>,
    /// Threads.
    pub threads: Option<u64>,
}

impl ProcessFigures {
    /// They, now.
    pub(crate) fn read() -> ProcessFigures {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let host = fs::read_to_string("/proc/stat").unwrap_or_default();
        let cpu = ticks(&stat).map(|time| time.user_micros + time.system_micros);
        let descriptors = fs::read_dir("/proc/self/fd").map(Iterator::count);
        ProcessFigures {
            cpu_secs: cpu.map(|micros| micros as f64 / 1e6),
            resident: resident().ok(),
            address_space: field(&stat, 23).map(Bytes),
            start_unix_secs: started(&stat, &host),
            // One of them was the list itself.
            descriptors: descriptors.ok().map(|count| count.saturating_sub(1) as u64),
            descriptors_max: getrlimit(Resource::Nofile).current,
            threads: field(&stat, 20),
        }
    }
}

/// Field 22 is in ticks since the host's start.
fn started(stat: &str, host: &str) -> Option<f64> {
    let mut lines = host.lines();
    let host: u64 = lines.find_map(|line| line.strip_prefix("btime ")?.parse().ok())?;
    let since = field(stat, 22)? as f64 / clock_ticks_per_second() as f64;
    Some(host as f64 + since)
}

/// A field of `stat` by its number, from the third on.
fn field(stat: &str, number: usize) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name
        .split_ascii_whitespace()
        .nth(number - 3)?
        .parse()
        .ok()
}

/// Processor time of this process so far.
pub fn cpu_time() -> io::Result<CpuTime> {
    let text = fs::read_to_string("/proc/self/stat")?;
    ticks(&text).ok_or(io::ErrorKind::InvalidData.into())
}

/// Fields 14 and 15. The second field, a name in parentheses, may hold anything.
fn ticks(stat: &str) -> Option<CpuTime> {
    let micros = |ticks: u64| ticks * 1_000_000 / clock_ticks_per_second();
    Some(CpuTime {
        user_micros: field(stat, 14).map(micros)?,
        system_micros: field(stat, 15).map(micros)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory() {
        assert!(resident().expect("readable") > Bytes::kib(100));
    }

    #[test]
    fn this_process_began_before_now_and_has_threads_and_descriptors() {
        let figures = ProcessFigures::read();
        let now = std::time::UNIX_EPOCH
            .elapsed()
            .expect("a clock")
            .as_secs_f64();
        let begun = figures.start_unix_secs.expect("readable");
        assert!(
            begun > now - 86_400.0 && begun <= now + 2.0,
            "{begun} of {now}"
        );
        assert!(figures.threads >= Some(1) && figures.descriptors >= Some(3));
        assert!(figures.address_space > figures.resident && figures.cpu_secs.is_some());
    }

    #[test]
    fn shared_memory_is_counted_in_kib() {
        let status =
            "Name:\tRssShmem: 1 kB\nRssFile:\t  300 kB\nRssShmem:\t  4096 kB\nVmData: 7 kB\n";
        assert_eq!(shmem(status), Some(Bytes::mib(4)));
        assert!(shared().is_ok());
    }

    #[test]
    fn processor_time_is_found_behind_any_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 300 200 0 0 20 0";
        let per_tick = 1_000_000 / clock_ticks_per_second();
        let expected = CpuTime {
            user_micros: 300 * per_tick,
            system_micros: 200 * per_tick,
        };
        assert_eq!(ticks(stat), Some(expected));
    }
}
