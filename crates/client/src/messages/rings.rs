//! What is said of a tenant's rings.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sublet_types::Bytes;

/// A tenant's rings, all of them together. Counts are since the daemon started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RingStatus {
    /// Connections that are open.
    pub connections: u64,
    /// Restored pools that wait for their program.
    #[serde(default)]
    pub pools_waiting: u64,
    /// Connections that were made.
    pub connections_made: u64,
    /// Connections refused because all places were taken.
    pub refused_full: u64,
    /// Connections refused because of their user.
    pub refused_uid: u64,
    /// Connections refused for want of memory or descriptors.
    pub refused_exhausted: u64,
    /// Connections that ended because their ring held garbage, or their socket chatter.
    pub ended_garbage: u64,
    /// Entries that were answered.
    pub entries: u64,
    /// By verb and outcome: pages put, got and flushed; of the other verbs, and of what made no sense, entries.
    pub operations: BTreeMap<String, BTreeMap<String, u64>>,
    /// Bytes of pages that were stored.
    pub bytes_stored: Bytes,
    /// Bytes of pages that were fetched.
    pub bytes_fetched: Bytes,
    /// Clients that slept and were woken.
    pub bells_rung: u64,
    /// Times that a client woke the daemon.
    pub bells_heard: u64,
}

impl RingStatus {
    /// How often this came of that verb.
    pub fn operation(&self, verb: &str, outcome: &str) -> u64 {
        let outcomes = self.operations.get(verb);
        let count = outcomes.and_then(|outcomes| outcomes.get(outcome));
        count.copied().unwrap_or(0)
    }

    /// All that came of a verb and made sense.
    pub fn asked(&self, verb: &str) -> u64 {
        let outcomes = self.operations.get(verb).into_iter().flatten();
        let sensible = outcomes.filter(|(outcome, _)| *outcome != "faulty");
        sensible.map(|(_, count)| count).sum()
    }

    /// Connections refused, for whatever reason.
    pub fn refused(&self) -> u64 {
        self.refused_full + self.refused_uid + self.refused_exhausted
    }
}
