//! A cool-off: a tenant that just gave does not get back at once, and one that just got does not give.

use std::collections::BTreeMap;

use sublet_types::{Second, Snapshot, TenantId};

use super::Contender;
use crate::decision::Proposal;

/// Smaller changes move no memory: this is a block, in pages.
const MOVED_MIN: u64 = 512;

/// In which direction memory went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TransferDirection {
    Gave,
    Got,
}

/// In which direction each tenant's memory went last, and when.
#[derive(Clone, Debug)]
pub(super) struct Cooldown {
    secs: u32,
    last: BTreeMap<TenantId, (Second, TransferDirection)>,
}

impl Cooldown {
    pub(super) fn of(secs: u32) -> Cooldown {
        Cooldown {
            secs,
            last: BTreeMap::new(),
        }
    }

    /// Keeps tenants that gave from getting, and tenants that got from giving, until that is long enough ago.
    pub(super) fn restrict(&self, snapshot: &Snapshot, contenders: &mut [Contender]) {
        for (tenant, contender) in snapshot.tenants.iter().zip(contenders) {
            let (Some((at, way)), Some(target)) = (self.last.get(&tenant.id), tenant.target) else {
                continue;
            };
            if snapshot.at.0.saturating_sub(at.0) >= self.secs {
                continue;
            }
            match way {
                TransferDirection::Gave => {
                    contender.most = contender.most.min(target.0.max(contender.start))
                }
                TransferDirection::Got => {
                    contender.start = contender.start.max(target.0.min(contender.most))
                }
            }
        }
    }

    /// Remembers what the proposals move.
    pub(super) fn record(&mut self, snapshot: &Snapshot, proposals: &[Proposal]) {
        for (tenant, proposal) in snapshot.tenants.iter().zip(proposals) {
            let (Some(before), Some(after)) = (tenant.target, proposal.pages) else {
                continue;
            };
            if before.0.abs_diff(after.0) >= MOVED_MIN {
                let way = if after < before {
                    TransferDirection::Gave
                } else {
                    TransferDirection::Got
                };
                self.last.insert(tenant.id, (snapshot.at, way));
            }
        }
        let is_there = |id: &TenantId| snapshot.tenants.iter().any(|tenant| tenant.id == *id);
        self.last.retain(|id, _| is_there(id));
    }
}
