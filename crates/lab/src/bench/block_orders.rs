//! Orders in which Mortar gives up whole blocks, as published. The daemon has none of them.

use sublet_sim::rng::SimRng;
use sublet_store::ReleaseCandidate;

use super::shuffle::shuffle;

/// SCRA: the oldest and the least hit block take turns.
pub(super) fn scra(blocks: &mut [ReleaseCandidate], _seed: u64) {
    alternate(blocks, |block| block.age, |block| (block.heat, block.live));
}

/// FCRA: a random order.
pub(super) fn random(blocks: &mut [ReleaseCandidate], seed: u64) {
    shuffle(blocks, &mut SimRng::seeded(seed));
}

/// Takes the first of two orders in turn, and each block once.
fn alternate<T: Copy, A: Ord, B: Ord>(
    blocks: &mut [T],
    one: impl Fn(&T) -> A,
    other: impl Fn(&T) -> B,
) {
    let mut by_one: Vec<usize> = (0..blocks.len()).collect();
    let mut by_other = by_one.clone();
    by_one.sort_by_key(|at| one(&blocks[*at]));
    by_other.sort_by_key(|at| other(&blocks[*at]));
    let mut was_taken = vec![false; blocks.len()];
    let in_turn = by_one.into_iter().zip(by_other);
    let in_turn = in_turn.flat_map(|(one, other)| [one, other]);
    let each_once = in_turn.filter(|at| !std::mem::replace(&mut was_taken[*at], true));
    let ordered: Vec<T> = each_once.map(|at| blocks[at]).collect();
    blocks.copy_from_slice(&ordered);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_and_the_least_hit_go_in_turn_and_each_once() {
        // A name, the age, the heat.
        let mut blocks = [("a", 4, 9), ("b", 3, 1), ("c", 2, 0), ("d", 1, 5)];
        alternate(&mut blocks, |block| block.1, |block| block.2);
        assert_eq!(blocks.map(|block| block.0), ["d", "c", "b", "a"]);
    }
}
