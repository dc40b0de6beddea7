//! Who is silent, and when the others are told so.
//!
//! A leader that is cut off sees everybody fall silent, and come back. To tell thousands of nodes of thousands would cost
//! more than all its other traffic. So nobody is told of silence at once, and of a crowd's silence not before those that
//! come back have had the time to.

use std::time::Duration;

use sublet_policy::placement::NodeNumber;

use super::cluster_status::ClusterNodeState;
use super::ledger::Ledger;
use super::member_list::Participation;

/// A node that has not reported for so long is away.
pub const AWAY_AFTER: Duration = Duration::from_secs(3);

/// A node that has not reported to a new leader after this time is away. So long is a leader in doubt after a crowd was
/// away, too: nodes that dial anew are not told to thousands as absent, and then as back.
pub const EXPECTED_FOR: Duration = Duration::from_secs(10);

/// A node that is away for so long is gone.
pub const GONE_AFTER: Duration = Duration::from_secs(600);

/// The others are told of a node that is away for so long.
pub const LISTED_AFTER: Duration = Duration::from_secs(2);

/// So many nodes at least are a crowd, if they are more than those that report.
pub const SILENT_CROWD_MIN: usize = 32;

/// Doubt lasts no longer than this. A crowd that is away then is told to the others.
pub const DOUBT_MAX: Duration = Duration::from_secs(60);

/// A leader's doubt whether a crowd that is silent is away, or it is cut off itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SilenceDoubt {
    /// When it began, and when a crowd was last away.
    spell: Option<DoubtSpell>,
}

#[derive(Clone, Copy, Debug)]
struct DoubtSpell {
    since: Duration,
    crowd_seen_at: Duration,
}

/// How many nodes are away, and how many report.
#[derive(Clone, Copy, Debug, Default)]
struct SilentCount {
    away: usize,
    reporting: usize,
}

impl SilentCount {
    fn is_crowd(self) -> bool {
        self.away >= SILENT_CROWD_MIN && self.away > self.reporting
    }
}

impl SilenceDoubt {
    /// Returns whether the leader is in doubt, with what it counts now.
    fn holds(&mut self, now: Duration, count: SilentCount) -> bool {
        if count.is_crowd() {
            let since = self.spell.map_or(now, |spell| spell.since);
            self.spell = Some(DoubtSpell {
                since,
                crowd_seen_at: now,
            });
        }
        let Some(spell) = self.spell else {
            return false;
        };
        if now >= spell.crowd_seen_at + EXPECTED_FOR {
            self.spell = None;
            return false;
        }
        now < spell.since + DOUBT_MAX
    }
}

impl Ledger {
    /// Who has not reported for long is away, and gone after a while.
    pub(super) fn find_silent(&mut self, now: Duration) {
        for n in 0..self.nodes.len() {
            let node = &self.nodes[n];
            let silent = now.saturating_sub(node.heard_at);
            let next = match node.state {
                ClusterNodeState::Active | ClusterNodeState::Leaving if silent >= AWAY_AFTER => {
                    ClusterNodeState::Away
                }
                ClusterNodeState::Expected if silent >= EXPECTED_FOR => ClusterNodeState::Away,
                ClusterNodeState::Away if now.saturating_sub(node.since) >= GONE_AFTER => {
                    ClusterNodeState::Gone
                }
                _ => continue,
            };
            self.change_state(now, NodeNumber(n as u32), next);
        }
    }

    /// Puts those that are away on the list of who takes no part, unless the leader is in doubt.
    pub(super) fn list_silent(&mut self, now: Duration) {
        let mut count = SilentCount::default();
        for node in &self.nodes {
            match node.state {
                ClusterNodeState::Away => count.away += 1,
                ClusterNodeState::Active | ClusterNodeState::Leaving => count.reporting += 1,
                ClusterNodeState::Expected | ClusterNodeState::Gone => {}
            }
        }
        if self.doubt.holds(now, count) {
            return;
        }
        let is_listed = |state, since| {
            state == ClusterNodeState::Away && now.saturating_sub(since) >= LISTED_AFTER
        };
        let away = self
            .nodes
            .iter()
            .filter(|node| is_listed(node.state, node.since));
        for node in away {
            self.members.set(&node.name, Participation::StaysOut);
        }
    }
}
