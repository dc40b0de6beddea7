//! Calm: no request outlives its time limit.

use crate::cluster::verdict::{ClusterJudge, Finding};
use crate::virtual_time::{VirtualDuration, VirtualInstant};

/// How late a node may notice that a time is over. It looks at each tick.
const SLACK: VirtualDuration = VirtualDuration::micros(300_000);

/// A request that a node waits for.
#[derive(Clone, Copy, Debug)]
pub(in crate::cluster) struct WaitingRequest {
    /// What it is.
    pub(in crate::cluster) what: &'static str,
    /// When it is to be given up.
    pub(in crate::cluster) until: VirtualInstant,
    /// Since when the node runs without a pause.
    pub(in crate::cluster) awake_since: VirtualInstant,
}

impl WaitingRequest {
    /// Returns what is wrong if the request still waits now.
    pub(in crate::cluster) fn check(self, now: VirtualInstant) -> Option<Finding> {
        let latest = self.until.max(self.awake_since) + SLACK;
        (now > latest).then(|| {
            let late = now.since(self.until);
            let what = format!("{} waits {late} longer than it may", self.what);
            Finding::of(ClusterJudge::Calm, what)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_which_the_node_was_stopped_does_not_count() {
        let at = |millis: u64| VirtualInstant::START + VirtualDuration::micros(1000 * millis);
        let read = WaitingRequest {
            what: "a read",
            until: at(10),
            awake_since: at(0),
        };
        assert_eq!(read.check(at(310)), None);
        assert!(read.check(at(311)).is_some());
        let stopped = WaitingRequest {
            awake_since: at(5000),
            ..read
        };
        assert_eq!(stopped.check(at(5300)), None);
        assert!(stopped.check(at(5301)).is_some());
    }
}
