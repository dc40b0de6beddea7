//! Whom a borrower asks for how much.

use std::time::Duration;

use crate::ids::PeerId;

/// This many blocks may come from one lender, however few are wanted in all.
pub const FROM_ONE_MIN: u32 = 20;

/// Lenders count as equally rich if the richest has at most this many times what they have. Among them the nearest is
/// asked first.
const RICH_WITHIN: u32 = 2;

/// A lender that can be asked now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LenderCandidate {
    /// The lender.
    pub peer: PeerId,
    /// What it says that it would grant, in blocks.
    pub lendable: u32,
    /// The time of a ping to it and back. `None` before the first.
    pub round_trip: Option<Duration>,
}

/// How much one lender is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LenderShare {
    /// The lender.
    pub peer: PeerId,
    /// The blocks.
    pub blocks: u32,
}

/// Spreads a wish over lenders: at most [`FROM_ONE_MIN`] blocks or a quarter of the wish from one, whichever is more.
pub fn choose_lenders(wish: u32, candidates: &[LenderCandidate]) -> Vec<LenderShare> {
    let from_one_max = FROM_ONE_MIN.max(wish.div_ceil(4));
    let richest = candidates
        .iter()
        .map(|lender| lender.lendable)
        .max()
        .unwrap_or(0);
    let mut lenders: Vec<&LenderCandidate> = candidates
        .iter()
        .filter(|lender| lender.lendable > 0)
        .collect();
    lenders.sort_by_key(|lender| {
        let is_poor = lender.lendable.saturating_mul(RICH_WITHIN) < richest;
        let distance = lender.round_trip.unwrap_or(Duration::MAX);
        (
            is_poor,
            if is_poor { Duration::ZERO } else { distance },
            u32::MAX - lender.lendable,
            lender.peer,
        )
    });
    let mut left = wish;
    let mut shares = Vec::new();
    for lender in lenders {
        let blocks = left.min(from_one_max).min(lender.lendable);
        if blocks > 0 {
            left -= blocks;
            shares.push(LenderShare {
                peer: lender.peer,
                blocks,
            });
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lender(peer: u16, lendable: u32, micros: u64) -> LenderCandidate {
        LenderCandidate {
            peer: PeerId(peer),
            lendable,
            round_trip: Some(Duration::from_micros(micros)),
        }
    }

    fn shares(wish: u32, candidates: &[LenderCandidate]) -> Vec<(u16, u32)> {
        let shares = choose_lenders(wish, candidates);
        shares
            .iter()
            .map(|share| (share.peer.0, share.blocks))
            .collect()
    }

    #[test]
    fn the_near_and_rich_are_asked_first_and_for_a_quarter_each() {
        let lenders = [
            lender(0, 500, 90),
            lender(1, 600, 30),
            lender(2, 200, 10),
            lender(3, 250, 10),
            lender(4, 0, 1),
        ];
        assert_eq!(
            shares(400, &lenders),
            [(1, 100), (0, 100), (3, 100), (2, 100)]
        );
        assert_eq!(shares(15, &lenders), [(1, 15)]);
        assert_eq!(shares(50, &lenders), [(1, 20), (0, 20), (3, 10)]);
        assert_eq!(shares(0, &lenders), []);
        assert_eq!(shares(400, &lenders[4..]), []);
    }

    #[test]
    fn nobody_is_asked_for_more_than_it_has() {
        assert_eq!(
            shares(u32::MAX, &[lender(0, 3, 1), lender(1, 4, 2)]),
            [(0, 3), (1, 4)]
        );
    }
}
