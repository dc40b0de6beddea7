//! What the store says of far memory.

use super::far::{Fixture, LEASE, ROOM, settings};
use super::lender::{FakeLender, FetchAnswer};
use super::*;

/// A lease counts the pages that are taken out of the outbox, and nothing else.
#[test]
fn a_lease_counts_the_pages_that_are_sent() {
    let mut fixture = Fixture::new(KEEPING, 4);
    fixture.fill(ROOM);
    let sent = |fixture: &Fixture| fixture.store().lease_figures(LEASE).sent;
    for index in 1000..1010 {
        fixture.client.put(1, index, index.into());
        assert_eq!(
            sent(&fixture),
            u64::from(index - 1000),
            "a put counts nothing"
        );
        let worker = &fixture.client.worker;
        assert_eq!(fixture.lender.carry(worker, LEASE, 9), 1);
        fixture.lender.answer(worker, 0, index < 1003, false);
        assert_eq!(sent(&fixture), u64::from(index - 999));
    }

    let (index, ticket) = fixture.away(ROOM);
    let key = fixture.client.key(1, index);
    let honest = FetchAnswer::Honest;
    let page = fixture.lender.fetch(&ticket, honest).expect("there");
    fixture.client.end_get(key, &ticket, Some(&page));
    assert_eq!(sent(&fixture), 10, "a get counts nothing");

    fixture.store().add_to_lease(LEASE, 0, 4..4).expect("more");
    assert_eq!(sent(&fixture), 10, "the same lease");
    fixture.store().end_lease(LEASE);
    fixture.sweep();
    let store = Arc::clone(fixture.store());
    assert!(fixture.lender.lend(&store, LEASE, 1));
    assert_eq!(sent(&fixture), 0, "another lease");
}

/// Far blocks are ready, in use, or wait to be swept.
#[test]
fn far_blocks_are_counted_by_what_they_are_used_for() {
    let blocks = |blocks: u64| Bytes(blocks * BLOCK as u64);
    let mut fixture = Fixture::new(KEEPING, 4);
    let far = |fixture: &Fixture| fixture.store().figures().far;
    assert_eq!(
        (far(&fixture).borrowed, far(&fixture).ready),
        (blocks(4), blocks(4))
    );
    fixture.fill(ROOM + 20);
    let used = fixture.client.figures().held_at_lenders.bytes();
    assert!(used >= blocks(2) && used <= blocks(3), "{used}");
    assert_eq!(far(&fixture).used, used);
    assert_eq!(far(&fixture).ready, blocks(4) - used);
    fixture.store().recall(LEASE, std::slice::from_ref(&(0..4)));
    assert_eq!(
        (far(&fixture).used, far(&fixture).ready),
        Default::default()
    );
    assert_eq!(far(&fixture).borrowed, used, "until they are swept");
    fixture.sweep();
    let rest = FarFigures {
        overhead: outbox_of(settings(4)),
        ..FarFigures::default()
    };
    assert_eq!(far(&fixture), rest);
}

/// What an outbox takes.
fn outbox_of(settings: PageSettings) -> Bytes {
    Bytes(u64::from(settings.outbox_pages) * settings.page_bytes as u64)
}

/// The records of far blocks and the outbox take memory, and the arena holds so much less. The outbox stays.
#[test]
fn records_of_far_blocks_and_the_outbox_count_against_the_limit() {
    const LENT: u32 = 1000;
    let settings = settings(LENT);
    let (store, _) = store_with(60, settings);
    let ann = tenant(&store, "ann", 100);
    let client = PoolClient::new(&store, ann, KEEPING);
    (0..1000).for_each(|index| assert!(client.put(1, index, 7).is_stored()));
    let limit = store.limit();
    assert_eq!(store.held(), limit);
    assert_eq!(store.far_overhead(), Bytes(0));

    // 32 bytes of record and 32 of seal for each of 16 frames, and not much more.
    let needs = store.far_overhead_of(LENT);
    let least = Bytes(u64::from(LENT) * 16 * 64);
    assert!(needs >= least && needs.0 <= least.0 * 5 / 4, "{needs}");
    let mut lender = FakeLender::new();
    assert!(lender.lend(&store, LEASE, LENT));
    let outbox = outbox_of(settings);
    assert!(outbox.0 > 0);
    assert_eq!(store.far_overhead(), needs + outbox);
    let whole_blocks = |bytes: Bytes| Bytes(bytes.0 / BLOCK as u64 * BLOCK as u64);
    assert_eq!(store.limit(), limit - whole_blocks(needs + outbox));
    while client.worker.upkeep(NOW) {}
    assert_eq!(store.held(), store.limit(), "what is over goes back");

    lender.settle_all(&client.worker, LEASE);
    store.end_lease(LEASE);
    while client.worker.upkeep(Second(NOW.0 + 1)) {}
    assert_eq!(store.limit(), limit - whole_blocks(outbox));
    assert_eq!(store.far_overhead(), outbox);
}

/// 64 GiB need about 1 GiB.
#[test]
fn a_gibibyte_of_records_serves_64() {
    let store = Store::new(StoreSettings {
        capacity: Bytes::mib(64),
        limit: Bytes::mib(64),
        item_max: Bytes::mib(1),
        seed: 7,
        evicts: true,
        pages: settings(0),
    });
    let needs = store.expect("a store").far_overhead_of(32 << 10);
    assert!(needs >= Bytes::gib(1), "{needs}");
    assert!(needs <= Bytes::gib(1) + Bytes::mib(16), "{needs}");
}
