//! What a node wants of others, second by second.

use std::time::Duration;

use sublet_lend::wanted::{ArenaGrowth, WantedMeter};

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
    /// It wants what it refused in the last ten seconds, as the daemon does.
    Refusals(WantedMeter),
}

/// A node at a second.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeLook {
    /// Time since the beginning.
    pub(super) now: Duration,
    /// Pages of the paper that it has refused since the beginning.
    pub(super) refused: u64,
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
            NodeWish::Refusals(meter) => {
                meter.record(look.now, look.refused, ArenaGrowth::Exhausted);
                let in_all = meter.wanted(look.now, look.borrowed, u32::MAX);
                in_all.saturating_sub(look.borrowed)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(wish: &mut NodeWish, secs: u64, refused: u64) -> u32 {
        wish.measure(NodeLook {
            now: Duration::from_secs(secs),
            refused,
            targets_lack: 9,
            borrowed: 40,
        })
    }

    #[test]
    fn each_rule_asks_in_its_own_way() {
        let mut request = NodeWish::Request { refused_before: 0 };
        let requests = [(1, 0), (2, 7), (3, 7), (4, 8)];
        let asked = requests.map(|(secs, refused)| measured(&mut request, secs, refused));
        assert_eq!(asked, [0, 2, 0, 2]);
        assert_eq!(measured(&mut NodeWish::Targets, 1, 5), 9);
        assert_eq!(measured(&mut NodeWish::Nothing, 1, 5), 0);
        let mut refusals = NodeWish::Refusals(WantedMeter::default());
        let refused = [(1, 0), (2, 1024), (3, 1024), (13, 1024)];
        let asked = refused.map(|(secs, refused)| measured(&mut refusals, secs, refused));
        assert_eq!(asked, [0, 2, 2, 0]);
    }
}
