//! The order in which blocks go when memory is released.

use std::collections::HashSet;

use sublet_types::ReleaseMode;

use crate::arena::{Arena, BlockId};

/// A block that may go, and what is known of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) block: BlockId,
    /// Which one of all that were ever opened it is.
    pub(crate) age: u64,
    pub(crate) heat: u32,
    /// How much in it is alive: the engine's own measure.
    pub(crate) live: u32,
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

/// The order in which these go: where whole blocks are dropped, what cost least hits and least content first; where what is alive in
/// them is moved, what is emptied with the least work.
pub(crate) fn release_order(
    mut candidates: Vec<Candidate>,
    mode: ReleaseMode,
    luck: u64,
) -> Vec<BlockId> {
    match mode {
        ReleaseMode::Fast => candidates.sort_by_key(by_cost),
        ReleaseMode::Ordered => candidates.sort_by_key(|block| (block.live, block.heat)),
        ReleaseMode::Random => shuffle(&mut candidates, luck | 1),
        ReleaseMode::Scra => {
            let mut cheapest = candidates.clone();
            cheapest.sort_by_key(by_cost);
            candidates.sort_by_key(|block| block.age);
            candidates = alternating(&candidates, &cheapest);
        }
    }
    candidates.iter().map(|block| block.block).collect()
}

fn by_cost(candidate: &Candidate) -> (u32, u32) {
    (candidate.heat, candidate.live)
}

fn shuffle<T>(blocks: &mut [T], mut luck: u64) {
    for at in (1..blocks.len()).rev() {
        // xorshift64: luck, not secrecy
        luck ^= luck << 13;
        luck ^= luck >> 7;
        luck ^= luck << 17;
        blocks.swap(at, luck as usize % (at + 1));
    }
}

/// The blocks of two orders in turn, each block once.
fn alternating(a: &[Candidate], b: &[Candidate]) -> Vec<Candidate> {
    let mut seen = HashSet::new();
    let both = a.iter().zip(b).flat_map(|(a, b)| [*a, *b]);
    both.filter(|candidate| seen.insert(candidate.block))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks by number, each with age, heat and what is alive in it.
    fn order(facts: &[(u64, u32, u32)], mode: ReleaseMode, luck: u64) -> Vec<u32> {
        let candidate = |(n, (age, heat, live)): (usize, &(u64, u32, u32))| Candidate {
            block: BlockId(n as u32),
            age: *age,
            heat: *heat,
            live: *live,
        };
        let candidates = facts.iter().enumerate().map(candidate).collect();
        let order = release_order(candidates, mode, luck);
        order.iter().map(|block| block.0).collect()
    }

    const FACTS: [(u64, u32, u32); 4] = [(4, 9, 1), (3, 0, 7), (2, 0, 3), (1, 5, 2)];

    #[test]
    fn whole_blocks_go_by_hits_and_then_by_what_is_in_them() {
        assert_eq!(order(&FACTS, ReleaseMode::Fast, 0), [2, 1, 3, 0]);
    }

    #[test]
    fn blocks_that_are_emptied_go_by_the_work_that_it_takes() {
        assert_eq!(order(&FACTS, ReleaseMode::Ordered, 0), [0, 3, 2, 1]);
    }

    #[test]
    fn the_oldest_and_the_least_hit_go_in_turn_and_each_once() {
        assert_eq!(order(&FACTS, ReleaseMode::Scra, 0), [3, 2, 1, 0]);
    }

    #[test]
    fn luck_decides_where_it_is_to_and_loses_none() {
        let facts = [(0, 0, 0); 32];
        let mut one = order(&facts, ReleaseMode::Random, 1);
        assert_ne!(one, order(&facts, ReleaseMode::Random, 7));
        one.sort_unstable();
        assert_eq!(one, (0..32).collect::<Vec<u32>>());
    }
}
