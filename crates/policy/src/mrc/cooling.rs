//! A cool-off: who just gave does not get back at once, nor does who just got give.

use std::collections::BTreeMap;

use sublet_types::{Second, Snapshot, TenantId};

use super::Seat;
use crate::decision::Proposal;

/// Smaller changes move no memory: a block.
const MOVED_MIN: u64 = 512;

/// Which way memory went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Gave,
    Got,
}

/// Which way each tenant's memory went last, and when.
#[derive(Clone, Debug)]
pub(super) struct Cooling {
    secs: u32,
    last: BTreeMap<TenantId, (Second, Way)>,
}

impl Cooling {
    pub(super) fn of(secs: u32) -> Cooling {
        Cooling {
            secs,
            last: BTreeMap::new(),
        }
    }

    /// Keeps who gave from getting, and who got from giving, until that is long enough ago.
    pub(super) fn bind(&self, snapshot: &Snapshot, seats: &mut [Seat]) {
        for (tenant, seat) in snapshot.tenants.iter().zip(seats) {
            let (Some((at, way)), Some(target)) = (self.last.get(&tenant.id), tenant.target) else {
                continue;
            };
            if snapshot.at.0.saturating_sub(at.0) >= self.secs {
                continue;
            }
            match way {
                Way::Gave => seat.most = seat.most.min(target.0.max(seat.start)),
                Way::Got => seat.start = seat.start.max(target.0.min(seat.most)),
            }
        }
    }

    /// Remembers what is to be moved.
    pub(super) fn note(&mut self, snapshot: &Snapshot, proposals: &[Proposal]) {
        for (tenant, proposal) in snapshot.tenants.iter().zip(proposals) {
            let (Some(before), Some(after)) = (tenant.target, proposal.pages) else {
                continue;
            };
            if before.0.abs_diff(after.0) >= MOVED_MIN {
                let way = if after < before { Way::Gave } else { Way::Got };
                self.last.insert(tenant.id, (snapshot.at, way));
            }
        }
        let is_there = |id: &TenantId| snapshot.tenants.iter().any(|tenant| tenant.id == *id);
        self.last.retain(|id, _| is_there(id));
    }
}
