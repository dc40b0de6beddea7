//! The order in which blocks go when memory is released.

use sublet_types::ReleaseMode;

use crate::arena::{Arena, BlockId};

/// A block that may go, and what is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub(crate) block: BlockId,
    /// Which one of all that were ever opened it is.
    pub age: u64,
    /// How much it was hit of late.
    pub heat: u32,
    /// How much in it is alive: the engine's own measure.
    pub live: u32,
}

impl Candidate {
    /// A block with what is alive in it.
    pub(crate) fn new(arena: &Arena, block: BlockId, live: u32) -> Candidate {
        let facts = arena.block(block);
        Candidate {
            block,
            age: facts.sequence(),
            heat: facts.heat(),
            live,
        }
    }
}

/// An order in which whole blocks go: the first of the list goes first. It is given luck, which differs from call to call.
pub type BlockOrder = fn(&mut [Candidate], u64);

/// How blocks are given up.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    /// The coldest of what is in them goes, and the rest is moved together.
    Ordered,
    /// Whole blocks go, in an order.
    Whole(BlockOrder),
}

impl Way {
    pub(crate) fn of(mode: ReleaseMode) -> Way {
        match mode {
            ReleaseMode::Ordered => Way::Ordered,
            ReleaseMode::Fast => Way::Whole(least_cost_first),
        }
    }
}

/// Whole blocks go by what that costs: least hits and least content first.
fn least_cost_first(candidates: &mut [Candidate], _luck: u64) {
    candidates.sort_by_key(|block| (block.heat, block.live));
}

/// Where what is alive in blocks is moved, those go first that are emptied with the least work.
pub(crate) fn least_work_first(candidates: &mut [Candidate]) {
    candidates.sort_by_key(|block| (block.live, block.heat));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is alive in blocks of these heats, in the order in which they go.
    fn order(facts: &[(u32, u32)], sort: impl FnOnce(&mut [Candidate])) -> Vec<u32> {
        let candidate = |(n, (heat, live)): (usize, &(u32, u32))| Candidate {
            block: BlockId(n as u32),
            age: 0,
            heat: *heat,
            live: *live,
        };
        let mut candidates: Vec<Candidate> = facts.iter().enumerate().map(candidate).collect();
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
