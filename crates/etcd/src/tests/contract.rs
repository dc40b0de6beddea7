//! What every store must do, as assertions that the fake and a real etcd both pass.

use std::time::Duration;

use crate::store::{
    Change, ClusterStore, Entry, LeaseId, Renewal, Revision, StoreError, StoreWatch, WatchEnd,
};
use crate::testing::FakeStore;

/// How long a store may take to tell what has happened.
const TOLD_WITHIN: Duration = Duration::from_secs(30);

/// What a test does to a store behind the back of its clients.
pub(super) trait StoreUnderTest {
    type Store: ClusterStore;

    fn store(&self) -> &Self::Store;

    /// Lets enough time pass for a lease of that length to end.
    async fn outlive(&self, ttl: Duration);

    /// Lets the store forget all changes up to now.
    async fn compact(&self);

    /// Deletes a key, as an operator would.
    async fn delete(&self, key: &str);
}

/// Runs all assertions, each below a prefix of its own.
pub(super) async fn holds<T: StoreUnderTest>(test: &T) {
    keys_have_revisions_and_leases(test).await;
    keys_end_with_their_lease(test).await;
    a_watch_tells_all_in_order(test).await;
    a_watch_of_what_is_forgotten_says_so(test).await;
    one_candidate_wins_until_it_resigns(test).await;
    a_leader_that_is_silent_loses(test).await;
}

async fn lease<S: ClusterStore>(store: &S, secs: u64) -> LeaseId {
    let grant = store.grant(Duration::from_secs(secs)).await;
    grant.expect("a lease").lease
}

async fn keys_have_revisions_and_leases<T: StoreUnderTest>(test: &T) {
    let store = test.store();
    let lease = lease(store, 600).await;
    let first = store.put("/k/1/a", b"one", lease).await.expect("set");
    let second = store.put("/k/1/a", b"\xff\0", lease).await.expect("set");
    let third = store.put("/k/1/b", b"", lease).await.expect("set");
    for other in ["/k/1", "/k/10", "/k/2/a"] {
        store.put(other, b"other", lease).await.expect("set");
    }
    assert!(first < second && second < third);
    let snapshot = store.read("/k/1/").await.expect("read");
    assert!(snapshot.revision >= third);
    let mut entries = snapshot.entries;
    entries.sort_by(|a, b| a.key.cmp(&b.key));
    let entry = |key: &str, value: &[u8], created, modified| Entry {
        key: key.to_owned(),
        value: value.to_vec(),
        created,
        modified,
        lease: Some(lease),
    };
    let expected = [
        entry("/k/1/a", b"\xff\0", first, second),
        entry("/k/1/b", b"", third, third),
    ];
    assert_eq!(entries, expected);
    store.revoke(lease).await.expect("revoked");
    assert!(store.read("/k/").await.expect("read").entries.is_empty());
}

async fn keys_end_with_their_lease<T: StoreUnderTest>(test: &T) {
    let store = test.store();
    let grant = store.grant(Duration::from_secs(2)).await.expect("a lease");
    assert!(grant.ttl >= Duration::from_secs(2));
    let renewed = store.renew(grant.lease).await.expect("renewed");
    assert_eq!(renewed, Renewal::Renewed(grant.ttl));
    store.put("/l/a", b"1", grant.lease).await.expect("set");
    test.outlive(grant.ttl).await;
    eventually(async || store.read("/l/").await.expect("read").entries.is_empty()).await;
    assert_eq!(
        store.renew(grant.lease).await.expect("an answer"),
        Renewal::Gone
    );
    let refused = store.put("/l/a", b"1", grant.lease).await;
    assert!(matches!(refused, Err(StoreError::LeaseGone)), "{refused:?}");
    let refused = store.campaign("/l/leader", b"1", grant.lease).await;
    assert!(matches!(refused, Err(StoreError::LeaseGone)), "{refused:?}");
    store.revoke(grant.lease).await.expect("no error");
}

async fn a_watch_tells_all_in_order<T: StoreUnderTest>(test: &T) {
    let store = test.store();
    let lease = lease(store, 600).await;
    let first = store.put("/w/a", b"1", lease).await.expect("set");
    store.put("/v/a", b"not this", lease).await.expect("set");
    store.put("/w/a", b"2", lease).await.expect("set");
    test.delete("/w/a").await;
    let mut watch = store.watch("/w/", first).await.expect("a watch");
    assert!(watch.opened_at() >= first);
    let told = hear(&mut watch, 3).await;
    assert!(
        matches!(&told[0], Change::Put(entry) if entry.value == b"1" && entry.created == first)
    );
    assert!(
        matches!(&told[1], Change::Put(entry) if entry.value == b"2" && entry.created == first)
    );
    assert!(matches!(&told[2], Change::Deleted { key, .. } if key == "/w/a"));
    assert!(told.is_sorted_by(|a, b| a.revision() < b.revision()));
    let last = told[2].revision();
    // What happens while it is open is told, too, and a second watch goes on where the first one was.
    store.put("/w/b", b"3", lease).await.expect("set");
    let next = hear(&mut watch, 1).await;
    drop(watch);
    store.revoke(lease).await.expect("revoked");
    let mut watch = store.watch("/w/", last.next()).await.expect("a watch");
    let again = hear(&mut watch, 2).await;
    assert_eq!(again[0], next[0]);
    assert!(matches!(&again[1], Change::Deleted { key, .. } if key == "/w/b"));
}

