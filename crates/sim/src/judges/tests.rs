use super::content::Content;
use super::frames::Frames;
use super::sums::Sums;
use super::targets::Obedience;
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
