//! A tier that judges watch.

use sublet_types::{GiveWayOrder, Pages, TenantId};

use super::{JudgePanel, TierEvent};
use crate::machine::tier::{
    PageStamp, PoolKind, Tier, TierCounts, TierGetOutcome, TierPage, TierPutOutcome,
};
use crate::virtual_time::VirtualInstant;

/// The number of events after which everything is counted. It is also counted once per second, when the chores are
/// done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CensusInterval(u64);

impl CensusInterval {
    /// Counts after each event.
    pub(crate) const EACH: CensusInterval = CensusInterval(1);

    /// An interval that keeps counting cheap beside the events. A count looks at every block, for every tenant.
    pub(crate) fn cheaply(tenants: usize) -> CensusInterval {
        const EVENTS_A_TENANT: u64 = 512;
        CensusInterval(EVENTS_A_TENANT * (tenants as u64).max(1))
    }
}

/// A tier with a panel of judges beside it.
pub(crate) struct JudgedTier<'a> {
    tier: &'a mut dyn Tier,
    /// The judges.
    pub panel: JudgePanel,
    counted_after: CensusInterval,
    /// Events since everything was counted.
    uncounted: u64,
}

impl<'a> JudgedTier<'a> {
    /// Makes `panel` watch `tier`.
    pub(crate) fn of(
        tier: &'a mut dyn Tier,
        panel: JudgePanel,
        counted_after: CensusInterval,
    ) -> JudgedTier<'a> {
        JudgedTier {
            tier,
            panel,
            counted_after,
            uncounted: 0,
        }
    }

    fn observe(&mut self, now: VirtualInstant, event: &TierEvent<'_>) {
        self.panel.observe(now, event);
        self.count_if_due(now);
    }

    /// Notes one more change of the tier, and counts everything if that is due.
    fn count_if_due(&mut self, now: VirtualInstant) {
        self.uncounted += 1;
        if self.uncounted >= self.counted_after.0 {
            self.count(now);
        }
    }

    fn count(&mut self, now: VirtualInstant) {
        self.uncounted = 0;
        if !self.panel.is_empty() {
            let counts = self.tier.counts();
            self.panel.observe(now, &TierEvent::Counts(&counts));
        }
    }
}

impl Tier for JudgedTier<'_> {
    fn put(&mut self, page: TierPage, stamp: PageStamp, now: VirtualInstant) -> TierPutOutcome {
        let put = self.tier.put(page, stamp, now);
        self.observe(now, &TierEvent::Put(page, stamp, put));
        put
    }

    fn get(&mut self, page: TierPage, now: VirtualInstant) -> TierGetOutcome {
        let outcome = self.tier.get(page, now);
        self.observe(now, &TierEvent::Get(page, outcome));
        outcome
    }

    fn is_far(&self, page: TierPage) -> bool {
        self.tier.is_far(page)
    }

    fn flush_page(&mut self, page: TierPage, now: VirtualInstant) {
        self.tier.flush_page(page, now);
        self.observe(now, &TierEvent::FlushedPage(page));
    }

    fn flush_object(&mut self, tenant: TenantId, pool: PoolKind, object: u64, now: VirtualInstant) {
        self.tier.flush_object(tenant, pool, object, now);
        let flushed = TierEvent::FlushedObject(tenant, pool, object);
        self.observe(now, &flushed);
    }

    fn set_target(&mut self, tenant: TenantId, target: Option<Pages>, now: VirtualInstant) {
        self.tier.set_target(tenant, target, now);
        self.observe(now, &TierEvent::Target(tenant, target));
    }

    fn set_guard(&mut self, tenant: TenantId, guard: Option<Pages>, giving: GiveWayOrder) {
        self.tier.set_guard(tenant, guard, giving);
    }

    fn resize(&mut self, total: Pages, now: VirtualInstant) {
        self.tier.resize(total, now);
        self.count_if_due(now);
    }

    fn chores(&mut self, now: VirtualInstant) {
        self.tier.chores(now);
        self.count(now);
    }

    fn snapshot(&mut self, now: VirtualInstant) -> sublet_types::Snapshot {
        self.tier.snapshot(now)
    }

    fn counts(&self) -> TierCounts {
        self.tier.counts()
    }
}
