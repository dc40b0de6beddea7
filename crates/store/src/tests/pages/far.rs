//! Pages at lenders, rule by rule.

use sublet_types::{EvictionKind, ReleaseMode};

use super::lender::{FakeLender, FetchAnswer};
use super::*;
use crate::borrowing::{AwayTicket, Borrowing, LeaseSlot, OpenLeaseError};

pub(super) const LEASE: LeaseSlot = LeaseSlot(0);

/// The pages that memory here has room for, beside the index and the reserve. A put of one more evicts one.
pub(super) const ROOM: u32 = 3 * 16;

pub(super) struct Fixture {
    pub(super) client: PoolClient,
    pub(super) lender: FakeLender,
}

impl Fixture {
    /// A tenant with room for some 48 pages here and `far` blocks of 16 pages at a lender.
    pub(super) fn new(flags: PoolFlags, far: u32) -> Fixture {
        let (store, _) = store_with(5, settings(far));
        let ann = tenant(&store, "ann", 100);
        let client = PoolClient::new(&store, ann, flags);
        let mut lender = FakeLender::new();
        assert!(lender.lend(&store, LEASE, far));
        Fixture { client, lender }
    }

    pub(super) fn store(&self) -> &Arc<Store> {
        self.client.worker.store()
    }

    /// Puts pages whose content is their index, and lets the lender have what is evicted.
    pub(super) fn fill(&mut self, pages: u32) {
        for index in 0..pages {
            assert!(self.client.put(1, index, index.into()).is_stored());
            self.lender.settle_all(&self.client.worker, LEASE);
        }
    }

    /// A page that the lender has.
    pub(super) fn away(&self, pages: u32) -> (u32, AwayTicket) {
        (0..pages)
            .find_map(|index| match self.client.begin_get(1, index) {
                (GetOutcome::Away(ticket), _) => Some((index, ticket)),
                _ => None,
            })
            .expect("a page that the lender has")
    }

    pub(super) fn at_lenders(&self) -> u64 {
        self.client.figures().at_lenders.0
    }

    pub(super) fn sweep(&self) {
        while self.client.worker.upkeep(NOW) {}
    }
}

pub(super) fn settings(far_blocks: u32) -> PageSettings {
    PageSettings {
        shards: 2,
        far_blocks,
        outbox_pages: 8,
        ..PageSettings::default()
    }
}

#[test]
fn what_is_evicted_comes_back_from_the_lender() {
    for flags in [EPHEMERAL, KEEPING] {
        let mut fixture = Fixture::new(flags, 4);
        fixture.fill(ROOM + 40);
        assert!(fixture.at_lenders() >= 30, "{}", fixture.at_lenders());
        let present = (0..ROOM + 40).filter(|index| {
            let got = fixture.client.get_with(&fixture.lender, 1, *index);
            got.inspect(|content| assert_eq!(*content, u64::from(*index)))
                .is_some()
        });
        assert!(present.count() >= ROOM as usize + 30);
    }
}

/// G1 across tiers: a hit in an exclusive pool takes the page, wherever it is.
#[test]
fn an_exclusive_get_takes_the_page_from_the_lender() {
    let mut fixture = Fixture::new(EPHEMERAL, 4);
    fixture.fill(ROOM + 20);
    let before = fixture.at_lenders();
    let (index, _) = fixture.away(ROOM);
    assert_eq!(
        fixture.client.get_with(&fixture.lender, 1, index),
        Some(index.into())
    );
    assert_eq!(fixture.client.get_with(&fixture.lender, 1, index), None);
    assert_eq!(fixture.at_lenders(), before - 1);
}

/// P7: in a pool that keeps pages, a far page comes home at its second hit.
#[test]
fn a_page_comes_home_at_its_second_hit() {
    let mut fixture = Fixture::new(KEEPING, 4);
    fixture.fill(ROOM + 20);
    let (index, _) = fixture.away(ROOM);
    assert_eq!(
        fixture.client.get_with(&fixture.lender, 1, index),
        Some(index.into())
    );
    assert!(matches!(
        fixture.client.begin_get(1, index).0,
        GetOutcome::Away(_)
    ));
    assert_eq!(
        fixture.client.get_with(&fixture.lender, 1, index),
        Some(index.into())
    );
    assert_eq!(
        fixture.client.begin_get(1, index),
        (GetOutcome::Hit, Some(index.into()))
    );
}

