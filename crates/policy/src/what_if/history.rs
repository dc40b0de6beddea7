//! The last hour, a record every two minutes.

use std::collections::VecDeque;

use sublet_types::{Second, TenantId};

use super::{HistoryRecord, TenantRecord};

/// Time from one record to the next, in seconds: two half-lives of a curve.
pub const EVERY_SECS: u32 = 120;

/// Records are forgotten after an hour.
pub const KEPT_SECS: u32 = 3600;

/// The most bytes that all records take. The oldest go before that is exceeded.
pub const HISTORY_BYTES_MAX: usize = 16 << 20;

/// Records of the last hour.
#[derive(Clone, Debug, Default)]
pub struct History {
    records: VecDeque<HistoryRecord>,
}

impl History {
    /// Returns whether it is time for another record.
    pub fn is_due(&self, now: Second) -> bool {
        let last = self.records.back();
        last.is_none_or(|last| now.0 >= last.at.0.saturating_add(EVERY_SECS))
    }

    /// Keeps a record.
    pub fn keep(&mut self, record: HistoryRecord) {
        let now = record.at;
        self.records.push_back(record);
        while self.records.len() > 1 && self.is_too_much(now) {
            self.records.pop_front();
        }
    }

    fn is_too_much(&self, now: Second) -> bool {
        let is_old = |first: &HistoryRecord| now.0.saturating_sub(first.at.0) > KEPT_SECS;
        let bytes: usize = self.records.iter().map(bytes).sum();
        self.records.front().is_some_and(is_old) || bytes > HISTORY_BYTES_MAX
    }

    /// Forgets all tenants but those that `stays` accepts: a new tenant may have the number of one that is gone.
    pub fn retain(&mut self, stays: impl Fn(TenantId) -> bool) {
        for record in &mut self.records {
            record.tenants.retain(|party| stays(party.id));
        }
    }

    /// The records that were kept, the oldest first, and `now` last.
    pub fn with(&self, now: HistoryRecord) -> Vec<HistoryRecord> {
        let kept = self.records.iter().filter(|record| record.at < now.at);
        kept.cloned().chain([now.clone()]).collect()
    }
}

fn bytes(record: &HistoryRecord) -> usize {
    let of_party = |party: &TenantRecord| {
        let points = party
            .hit_curve
            .as_ref()
            .map_or(0, |hit_curve| hit_curve.bytes());
        size_of::<TenantRecord>() + points
    };
    size_of::<HistoryRecord>() + record.tenants.iter().map(of_party).sum::<usize>()
}
