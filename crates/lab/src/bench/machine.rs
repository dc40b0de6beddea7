//! The machine that a bench ran on. Without it the figures mean nothing.

use std::fmt;
use std::fs;

use serde::Serialize;
use sublet_types::Bytes;

/// The properties of a machine that affect the figures.
#[derive(Clone, Debug, Serialize)]
pub(super) struct MachineFacts {
    cpu: String,
    cores: usize,
    virtual_machine: bool,
    memory: Bytes,
    swap: Bytes,
    kernel: String,
    huge_pages: String,
    sublet: &'static str,
}

impl MachineFacts {
    /// The facts of this machine. What the kernel does not tell is "unknown".
    pub(super) fn this() -> MachineFacts {
        let cpuinfo = read("/proc/cpuinfo");
        let meminfo = read("/proc/meminfo");
        MachineFacts {
            cpu: field(&cpuinfo, "model name").unwrap_or("unknown").into(),
            cores: std::thread::available_parallelism().map_or(1, |n| n.get()),
            virtual_machine: field(&cpuinfo, "flags")
                .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
            memory: kibibytes(&meminfo, "MemTotal"),
            swap: kibibytes(&meminfo, "SwapTotal"),
            kernel: known(read("/proc/sys/kernel/osrelease").trim()),
            huge_pages: chosen(&read("/sys/kernel/mm/transparent_hugepage/enabled")),
            sublet: env!("CARGO_PKG_VERSION"),
        }
    }
}

impl fmt::Display for MachineFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {} cores{}, {} of memory, {} of swap, Linux {}, huge pages {}, sublet {}",
            self.cpu,
            self.cores,
            if self.virtual_machine {
                " (virtual)"
            } else {
                ""
            },
            self.memory,
            self.swap,
            self.kernel,
            self.huge_pages,
            self.sublet,
        )
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn known(text: &str) -> String {
    String::from(if text.is_empty() { "unknown" } else { text })
}

/// The value of the first `name : value` line.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim())
}

fn kibibytes(meminfo: &str, name: &str) -> Bytes {
    let number = field(meminfo, name).and_then(|value| value.split(' ').next());
    Bytes::kib(number.and_then(|n| n.parse().ok()).unwrap_or(0))
}

/// The word in brackets, as in `always [madvise] never`.
fn chosen(setting: &str) -> String {
    let inside = setting
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    known(inside.map_or("", |(chosen, _)| chosen))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_files_are_read_as_the_kernel_writes_them() {
        let meminfo = "MemTotal:       24683716 kB\nSwapTotal:             0 kB\n";
        assert_eq!(kibibytes(meminfo, "MemTotal"), Bytes::kib(24_683_716));
        assert_eq!(kibibytes(meminfo, "Absent"), Bytes::ZERO);
        assert_eq!(chosen("always [madvise] never\n"), "madvise");
        assert_eq!(chosen(""), "unknown");
        assert_eq!(field("model name\t: X 1\n", "model name"), Some("X 1"));
    }
}
