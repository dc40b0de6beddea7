//! A ring's batch of gets whose pages lenders have.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use sublet_client::ring::GetOutcome;
use sublet_store::{
    AwayTicket, FarAddress, LeaseSlot, PageKey, PageSettings, SealTag, SendOutcome, Store,
    StoreSettings, Worker,
};
use sublet_types::{
    Bytes, EvictionKind, ObjectId, PageIndex, PoolFlags, PoolId, Second, TenantId, TenantSettings,
    Weight,
};

use crate::far_pages::{FAR_PAGES_MAX, FetchFarPages};
use crate::ring::page_operations::PageOperations;
use crate::tenancy::{Clock, Ledger, StoreHandle, Tenancy};

const LEASE: LeaseSlot = LeaseSlot(0);

/// More pages than the store has memory for.
const PAGES: u32 = 4096;

/// The pages of a lender in this thread, and how many were asked for each time.
#[derive(Default)]
struct LentPages {
    stored: HashMap<FarAddress, Vec<u8>>,
    fetched: Vec<AwayTicket>,
    fetches: Vec<usize>,
    /// What happens while the next fetch waits.
    meanwhile: Option<Meanwhile>,
}

type Meanwhile = Box<dyn FnOnce(&mut LentPages)>;

struct LocalFetches(Rc<RefCell<LentPages>>);

impl FetchFarPages for LocalFetches {
    fn fetch(&mut self, tickets: &[AwayTicket]) {
        let mut lender = self.0.borrow_mut();
        lender.fetched = tickets.to_vec();
        lender.fetches.push(tickets.len());
        if let Some(meanwhile) = lender.meanwhile.take() {
            meanwhile(&mut lender);
        }
    }

    fn take(&mut self, visit: &mut dyn FnMut(usize, Option<&[u8]>)) {
        let lender = self.0.borrow();
        for (n, ticket) in lender.fetched.iter().enumerate() {
            let page = lender.stored.get(&ticket.address);
            visit(n, page.map(Vec::as_slice));
        }
    }
}

fn store() -> (Arc<Store>, TenantId, PoolId) {
    let store = Store::new(StoreSettings {
        capacity: Bytes::mib(12),
        limit: Bytes::mib(12),
        item_max: Bytes::mib(1),
        seed: 7,
        evicts: true,
        pages: PageSettings {
            far_blocks: 16,
            ..PageSettings::default()
        },
    });
    let store = store.expect("memory for a small store");
    let settings = TenantSettings {
        name: "t".parse().expect("a name"),
        weight: Weight::default(),
        floor: None,
        ceiling: None,
    };
    let tenant = store.add_tenant(settings).expect("a tenant");
    let flags = PoolFlags {
        persistent: false,
        shared: false,
        keeping: true,
    };
    let pool = store.create_pool(tenant, flags, None).expect("a pool");
    store.add_to_lease(LEASE, 0, 0..16).expect("room");
    (store, tenant, pool)
}

/// Lets the lender have all that waits in the outbox.
fn carry(worker: &Worker, lender: &mut LentPages) {
    let mut sent = Vec::new();
    worker.take_outbound(LEASE, usize::MAX, |page, bytes| {
        lender.stored.insert(page.address, bytes.to_vec());
        sent.push(page);
    });
    for page in sent {
        worker.settle(page, SendOutcome::Taken(SealTag::default()));
    }
}

/// Fills the store beyond its memory. Returns the keys of pages that the lender has, as many as asked for.
fn keys_at_lender(
    tenancy: &Tenancy,
    pool: PoolId,
    lender: &mut LentPages,
    count: usize,
) -> Vec<PageKey> {
    let (worker, tenant, now) = tenancy.worker_tenant_now();
    for index in 0..PAGES {
        put(tenancy, key(pool, index), lender);
    }
    let keys = (0..PAGES).map(|index| key(pool, index));
    let away = keys.filter(|key| worker.away_ticket(tenant, *key, now).is_some());
    away.take(count).collect()
}