/// P10: a page on its way is read from the outbox.
#[test]
fn a_page_on_its_way_is_read_from_the_outbox() {
    let mut fixture = Fixture::new(KEEPING, 4);
    fixture.fill(ROOM);
    for index in ROOM..ROOM + 4 {
        fixture.client.put(1, index, index.into());
    }
    let gone = 4;
    assert_eq!(fixture.at_lenders(), gone, "in the outbox");
    for index in 0..ROOM + 4 {
        let got = fixture.client.begin_get(1, index);
        assert_eq!(got, (GetOutcome::Hit, Some(index.into())));
    }
    assert_eq!(
        fixture.lender.carry(&fixture.client.worker, LEASE, 9),
        gone as usize
    );
    for index in 0..ROOM + 4 {
        let got = fixture.client.begin_get(1, index);
        assert_eq!(got, (GetOutcome::Hit, Some(index.into())), "under way");
    }
    fixture.lender.settle_all(&fixture.client.worker, LEASE);
    assert_eq!(fixture.at_lenders(), gone);
}

/// G4: after a miss was told, the page stays gone, even if its bytes come late.
#[test]
fn r_g4_bytes_that_come_late_are_not_believed() {
    let mut fixture = Fixture::new(KEEPING, 4);
    fixture.fill(ROOM + 20);
    let (index, ticket) = fixture.away(ROOM);
    let key = fixture.client.key(1, index);
    let late = fixture
        .lender
        .fetch(&ticket, FetchAnswer::Honest)
        .expect("there");
    assert_eq!(
        fixture.client.end_get(key, &ticket, None).0,
        GetOutcome::Miss
    );
    assert_eq!(
        fixture.client.end_get(key, &ticket, Some(&late)).0,
        GetOutcome::Miss
    );
    assert_eq!(fixture.client.get_with(&fixture.lender, 1, index), None);
}

/// P4: a put replaces the page wherever it is, and an older version never comes back.
#[test]
fn r_p4_a_put_replaces_the_page_at_the_lender() {
    let mut fixture = Fixture::new(KEEPING, 4);
    fixture.fill(ROOM + 20);
    let (index, ticket) = fixture.away(ROOM);
    let key = fixture.client.key(1, index);
    let old = fixture
        .lender
        .fetch(&ticket, FetchAnswer::Honest)
        .expect("there");
    assert_eq!(fixture.client.put(1, index, 777), PutOutcome::Replaced);
    let (got, content) = fixture.client.end_get(key, &ticket, Some(&old));
    assert_eq!(
        (got, content),
        (GetOutcome::Hit, Some(777)),
        "what is there now"
    );
}

/// P4: a ticket names one version of a page, even if a later version lies in the same far frame.
#[test]
fn a_ticket_names_one_version() {
    let mut fixture = Fixture::new(KEEPING, 1);
    let pages = ROOM + 12;
    fixture.fill(pages);
    let tickets = |fixture: &Fixture| -> Vec<(u32, AwayTicket)> {
        let away = |index| match fixture.client.begin_get(1, index).0 {
            GetOutcome::Away(ticket) => Some((index, ticket)),
            _ => None,
        };
        (0..pages).filter_map(away).collect()
    };
    let before = tickets(&fixture);
    let fetch = |(_, ticket): &(u32, AwayTicket)| fixture.lender.fetch(ticket, FetchAnswer::Honest);
    let old: Vec<_> = before.iter().map(fetch).collect();
    let mut same_frame = 0;
    for round in 1..20 {
        for index in 0..pages {
            fixture
                .client
                .put(1, index, u64::from(1000 * round + index));
            fixture.lender.settle_all(&fixture.client.worker, LEASE);
        }
        let now = tickets(&fixture);
        for ((index, first), old) in before.iter().zip(&old) {
            let is_again = |(other, ticket): &&(u32, AwayTicket)| {
                other == index && ticket.frame == first.frame
            };
            let Some((_, second)) = now.iter().find(is_again) else {
                continue;
            };
            same_frame += 1;
            let key = fixture.client.key(1, *index);
            let (got, _) = fixture.client.end_get(key, first, old.as_deref());
            assert_eq!(got, GetOutcome::Away(*second), "another version is there");
        }
    }
    assert!(same_frame > 0);
}

