//! etcd loses members, its leader, its majority and its history, and the cluster's nodes go on.

use std::sync::Arc;
use std::time::Duration;

use crate::driver::MemberCommand;
use crate::gateway::GatewaySettings;
use crate::member::Candidacy;
use crate::store::{ClusterStore, Renewal, Revision, StoreError, StoreWatch, WatchEnd};

use super::super::contract::{block_on, eventually, hear};
use super::super::driver::Driven;
use super::super::member::record;
use super::etcd_cluster::{EtcdCluster, EtcdPace, EtcdSettings, is_installed};
use super::{compact, delete, put};

fn patient() -> EtcdSettings {
    EtcdSettings {
        pace: EtcdPace::Patient,
        tls: None,
    }
}

/// Words that say that a node was lost, or that leadership moved.
fn losses(told: &[String]) -> Vec<&String> {
    let is_loss = |told: &&String| told.starts_with("gone") || told.starts_with("leader b");
    told.iter().filter(is_loss).collect()
}

#[test]
fn the_nodes_outlive_etcds_members_and_its_leader() {
    if !is_installed() {
        return;
    }
    let mut cluster = EtcdCluster::start(3, patient());
    block_on(async {
        let client = Arc::new(cluster.client());
        let mut a = Driven::start(client.clone(), "a", Candidacy::Candidate);
        a.wait_for("elected").await;
        let mut b = Driven::start(client.clone(), "b", Candidacy::Candidate);
        b.wait_for("leader a").await;
        a.wait_for("node b 0000000000000001").await;
        let leader = cluster.leader().await;
        let follower = (leader + 1) % 3;
        cluster.kill(follower);
        put(&client, "/sublet/prod/1/settings", b"{}").await;
        for node in [&mut a, &mut b] {
            let told = node.wait_for("settings true").await;
            assert!(losses(&told).is_empty(), "{told:?}");
        }
        cluster.start_member(follower);
        let member = cluster.client_of(follower);
        eventually(async || member.read("/sublet/").await.is_ok()).await;
        cluster.kill(leader);
        // etcd has no leader for some seconds. Its next one lets leases live for their whole time again.
        let write = record(7);
        eventually(async || {
            let lease = client.grant(Duration::from_secs(600)).await;
            match lease {
                Ok(grant) => client
                    .put("/sublet/prod/1/nodes/c", &write, grant.lease)
                    .await
                    .is_ok(),
                Err(_) => false,
            }
        })
        .await;
        for node in [&mut a, &mut b] {
            let told = node.wait_for("node c 0000000000000007").await;
            assert!(losses(&told).is_empty(), "{told:?}");
        }
        a.commands
            .send(MemberCommand::Leave)
            .await
            .expect("it listens");
        a.wait_for("left").await;
        b.wait_for("elected").await;
        a.end().await;
        b.finish().await;
    });
}

#[test]
fn without_a_majority_calls_end_and_nobody_leads_until_it_is_back() {
    if !is_installed() {
        return;
    }
    let mut cluster = EtcdCluster::start(3, EtcdSettings::default());
    block_on(async {
        let client = Arc::new(cluster.client());
        let mut a = Driven::start(client.clone(), "a", Candidacy::Candidate);
        a.wait_for("elected").await;
        let mut watch = client.watch("/", Revision(1)).await.expect("a watch");
        let survivor = cluster.leader().await;
        for lost in [(survivor + 1) % 3, (survivor + 2) % 3] {
            cluster.kill(lost);
        }
        let told = a.wait_for("deposed").await;
        assert!(
            !told.iter().any(|told| told.starts_with("gone")),
            "{told:?}"
        );
        let failed = client.read("/sublet/").await.expect_err("no majority");
        assert!(
            matches!(
                failed,
                StoreError::Unavailable { .. }
                    | StoreError::TimedOut { .. }
                    | StoreError::Unreachable { .. }
            ),
            "{failed}"
        );
        // A watch at the survivor ends by the header that asks for a leader, and one elsewhere by its connection.
        let end = async {
            loop {
                if let Err(end) = watch.next().await {
                    return end;
                }
            }
        };
        let end = tokio::time::timeout(Duration::from_secs(30), end).await;
        assert!(matches!(end, Ok(WatchEnd::Cut(_))), "{end:?}");
        for lost in [(survivor + 1) % 3, (survivor + 2) % 3] {
            cluster.start_member(lost);
        }
        a.wait_for("elected").await;
        a.finish().await;
    });
}

