//! What a node wants of others, second by second.

use std::time::Duration;

use sublet_lend::wanted::{ArenaGrowth, BorrowedBlocks, WantedMeter};

/// How a node knows what it wants of others.
#[derive(Clone, Debug)]
pub(super) enum NodeWish {
    /// It never wants any.
    Nothing,
    /// It makes a request if it refused a put in the last second (*greedy-remote*).
    Request {
        /// The pages that it had refused a second ago.
        refused_before: u64,
    },
    /// It wants what Algorithm 2's targets exceed its memory by.
    Targets,
    /// It wants what its own memory had no room for in the last ten seconds, as the daemon does.
    Overflow(WantedMeter),
}

/// A node at a second. Pages are those of the paper.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeLook {
    /// Time since the beginning.
    pub(super) now: Duration,
    /// Pages that it has refused since the beginning.
    pub(super) refused: u64,
    /// Pages that other nodes took since the beginning.
    pub(super) sent: u64,
    /// Whether its own memory has room.
    pub(super) growth: ArenaGrowth,
    /// What its targets exceed its memory by, in blocks.
    pub(super) targets_lack: u32,
    /// The blocks that it has of others.
    pub(super) borrowed: u32,
}

/// 1000 pages are two blocks.
const REQUEST_BLOCKS: u32 = 2;

impl NodeWish {
    /// The blocks that the node wants beyond those that it has. It is to be called each second.
    pub(super) fn measure(&mut self, look: NodeLook) -> u32 {
        match self {
            NodeWish::Nothing => 0,
            NodeWish::Request { refused_before } => {
                let before = std::mem::replace(refused_before, look.refused);
                match look.refused > before {
                    true => REQUEST_BLOCKS,
                    false => 0,
                }
            }
            NodeWish::Targets => look.targets_lack,
            NodeWish::Overflow(meter) => {
                // The daemon's tenants evict a page whether a lender takes it or not.
                meter.record(look.now, look.refused + look.sent, look.growth);
                let borrowed = BorrowedBlocks {
                    all: look.borrowed,
                    idle: 0,
                };
                let in_all = meter.wanted(look.now, borrowed, u32::MAX);
                in_all.saturating_sub(look.borrowed)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: NodeLook = NodeLook {
        now: Duration::ZERO,
        refused: 0,
        sent: 0,
        growth: ArenaGrowth::Exhausted,
        targets_lack: 9,
        borrowed: 40,
    };

    fn measured(wish: &mut NodeWish, secs: u64, (refused, sent): (u64, u64)) -> u32 {
        wish.measure(NodeLook {
            now: Duration::from_secs(secs),
            refused,
            sent,
            ..LOOK
        })
    }

    #[test]
    fn each_rule_asks_in_its_own_way() {
        let mut request = NodeWish::Request { refused_before: 0 };
        let requests = [(1, (0, 9)), (2, (7, 9)), (3, (7, 99)), (4, (8, 99))];
        let asked = requests.map(|(secs, pages)| measured(&mut request, secs, pages));
        assert_eq!(asked, [0, 2, 0, 2]);
        assert_eq!(measured(&mut NodeWish::Targets, 1, (5, 5)), 9);
        assert_eq!(measured(&mut NodeWish::Nothing, 1, (5, 5)), 0);
    }

    #[test]
    fn what_others_took_is_wanted_again_as_what_was_refused() {
        let mut overflow = NodeWish::Overflow(WantedMeter::default());
        let pages = [
            (1, (0, 0)),
            (2, (512, 512)),
            (3, (512, 1024)),
            (13, (512, 1024)),
        ];
        let asked = pages.map(|(secs, pages)| measured(&mut overflow, secs, pages));
        assert_eq!(asked, [0, 2, 3, 0]);
    }

    #[test]
    fn targets_that_refuse_while_there_is_room_are_no_want() {
        let mut overflow = NodeWish::Overflow(WantedMeter::default());
        let look = NodeLook {
            growth: ArenaGrowth::Possible,
            ..LOOK
        };
        overflow.measure(look);
        let refused = 5120;
        assert_eq!(overflow.measure(NodeLook { refused, ..look }), 0);
    }
}
