//! Who watches the tier while it runs: each judge hears of everything that happens to it, and says what may
//! not be.

use std::fmt;

use sublet_types::{Pages, Shrinking, TenantId};

use crate::machine::tier::{Census, Get, Pool, Put, Stamp, Tier, TierPage};
use crate::machine::tier_map::SHRINK_PAGES_A_SEC;
use crate::table::Table;
use crate::virtual_time::{Moment, Nanos};

/// Something that happened to the tier.
#[derive(Clone, Copy, Debug)]
pub enum Happening<'a> {
    /// A page was put.
    Put(TierPage, Stamp, Put),
    /// A page was looked for.
    Get(TierPage, Get),
    /// A page was flushed.
    FlushedPage(TierPage),
    /// An object was flushed.
    FlushedObject(TenantId, Pool, u64),
    /// A tenant has another target.
    Target(TenantId, Option<Pages>),
    /// The whole has another size.
    Resized(Pages),
    /// Everything was counted.
    Counted(&'a Census),
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// A page came back with a content that was not put last.
    #[error("{0} came back with another content than was put")]
    Content(PageLabel),
    /// A page came back after a miss, a flush, a refused put or an exclusive get.
    #[error("{0} came back though it was gone")]
    Revenant(PageLabel),
    /// A persistent page did not come back.
    #[error("{0}, persistent, was lost")]
    Lost(PageLabel),
    /// A tenant uses more than it holds.
    #[error("tenant {0} uses {1} pages and holds {2}")]
    UsedAboveHeld(u16, u64, u64),
    /// Held and free do not make the whole.
    #[error("{held} pages held and {free} free do not make the whole of {total}")]
    Sum {
        /// By all tenants.
        held: u64,
        /// By nobody.
        free: u64,
        /// The whole.
        total: u64,
    },
    /// Tenants hold more than there is, and were not brought down in time.
    #[error(
        "{held} pages are held, and the whole has been {total} for longer than giving back takes"
    )]
    OverTotal {
        /// By all tenants.
        held: u64,
        /// The whole.
        total: u64,
    },
    /// A tier's counts are not those of what happened to it.
    #[error("tenant {tenant}: the tier counts {counted} {what}, {happened} happened")]
    Count {
        /// Whose.
        tenant: u16,
        /// What is counted.
        what: &'static str,
        /// By the tier.
        counted: u64,
        /// In truth.
        happened: u64,
    },
    /// A tenant was not brought down to its target in time.
    #[error(
        "tenant {tenant} holds {held} pages, its target has been {target} for longer than that takes"
    )]
    OverTarget {
        /// Who.
        tenant: u16,
        /// What it holds.
        held: u64,
        /// What it may.
        target: u64,
    },
}

/// A page, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLabel(pub TierPage);

impl fmt::Display for PageLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TierPage {
            tenant,
            pool,
            object,
            index,
        } = self.0;
        write!(
            f,
            "page {index} of object {object}, {pool:?} pool of tenant {}",
            tenant.0
        )
    }
}

/// One who watches.
pub trait Judge {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Hears of what happened, and says what is wrong with it.
    fn hear(&mut self, at: Moment, happening: &Happening<'_>) -> Option<Wrong>;
}

/// What a judge found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// When.
    pub at: Moment,
    /// Who found it.
    pub judge: &'static str,
    /// What.
    pub wrong: Wrong,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "at {:.6} s, {}: {}",
            self.at.secs(),
            self.judge,
            self.wrong
        )
    }
}

/// Judges together, and what they found.
#[derive(Default)]
pub struct Court {
    /// Each with how much it found.
    judges: Vec<(Box<dyn Judge>, u64)>,
    /// What they found, the first [`VERDICTS_MAX`] of each.
    pub verdicts: Vec<Verdict>,
    /// How much there was in all.
    pub count: u64,
}

/// Verdicts of one judge that are kept: the first ones tell the story.
pub const VERDICTS_MAX: u64 = 20;

