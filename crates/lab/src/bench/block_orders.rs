//! Orders in which whole blocks go in Mortar, as published: the daemon has none of them.

use sublet_sim::chance::Chance;
use sublet_store::Candidate;

use super::shuffle::shuffle;

/// SCRA: alternately the oldest and the least hit.
pub(super) fn scra(blocks: &mut [Candidate], _luck: u64) {
    alternate(blocks, |block| block.age, |block| (block.heat, block.live));
}

/// FCRA: at random.
pub(super) fn random(blocks: &mut [Candidate], luck: u64) {
    shuffle(blocks, &mut Chance::seeded(luck));
}

/// Takes the first of two orders in turn, each once.
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