/// P4, P3: a put that fails removes the page at the lender, too.
#[test]
fn r_p3_a_put_that_fails_removes_the_page_at_the_lender() {
    let mut fixture = Fixture::new(KEEPING, 4);
    fixture.fill(ROOM + 20);
    let (index, _) = fixture.away(ROOM);
    let everything = Release {
        amount: Bytes::gib(1),
        mode: ReleaseMode::Fast,
        tenant: None,
    };
    fixture.client.worker.release(everything, NOW);
    fixture.store().set_limit(Bytes(0));
    assert_eq!(
        fixture.client.put(1, index, 777),
        PutOutcome::Refused(PutRefused::NoMemory)
    );
    assert_eq!(fixture.client.get_with(&fixture.lender, 1, index), None);
}

/// F1: after a flush nothing brings the page back: not the lender, not the outbox, not bytes that are under way.
#[test]
fn r_f1_a_flush_reaches_pages_away_and_on_their_way() {
    let mut fixture = Fixture::new(KEEPING, 4);
    fixture.fill(ROOM + 20);
    let (index, ticket) = fixture.away(ROOM);
    let bytes = fixture
        .lender
        .fetch(&ticket, FetchAnswer::Honest)
        .expect("there");
    assert!(fixture.client.flush(1, index));
    let key = fixture.client.key(1, index);
    assert_eq!(
        fixture.client.end_get(key, &ticket, Some(&bytes)).0,
        GetOutcome::Miss
    );

    let before = fixture.at_lenders();
    assert!(fixture.client.put(1, 5000, 1).is_stored());
    let on_its_way = (0..ROOM + 20).find(|index| {
        // What is in the outbox answers at once and is counted with the lenders.
        fixture.client.flush(1, *index) && fixture.at_lenders() == before
    });
    assert!(on_its_way.is_some());
    fixture.lender.settle_all(&fixture.client.worker, LEASE);
    assert_eq!(
        fixture
            .client
            .get_with(&fixture.lender, 1, on_its_way.expect("one")),
        None
    );
}

/// P3 of the papers: a full outbox drops, and the put does not wait.
#[test]
fn a_full_outbox_drops() {
    let fixture = Fixture::new(KEEPING, 4);
    for index in 0..ROOM + 40 {
        assert!(fixture.client.put(1, index, index.into()).is_stored());
    }
    // One lease may have half of the eight pages.
    assert_eq!(fixture.at_lenders(), 4);
    assert_eq!(fixture.store().lease_figures(LEASE).outbound, 4);
}

/// The oldest far block goes when all are full. Holes in the others are used first.
#[test]
fn the_oldest_block_goes_and_holes_are_refilled_first() {
    let mut fixture = Fixture::new(KEEPING, 3);
    fixture.fill(ROOM + 40);
    let (hole, _) = fixture.away(ROOM);
    fixture.client.flush(1, hole);
    let before = fixture.at_lenders();
    fixture.client.put(1, 9000, 9000);
    fixture.lender.settle_all(&fixture.client.worker, LEASE);
    assert_eq!(fixture.at_lenders(), before + 1, "into the hole");
    for index in 10_000..10_000 + 200 {
        assert!(fixture.client.put(1, index, index.into()).is_stored());
        fixture.lender.settle_all(&fixture.client.worker, LEASE);
        fixture.client.worker.keep_far_blocks_ready();
    }
    assert!(fixture.at_lenders() >= 16, "{}", fixture.at_lenders());
    let young = (10_000..10_200).rev().take(70);
    let found = young.filter(|index| {
        let got = fixture.client.get_with(&fixture.lender, 1, *index);
        got.is_some()
    });
    assert!(found.count() >= 60, "young pages are here or at the lender");
}

/// A lease that ends takes its pages with it, at once, and nothing else.
#[test]
fn the_end_of_a_lease_is_a_miss_of_its_pages() {
    let mut fixture = Fixture::new(KEEPING, 4);
    fixture.fill(ROOM + 40);
    let (index, ticket) = fixture.away(ROOM);
    let bytes = fixture
        .lender
        .fetch(&ticket, FetchAnswer::Honest)
        .expect("there");
    fixture.store().end_lease(LEASE);
    let key = fixture.client.key(1, index);
    assert_eq!(
        fixture.client.end_get(key, &ticket, Some(&bytes)).0,
        GetOutcome::Miss
    );
    assert_eq!(fixture.client.get_with(&fixture.lender, 1, index), None);
    assert!(
        !fixture.lender.lend(&fixture.store().clone(), LEASE, 1),
        "not swept yet"
    );
    fixture.sweep();
    assert_eq!(fixture.at_lenders(), 0);
    assert_eq!(fixture.store().lease_figures(LEASE).blocks, 0);
    assert!(fixture.lender.lend(&fixture.store().clone(), LEASE, 1));
}