async fn a_watch_of_what_is_forgotten_says_so<T: StoreUnderTest>(test: &T) {
    let store = test.store();
    let lease = lease(store, 600).await;
    let first = store.put("/c/a", b"1", lease).await.expect("set");
    let mut open = store.watch("/c/", first).await.expect("a watch");
    assert_eq!(hear(&mut open, 1).await.len(), 1);
    store.put("/c/a", b"2", lease).await.expect("set");
    let last = store.put("/c/a", b"3", lease).await.expect("set");
    assert_eq!(hear(&mut open, 2).await.len(), 2);
    test.compact().await;
    let told = match store.watch("/c/", first).await {
        Ok(mut watch) => watch.next().await.map(|_| ()),
        Err(end) => Err(end),
    };
    assert!(matches!(told, Err(WatchEnd::Compacted)), "{told:?}");
    // A watch that is open, and one from the next revision on, have nothing to fear.
    let mut fresh = store.watch("/c/", last.next()).await.expect("a watch");
    store.put("/c/a", b"4", lease).await.expect("set");
    for watch in [&mut open, &mut fresh] {
        let told = hear(watch, 1).await;
        assert!(
            matches!(&told[0], Change::Put(entry) if entry.value == b"4"),
            "{told:?}"
        );
    }
    store.revoke(lease).await.expect("revoked");
}

async fn one_candidate_wins_until_it_resigns<T: StoreUnderTest>(test: &T) {
    let store = test.store();
    let (one, other) = (lease(store, 600).await, lease(store, 600).await);
    let won = store
        .campaign("/e/leader", b"one", one)
        .await
        .expect("an answer");
    assert_eq!((won.lease, &won.value[..]), (Some(one), &b"one"[..]));
    assert_eq!(won.created, won.modified);
    let lost = store.campaign("/e/leader", b"other", other).await;
    assert_eq!(lost.expect("an answer"), won);
    let again = store.campaign("/e/leader", b"one", one).await;
    assert_eq!(again.expect("an answer"), won);
    let wrong = crate::store::Term(won.term().0 + 1);
    store.resign("/e/leader", wrong).await.expect("no error");
    assert_eq!(
        store.read("/e/").await.expect("read").entries,
        std::slice::from_ref(&won)
    );
    store
        .resign("/e/leader", won.term())
        .await
        .expect("resigned");
    store
        .resign("/e/leader", won.term())
        .await
        .expect("no error");
    let next = store
        .campaign("/e/leader", b"other", other)
        .await
        .expect("an answer");
    assert_eq!(next.lease, Some(other));
    assert!(next.term() > won.term());
    store
        .resign("/e/leader", won.term())
        .await
        .expect("no error");
    assert_eq!(store.read("/e/").await.expect("read").entries, [next]);
    store.revoke(other).await.expect("revoked");
    assert!(store.read("/e/").await.expect("read").entries.is_empty());
    store.revoke(one).await.expect("revoked");
}

async fn a_leader_that_is_silent_loses<T: StoreUnderTest>(test: &T) {
    let store = test.store();
    let other = lease(store, 600).await;
    let silent = store.grant(Duration::from_secs(2)).await.expect("a lease");
    let won = store.campaign("/s/leader", b"silent", silent.lease).await;
    let won = won.expect("an answer");
    let mut watch = store
        .watch("/s/", won.modified.next())
        .await
        .expect("a watch");
    test.outlive(silent.ttl).await;
    let told = hear(&mut watch, 1).await;
    assert!(
        matches!(&told[0], Change::Deleted { key, revision } if key == "/s/leader" && *revision > won.modified)
    );
    let next = store
        .campaign("/s/leader", b"other", other)
        .await
        .expect("an answer");
    assert_eq!(next.lease, Some(other));
    assert!(next.term() > won.term());
    store.revoke(other).await.expect("revoked");
}

/// Waits for at least so many changes.
pub(super) async fn hear<W: StoreWatch>(watch: &mut W, count: usize) -> Vec<Change> {
    let all = async {
        let mut told = Vec::new();
        while told.len() < count {
            told.extend(watch.next().await.expect("changes"));
        }
        told
    };
    tokio::time::timeout(TOLD_WITHIN, all)
        .await
        .expect("changes are told")
}

/// Waits until something is so.
pub(super) async fn eventually(mut is_so: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let within = tokio::time::timeout(TOLD_WITHIN, wait).await;
    within.expect("it comes to be so");
}

impl StoreUnderTest for FakeStore {
    type Store = FakeStore;

    fn store(&self) -> &FakeStore {
        self
    }

    async fn outlive(&self, ttl: Duration) {
        self.advance(ttl);
    }

    async fn compact(&self) {
        self.with(|etcd| etcd.compact());
    }

    async fn delete(&self, key: &str) {
        self.with(|etcd| etcd.delete(key));
    }
}

/// A runtime of one thread.
pub(super) fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(work)
}

#[test]
fn the_fake_keeps_the_contract() {
    block_on(holds(&FakeStore::new()));
}

#[test]
fn the_fake_ends_watches_delays_calls_and_loses_answers() {
    block_on(async {
        let store = FakeStore::new();
        let lease = lease(&store, 600).await;
        let mut watch = store.watch("/", Revision(1)).await.expect("a watch");
        store.cut();
        assert!(matches!(watch.next().await, Err(WatchEnd::Cut(_))));
        assert!(store.read("/").await.is_err());
        store.heal();
        store.lose_answers(1);
        assert!(store.put("/a", b"1", lease).await.is_err());
        assert_eq!(store.read("/").await.expect("read").entries.len(), 1);
        store.set_delay(Duration::from_secs(1));
        let mut read = std::pin::pin!(store.read("/"));
        let early = std::future::poll_fn(|cx| std::task::Poll::Ready(read.as_mut().poll(cx))).await;
        assert!(early.is_pending());
        store.advance(Duration::from_secs(1));
        assert_eq!(read.await.expect("read").entries.len(), 1);
    });
}
