//! A segment that is worked through, and who survives it.

use super::space_time::Cut;
use crate::arena::BlockId;

/// Which items survive their segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bar {
    /// Those with as little space-time as the moving bar demands.
    Moving,
    /// All live ones: the segment is mostly dead, and only the dead go.
    Live,
    /// Those that a release spares.
    Spared(Cut),
}

/// A segment that is being worked through.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    pub(super) block: BlockId,
    /// Where the next record begins.
    pub(super) at: u32,
    pub(super) bar: Bar,
}

impl Source {
    pub(super) fn new(block: BlockId, bar: Bar) -> Source {
        Source { block, at: 0, bar }
    }
}
