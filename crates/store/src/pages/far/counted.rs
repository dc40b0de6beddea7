//! Compares what far blocks count with what a walk through their frames finds.

use crate::borrowing::FarFrame;
use crate::frames::FarState;
use crate::pages::PageStore;

/// Pages in far blocks that tenants have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FarPages {
    /// Those that lenders have.
    pub(crate) away: u64,
    /// Those that are in the outbox.
    pub(crate) outbound: u64,
}

impl PageStore {
    /// Checks the count of each far block. Returns how many pages a walk found. Nobody else uses the store meanwhile.
    pub(crate) fn assert_far_counted(&self) -> FarPages {
        let mut all = FarPages::default();
        for block in self.held_far_blocks() {
            let far = self.far.blocks.get(block);
            let mut found = FarPages::default();
            for frame in self.far.blocks.rows_of(block).map(FarFrame) {
                match self.frames.far().state(frame) {
                    FarState::Away => found.away += 1,
                    FarState::Outbound => found.outbound += 1,
                    FarState::Idle | FarState::Free | FarState::Cancelled => {}
                }
            }
            let live = u64::from(far.record.live_items());
            assert_eq!(live, found.away + found.outbound, "in {block:?}: {found:?}");
            all.away += found.away;
            all.outbound += found.outbound;
        }
        all
    }
}