impl Court {
    /// A court of nobody: nothing is ever wrong.
    pub fn none() -> Court {
        Court::default()
    }

    /// All judges, for a tier of so many tenants.
    pub fn full(tenants: usize, shrinking: Shrinking) -> Court {
        let mut judges: Vec<Box<dyn Judge>> = vec![
            Box::new(Content::default()),
            Box::new(Frames::default()),
            Box::new(Sums::of(tenants)),
        ];
        if shrinking == Shrinking::Active {
            judges.push(Box::new(Obedience::of(tenants)));
        }
        Court {
            judges: judges.into_iter().map(|judge| (judge, 0)).collect(),
            ..Court::default()
        }
    }

    fn hear(&mut self, at: Moment, happening: &Happening<'_>) {
        for (judge, found) in &mut self.judges {
            let Some(wrong) = judge.hear(at, happening) else {
                continue;
            };
            self.count += 1;
            *found += 1;
            if *found <= VERDICTS_MAX {
                let judge = judge.name();
                self.verdicts.push(Verdict { at, judge, wrong });
            }
        }
    }
}

/// After how many events everything is counted. It is once a second besides, when the chores are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedAfter(u64);

impl CountedAfter {
    /// After each.
    pub const EACH: CountedAfter = CountedAfter(1);

    /// So that counting costs little beside the events: who counts looks at every block, for every tenant.
    pub fn cheaply(tenants: usize) -> CountedAfter {
        const EVENTS_A_TENANT: u64 = 512;
        CountedAfter(EVENTS_A_TENANT * (tenants as u64).max(1))
    }
}

/// A tier with a court beside it.
pub struct Judged<'a> {
    tier: &'a mut dyn Tier,
    /// The court.
    pub court: Court,
    counted_after: CountedAfter,
    /// Events since everything was counted.
    uncounted: u64,
}

