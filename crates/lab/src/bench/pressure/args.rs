//! Options of the pressure bench.

use std::time::Duration;

use sublet_types::Bytes;

use super::super::sublet_option::SubletOption;
use super::memory_hog::PageSize;

/// Options of the pressure bench.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::bench) struct Args {
    /// Use a size for test machines: an arena of 1 GiB, three pairs, some ten seconds.
    #[arg(long)]
    pub(super) small: bool,
    /// Only take this much memory, beside whatever runs, and say whether that did harm.
    #[arg(long, value_name = "AMOUNT")]
    pub(super) take: Option<Bytes>,
    /// Keep what was taken for this long, in seconds.
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = seconds)]
    pub(super) keep: Duration,
    /// Touch memory in pages of this size.
    #[arg(long, value_enum, default_value_t = PageSize::Huge)]
    pub(super) pages: PageSize,
    /// Run this many pairs with and without Sublet [default: 11, small: 3].
    #[arg(long)]
    pub(super) pairs: Option<usize>,
    /// Try these only, with commas between [default: all].
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(super) only: Vec<PressurePart>,
    /// Let another daemon borrow all of the arena, instead of filling it with items.
    #[arg(long)]
    pub(super) lent: bool,
    #[command(flatten)]
    pub(super) ours: SubletOption,
}

/// A part of the bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum PressurePart {
    /// A program takes half of the memory.
    Touch,
    /// A program reads the same files again and again.
    Files,
    /// A program takes half of a cgroup's memory.
    Cgroup,
    /// An arena grows beside a container that thrashes at its own limit. Not with `--small`.
    Container,
}

/// Why a time was not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no time: write seconds such as 10s, or minutes such as 2m")]
struct DurationError(String);

fn seconds(text: &str) -> Result<Duration, DurationError> {
    let (digits, unit) = match text.strip_suffix('m') {
        Some(minutes) => (minutes, 60.0),
        None => (text.strip_suffix('s').unwrap_or(text), 1.0),
    };
    let number: Option<f64> = digits.parse().ok();
    number
        .and_then(|number| Duration::try_from_secs_f64(number * unit).ok())
        .ok_or_else(|| DurationError(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_people_do() {
        assert_eq!(seconds("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(seconds("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(seconds("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["", "s", "-1s", "ten", "inf"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
