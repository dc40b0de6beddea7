//! The last hour, a record every two minutes.

use std::collections::VecDeque;

use sublet_types::{Second, TenantId};

use super::{Party, Record};

/// Time from one record to the next, in seconds: two half-lives of a curve.
pub const EVERY_SECS: u32 = 120;

/// Records are forgotten after an hour.
pub const KEPT_SECS: u32 = 3600;

/// What all records take, in bytes, at the most; the oldest go before that.
pub const HISTORY_BYTES_MAX: usize = 16 << 20;

/// Records of the last hour.
#[derive(Clone, Debug, Default)]
pub struct History {
    records: VecDeque<Record>,
}

impl History {
    /// Whether it is time for another record.
    pub fn is_due(&self, now: Second) -> bool {
        let last = self.records.back();
        last.is_none_or(|last| now.0 >= last.at.0.saturating_add(EVERY_SECS))
    }

    /// Keeps one.
    pub fn keep(&mut self, record: Record) {
        let now = record.at;
        self.records.push_back(record);
        while self.records.len() > 1 && self.is_too_much(now) {
            self.records.pop_front();
        }
    }

    fn is_too_much(&self, now: Second) -> bool {
        let is_old = |first: &Record| now.0.saturating_sub(first.at.0) > KEPT_SECS;
        let bytes: usize = self.records.iter().map(bytes).sum();
        self.records.front().is_some_and(is_old) || bytes > HISTORY_BYTES_MAX
    }

    /// Forgets all tenants but these: another may have the number of one that is gone.
    pub fn retain(&mut self, stays: impl Fn(TenantId) -> bool) {
        for record in &mut self.records {
            record.tenants.retain(|party| stays(party.id));
        }
    }

    /// What was kept, the oldest first, and this last.
    pub fn with(&self, now: Record) -> Vec<Record> {
        let kept = self.records.iter().filter(|record| record.at < now.at);
        kept.cloned().chain([now.clone()]).collect()
    }
}

fn bytes(record: &Record) -> usize {
    let of_party = |party: &Party| {
        let rungs = party.ladder.as_ref().map_or(0, |ladder| ladder.bytes());
        size_of::<Party>() + rungs
    };
    size_of::<Record>() + record.tenants.iter().map(of_party).sum::<usize>()
}
