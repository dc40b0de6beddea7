//! Tenants of pages. Each has a client in front that keeps its hottest pages itself, as a guest's page cache does, and
//! puts the pages that leave it.

use sublet_types::{
    Pages, PoolFlags, ShrinkMode, TenantId, TenantSettings, Weight, WindowEviction,
};

use super::{MissCounts, SharingError, TenantTrace, TraceSet, policy, requests, second_of};
use crate::eviction::AnyEviction;
use crate::machine::lru_map::LruMap;
use crate::machine::shadowed_tier::ShadowedTier;
use crate::machine::tier::{PageStamp, PoolKind, Tier, TierGetOutcome, TierPage};
use crate::machine::tier_store::{StoreShape, StoreTenant, StoreTier};
use crate::traces::EXTENT_PAGES;
use crate::virtual_time::{VirtualDuration, VirtualInstant};

/// A client keeps this much of what its trace names, in percent.
const CLIENT_PERCENT: u64 = 2;

/// Replays a set under a policy (`mrc gain=3`). Returns each tenant's counts.
///
/// # Errors
///
/// There is no such policy, or no memory for the store.
pub fn play_pages(
    set: &TraceSet,
    written: &str,
    eviction: AnyEviction,
    seed: u64,
) -> Result<Vec<MissCounts>, SharingError> {
    let footprints: Vec<u64> = set.streams.iter().map(TenantTrace::footprint).collect();
    let total = footprints.iter().sum::<u64>() as f64 * set.percent / 100.0;
    let mut tier = tier(set, Pages(total as u64), eviction, seed)?;
    let mut shadowed = ShadowedTier::of(&mut tier);
    let mut policy = policy(written)?;
    let mut clients: Vec<PageClient> = footprints
        .iter()
        .map(|pages| PageClient::of(*pages))
        .collect();
    let mut last = 0;
    for (n, request) in (0..).zip(requests(set)) {
        let now = VirtualInstant::START + VirtualDuration::secs(u64::from(second_of(n).0));
        if second_of(n).0 != last {
            last = second_of(n).0;
            second(&mut shadowed, policy.as_mut(), now);
        }
        clients[request.tenant].request(page(request.tenant, request.id), &mut shadowed, now);
    }
    Ok(clients.iter().map(|client| client.counts).collect())
}

fn tier(
    set: &TraceSet,
    total: Pages,
    eviction: AnyEviction,
    seed: u64,
) -> Result<StoreTier, SharingError> {
    let tenant = |n: usize| StoreTenant {
        settings: TenantSettings {
            name: format!("tenant-{n}").parse().expect("a name"),
            weight: Weight::default(),
            floor: None,
            ceiling: None,
        },
        swap_pages: 1,
    };
    let tenants: Vec<StoreTenant> = (0..set.streams.len()).map(tenant).collect();
    let shape = StoreShape {
        total,
        most: total,
        eviction,
        shards: 1,
        shrinking: ShrinkMode::Active,
        files: PoolFlags::default(),
        windows: WindowEviction::default(),
        seed,
    };
    Ok(StoreTier::of(&shape, &tenants)?)
}

/// Lets the policy decide, and does the chores.
fn second(tier: &mut dyn Tier, policy: &mut dyn sublet_policy::Policy, now: VirtualInstant) {
    tier.chores(now);
    let snapshot = tier.snapshot(now);
    for target in policy.decide(&snapshot).targets.tenants {
        tier.set_target(target.id, target.pages, now);
        tier.set_guard(target.id, target.guard, target.giving);
    }
}

fn page(tenant: usize, id: u64) -> TierPage {
    TierPage {
        tenant: TenantId(tenant as u16),
        pool: PoolKind::File,
        object: id / EXTENT_PAGES,
        index: (id % EXTENT_PAGES) as u32,
    }
}

/// A client with its own memory.
struct PageClient {
    pages: LruMap<TierPage, ()>,
    most: usize,
    counts: MissCounts,
}

impl PageClient {
    fn of(footprint: u64) -> PageClient {
        PageClient {
            pages: LruMap::default(),
            most: (footprint * CLIENT_PERCENT / 100).max(1) as usize,
            counts: MissCounts::default(),
        }
    }

    fn request(&mut self, page: TierPage, tier: &mut dyn Tier, now: VirtualInstant) {
        if self.pages.touch(&page).is_some() {
            return;
        }
        self.counts.gets += 1;
        if tier.get(page, now) == TierGetOutcome::Miss {
            self.counts.misses += 1;
        }
        self.pages.insert(page, ());
        if self.pages.len() > self.most
            && let Some((cold, ())) = self.pages.pop_coldest()
        {
            tier.put(cold, PageStamp::of(cold, 0), now);
        }
    }
}
