//! Members and clients against real etcds on this host. Where etcd is not installed, these tests say so and pass.

mod authority;
mod etcd_cluster;
mod faults;
mod secured;

use std::time::Duration;

use serde_json::json;

use crate::store::ClusterStore;
use crate::store::Revision;

use super::contract::{self, StoreUnderTest, block_on};
use etcd_cluster::{EtcdCluster, EtcdSettings, is_installed};

/// An etcd of one member, with the client of a test.
struct LiveStore {
    client: crate::gateway::GatewayClient,
}

impl StoreUnderTest for LiveStore {
    type Store = crate::gateway::GatewayClient;

    fn store(&self) -> &crate::gateway::GatewayClient {
        &self.client
    }

    async fn outlive(&self, ttl: Duration) {
        tokio::time::sleep(ttl).await;
    }

    async fn compact(&self) {
        let revision = self.client.read("/").await.expect("read").revision;
        compact(&self.client, revision).await;
    }

    async fn delete(&self, key: &str) {
        delete(&self.client, key).await;
    }
}

/// Lets etcd forget all changes up to a revision.
async fn compact(client: &crate::gateway::GatewayClient, revision: Revision) {
    let question = json!({ "revision": revision.0.to_string(), "physical": true });
    let compacted = client.ask("/v3/kv/compaction", &question).await;
    compacted.expect("compacted");
}

async fn delete(client: &crate::gateway::GatewayClient, key: &str) {
    let question = json!({ "key": base64_of(key) });
    let deleted = client.ask("/v3/kv/deleterange", &question).await;
    deleted.expect("deleted");
}

async fn put(client: &crate::gateway::GatewayClient, key: &str, value: &[u8]) {
    let question = json!({ "key": base64_of(key), "value": base64_of(value) });
    let set = client.ask("/v3/kv/put", &question).await;
    set.expect("set");
}

fn base64_of(bytes: impl AsRef<[u8]>) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[test]
fn etcd_keeps_the_contract() {
    if !is_installed() {
        return;
    }
    let cluster = EtcdCluster::start(1, EtcdSettings::default());
    block_on(async {
        let client = cluster.client();
        contract::holds(&LiveStore { client }).await;
    });
}
