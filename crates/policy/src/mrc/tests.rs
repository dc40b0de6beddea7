use super::*;
use crate::fixtures::{pages, snapshot, tenant};
use sublet_types::{Curve, Second, Weight};

fn measured(id: u16, points: &[(u64, f64)]) -> TenantSnapshot {
    let points = points.iter().map(|&(pages, hits)| (Pages(pages), hits));
    TenantSnapshot {
        puts: 10,
        puts_ever: 1 << 40,
        gets: 10,
        curve: Some(Curve {
            points: points.collect(),
        }),
        ..tenant(id)
    }
}

fn policy() -> MrcPolicy {
    MrcPolicy::new(50.0, 1.0, 0, 60)
}

#[test]
fn memory_goes_where_the_hits_are_and_half_a_share_stays() {
    let hungry = measured(1, &[(1000, 5000.0)]);
    let modest = measured(2, &[(10, 50.0)]);
    let decision = policy().decide(&snapshot(1000, vec![hungry, modest]));
    assert_eq!(pages(&decision), [750, 250]);
    assert_eq!(
        decision.explanations[0].reason,
        Reason::Curve {
            hits: 3750.0,
            hits_before: 0.0
        }
    );
}

#[test]
fn a_cliff_beyond_the_floor_is_paid_for() {
    let scan = measured(1, &[(699, 0.0), (700, 2000.0)]);
    let gentle = measured(2, &[(200, 100.0), (1000, 500.0)]);
    let decision = policy().decide(&snapshot(1000, vec![scan, gentle]));
    assert_eq!(pages(&decision), [700, 300]);
}

#[test]
fn floors_follow_weights() {
    let mut heavy = measured(1, &[]);
    heavy.weight = Weight(3);
    let hungry = measured(2, &[(1000, 900.0)]);
    let decision = policy().decide(&snapshot(1000, vec![heavy, hungry]));
    assert_eq!(pages(&decision), [375, 625]);
}

#[test]
fn an_unmeasured_tenant_has_its_whole_share() {
    let mut unmeasured = measured(1, &[]);
    unmeasured.curve = None;
    let hungry = measured(2, &[(1000, 900.0)]);
    let decision = policy().decide(&snapshot(1000, vec![unmeasured, hungry]));
    assert_eq!(pages(&decision), [500, 500]);
    assert_eq!(decision.explanations[0].reason, Reason::Unmeasured);
}

#[test]
fn who_has_not_put_its_share_yet_is_not_measured() {
    let mut new = measured(1, &[]);
    new.puts_ever = 499;
    let hungry = measured(2, &[(1000, 900.0)]);
    let decision = policy().decide(&snapshot(1000, vec![new.clone(), hungry.clone()]));
    assert_eq!(pages(&decision), [500, 500]);
    assert_eq!(decision.explanations[0].reason, Reason::Unmeasured);
    new.puts_ever = 500;
    let decision = policy().decide(&snapshot(1000, vec![new, hungry]));
    assert_eq!(pages(&decision), [250, 750]);
}

/// Two tenants swap their curves every ten seconds.
#[test]
fn who_gave_does_not_get_back_before_it_has_cooled_off() {
    let mut policy = MrcPolicy::new(50.0, 1.0, 60, 1000);
    let steep = [(10_000, 9000.0)];
    let gentle = [(10_000, 90.0)];
    let mut targets = [None, None];
    let mut changes = Vec::new();
    for turn in 0..20 {
        let curves = if turn % 2 == 0 {
            [steep, gentle]
        } else {
            [gentle, steep]
        };
        let tenants = curves.iter().zip([1, 2]).zip(targets);
        let tenants = tenants.map(|((curve, id), target)| TenantSnapshot {
            target,
            ..measured(id, curve)
        });
        let mut scene = snapshot(10_000, tenants.collect());
        scene.at = Second(turn * 10);
        let now = policy.decide(&scene);
        let now = [0, 1].map(|n: usize| now.targets.tenants[n].pages);
        if targets[0].is_some() && now != targets {
            changes.push(turn * 10);
        }
        targets = now;
    }
    assert!(changes.len() >= 2, "{changes:?}");
    let apart = changes.windows(2).all(|two| two[1] - two[0] >= 60);
    assert!(apart, "{changes:?}");
}

#[test]
fn who_is_idle_for_long_gives_its_floor_up() {
    let mut policy = policy();
    let mut scene = snapshot(1000, vec![measured(1, &[]), measured(2, &[(1000, 900.0)])]);
    assert_eq!(pages(&policy.decide(&scene)), [250, 750]);
    (scene.tenants[0].puts, scene.tenants[0].gets) = (0, 0);
    scene.at = Second(61);
    assert_eq!(pages(&policy.decide(&scene)), [250, 750]);
    scene.at = Second(62);
    let decision = policy.decide(&scene);
    assert_eq!(pages(&decision), [0, 1000]);
    assert_eq!(
        decision.explanations[0].reason,
        Reason::Idle { secs: Some(61) }
    );
}

#[test]
fn who_is_quiet_in_the_first_second_of_a_policy_is_not_idle() {
    let mut quiet = measured(1, &[]);
    (quiet.puts, quiet.gets, quiet.puts_ever) = (0, 0, 900);
    let hungry = measured(2, &[(1000, 900.0)]);
    let decision = policy().decide(&snapshot(1000, vec![quiet, hungry]));
    assert_eq!(pages(&decision), [250, 750]);
}

#[test]
fn memory_does_not_move_for_a_trifle() {
    let curves = |more: f64| {
        let mut tenants = vec![
            measured(1, &[(400, 400.0), (600, 500.0 + more)]),
            measured(2, &[(400, 400.0), (600, 500.0)]),
        ];
        for tenant in &mut tenants {
            tenant.target = Some(Pages(500));
        }
        snapshot(1000, tenants)
    };
    let decision = policy().decide(&curves(5.0));
    assert_eq!(pages(&decision), [500, 500]);
    assert!(matches!(
        decision.explanations[0].reason,
        Reason::Steady { .. }
    ));
    assert_eq!(pages(&policy().decide(&curves(90.0))), [600, 400]);
    let mut grown = curves(5.0);
    grown.total = Pages(1100);
    assert_eq!(pages(&policy().decide(&grown)), [600, 500]);
}

#[test]
fn a_newcomer_gets_its_floor_at_once() {
    let mut old = measured(1, &[(1000, 900.0)]);
    old.target = Some(Pages(1000));
    let decision = policy().decide(&snapshot(1000, vec![old, measured(2, &[])]));
    assert_eq!(pages(&decision), [750, 250]);
}

#[test]
fn nobody_active_shares_equally() {
    let decision = policy().decide(&snapshot(1000, vec![tenant(1), tenant(2)]));
    assert_eq!(pages(&decision), [500, 500]);
}

#[test]
fn a_thousand_tenants_with_long_curves_are_divided() {
    let curve = |id: u16| {
        let rise = |n: u64| {
            (
                n * (1 + u64::from(id) % 7),
                (n as f64 * f64::from(id % 13)).sqrt(),
            )
        };
        measured(id, &(1..=300).map(rise).collect::<Vec<_>>())
    };
    let decision = policy().decide(&snapshot(500_000, (0..1000).map(curve).collect()));
    assert_eq!(pages(&decision).iter().sum::<u64>(), 500_000);
}
