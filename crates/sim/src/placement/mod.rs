//! Placement policies side by side: a cluster of nodes whose needs have peaks, and a leader that advises each second.
//!
//! The nodes hold numbers of blocks and no pages. A node takes its own blocks back first when it needs them, and gives
//! back what it does not need. The leader sees what the nodes reported a second ago. The lender decides.

mod cluster;
mod node;
mod outcome;
mod report;
mod scene;
#[cfg(test)]
mod tests;

pub use outcome::PlacementOutcome;
pub use report::{PlacementReport, PlacementRow};
pub use scene::PlacementScene;

use sublet_policy::placement::PlacementChoice;

/// Plays a scene under a policy.
pub fn play(scene: PlacementScene, choice: &PlacementChoice, seed: u64) -> PlacementOutcome {
    let mut cluster = cluster::Cluster::new(scene, seed);
    (0..scene::SECONDS).for_each(|_| cluster.second(choice));
    cluster.into_outcome()
}
