use sublet_types::Curve;

use super::*;
use crate::catalogue::PolicyChoice;
use crate::fixtures;

fn curve(points: &[(u64, f64)]) -> Option<Curve> {
    let points = points.iter().map(|&(pages, hits)| (Pages(pages), hits));
    Some(Curve {
        points: points.collect(),
    })
}

/// Gets 100 requests per second: 80 hit with the 200 pages that it has.
fn web() -> (TenantSnapshot, TenantRates) {
    let web = TenantSnapshot {
        held: Pages(200),
        used: Pages(200),
        puts_ever: 5000,
        curve: curve(&[(0, 0.0), (100, 50.0), (200, 80.0), (310, 95.0), (400, 98.0)]),
        ..fixtures::tenant(1)
    };
    (web, rates(100.0, 80.0, 0.0))
}

/// Gets 50 requests per second: 48 hit with its 700 pages.
fn db() -> (TenantSnapshot, TenantRates) {
    let db = TenantSnapshot {
        held: Pages(700),
        used: Pages(700),
        puts_ever: 5000,
        curve: curve(&[(0, 0.0), (500, 40.0), (700, 48.0)]),
        ..fixtures::tenant(2)
    };
    (db, rates(50.0, 47.0, 0.0))
}

fn rates(gets: f64, hits: f64, failed: f64) -> TenantRates {
    TenantRates {
        gets,
        hits,
        puts: 10.0,
        failed,
    }
}

fn record(total: u64, tenants: &[(TenantSnapshot, TenantRates)]) -> HistoryRecord {
    let party = |(tenant, rates): &(TenantSnapshot, TenantRates)| TenantRecord::of(tenant, *rates);
    HistoryRecord {
        at: Second(100),
        total: Pages(total),
        tenants: tenants.iter().map(party).collect(),
    }
}

fn policy(name: &str) -> PolicyChoice {
    PolicyChoice::new(name, []).expect("a policy")
}

fn memory(granted: &GrantOutcome) -> Vec<(u64, u64)> {
    let changes = granted.changes.iter();
    changes
        .map(|change| (change.before.0, change.after.0))
        .collect()
}

#[track_caller]
fn near(is: Option<f64>, ought: f64) {
    assert!(
        is.is_some_and(|is| (is - ought).abs() < 1e-9),
        "{is:?} is not {ought}"
    );
}

/// Asserts that what leaves one tenant comes to another or to nobody.
#[track_caller]
fn adds_up(granted: &GrantOutcome, total: u64) {
    let held = |which: fn(&HoldingChange) -> Pages| -> u64 {
        granted.changes.iter().map(|c| which(c).0).sum()
    };
    assert_eq!(held(|change| change.before) + granted.free_before.0, total);
    assert_eq!(held(|change| change.after) + granted.free_after.0, total);
}

const WEB: TenantId = TenantId(1);

/// 310 pages bring 95 of 100. It lacks 110, 100 of which are free. db pays ten, that is 0.4 of 50 hits.
#[test]
fn what_so_many_hits_need_and_whom_they_cost() {
    let records = [record(1000, &[web(), db()])];
    let granted = for_hits(&records, &policy("weights"), WEB, 0.95).expect("there is room");
    assert_eq!(memory(&granted), [(200, 310), (700, 690)]);
    assert_eq!(
        (granted.free_before, granted.free_after),
        (Pages(100), Pages(0))
    );
    near(granted.changes[0].hits_before, 0.80);
    near(granted.changes[0].hits_after, 0.95);
    near(granted.changes[1].hits_before, 0.96);
    near(granted.changes[1].hits_after, 0.952);
    adds_up(&granted, 1000);
}

#[test]
fn what_cannot_be_is_said() {
    let refused = |tenants: &[(TenantSnapshot, TenantRates)], ratio| {
        for_hits(&[record(1000, tenants)], &policy("weights"), WEB, ratio).expect_err("refused")
    };
    let most = GrantRefusal::OutOfReach {
        most: 0.98,
        with: Pages(400),
    };
    assert_eq!(refused(&[web(), db()], 0.99), most);

    let mut capped = web();
    capped.0.ceiling = Some(Pages(300));
    let GrantRefusal::Ceiling {
        needs,
        ceiling,
        hits,
    } = refused(&[capped, db()], 0.95)
    else {
        panic!("its ceiling is lower");
    };
    assert_eq!((needs, ceiling), (Pages(310), Pages(300)));
    near(hits, 0.8 + 0.15 * 100.0 / 110.0);

    let mut floored = db();
    floored.0.floor = Some(Pages(695));
    let GrantRefusal::NoRoom { needs, most, hits } = refused(&[web(), floored], 0.95) else {
        panic!("db keeps its floor");
    };
    assert_eq!((needs, most), (Pages(310), Pages(305)));
    near(hits, 0.8 + 0.15 * 105.0 / 110.0);

    let mut new = web();
    new.0.curve = None;
    assert_eq!(refused(&[new, db()], 0.5), GrantRefusal::NotMeasured);
    let mut idle = web();
    idle.1 = rates(0.0, 0.0, 0.0);
    assert_eq!(refused(&[idle, db()], 0.5), GrantRefusal::NotMeasured);
    assert_eq!(refused(&[db()], 0.5), GrantRefusal::Unknown);
}