/// Puts a page, and lets the lender have what is evicted for it.
fn put(tenancy: &Tenancy, key: PageKey, lender: &mut LentPages) {
    let (worker, tenant, now) = tenancy.worker_tenant_now();
    worker.put_page(tenant, key, now, |page| page.write(&content(key)));
    carry(worker, lender);
}

fn key(pool: PoolId, index: u32) -> PageKey {
    PageKey {
        pool,
        object: ObjectId(1),
        index: PageIndex(index),
    }
}

fn content(key: PageKey) -> Vec<u8> {
    let words = (0..1024).map(|word| key.index.0 + (word << 16));
    words.flat_map(u32::to_le_bytes).collect()
}

#[test]
fn a_batch_gets_more_far_pages_than_are_fetched_at_once() {
    const COUNT: usize = FAR_PAGES_MAX + 31;
    let (store, tenant, pool) = store();
    let lender = Rc::new(RefCell::new(LentPages::default()));
    let handle = StoreHandle::new(&store, Clock::start(), &Arc::new(Ledger::default()));
    let handle = handle.expect("a worker");
    let handle = handle.with_far_pages(Box::new(LocalFetches(Rc::clone(&lender))));
    let tenancy = handle.open(tenant);
    let keys = keys_at_lender(&tenancy, pool, &mut lender.borrow_mut(), COUNT);
    assert_eq!(keys.len(), COUNT);

    let mut pages = vec![Vec::new(); COUNT];
    let mut outcomes = vec![Vec::new(); COUNT];
    tenancy.get_pages(
        &keys,
        |n, page| pages[n] = page.to_vec(),
        |n, got| outcomes[n].push(got),
    );
    assert_eq!(outcomes, vec![vec![GetOutcome::Hit]; COUNT]);
    for (key, page) in keys.iter().zip(pages) {
        assert_eq!(page, content(*key), "{key:?}");
    }
    assert_eq!(lender.borrow().fetches, [FAR_PAGES_MAX, 31]);

    // The next batch forgets the one before.
    tenancy.get_pages(&keys[..1], |_, _| (), |n, _| assert_eq!(n, 0));
    assert_eq!(lender.borrow().fetches, [FAR_PAGES_MAX, 31, 1]);
}

/// While a get waits, another puts its page anew, and that leaves, too. The get is told a miss, so it stays one (R-G4).
#[test]
fn what_was_told_as_a_miss_is_no_hit_later() {
    let (store, tenant, pool) = store();
    // By others, a page that comes round again stays.
    store.set_eviction(tenant, EvictionKind::Lru, Second(2));
    let ledger = Arc::new(Ledger::default());
    let handle = || StoreHandle::new(&store, Clock::start(), &ledger).expect("a worker");
    let lender = Rc::new(RefCell::new(LentPages::default()));
    let others = handle().open(tenant);
    let waiting = handle().with_far_pages(Box::new(LocalFetches(Rc::clone(&lender))));
    let waiting = waiting.open(tenant);
    let key = keys_at_lender(&others, pool, &mut lender.borrow_mut(), 1)[0];

    let leaves_again = move |lender: &mut LentPages| {
        let (worker, tenant, now) = others.worker_tenant_now();
        let ticket = || worker.away_ticket(tenant, key, now);
        put(&others, key, lender);
        assert!(ticket().is_none(), "it is here");
        let mut fresh = (PAGES..4 * PAGES).map(|index| self::key(pool, index));
        while ticket().is_none() {
            put(&others, fresh.next().expect("it leaves"), lender);
        }
    };
    lender.borrow_mut().meanwhile = Some(Box::new(leaves_again));
    let got = |tenancy: &Tenancy| {
        let mut outcome = None;
        tenancy.get_pages(&[key], |_, _| (), |_, got| outcome = Some(got));
        outcome.expect("told")
    };
    assert_eq!(got(&waiting), GetOutcome::Miss);
    assert_eq!(got(&waiting), GetOutcome::Miss);
}
