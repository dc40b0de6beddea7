//! Weights (Mortar §5.2; B1 of the ancestors' bugs: weights that worked backwards).

use super::*;

const BLOCKS: usize = 1600;

/// Lets tenants push items in turn until shares are steady. Returns each one's part of what is held.
fn push(store: &Arc<Store>, tenants: &[TenantId], rounds: u32) -> Vec<f64> {
    let worker = store.worker().expect("a worker");
    for round in 0..rounds {
        for tenant in tenants {
            put(&worker, *tenant, &round.to_le_bytes(), &[1; 4000], NOW).expect("room");
        }
    }
    let held: Vec<f64> = store
        .tenants()
        .iter()
        .map(|figures| figures.held.0 as f64)
        .collect();
    let total: f64 = held.iter().sum();
    held.iter().map(|held| held / total).collect()
}

fn assert_close(shares: &[f64], weights: &[u32]) {
    let total: u32 = weights.iter().sum();
    for (share, weight) in shares.iter().zip(weights) {
        let wanted = f64::from(*weight) / f64::from(total);
        assert!(
            (share / wanted - 1.0).abs() < 0.05,
            "{share} for {wanted}: {shares:?}"
        );
    }
}

fn check(weights: &[u32]) {
    let (store, _) = store(BLOCKS, true);
    let tenants: Vec<TenantId> = weights
        .iter()
        .enumerate()
        .map(|(n, weight)| tenant(&store, &format!("t{n}"), *weight))
        .collect();
    let rounds = 90_000 / weights.len() as u32;
    assert_close(&push(&store, &tenants, rounds), weights);
}

#[test]
fn two_tenants_converge_to_their_weights() {
    check(&[100, 300]);
}

#[test]
fn three_tenants_converge_to_their_weights() {
    check(&[200, 300, 500]);
}

#[test]
fn twenty_tenants_converge_to_their_weights() {
    check(&[100; 20]);
    check(&(0..20).map(|n| 100 + 100 * (n % 2)).collect::<Vec<u32>>());
}

#[test]
fn an_idle_share_is_used_by_others_and_comes_back() {
    let (store, _) = store(BLOCKS, true);
    let (busy, idle) = (tenant(&store, "busy", 100), tenant(&store, "idle", 300));
    let alone = push(&store, &[busy], 50_000);
    assert!(alone[0] > 0.99, "{alone:?}");
    let filled = store.tenants()[0].held.0 as usize;
    assert!(
        filled > (BLOCKS - 20) * BLOCK,
        "only {filled} of the arena used"
    );
    assert_close(&push(&store, &[busy, idle], 50_000), &[100, 300]);
}

/// The Memory Manager takes for a want of memory only items that were evicted for items of their own tenant.
#[test]
fn who_is_shrunk_or_gives_way_has_displaced_nothing() {
    let (store, _) = store(200, true);
    let (shrunk, putter) = (tenant(&store, "shrunk", 100), tenant(&store, "putter", 100));
    let displaced = || {
        store
            .tenants()
            .iter()
            .map(|figures| figures.displaced)
            .collect::<Vec<_>>()
    };
    push(&store, &[shrunk], 6000);
    let alone = displaced();
    assert!(alone[0] > 0, "its own puts took its own items' place");
    let evicted = store.tenants()[0].evictions;
    assert!(alone[0] <= evicted);

    push(&store, &[putter], 300);
    assert_eq!(displaced()[0], alone[0], "it gave way");
    store.set_target(shrunk, Some(Bytes(10 * BLOCK as u64)));
    let worker = store.worker().expect("a worker");
    while worker.upkeep(NOW) {}
    let figures = &store.tenants()[0];
    assert!(figures.evictions > evicted, "it was shrunk");
    assert_eq!(displaced()[0], alone[0]);
}