/// A recall takes the blocks that it names, used or not, in however many ranges. The others stay.
#[test]
fn a_recall_takes_the_blocks_that_it_names() {
    let all = [0..1, 2..2, 2..4, 5..6, 9..90];
    for ranges in [&all[..], &all[..1], &all[2..4], &all[4..], &[]] {
        let mut fixture = Fixture::new(KEEPING, 7);
        fixture.fill(ROOM + 60);
        let is_named = |index: u32| ranges.iter().any(|range| range.contains(&index));
        let left = (0..7).filter(|index| !is_named(*index)).count();
        let away = |fixture: &mut Fixture| -> Vec<(u32, u32)> {
            let tickets =
                (0..ROOM + 60).filter_map(|index| match fixture.client.begin_get(1, index) {
                    (GetOutcome::Away(ticket), _) => Some((index, ticket.address.index)),
                    _ => None,
                });
            tickets.collect()
        };
        let mut before = away(&mut fixture);
        assert!(
            before.iter().any(|(_, block)| *block == 0 || *block == 3),
            "{before:?}"
        );
        fixture.store().recall(LEASE, ranges);
        before.retain(|(_, block)| !is_named(*block));
        assert_eq!(away(&mut fixture), before, "{ranges:?}");
        fixture.sweep();
        assert_eq!(away(&mut fixture), before, "{ranges:?}");
        let blocks = fixture.store().lease_figures(LEASE).blocks;
        assert_eq!(blocks as usize, left, "{ranges:?}");
    }
}

/// A ticket can be had of each page that a lender has, and of no other. It counts as no get.
#[test]
fn a_ticket_without_a_get_is_that_of_the_get_and_counts_nothing() {
    const PAGES: u32 = ROOM + 20;
    for flags in [EPHEMERAL, KEEPING] {
        let mut fixture = Fixture::new(flags, 4);
        fixture.fill(PAGES - 1);
        // One more page is evicted, and it is still in the outbox.
        assert!(fixture.client.put(1, PAGES - 1, 7).is_stored());
        let client = &fixture.client;
        let before = client.figures().tally;
        let ticket = |index| {
            let key = client.key(1, index);
            client.worker.away_ticket(client.tenant, key, NOW)
        };
        let tickets: Vec<Option<AwayTicket>> = (0..PAGES + 5).map(ticket).collect();
        assert_eq!(client.figures().tally, before);
        assert!(tickets.iter().flatten().count() >= 10);
        for (index, ticket) in (0..).zip(tickets) {
            let by_get = match client.begin_get(1, index).0 {
                GetOutcome::Away(ticket) => Some(ticket),
                _ => None,
            };
            assert_eq!(ticket, by_get, "{index}");
        }
        fixture.store().end_lease(LEASE);
        assert!((0..PAGES).all(|index| ticket(index).is_none()));
    }
}

/// Blocks that go back to their lender are named only when nothing leads to them, not even a write that is under way.
#[test]
fn a_block_goes_back_when_the_last_write_was_answered() {
    let mut fixture = Fixture::new(KEEPING, 1);
    fixture.fill(ROOM);
    fixture.client.put(1, 900, 900);
    assert_eq!(fixture.lender.carry(&fixture.client.worker, LEASE, 9), 1);
    assert_eq!(fixture.store().return_blocks_of(LEASE, 1), 1);
    fixture.sweep();
    assert_eq!(fixture.store().take_returned(), []);
    fixture
        .lender
        .answer(&fixture.client.worker, 0, false, true);
    fixture.sweep();
    assert_eq!(fixture.store().take_returned(), [(LEASE, 0)]);
    assert_eq!(fixture.at_lenders(), 0);
}