#[test]
fn a_watch_at_a_member_without_a_leader_ends() {
    if !is_installed() {
        return;
    }
    let mut cluster = EtcdCluster::start(3, EtcdSettings::default());
    block_on(async {
        let survivor = 0;
        let client = cluster.client_of(survivor);
        let mut watch = client.watch("/", Revision(1)).await.expect("a watch");
        cluster.kill(1);
        cluster.kill(2);
        let end = tokio::time::timeout(Duration::from_secs(30), watch.next()).await;
        assert!(matches!(end, Ok(Err(WatchEnd::Cut(_)))), "{end:?}");
    });
}

#[test]
fn what_happened_and_was_forgotten_while_a_node_was_cut_off_is_told() {
    if !is_installed() {
        return;
    }
    let mut cluster = EtcdCluster::start(3, EtcdSettings::default());
    block_on(async {
        let others = cluster.client_of(1);
        for node in ["b", "c", "d"] {
            put(&others, &format!("/sublet/prod/1/nodes/{node}"), &record(2)).await;
        }
        let mut a = Driven::start(Arc::new(cluster.client_of(0)), "a", Candidacy::Follower);
        a.wait_for("node a 0000000000000001").await;
        cluster.kill(0);
        a.wait_for("failed").await;
        eventually(async || others.read("/").await.is_ok()).await;
        delete(&others, "/sublet/prod/1/nodes/b").await;
        put(&others, "/sublet/prod/1/nodes/c", &record(3)).await;
        put(&others, "/sublet/prod/1/nodes/e", &record(4)).await;
        let revision = others.read("/").await.expect("read").revision;
        compact(&others, revision).await;
        cluster.start_member(0);
        put(&others, "/sublet/prod/1/settings", b"{}").await;
        let told = a.wait_for("settings true").await;
        for word in [
            "gone b",
            "node c 0000000000000003",
            "node e 0000000000000004",
        ] {
            let count = told.iter().filter(|told| *told == word).count();
            assert_eq!(count, 1, "{word}: {told:?}");
        }
        let again = told
            .iter()
            .any(|told| told.starts_with("node d") || told.starts_with("gone d"));
        assert!(!again, "what did not change is not told: {told:?}");
        a.finish().await;
    });
}

/// etcd's next leader lets leases live longer, never shorter. So what a node believes by its own clock holds.
#[test]
fn a_lease_lives_through_a_change_of_etcds_leader() {
    if !is_installed() {
        return;
    }
    let mut cluster = EtcdCluster::start(3, EtcdSettings::default());
    block_on(async {
        let settings = GatewaySettings {
            seed: 1,
            ..cluster.client_settings()
        };
        let client = crate::gateway::GatewayClient::new(settings).expect("settings that work");
        let grant = client.grant(Duration::from_secs(5)).await.expect("a lease");
        let won = client
            .campaign("/x/leader", b"x", grant.lease)
            .await
            .expect("an answer");
        let mut watch = client.watch("/x/", won.modified).await.expect("a watch");
        assert_eq!(hear(&mut watch, 1).await.len(), 1);
        let leader = cluster.leader().await;
        cluster.kill(leader);
        eventually(async || matches!(client.renew(grant.lease).await, Ok(Renewal::Renewed(_))))
            .await;
        let again = client.campaign("/x/leader", b"x", grant.lease).await;
        assert_eq!(again.expect("an answer"), won, "the term is the same");
    });
}
