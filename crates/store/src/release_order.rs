//! The order in which a release takes blocks.

use sublet_types::ReleaseMode;

use crate::arena::{Arena, BlockId};

/// A block that a release may take, and what is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleaseCandidate {
    pub(crate) block: BlockId,
    /// The block's number in the order in which blocks were opened.
    pub age: u64,
    /// How much it was hit recently.
    pub heat: u32,
    /// How much of it is alive, in the engine's own measure.
    pub live: u32,
}

impl ReleaseCandidate {
    /// A candidate for a block and what is alive in it.
    pub(crate) fn new(arena: &Arena, block: BlockId, live: u32) -> ReleaseCandidate {
        let facts = arena.block(block);
        ReleaseCandidate {
            block,
            age: facts.sequence(),
            heat: facts.heat(),
            live,
        }
    }
}

/// An order in which whole blocks go. It sorts the list so that the first block goes first. Its second argument is a
/// random number that differs from call to call.
pub type BlockOrder = fn(&mut [ReleaseCandidate], u64);

/// How blocks are given up.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReleaseMethod {
    /// The coldest content goes, and the rest is moved together.
    Ordered,
    /// Whole blocks go, in this order.
    Whole(BlockOrder),
}

impl ReleaseMethod {
    pub(crate) fn of(mode: ReleaseMode) -> ReleaseMethod {
        match mode {
            ReleaseMode::Ordered => ReleaseMethod::Ordered,
            ReleaseMode::Fast => ReleaseMethod::Whole(least_cost_first),
        }
    }
}

/// Sorts whole blocks by cost: those with the fewest hits and the least content first.
fn least_cost_first(candidates: &mut [ReleaseCandidate], _random: u64) {
    candidates.sort_by_key(|block| (block.heat, block.live));
}

/// Sorts blocks whose content is moved: those that take the least work to empty first.
pub(crate) fn least_work_first(candidates: &mut [ReleaseCandidate]) {
    candidates.sort_by_key(|block| (block.live, block.heat));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The live amounts of blocks of these heats, in the order in which the blocks go.
    fn order(facts: &[(u32, u32)], sort: impl FnOnce(&mut [ReleaseCandidate])) -> Vec<u32> {
        let candidate = |(n, (heat, live)): (usize, &(u32, u32))| ReleaseCandidate {
            block: BlockId(n as u32),
            age: 0,
            heat: *heat,
            live: *live,
        };
        let mut candidates: Vec<ReleaseCandidate> =
            facts.iter().enumerate().map(candidate).collect();
        sort(&mut candidates);
        candidates.iter().map(|block| block.block.0).collect()
    }

    const FACTS: [(u32, u32); 4] = [(9, 1), (0, 7), (0, 3), (5, 2)];

    #[test]
    fn whole_blocks_go_by_hits_and_then_by_what_is_in_them() {
        assert_eq!(
            order(&FACTS, |blocks| least_cost_first(blocks, 0)),
            [2, 1, 3, 0]
        );
    }

    #[test]
    fn blocks_that_are_emptied_go_by_the_work_that_it_takes() {
        assert_eq!(order(&FACTS, least_work_first), [0, 3, 2, 1]);
    }
}