impl<'a> Judged<'a> {
    /// Has `court` watch `tier`.
    pub fn of(tier: &'a mut dyn Tier, court: Court, counted_after: CountedAfter) -> Judged<'a> {
        Judged {
            tier,
            court,
            counted_after,
            uncounted: 0,
        }
    }

    fn happened(&mut self, now: Moment, happening: &Happening<'_>) {
        self.court.hear(now, happening);
        self.uncounted += 1;
        if self.uncounted >= self.counted_after.0 {
            self.count(now);
        }
    }

    fn count(&mut self, now: Moment) {
        self.uncounted = 0;
        if !self.court.judges.is_empty() {
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

    fn set_guard(&mut self, tenant: TenantId, guard: Option<Pages>) {
        self.tier.set_guard(tenant, guard);
    }

    fn resize(&mut self, total: Pages, now: Moment) {
        self.tier.resize(total, now);
        self.happened(now, &Happening::Resized(total));
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

/// A page that comes back is the page that was put last (R-P3, R-G1, R-G3, R-G4, R-F1).
#[derive(Debug, Default)]
struct Content {
    /// Pages that may come back: by tenant, pool and object, then by index.
    pages: Table<(TenantId, Pool, u64), Table<u32, Stamp>>,
}

impl Content {
    fn keep(&mut self, page: TierPage, stamp: Stamp) {
        let object = self.pages.entry(object_of(page)).or_default();
        object.insert(page.index, stamp);
    }

    fn forget(&mut self, page: TierPage) -> Option<Stamp> {
        let object = self.pages.get_mut(&object_of(page))?;
        let forgotten = object.remove(&page.index);
        if object.is_empty() {
            self.pages.remove(&object_of(page));
        }
        forgotten
    }

    fn put_last(&self, page: TierPage) -> Option<Stamp> {
        let object = self.pages.get(&object_of(page))?;
        object.get(&page.index).copied()
    }

    fn got(&mut self, page: TierPage, got: Get) -> Option<Wrong> {
        let label = PageLabel(page);
        let put_last = match (got, page.pool) {
            (Get::Miss, _) | (_, Pool::File) => self.forget(page),
            (_, Pool::Swap) => self.put_last(page),
        };
        match (got, put_last) {
            (Get::Miss, Some(_)) if page.pool == Pool::Swap => Some(Wrong::Lost(label)),
            (Get::Miss, _) => None,
            (Get::Hit(_) | Get::OnDisk(_), None) => Some(Wrong::Revenant(label)),
            (Get::Hit(stamp) | Get::OnDisk(stamp), Some(put)) => {
                (stamp != put).then_some(Wrong::Content(label))
            }
        }
    }
}

fn object_of(page: TierPage) -> (TenantId, Pool, u64) {
    (page.tenant, page.pool, page.object)
}

impl Judge for Content {
    fn name(&self) -> &'static str {
        "content"
    }

    fn hear(&mut self, _: Moment, happening: &Happening<'_>) -> Option<Wrong> {
        match *happening {
            Happening::Put(page, stamp, Put::Stored) => self.keep(page, stamp),
            Happening::Put(page, _, Put::Refused) | Happening::FlushedPage(page) => {
                self.forget(page);
            }
            Happening::Get(page, got) => return self.got(page, got),
            Happening::FlushedObject(tenant, pool, object) => {
                self.pages.remove(&(tenant, pool, object));
            }
            Happening::Target(..) | Happening::Resized(_) | Happening::Counted(_) => {}
        }
        None
    }
}

/// Frames are conserved: what is used is held, held and free are the whole, and no more than that is held
/// for long.
#[derive(Debug, Default)]
struct Frames {
    /// When more than the whole must not be held any more.
    deadline: Option<Moment>,
}

impl Judge for Frames {
    fn name(&self) -> &'static str {
        "frames"
    }

    fn hear(&mut self, at: Moment, happening: &Happening<'_>) -> Option<Wrong> {
        let Happening::Counted(census) = happening else {
            return None;
        };
        let tenants = (0u16..).zip(&census.tenants);
        for (number, count) in tenants {
            if count.used > count.held {
                return Some(Wrong::UsedAboveHeld(number, count.used.0, count.held.0));
            }
        }
        let held: Pages = census.tenants.iter().map(|count| count.held).sum();
        let is_whole = held.0 + census.free.0 == census.total.0.max(held.0);
        if !is_whole {
            return Some(Wrong::Sum {
                held: held.0,
                free: census.free.0,
                total: census.total.0,
            });
        }
        self.fits(at, held.0, census.total.0)
    }
}

impl Frames {
    fn fits(&mut self, at: Moment, held: u64, total: u64) -> Option<Wrong> {
        if !is_late(&mut self.deadline, at, held, total) {
            return None;
        }
        Some(Wrong::OverTotal { held, total })
    }
}

/// Whether more than `most`, and a block, has been held for longer than giving it back takes. A lateness is
/// told once.
fn is_late(deadline: &mut Option<Moment>, at: Moment, held: u64, most: u64) -> bool {
    let over = held.saturating_sub(most.saturating_add(GRANULE));
    if over == 0 {
        *deadline = None;
        return false;
    }
    let takes = Nanos::secs(over.div_ceil(SHRINK_PAGES_A_SEC)) + SLACK;
    let late = *deadline.get_or_insert(at + takes) < at;
    if late {
        *deadline = None;
    }
    late
}

/// The tier's counts are of what happened.
#[derive(Debug)]
struct Sums {
    tenants: Vec<Happened>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Happened {
    puts: u64,
    refused: u64,
    gets: u64,
    hits: u64,
}

impl Sums {
    fn of(tenants: usize) -> Sums {
        Sums {
            tenants: vec![Happened::default(); tenants],
        }
    }

    fn compare(&self, census: &Census) -> Option<Wrong> {
        let pairs = (0u16..).zip(&self.tenants).zip(&census.tenants);
        for ((tenant, happened), counted) in pairs {
            let figures = [
                ("puts", counted.puts, happened.puts),
                ("refused puts", counted.refused, happened.refused),
                ("gets", counted.gets, happened.gets),
                ("hits", counted.hits, happened.hits),
            ];
            let differing = figures.iter().find(|(_, a, b)| a != b);
            if let Some(&(what, counted, happened)) = differing {
                return Some(Wrong::Count {
                    tenant,
                    what,
                    counted,
                    happened,
                });
            }
        }
        None
    }
}

impl Judge for Sums {
    fn name(&self) -> &'static str {
        "sums"
    }

    fn hear(&mut self, _: Moment, happening: &Happening<'_>) -> Option<Wrong> {
        match happening {
            Happening::Put(page, _, put) => {
                let happened = &mut self.tenants[usize::from(page.tenant.0)];
                happened.puts += 1;
                happened.refused += u64::from(*put == Put::Refused);
                None
            }
            Happening::Get(page, got) => {
                let happened = &mut self.tenants[usize::from(page.tenant.0)];
                happened.gets += 1;
                happened.hits += u64::from(*got != Get::Miss);
                None
            }
            Happening::Counted(census) => self.compare(census),
            _ => None,
        }
    }
}

/// Who is over its target is brought down within excess ÷ rate + 1 second (`contracts.md`).
#[derive(Debug)]
struct Obedience {
    debts: Vec<Debt>,
}

/// A tenant above its target.
#[derive(Clone, Copy, Debug, Default)]
struct Debt {
    /// When it must not be above it any more.
    deadline: Option<Moment>,
    /// The largest target since then: one that sinks all the time is obeyed like one that stays.
    most: u64,
}

/// A second for the tick at which the tier begins, beside the contract's own.
const SLACK: Nanos = Nanos::secs(2);

/// Frames that may be held above a target because a block cannot be divided.
const GRANULE: u64 = 512;

impl Obedience {
    fn of(tenants: usize) -> Obedience {
        Obedience {
            debts: vec![Debt::default(); tenants],
        }
    }

    fn look(&mut self, at: Moment, census: &Census) -> Option<Wrong> {
        let tenants = (0u16..).zip(&census.tenants).zip(&mut self.debts);
        for ((tenant, count), debt) in tenants {
            let (held, target) = (
                count.held.0,
                count.target.map_or(u64::MAX, |target| target.0),
            );
            debt.most = match debt.deadline {
                Some(_) => debt.most.max(target),
                None => target,
            };
            if is_late(&mut debt.deadline, at, held, debt.most) {
                return Some(Wrong::OverTarget {
                    tenant,
                    held,
                    target,
                });
            }
        }
        None
    }
}

impl Judge for Obedience {
    fn name(&self) -> &'static str {
        "targets"
    }

    fn hear(&mut self, at: Moment, happening: &Happening<'_>) -> Option<Wrong> {
        match happening {
            Happening::Target(tenant, target) => {
                let debt = &mut self.debts[usize::from(tenant.0)];
                debt.most = debt.most.max(target.map_or(u64::MAX, |target| target.0));
                None
            }
            Happening::Counted(census) => self.look(at, census),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::tier::TenantCount;

    const PAGE: TierPage = TierPage {
        tenant: TenantId(0),
        pool: Pool::Swap,
        object: 1,
        index: 2,
    };

    fn wrongs(judge: &mut dyn Judge, happenings: &[Happening<'_>]) -> Vec<Wrong> {
        let seconds = (0u64..).map(|n| Moment(n * 1_000_000_000));
        let pairs = seconds.zip(happenings);
        pairs
            .filter_map(|(at, happening)| judge.hear(at, happening))
            .collect()
    }

    #[test]
    fn content_tells_wrong_pages_revenants_and_lost_ones() {
        let (old, new) = (Stamp::of(PAGE, 1), Stamp::of(PAGE, 2));
        let found = wrongs(
            &mut Content::default(),
            &[
                Happening::Put(PAGE, old, Put::Stored),
                Happening::Get(PAGE, Get::Hit(old)),
                Happening::Put(PAGE, new, Put::Stored),
                Happening::Get(PAGE, Get::Hit(old)),
                Happening::Get(PAGE, Get::Miss),
                Happening::Get(PAGE, Get::Hit(new)),
                Happening::Put(PAGE, new, Put::Refused),
                Happening::Get(PAGE, Get::Miss),
            ],
        );
        let label = PageLabel(PAGE);
        let expected = [
            Wrong::Content(label),
            Wrong::Lost(label),
            Wrong::Revenant(label),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_get_of_a_file_page_takes_it_and_a_miss_of_one_is_no_loss() {
        let page = TierPage {
            pool: Pool::File,
            ..PAGE
        };
        let stamp = Stamp::of(page, 1);
        let found = wrongs(
            &mut Content::default(),
            &[
                Happening::Put(page, stamp, Put::Stored),
                Happening::Get(page, Get::Miss),
                Happening::Put(page, stamp, Put::Stored),
                Happening::Get(page, Get::Hit(stamp)),
                Happening::Get(page, Get::Hit(stamp)),
                Happening::Put(page, stamp, Put::Stored),
                Happening::FlushedObject(page.tenant, page.pool, page.object),
                Happening::Get(page, Get::Hit(stamp)),
            ],
        );
        assert_eq!(found, vec![Wrong::Revenant(PageLabel(page)); 2]);
    }

    fn census(held: u64, used: u64, free: u64, target: u64) -> Census {
        Census {
            total: Pages(1000),
            free: Pages(free),
            tenants: vec![TenantCount {
                held: Pages(held),
                used: Pages(used),
                target: Some(Pages(target)),
                ..TenantCount::default()
            }],
        }
    }

    #[test]
    fn frames_that_do_not_add_up_are_told() {
        let (good, short, over) = (
            census(600, 500, 400, 0),
            census(600, 500, 399, 0),
            census(600, 601, 400, 0),
        );
        let found = wrongs(
            &mut Frames::default(),
            &[
                Happening::Counted(&good),
                Happening::Counted(&short),
                Happening::Counted(&over),
            ],
        );
        assert!(matches!(
            found[..],
            [Wrong::Sum { .. }, Wrong::UsedAboveHeld(0, 601, 600)]
        ));
    }

    #[test]
    fn a_count_that_nothing_explains_is_told() {
        let mut wrong = census(0, 0, 1000, 0);
        let put = Happening::Put(PAGE, Stamp::of(PAGE, 1), Put::Refused);
        wrong.tenants[0].puts = 1;
        let found = wrongs(&mut Sums::of(1), &[put, Happening::Counted(&wrong)]);
        assert!(matches!(
            found[..],
            [Wrong::Count {
                what: "refused puts",
                ..
            }]
        ));
    }

    #[test]
    fn a_tenant_over_its_target_has_three_seconds_then_is_told() {
        let over = census(900, 900, 100, 100);
        let found = wrongs(&mut Obedience::of(1), &[Happening::Counted(&over); 5]);
        assert_eq!(found.len(), 1);
        let sinks = [
            Happening::Counted(&over),
            Happening::Target(TenantId(0), Some(Pages(90))),
        ];
        let found = wrongs(&mut Obedience::of(1), &sinks.repeat(3));
        assert_eq!(found.len(), 1, "a target that sinks all the time is one");
        let rises = [
            Happening::Counted(&over),
            Happening::Target(TenantId(0), Some(Pages(900))),
        ];
        let found = wrongs(&mut Obedience::of(1), &rises.repeat(3));
        assert!(found.is_empty(), "it was allowed that much meanwhile");
        let obeyed = census(600, 600, 400, 100);
        let found = wrongs(&mut Obedience::of(1), &[Happening::Counted(&obeyed); 5]);
        assert!(found.is_empty());
    }
}
