//! This process as the kernel sees it.

use std::fs;
use std::io;

use rustix::param::{clock_ticks_per_second, page_size};
use sublet_frontends::memcached::face::CpuTime;
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

/// Processor time of this process so far.
pub fn cpu_time() -> io::Result<CpuTime> {
    let text = fs::read_to_string("/proc/self/stat")?;
    ticks(&text).ok_or(io::ErrorKind::InvalidData.into())
}

/// Fields 14 and 15; the second field, a name in parentheses, may hold anything.
fn ticks(stat: &str) -> Option<CpuTime> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let mut micros = || {
        let ticks: u64 = fields.next()?.parse().ok()?;
        Some(ticks * 1_000_000 / clock_ticks_per_second())
    };
    Some(CpuTime {
        user_micros: micros()?,
        system_micros: micros()?,
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