/// What one lender asks for is not taken from another.
#[test]
fn a_lender_gets_its_own_blocks_back() {
    const OTHER: LeaseSlot = LeaseSlot(1);
    let (store, _) = store_with(5, settings(4));
    let ann = tenant(&store, "ann", 100);
    let client = PoolClient::new(&store, ann, KEEPING);
    let mut lender = FakeLender::new();
    assert!(lender.lend(&store, LEASE, 2) && lender.lend(&store, OTHER, 2));
    for index in 0..ROOM + 40 {
        assert!(client.put(1, index, index.into()).is_stored());
        lender.settle_all(&client.worker, LEASE);
        lender.settle_all(&client.worker, OTHER);
    }
    let sweep = || while client.worker.upkeep(NOW) {};
    let (near, far) = (store.lease_figures(LEASE), store.lease_figures(OTHER));
    assert_eq!((near.ready, far.ready), (0, 1), "the near lender's first");
    assert_eq!(store.return_blocks_of(OTHER, 5), 2, "it has two");
    sweep();
    let mut returned = store.take_returned();
    returned.sort_unstable_by_key(|(_, index)| *index);
    assert_eq!(returned, [(OTHER, 0), (OTHER, 1)]);
    assert_eq!(store.return_blocks_of(LEASE, 1), 1);
    sweep();
    assert_eq!(
        store.take_returned(),
        [(LEASE, 0)],
        "that which was taken first"
    );
    assert_eq!(store.lease_figures(LEASE).blocks, 1);
}

/// A tenant that may not borrow keeps nothing at lenders.
#[test]
fn a_tenant_may_be_left_out() {
    let mut fixture = Fixture::new(KEEPING, 4);
    fixture.fill(ROOM + 20);
    let ann = fixture.client.tenant;
    fixture.store().set_borrowing(ann, Borrowing::Forbidden);
    fixture.sweep();
    assert_eq!(fixture.at_lenders(), 0);
    fixture.fill(ROOM + 40);
    assert_eq!(fixture.at_lenders(), 0);
}

#[test]
fn there_are_no_more_blocks_than_the_store_was_made_for() {
    let (store, _) = store_with(5, settings(3));
    assert_eq!(
        store.add_to_lease(LEASE, 0, 0..4),
        Err(OpenLeaseError::Full)
    );
    assert_eq!(store.add_to_lease(LEASE, 0, 0..2), Ok(()));
    assert_eq!(
        store.add_to_lease(LeaseSlot(1), 0, 0..2),
        Err(OpenLeaseError::Full)
    );
    assert_eq!(
        store.add_to_lease(LeaseSlot(256), 0, 0..1),
        Err(OpenLeaseError::NoSuchSlot)
    );
}

/// An extent's only page is named by its whereabouts in the directory. When that page moves to a lender while another
/// page of the extent is put, the place of the other page must be looked up again.
#[test]
fn the_only_page_of_an_extent_may_leave_for_its_neighbour() {
    // Whoever puts one page more than there is room for evicts the oldest.
    let left_for_its_neighbour = |others: u32| {
        let (store, _) = store_with(
            5,
            PageSettings {
                shards: 1,
                ..settings(2)
            },
        );
        let ann = tenant(&store, "ann", 100);
        store.set_eviction(ann, EvictionKind::Lru, NOW);
        let client = PoolClient::new(&store, ann, KEEPING);
        let mut lender = FakeLender::new();
        assert!(lender.lend(&store, LEASE, 2));
        client.put(1, 0, 100);
        (0..others).for_each(|other| assert!(client.put(2, other * 128, 5).is_stored()));
        let before = client.figures().tally.evictions;
        assert!(client.put(1, 1, 101).is_stored());
        let evictions = client.figures().tally.evictions;
        lender.settle_all(&client.worker, LEASE);
        let is_away = matches!(client.begin_get(1, 0).0, GetOutcome::Away(_));
        assert_eq!(client.get_with(&lender, 1, 0), Some(100));
        assert_eq!(client.get_with(&lender, 1, 1), Some(101));
        before == 0 && evictions == 1 && is_away
    };
    assert!((0..2 * ROOM).any(left_for_its_neighbour));
}

/// Two tenants that both fill far memory share it by their weights.
#[test]
fn far_memory_is_shared_by_weight() {
    let (store, _) = store_with(9, settings(16));
    let clients = [("ann", 100), ("ben", 300)].map(|(name, weight)| {
        let tenant = tenant(&store, name, weight);
        PoolClient::new(&store, tenant, KEEPING)
    });
    let mut lender = FakeLender::new();
    assert!(lender.lend(&store, LEASE, 16));
    for index in 0..4000 {
        for client in &clients {
            assert!(client.put(1, index, index.into()).is_stored());
        }
        lender.settle_all(&clients[0].worker, LEASE);
        clients[0].worker.keep_far_blocks_ready();
    }
    let [ann, ben] = clients.map(|client| client.figures().at_lenders.0);
    assert!(ann + ben > 10 * 16, "{ann} {ben}");
    let share = ben as f64 / (ann + ben) as f64;
    assert!((0.65..0.85).contains(&share), "{ann} {ben}");
}