/// Of weights 1 and 4 both have 400. The first is most above its share, and pays until it is no more.
#[test]
fn who_is_most_above_its_weighted_share_pays() {
    let party = |id, weight, held| {
        let tenant = TenantSnapshot {
            weight: Weight(weight),
            held: Pages(held),
            ..fixtures::tenant(id)
        };
        (tenant, rates(10.0, 5.0, 0.0))
    };
    let records = [record(1000, &[web(), party(2, 1, 400), party(3, 4, 400)])];
    let granted = with_memory(&records, &policy("weights"), WEB, Pages(500)).expect("room");
    assert_eq!(memory(&granted), [(200, 500), (400, 100), (400, 400)]);
    adds_up(&granted, 1000);
    assert_eq!(
        granted.changes[1].hits_after, None,
        "it is not measured yet"
    );
    let more = with_memory(&records, &policy("weights"), WEB, Pages(600)).expect("room");
    assert_eq!(memory(&more), [(200, 600), (400, 80), (400, 320)]);
    adds_up(&more, 1000);
}

/// mrc prefers to lower the tenant that has no use for its memory.
#[test]
fn who_pays_under_a_policy_with_targets_is_who_it_would_lower() {
    let party = |id, points: &[(u64, f64)]| {
        let tenant = TenantSnapshot {
            held: Pages(400),
            used: Pages(400),
            puts_ever: 5000,
            curve: curve(points),
            ..fixtures::tenant(id)
        };
        (tenant, rates(90.0, 50.0, 1.0))
    };
    let records = [record(
        1000,
        &[
            web(),
            party(2, &[(0, 0.0), (400, 80.0)]),
            party(3, &[(0, 0.0), (100, 80.0)]),
        ],
    )];
    let granted = with_memory(&records, &policy("mrc"), WEB, Pages(300)).expect("room");
    assert_eq!(memory(&granted), [(200, 300), (400, 400), (400, 300)]);
    near(granted.changes[2].hits_after, 80.0 / 90.0);
    let by_weight = with_memory(&records, &policy("weights"), WEB, Pages(300)).expect("room");
    assert_eq!(memory(&by_weight), [(200, 300), (400, 350), (400, 350)]);
    adds_up(&granted, 1000);
}

#[test]
fn what_a_tenant_gives_up_goes_to_who_lacks_room_or_to_nobody() {
    let full = [record(900, &[web(), db()])];
    let granted = with_memory(&full, &policy("weights"), WEB, Pages(100)).expect("less");
    assert_eq!(memory(&granted), [(200, 100), (700, 700)]);
    assert_eq!(
        (granted.free_before, granted.free_after),
        (Pages(0), Pages(100))
    );
    near(granted.changes[0].hits_after, 0.5);
    let mut hungry = db();
    hungry.1 = rates(50.0, 47.0, 3.0);
    let full = [record(900, &[web(), hungry])];
    let granted = with_memory(&full, &policy("weights"), WEB, Pages(100)).expect("less");
    assert_eq!(memory(&granted), [(200, 100), (700, 800)]);
    adds_up(&granted, 900);
}

/// An hour of two halves: the requests of both count.
#[test]
fn the_curve_is_the_mean_of_all_records() {
    let mut later = web();
    later.0.curve = curve(&[(0, 0.0), (800, 20.0)]);
    later.1 = rates(20.0, 0.0, 0.0);
    let records = [record(1000, &[web()]), record(1000, &[later])];
    let granted = with_memory(&records, &policy("weights"), WEB, Pages(400)).expect("room");
    near(granted.changes[0].hits_after, (98.0 + 10.0) / 120.0);
}

fn settled(replayed: &PolicyReplay) -> Vec<u64> {
    replayed
        .tenants
        .iter()
        .map(|tenant| tenant.memory.0)
        .collect()
}

/// Both lack room. Halves bring 98 and 40 of 150. With 310 and more for web, and the rest for db, it is more.
#[test]
fn policies_are_replayed_by_one_model() {
    let hungry = |(tenant, mut rates): (TenantSnapshot, TenantRates)| {
        rates.failed = 5.0;
        (tenant, rates)
    };
    let records = [record(1000, &[hungry(web()), hungry(db())])];
    for equal in ["weights", "greedy", "static-alloc"] {
        let replayed = replay(&records, &policy(equal));
        assert_eq!(settled(&replayed), [500, 500], "{equal}");
        near(replayed.tenants[0].hits, 98.0);
        near(replayed.ratio(), 138.0 / 150.0);
    }
    let mrc = replay(&records, &policy("mrc"));
    // Floors of 250 each. db's 250 to 700 bring 0.078 and 0.04 hits per page, web's 250 to 310 bring 0.136.
    assert_eq!(settled(&mrc), [310, 690]);
    near(mrc.ratio(), (95.0 + 47.6) / 150.0);
}

