//! How large everything is that is tried.

use std::path::PathBuf;

use sublet_types::Bytes;

use super::args::Args;
use super::error::PressureError;
use super::vitals;

/// How large everything is.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    /// The `sublet` that is started.
    pub(super) sublet: PathBuf,
    /// The arena, where it is not all that is idle.
    pub(super) arena: Option<Bytes>,
    /// What the program takes of the host.
    pub(super) take: Bytes,
    /// The files that are read again and again.
    pub(super) files: Bytes,
    /// The cgroup's limit.
    pub(super) limit: Bytes,
    pub(super) pairs: usize,
}

/// With this much memory free or less, there is nothing to try.
const FREE_MIN: Bytes = Bytes::mib(512);

impl Scale {
    pub(super) fn of(args: &Args) -> Result<Scale, PressureError> {
        let host = vitals::figures()?;
        let sublet = args.ours.program()?;
        let small = Bytes::gib(1).min(Bytes(host.free.0 / 2)).max(FREE_MIN);
        Ok(if args.small {
            Scale {
                sublet,
                arena: Some(small),
                take: Bytes(small.0 / 2),
                files: Bytes(small.0 / 2),
                limit: small,
                pairs: args.pairs.unwrap_or(3).max(1),
            }
        } else {
            Scale {
                sublet,
                arena: None,
                take: Bytes(host.memory.0 / 2),
                files: Bytes::gib(6).min(Bytes(host.memory.0 / 4)),
                limit: Bytes(host.memory.0 / 2),
                pairs: args.pairs.unwrap_or(11).max(1),
            }
        })
    }
}
