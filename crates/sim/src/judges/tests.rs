use super::content::ContentJudge;
use super::counts::CountsJudge;
use super::frames::FramesJudge;
use super::targets::TargetsJudge;
use super::*;
use crate::machine::tier::TenantCounts;

const PAGE: TierPage = TierPage {
    tenant: TenantId(0),
    pool: PoolKind::Swap,
    object: 1,
    index: 2,
};

fn wrongs(judge: &mut dyn Judge, happenings: &[TierEvent<'_>]) -> Vec<Violation> {
    let seconds = (0u64..).map(|n| VirtualInstant(n * 1_000_000_000));
    let pairs = seconds.zip(happenings);
    pairs
        .filter_map(|(at, event)| judge.check(at, event))
        .collect()
}

#[test]
fn content_tells_wrong_pages_revenants_and_lost_ones() {
    let (old, new) = (PageStamp::of(PAGE, 1), PageStamp::of(PAGE, 2));
    let found = wrongs(
        &mut ContentJudge::default(),
        &[
            TierEvent::Put(PAGE, old, TierPutOutcome::Stored),
            TierEvent::Get(PAGE, TierGetOutcome::Hit(old)),
            TierEvent::Put(PAGE, new, TierPutOutcome::Stored),
            TierEvent::Get(PAGE, TierGetOutcome::Hit(old)),
            TierEvent::Get(PAGE, TierGetOutcome::Miss),
            TierEvent::Get(PAGE, TierGetOutcome::Hit(new)),
            TierEvent::Put(PAGE, new, TierPutOutcome::Refused),
            TierEvent::Get(PAGE, TierGetOutcome::Miss),
        ],
    );
    let label = PageLabel(PAGE);
    let expected = [
        Violation::Content(label),
        Violation::Lost(label),
        Violation::StalePage(label),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_get_of_a_file_page_takes_it_and_a_miss_of_one_is_no_loss() {
    let page = TierPage {
        pool: PoolKind::File,
        ..PAGE
    };
    let stamp = PageStamp::of(page, 1);
    let found = wrongs(
        &mut ContentJudge::default(),
        &[
            TierEvent::Put(page, stamp, TierPutOutcome::Stored),
            TierEvent::Get(page, TierGetOutcome::Miss),
            TierEvent::Put(page, stamp, TierPutOutcome::Stored),
            TierEvent::Get(page, TierGetOutcome::Hit(stamp)),
            TierEvent::Get(page, TierGetOutcome::Hit(stamp)),
            TierEvent::Put(page, stamp, TierPutOutcome::Stored),
            TierEvent::FlushedObject(page.tenant, page.pool, page.object),
            TierEvent::Get(page, TierGetOutcome::Hit(stamp)),
        ],
    );
    assert_eq!(found, vec![Violation::StalePage(PageLabel(page)); 2]);
}

fn counts(held: u64, used: u64, free: u64, target: u64) -> TierCounts {
    TierCounts {
        total: Pages(1000),
        free: Pages(free),
        tenants: vec![TenantCounts {
            held: Pages(held),
            used: Pages(used),
            target: Some(Pages(target)),
            ..TenantCounts::default()
        }],
        ..TierCounts::default()
    }
}

#[test]
fn frames_that_do_not_add_up_are_told() {
    let (good, short, over) = (
        counts(600, 500, 400, 0),
        counts(600, 500, 399, 0),
        counts(600, 601, 400, 0),
    );
    let found = wrongs(
        &mut FramesJudge::default(),
        &[
            TierEvent::Counts(&good),
            TierEvent::Counts(&short),
            TierEvent::Counts(&over),
        ],
    );
    assert!(matches!(
        found[..],
        [Violation::Sum { .. }, Violation::UsedAboveHeld(0, 601, 600)]
    ));
}

#[test]
fn a_count_that_nothing_explains_is_told() {
    let mut wrong = counts(0, 0, 1000, 0);
    let put = TierEvent::Put(PAGE, PageStamp::of(PAGE, 1), TierPutOutcome::Refused);
    wrong.tenants[0].puts = 1;
    let found = wrongs(&mut CountsJudge::of(1), &[put, TierEvent::Counts(&wrong)]);
    assert!(matches!(
        found[..],
        [Violation::Count {
            what: "refused puts",
            ..
        }]
    ));
}

#[test]
fn a_tenant_over_its_target_has_three_seconds_then_is_told() {
    let over = counts(900, 900, 100, 100);
    let found = wrongs(&mut TargetsJudge::of(1), &[TierEvent::Counts(&over); 5]);
    assert_eq!(found.len(), 1);
    let sinks = [
        TierEvent::Counts(&over),
        TierEvent::Target(TenantId(0), Some(Pages(90))),
    ];
    let found = wrongs(&mut TargetsJudge::of(1), &sinks.repeat(3));
    assert_eq!(found.len(), 1, "a target that sinks all the time is one");
    let rises = [
        TierEvent::Counts(&over),
        TierEvent::Target(TenantId(0), Some(Pages(900))),
    ];
    let found = wrongs(&mut TargetsJudge::of(1), &rises.repeat(3));
    assert!(found.is_empty(), "it was allowed that much meanwhile");
    let obeyed = counts(600, 600, 400, 100);
    let found = wrongs(&mut TargetsJudge::of(1), &[TierEvent::Counts(&obeyed); 5]);
    assert!(found.is_empty());
}
