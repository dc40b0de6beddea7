//! Recall: a host that needs memory has it back at once, whoever has borrowed it.

use std::collections::BTreeMap;

use sublet_types::Bytes;

use crate::cluster::ids::NodeNumber;
use crate::cluster::verdict::{ClusterJudge, Finding};
use crate::virtual_time::{VirtualDuration, VirtualInstant};

/// How long a node that runs may take to give memory to its host. Nothing that takes longer than a tick is part of it.
const BACK_WITHIN: VirtualDuration = VirtualDuration::micros(50_000);

/// Remembers since when each host needs memory.
#[derive(Debug, Default)]
pub(in crate::cluster) struct RecallJudge {
    needed: BTreeMap<NodeNumber, VirtualInstant>,
}

impl RecallJudge {
    /// A host needs memory from now on.
    pub(in crate::cluster) fn needed(&mut self, node: NodeNumber, now: VirtualInstant) {
        self.needed.insert(node, now);
    }

    /// The host does not need it any more.
    pub(in crate::cluster) fn over(&mut self, node: NodeNumber) {
        self.needed.remove(&node);
    }

    /// A node that runs holds so much. It may hold `limit`.
    pub(in crate::cluster) fn check(
        &self,
        node: NodeNumber,
        now: VirtualInstant,
        held: Bytes,
        limit: Bytes,
    ) -> Option<Finding> {
        let since = *self.needed.get(&node)?;
        let is_late = held > limit && now > since + BACK_WITHIN;
        is_late.then(|| {
            let what = format!(
                "{} bytes are held and {} may be, {} after the host needed them",
                held.0,
                limit.0,
                now.since(since)
            );
            Finding::of(ClusterJudge::Recall, what)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_back_before_the_next_tick() {
        let (mut judge, node) = (RecallJudge::default(), NodeNumber(3));
        let at = |millis: u64| VirtualInstant::START + VirtualDuration::micros(1000 * millis);
        let check = |judge: &RecallJudge, millis, held| {
            judge.check(node, at(millis), Bytes(held), Bytes(10))
        };
        assert_eq!(check(&judge, 900, 11), None);
        judge.needed(node, at(100));
        assert_eq!(check(&judge, 150, 11), None);
        assert_eq!(check(&judge, 151, 10), None);
        assert!(check(&judge, 151, 11).is_some());
        judge.over(node);
        assert_eq!(check(&judge, 151, 11), None);
    }
}
