//! The sizes of the test.

use std::path::PathBuf;

use sublet_types::Bytes;

use super::args::Args;
use super::daemon::ArenaContent;
use super::error::PressureError;
use super::vitals;

/// The sizes of the test.
#[derive(Clone, Debug)]
pub(super) struct TestScale {
    /// The `sublet` to start.
    pub(super) sublet: PathBuf,
    /// The arena. `None` lets it take all that is idle.
    pub(super) arena: Option<Bytes>,
    /// What fills it.
    pub(super) content: ArenaContent,
    /// What the program takes from the host.
    pub(super) take: Bytes,
    /// The files that are read again and again.
    pub(super) files: Bytes,
    /// The cgroup's limit.
    pub(super) limit: Bytes,
    pub(super) pairs: usize,
}

/// The test needs more free memory than this.
const FREE_MIN: Bytes = Bytes::mib(512);

impl TestScale {
    pub(super) fn of(args: &Args) -> Result<TestScale, PressureError> {
        let host = vitals::figures()?;
        let sublet = args.ours.program()?;
        let content = match args.lent {
            true => ArenaContent::Lent,
            false => ArenaContent::Items,
        };
        let small = Bytes::gib(1).min(Bytes(host.free.0 / 2)).max(FREE_MIN);
        Ok(if args.small {
            TestScale {
                sublet,
                content,
                arena: Some(small),
                take: Bytes(small.0 / 2),
                files: Bytes(small.0 / 2),
                limit: small,
                pairs: args.pairs.unwrap_or(3).max(1),
            }
        } else {
            TestScale {
                sublet,
                content,
                arena: None,
                take: Bytes(host.memory.0 / 2),
                files: Bytes::gib(6).min(Bytes(host.memory.0 / 4)),
                limit: Bytes(host.memory.0 / 2),
                pairs: args.pairs.unwrap_or(11).max(1),
            }
        })
    }
}
