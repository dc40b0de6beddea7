//! A tier that is watched.

use sublet_types::{Giving, Pages, TenantId};

use super::{Court, Happening};
use crate::machine::tier::{Census, Get, Pool, Put, Stamp, Tier, TierPage};
use crate::virtual_time::Moment;

/// After how many events everything is counted. It is once a second besides, when the chores are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CountedAfter(u64);

impl CountedAfter {
    /// After each.
    pub(crate) const EACH: CountedAfter = CountedAfter(1);

    /// So that counting costs little beside the events: who counts looks at every block, for every tenant.
    pub(crate) fn cheaply(tenants: usize) -> CountedAfter {
        const EVENTS_A_TENANT: u64 = 512;
        CountedAfter(EVENTS_A_TENANT * (tenants as u64).max(1))
    }
}

/// A tier with a court beside it.
pub(crate) struct Judged<'a> {
    tier: &'a mut dyn Tier,
    /// The court.
    pub court: Court,
    counted_after: CountedAfter,
    /// Events since everything was counted.
    uncounted: u64,
}

impl<'a> Judged<'a> {
    /// Has `court` watch `tier`.
    pub(crate) fn of(
        tier: &'a mut dyn Tier,
        court: Court,
        counted_after: CountedAfter,
    ) -> Judged<'a> {
        Judged {
            tier,
            court,
            counted_after,
            uncounted: 0,
        }
    }

    fn happened(&mut self, now: Moment, happening: &Happening<'_>) {
        self.court.hear(now, happening);
        self.count_if_due(now);
    }

    /// One more change of the tier: everything is counted after so many.
    fn count_if_due(&mut self, now: Moment) {
        self.uncounted += 1;
        if self.uncounted >= self.counted_after.0 {
            self.count(now);
        }
    }

    fn count(&mut self, now: Moment) {
        self.uncounted = 0;
        if !self.court.is_empty() {
            let census = self.tier.census();
            self.court.hear(now, &Happening::Counted(&census));
        }
    }
}

impl Tier for Judged<'_> {
    fn put(&mut self, page: TierPage, stamp: Stamp, now: Moment) -> Put {
        let put = self.tier.put(page, stamp, now);
        self.happened(now, &Happening::Put(page, stamp, put));
        put
    }

    fn get(&mut self, page: TierPage, now: Moment) -> Get {
        let got = self.tier.get(page, now);
        self.happened(now, &Happening::Get(page, got));
        got
    }

    fn flush_page(&mut self, page: TierPage, now: Moment) {
        self.tier.flush_page(page, now);
        self.happened(now, &Happening::FlushedPage(page));
    }

    fn flush_object(&mut self, tenant: TenantId, pool: Pool, object: u64, now: Moment) {
        self.tier.flush_object(tenant, pool, object, now);
        let flushed = Happening::FlushedObject(tenant, pool, object);
        self.happened(now, &flushed);
    }

    fn set_target(&mut self, tenant: TenantId, target: Option<Pages>, now: Moment) {
        self.tier.set_target(tenant, target, now);
        self.happened(now, &Happening::Target(tenant, target));
    }

    fn set_guard(&mut self, tenant: TenantId, guard: Option<Pages>, giving: Giving) {
        self.tier.set_guard(tenant, guard, giving);
    }

    fn resize(&mut self, total: Pages, now: Moment) {
        self.tier.resize(total, now);
        self.count_if_due(now);
    }

    fn chores(&mut self, now: Moment) {
        self.tier.chores(now);
        self.count(now);
    }

    fn snapshot(&mut self, now: Moment) -> sublet_types::Snapshot {
        self.tier.snapshot(now)
    }

    fn census(&self) -> Census {
        self.tier.census()
    }
}
