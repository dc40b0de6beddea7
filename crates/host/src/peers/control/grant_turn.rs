//! How much memory is set aside for a borrower before others have their turn.

use std::time::Duration;

use sublet_lend::ids::LentBlock;
use sublet_lend::node::LoanShortfall;

/// The most blocks that are set aside in a turn. Who wants more asks again.
const LENT_A_TURN: u32 = 64;

/// How long a turn sets blocks aside. A block by which the arena grows takes 0.4 ms in huge pages, and several
/// milliseconds in small ones. Meanwhile the node neither hears nor answers anybody.
const LEND_TIME_MAX: Duration = Duration::from_millis(50);

/// Sets aside as many blocks as are asked for, as far as the turn and the host's memory go. Also returns why there are
/// no more, if there are fewer.
pub(super) fn set_aside(
    asked: u32,
    passed: impl Fn() -> Duration,
    mut lend: impl FnMut() -> Option<LentBlock>,
) -> (Vec<LentBlock>, LoanShortfall) {
    let mut blocks = Vec::new();
    while blocks.len() < asked.min(LENT_A_TURN) as usize && passed() < LEND_TIME_MAX {
        let Some(block) = lend() else {
            return (blocks, LoanShortfall::NoMemory);
        };
        blocks.push(block);
    }
    (blocks, LoanShortfall::TurnOver)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// How many blocks a turn sets aside when each takes so long, and there is memory for so many.
    fn lent(asked: u32, millis_each: u64, room: u32) -> (usize, LoanShortfall) {
        let taken = Cell::new(0);
        let lend = || {
            taken.set(taken.get() + 1);
            (taken.get() <= room).then_some(LentBlock {
                block: taken.get(),
                opening: 0,
            })
        };
        let passed = || Duration::from_millis(u64::from(taken.get()) * millis_each);
        let (blocks, shortfall) = set_aside(asked, passed, lend);
        assert!(
            blocks
                .iter()
                .map(|block| block.block)
                .eq(1..=blocks.len() as u32)
        );
        assert!(taken.get() as usize <= blocks.len() + 1, "each is granted");
        (blocks.len(), shortfall)
    }

    #[test]
    fn a_turn_lends_no_more_than_others_can_wait_for() {
        use LoanShortfall::{NoMemory, TurnOver};
        assert_eq!(lent(3, 0, 1000).0, 3);
        assert_eq!(lent(1000, 0, 1000), (64, TurnOver));
        assert_eq!(lent(1000, 0, 7), (7, NoMemory));
        assert_eq!(lent(1000, 4, 1000), (13, TurnOver), "small pages");
        assert_eq!(lent(1000, 400, 1000).0, 1, "somebody gets something");
        assert_eq!(lent(0, 0, 1000).0, 0);
    }
}
