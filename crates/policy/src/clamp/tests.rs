use super::*;
use crate::explain::Reason;
use crate::fixtures::{any_snapshot, snapshot, tenant};
use proptest::prelude::*;

fn fitted(total: u64, asked: &[(u64, Option<u64>, Option<u64>)]) -> Vec<u64> {
    let bounded = |(n, &(_, floor, ceiling))| TenantSnapshot {
        floor: Option::map(floor, Pages),
        ceiling: Option::map(ceiling, Pages),
        ..tenant(n as u16)
    };
    let snapshot = snapshot(total, asked.iter().enumerate().map(bounded).collect());
    let asked: Vec<Option<Pages>> = asked.iter().map(|asked| Some(Pages(asked.0))).collect();
    let pages = fit(&snapshot, &asked);
    pages.into_iter().flatten().map(|pages| pages.0).collect()
}

#[test]
fn what_fits_stays() {
    assert_eq!(fitted(100, &[(30, None, None), (70, None, None)]), [30, 70]);
}

#[test]
fn equation_2_scales_down_and_never_up() {
    assert_eq!(fitted(100, &[(60, None, None), (90, None, None)]), [40, 60]);
    assert_eq!(fitted(100, &[(10, None, None), (20, None, None)]), [10, 20]);
}

#[test]
fn a_ceiling_cuts_before_the_others_are_scaled() {
    assert_eq!(
        fitted(100, &[(90, None, Some(20)), (80, None, None)]),
        [20, 80]
    );
}

#[test]
fn a_floor_is_paid_by_what_others_have_above_theirs() {
    assert_eq!(
        fitted(
            100,
            &[(0, Some(40), None), (50, Some(30), None), (50, None, None)]
        ),
        [40, 39, 21]
    );
}

#[test]
fn floors_beyond_the_total_are_divided_and_a_ceiling_beats_a_floor() {
    assert_eq!(
        fitted(90, &[(0, Some(60), None), (500, Some(120), None)]),
        [30, 60]
    );
    assert_eq!(fitted(90, &[(50, Some(60), Some(10))]), [10]);
}

#[test]
fn amounts_beyond_all_bounds_do_no_harm() {
    let most = u64::MAX;
    assert_eq!(
        fitted(most, &[(most, None, None), (most, None, None)]),
        [most / 2 + 1, most / 2]
    );
    assert_eq!(
        fitted(10, &[(0, Some(most), None), (0, Some(most), None)]),
        [5, 5]
    );
}

#[test]
fn who_has_no_target_stays_without_and_nothing_is_kept_from_anybody() {
    let snapshot = snapshot(100, vec![tenant(1), tenant(2)]);
    let proposals = vec![
        Proposal::unbound(Reason::Unbound),
        Proposal::of(30, Reason::Inactive),
    ];
    let decision = settle(&snapshot, proposals);
    assert_eq!(decision.targets.tenants[0].pages, None);
    assert_eq!(decision.targets.tenants[1].pages, Some(Pages(30)));
    assert_eq!(decision.targets.unassigned, Pages(0));
}

#[test]
fn what_is_left_over_is_unassigned_also_where_nobody_is() {
    let settled = settle(
        &snapshot(100, vec![tenant(1)]),
        vec![Proposal::of(30, Reason::Inactive)],
    );
    assert_eq!(settled.targets.unassigned, Pages(70));
    assert_eq!(
        settle(&snapshot(100, vec![]), vec![]).targets.unassigned,
        Pages(100)
    );
}

#[test]
fn bounds_say_what_was_asked() {
    let mut low = tenant(1);
    low.floor = Some(Pages(20));
    let mut high = tenant(2);
    high.ceiling = Some(Pages(40));
    let proposals = vec![
        Proposal::of(10, Reason::Inactive),
        Proposal::of(50, Reason::Inactive),
        Proposal::of(60, Reason::Inactive),
    ];
    let snapshot = snapshot(110, vec![low, high, tenant(3)]);
    let decision = settle(&snapshot, proposals);
    let bounds: Vec<_> = decision.explanations.iter().map(|why| why.bound).collect();
    let scaled = |asked| {
        Some(TargetBound::ScaledDown {
            asked: Pages(asked),
            together: Pages(120),
            total: Pages(110),
        })
    };
    assert_eq!(
        bounds,
        [
            Some(TargetBound::Floor { asked: Pages(10) }),
            scaled(40),
            scaled(60)
        ]
    );
}

proptest! {
    #[test]
    fn targets_keep_within_floors_ceilings_and_the_total(
        snapshot in any_snapshot(), asked in prop::collection::vec(prop_oneof![0u64..100_000, any::<u64>()], 12),
    ) {
        let proposals = asked.iter().take(snapshot.tenants.len());
        let proposals = proposals.map(|&pages| Proposal::of(pages, Reason::Inactive)).collect();
        let targets = settle(&snapshot, proposals).targets;
        let floors: u128 = snapshot.tenants.iter().map(|tenant| u128::from(floor(tenant).0)).sum();
        let sum: u128 = targets.tenants.iter().flat_map(|target| target.pages).map(|pages| u128::from(pages.0)).sum();
        prop_assert_eq!(sum + u128::from(targets.unassigned.0), u128::from(snapshot.total.0));
        for (tenant, target) in snapshot.tenants.iter().zip(&targets.tenants) {
            let pages = target.pages.expect("asked for");
            prop_assert!(pages <= ceiling(tenant));
            prop_assert!(pages >= floor(tenant) || floors > u128::from(snapshot.total.0));
        }
    }
}
