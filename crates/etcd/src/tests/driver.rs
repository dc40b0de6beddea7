//! A member and a store in a task: calls beside each other, commands, and a host that does not listen.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinHandle;

use crate::driver::{MemberCommand, drive};
use crate::member::{Candidacy, ClusterMember, MemberEvent};
use crate::store::ClusterStore;
use crate::testing::FakeStore;

use super::contract::{block_on, eventually};
use super::member::{record, settings, word};

/// How long an event may take.
const TOLD_WITHIN: Duration = Duration::from_secs(60);

/// A member that a task drives.
pub(super) struct Driven {
    pub(super) commands: Sender<MemberCommand>,
    pub(super) events: Receiver<MemberEvent>,
    task: JoinHandle<()>,
}

impl Driven {
    pub(super) fn start<S: ClusterStore>(
        store: Arc<S>,
        node: &str,
        candidacy: Candidacy,
    ) -> Driven {
        let member = ClusterMember::new(settings(node, candidacy));
        let (commands, orders) = mpsc::channel(4);
        let (told, events) = mpsc::channel(4);
        let task = tokio::spawn(drive(store, member, orders, told));
        Driven {
            commands,
            events,
            task,
        }
    }

    /// Waits for an event. Returns those before it, as words.
    pub(super) async fn wait_for(&mut self, wanted: &str) -> Vec<String> {
        let mut before = Vec::new();
        let wait = async {
            while let Some(event) = self.events.recv().await {
                let told = word(&event);
                if told == wanted {
                    return;
                }
                before.push(told);
            }
            panic!("the driver has ended: {before:?}");
        };
        let within = tokio::time::timeout(TOLD_WITHIN, wait).await;
        assert!(within.is_ok(), "{wanted} is not told, but {before:?}");
        before
    }

    /// Lets the host go away, and waits for the driver's end.
    pub(super) async fn finish(self) {
        let Driven {
            commands,
            mut events,
            task,
        } = self;
        drop(commands);
        events.close();
        let ended = tokio::time::timeout(TOLD_WITHIN, task).await;
        ended.expect("it ends").expect("without a panic");
    }

    /// Waits for the driver's end after the member has left.
    pub(super) async fn end(self) {
        let ended = tokio::time::timeout(TOLD_WITHIN, self.task).await;
        ended.expect("it ends").expect("without a panic");
    }
}

#[test]
fn two_members_see_each_other_and_one_follows_the_other() {
    block_on(async {
        let store = FakeStore::new();
        let mut a = Driven::start(Arc::new(store.clone()), "a", Candidacy::Candidate);
        a.wait_for("elected").await;
        let mut b = Driven::start(Arc::new(store.clone()), "b", Candidacy::Candidate);
        b.wait_for("leader a").await;
        a.wait_for("node b 0000000000000001").await;
        a.commands
            .send(MemberCommand::Leave)
            .await
            .expect("it listens");
        a.wait_for("left").await;
        a.end().await;
        b.wait_for("gone a").await;
        b.wait_for("elected").await;
        b.finish().await;
        store.with(|etcd| assert!(etcd.read("/").entries.is_empty()));
    });
}

#[test]
fn a_store_that_was_away_is_followed_again() {
    block_on(async {
        let store = FakeStore::new();
        let mut a = Driven::start(Arc::new(store.clone()), "a", Candidacy::Follower);
        a.wait_for("node a 0000000000000001").await;
        store.cut();
        a.wait_for("failed").await;
        let put = |key: &str| store.with(|etcd| etcd.put(key, &record(2), None).map(drop));
        put("/sublet/prod/1/nodes/b").expect("set");
        store.with(|etcd| etcd.compact());
        put("/sublet/prod/1/nodes/c").expect("set");
        store.heal();
        a.wait_for("node c 0000000000000002").await;
        store.with(|etcd| etcd.delete("/sublet/prod/1/nodes/b"));
        let before = a.wait_for("gone b").await;
        let twice = before
            .iter()
            .filter(|told| told.starts_with("node"))
            .count();
        assert_eq!(twice, 0, "{before:?}");
        a.finish().await;
    });
}

/// The queue of events is full, and nobody takes any. The lease is renewed all the same.
#[test]
fn a_host_that_does_not_listen_does_not_end_the_lease() {
    block_on(async {
        let store = FakeStore::new();
        let a = Driven::start(Arc::new(store.clone()), "a", Candidacy::Follower);
        let is_registered = || store.with(|etcd| etcd.get("/sublet/prod/1/nodes/a").is_some());
        eventually(async || is_registered()).await;
        for number in 0..100 {
            let key = format!("/sublet/prod/1/nodes/n{number}");
            store
                .with(|etcd| etcd.put(&key, &record(2), None))
                .expect("set");
        }
        let renewals = store.with(|etcd| etcd.renewals());
        eventually(async || store.with(|etcd| etcd.renewals()) > renewals + 1).await;
        drop(a);
    });
}
