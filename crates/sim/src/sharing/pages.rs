//! Tenants of pages: each has a client in front that keeps its hottest pages itself, as a guest's page cache does, and puts what leaves it.

use sublet_types::{Pages, PoolFlags, Shrinking, TenantId, TenantSettings, Weight, Windows};

use super::{Asked, Set, SharingError, Stream, policy, requests, second_of};
use crate::eviction::AnyEviction;
use crate::machine::recency::Recency;
use crate::machine::shadows::Shadowed;
use crate::machine::tier::{Get, Pool, Stamp, Tier, TierPage};
use crate::machine::tier_store::{StoreShape, StoreTenant, StoreTier};
use crate::traces::EXTENT_PAGES;
use crate::virtual_time::{Moment, Nanos};

/// A client keeps so much of what its trace names, in percent.
const CLIENT_PERCENT: u64 = 2;

/// Plays a set under a policy (`mrc gain=3`). What each tenant came to.
///
/// # Errors
///
/// No such policy; no memory for the store.
pub fn play_pages(
    set: &Set,
    written: &str,
    eviction: AnyEviction,
    seed: u64,
) -> Result<Vec<Asked>, SharingError> {
    let footprints: Vec<u64> = set.streams.iter().map(Stream::footprint).collect();
    let total = footprints.iter().sum::<u64>() as f64 * set.percent / 100.0;
    let mut tier = tier(set, Pages(total as u64), eviction, seed)?;
    let mut shadowed = Shadowed::of(&mut tier);
    let mut policy = policy(written)?;
    let mut clients: Vec<Client> = footprints.iter().map(|pages| Client::of(*pages)).collect();
    let mut last = 0;
    for (n, request) in (0..).zip(requests(set)) {
        let now = Moment::START + Nanos::secs(u64::from(second_of(n).0));
        if second_of(n).0 != last {
            last = second_of(n).0;
            second(&mut shadowed, policy.as_mut(), now);
        }
        clients[request.tenant].ask(page(request.tenant, request.id), &mut shadowed, now);
    }
    Ok(clients.iter().map(|client| client.asked).collect())
}

fn tier(
    set: &Set,
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
        shrinking: Shrinking::Active,
        files: PoolFlags::default(),
        windows: Windows::default(),
        seed,
    };
    Ok(StoreTier::of(&shape, &tenants)?)
}

/// The policy decides, and the chores are done.
fn second(tier: &mut dyn Tier, policy: &mut dyn sublet_policy::Policy, now: Moment) {
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
        pool: Pool::File,
        object: id / EXTENT_PAGES,
        index: (id % EXTENT_PAGES) as u32,
    }
}

/// A client and its own memory.
struct Client {
    pages: Recency<TierPage, ()>,
    most: usize,
    asked: Asked,
}

impl Client {
    fn of(footprint: u64) -> Client {
        Client {
            pages: Recency::default(),
            most: (footprint * CLIENT_PERCENT / 100).max(1) as usize,
            asked: Asked::default(),
        }
    }

    fn ask(&mut self, page: TierPage, tier: &mut dyn Tier, now: Moment) {
        if self.pages.touch(&page).is_some() {
            return;
        }
        self.asked.gets += 1;
        if tier.get(page, now) == Get::Miss {
            self.asked.misses += 1;
        }
        self.pages.insert(page, ());
        if self.pages.len() > self.most
            && let Some((cold, ())) = self.pages.pop_coldest()
        {
            tier.put(cold, Stamp::of(cold, 0), now);
        }
    }
}
