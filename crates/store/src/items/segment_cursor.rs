//! A segment that is being worked through, and the rule for which items survive it.

use super::space_time::ReleaseCutoff;
use crate::arena::BlockId;

/// Which items survive their segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SurvivalRule {
    /// Those with as little space-time as the moving bar demands.
    Moving,
    /// All live ones. The segment is mostly dead, and only dead items go.
    Live,
    /// Those that a release spares.
    Spared(ReleaseCutoff),
}

/// A segment that is being worked through.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentCursor {
    pub(super) block: BlockId,
    /// Where the next record begins.
    pub(super) at: u32,
    pub(super) bar: SurvivalRule,
}

impl SegmentCursor {
    pub(super) fn new(block: BlockId, bar: SurvivalRule) -> SegmentCursor {
        SegmentCursor { block, at: 0, bar }
    }
}
