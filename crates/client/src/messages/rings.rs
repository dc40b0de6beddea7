//! The messages about a tenant's rings.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sublet_types::Bytes;

/// All rings of a tenant together. Counts begin when the daemon started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RingStatus {
    /// Connections that are open.
    pub connections: u64,
    /// Restored pools that wait for their program.
    #[serde(default)]
    pub pools_waiting: u64,
    /// Connections that were made.
    pub connections_made: u64,
    /// Connections refused because the listener was full.
    pub refused_full: u64,
    /// Connections refused because their user may not connect.
    pub refused_uid: u64,
    /// Connections refused because the daemon had no memory or descriptor left.
    pub refused_exhausted: u64,
    /// Connections that ended because their ring held garbage, or because their client sent bytes after the greeting.
    pub ended_garbage: u64,
    /// Entries that were answered.
    pub entries: u64,
    /// Counts by verb and outcome. Puts, gets and flushes count pages. Other verbs, and what made no sense, count
    /// entries.
    pub operations: BTreeMap<String, BTreeMap<String, u64>>,
    /// Bytes of pages that were stored.
    pub bytes_stored: Bytes,
    /// Bytes of pages that were fetched.
    pub bytes_fetched: Bytes,
    /// How often the daemon rang a client's doorbell.
    pub bells_rung: u64,
    /// How often a client rang the daemon's doorbell.
    pub bells_heard: u64,
}

impl RingStatus {
    /// How often a verb had an outcome.
    pub fn operation(&self, verb: &str, outcome: &str) -> u64 {
        let outcomes = self.operations.get(verb);
        let count = outcomes.and_then(|outcomes| outcomes.get(outcome));
        count.copied().unwrap_or(0)
    }

    /// How often a verb was requested and made sense.
    pub fn requests(&self, verb: &str) -> u64 {
        let outcomes = self.operations.get(verb).into_iter().flatten();
        let sensible = outcomes.filter(|(outcome, _)| *outcome != "faulty");
        sensible.map(|(_, count)| count).sum()
    }

    /// Connections refused, for whatever reason.
    pub fn refused(&self) -> u64 {
        self.refused_full + self.refused_uid + self.refused_exhausted
    }
}
