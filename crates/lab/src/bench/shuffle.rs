//! Random orders that are the same every time.

use sublet_sim::rng::SimRng;

/// A fixed shuffle of 0 to `count - 1`, so that neighbours in rank are no neighbours in memory.
pub(super) fn shuffled(count: usize, rng: &mut SimRng) -> Vec<u32> {
    let mut places: Vec<u32> = (0..count as u32).collect();
    shuffle(&mut places, rng);
    places
}

/// Puts `places` into a random order.
pub(super) fn shuffle<T>(places: &mut [T], rng: &mut SimRng) {
    for last in (1..places.len()).rev() {
        places.swap(last, rng.below(last as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_loses_nothing() {
        let mut places = shuffled(1000, &mut SimRng::seeded(1));
        assert_ne!(places[..10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        places.sort_unstable();
        assert!(places.iter().copied().eq(0..1000));
    }
}