/// The scan puts 50 pages per second. web's first 310 come in 13 s, in which the scan puts 650. At most it keeps more
/// of its own.
#[test]
fn one_pool_is_divided_by_age() {
    let hungry = |(tenant, mut rates): (TenantSnapshot, TenantRates)| {
        rates.failed = 5.0;
        (tenant, rates)
    };
    let mut scan = db();
    scan.0.curve = None;
    (scan.1.gets, scan.1.hits, scan.1.puts) = (0.0, 0.0, 50.0);
    let records = [record(1000, &[hungry(web()), hungry(scan)])];
    let by_age = PolicyChoice::new("pooled", [("kept", "0")]).expect("a policy");
    let replayed = replay(&records, &by_age);
    let [web, scan] = settled(&replayed)[..] else {
        panic!("two tenants");
    };
    assert!(
        (308..500).contains(&web) && (995..=1000).contains(&(web + scan)),
        "{web} {scan}"
    );
    assert!(replayed.tenants[0].hits > Some(94.0));
}

/// A tenant that never lacked room takes no more than it has, and leaves the rest to the other.
#[test]
fn who_never_lacked_room_fills_no_more_than_it_has() {
    let mut hungry = db();
    hungry.1.failed = 5.0;
    let records = [record(1000, &[web(), hungry])];
    assert_eq!(settled(&replay(&records, &policy("weights"))), [200, 800]);
    let parts = replay(&records, &policy("static-alloc"));
    assert_eq!((settled(&parts), parts.free), (vec![200, 500], Pages(300)));
}

#[test]
fn who_is_not_measured_counts_with_its_memory_and_not_with_hits() {
    let mut new = web();
    new.0.curve = None;
    new.1.failed = 5.0;
    let mut hungry = db();
    hungry.1.failed = 5.0;
    let records = [record(1000, &[new, hungry])];
    let replayed = replay(&records, &policy("mrc"));
    assert_eq!(settled(&replayed), [500, 500]);
    assert_eq!(replayed.tenants[0].hits, None);
    near(replayed.ratio(), 40.0 / 50.0);
    assert_eq!(replay(&[], &policy("mrc")), PolicyReplay::default());
}

#[test]
fn an_hour_is_kept_a_record_every_two_minutes() {
    let mut history = History::default();
    let mut kept = 0;
    for at in 0..10_000 {
        if history.is_due(Second(at)) {
            history.keep(HistoryRecord {
                at: Second(at),
                ..record(1000, &[web()])
            });
            kept += 1;
        }
    }
    assert_eq!(kept, 10_000_u32.div_ceil(EVERY_SECS));
    let now = HistoryRecord {
        at: Second(10_000),
        ..record(1000, &[web()])
    };
    let all = history.with(now.clone());
    assert_eq!(all.len() as u32, KEPT_SECS / EVERY_SECS + 2);
    assert_eq!(all.last(), Some(&now));
    history.retain(|id| id != WEB);
    assert!(history.with(now)[0].tenants.is_empty());
}

#[test]
fn the_oldest_records_go_before_all_take_too_much() {
    let long: Vec<(u64, f64)> = (0..400).map(|n| (n * 10, n as f64)).collect();
    let mut tenant = web();
    tenant.0.curve = curve(&long);
    let tenants: Vec<_> = (0..1000).map(|_| tenant.clone()).collect();
    let mut history = History::default();
    for n in 0..12 {
        history.keep(HistoryRecord {
            at: Second(n * EVERY_SECS),
            ..record(1000, &tenants)
        });
    }
    let now = HistoryRecord {
        at: Second(12 * EVERY_SECS),
        ..record(1000, &[])
    };
    let kept = history.with(now).len();
    assert!((2..12).contains(&kept), "{kept}");
}

#[test]
fn rates_fade_as_curves_do() {
    let mut meter = RateMeter::new(Second(0));
    assert_eq!(
        meter.count(Second(0), rates(5.0, 5.0, 0.0)),
        TenantRates::default()
    );
    let mut last = TenantRates::default();
    for at in 1..=600 {
        last = meter.count(Second(at), rates(20.0, 10.0, 1.0));
    }
    assert!((last.gets - 20.0).abs() < 0.1 && (last.failed - 1.0).abs() < 0.01);
    for at in 601..=660 {
        last = meter.count(Second(at), TenantRates::default());
    }
    assert!(
        (last.gets - 10.0).abs() < 0.1,
        "a minute is a half-life: {last:?}"
    );
}
