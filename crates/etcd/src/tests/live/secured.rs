//! etcds with users, and etcds with TLS.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use zeroize::Zeroizing;

use crate::gateway::{EtcdTls, EtcdUser, GatewayClient, GatewaySettings, RenewedCredentials};
use crate::member::Candidacy;
use crate::store::{ClusterStore, Revision, StoreError, WatchEnd};

use super::super::contract::{block_on, eventually};
use super::super::driver::Driven;
use super::super::member::record;
use super::authority::{TestAuthority, tls_files};
use super::etcd_cluster::{EtcdCluster, EtcdFiles, EtcdSettings, is_installed};
use super::{base64_of, put};

/// Gives etcd a root and a user `sublet`, who may do everything below the cluster's prefix and nothing else.
async fn enable_users(client: &GatewayClient) {
    let permission = json!({
        "permType": "READWRITE",
        "key": base64_of("/sublet/prod/1/"),
        "range_end": base64_of("/sublet/prod/10"),
    });
    for (path, question) in [
        ("/v3/auth/role/add", json!({ "name": "root" })),
        ("/v3/auth/role/add", json!({ "name": "nodes" })),
        (
            "/v3/auth/role/grant",
            json!({ "name": "nodes", "perm": permission }),
        ),
        (
            "/v3/auth/user/add",
            json!({ "name": "root", "password": "of root" }),
        ),
        (
            "/v3/auth/user/add",
            json!({ "name": "sublet", "password": "of sublet" }),
        ),
        (
            "/v3/auth/user/grant",
            json!({ "user": "root", "role": "root" }),
        ),
        (
            "/v3/auth/user/grant",
            json!({ "user": "sublet", "role": "nodes" }),
        ),
        ("/v3/auth/enable", json!({})),
    ] {
        let answer = client.ask(path, &question).await;
        answer.unwrap_or_else(|error| panic!("{path}: {error}"));
    }
}

fn as_user(cluster: &EtcdCluster, name: &str, password: &str) -> GatewayClient {
    let settings = GatewaySettings {
        user: Some(EtcdUser {
            name: name.to_owned(),
            password: Zeroizing::new(password.to_owned()),
        }),
        ..cluster.client_settings()
    };
    GatewayClient::new(settings).expect("settings that work")
}

#[test]
fn a_user_by_name_and_password_may_do_what_the_role_says() {
    if !is_installed() {
        return;
    }
    let mut cluster = EtcdCluster::start(1, EtcdSettings::default());
    block_on(async {
        let anonymous = cluster.client();
        // This client was configured before etcd had users.
        let early = Arc::new(as_user(&cluster, "sublet", "of sublet"));
        early
            .read("/sublet/prod/1/")
            .await
            .expect("read without users");
        enable_users(&anonymous).await;
        let unknown = anonymous
            .read("/sublet/prod/1/")
            .await
            .expect_err("no user");
        assert!(matches!(unknown, StoreError::NoUser { .. }), "{unknown}");
        let wrong = as_user(&cluster, "sublet", "wrong")
            .read("/sublet/prod/1/")
            .await;
        assert!(
            matches!(wrong, Err(StoreError::LoginRefused { .. })),
            "{wrong:?}"
        );
        let foreign = early.read("/sublet/other/1/").await.expect_err("denied");
        assert!(matches!(foreign, StoreError::Denied { .. }), "{foreign}");
        let foreign = early.watch("/sublet/other/1/", Revision(1)).await.map(drop);
        assert!(
            matches!(foreign, Err(WatchEnd::Cut(StoreError::Denied { .. }))),
            "{foreign:?}"
        );
        let mut a = Driven::start(early.clone(), "a", Candidacy::Candidate);
        a.wait_for("elected").await;
        // A member that is started again has forgotten all tokens.
        cluster.kill(0);
        a.wait_for("failed").await;
        cluster.start_member(0);
        let other = as_user(&cluster, "sublet", "of sublet");
        eventually(async || other.read("/sublet/prod/1/").await.is_ok()).await;
        let mut b = Driven::start(Arc::new(other), "b", Candidacy::Follower);
        b.wait_for("node b 0000000000000001").await;
        a.wait_for("node b 0000000000000001").await;
        a.finish().await;
        b.finish().await;
    });
}

#[test]
fn tls_needs_both_certificates() {
    if !is_installed() {
        return;
    }
    let authority = TestAuthority::new();
    let stranger = TestAuthority::new();
    let files = EtcdFiles {
        authority: authority.certificate(),
        certificate: authority.sign("etcd"),
    };
    let cluster = EtcdCluster::start(
        1,
        EtcdSettings {
            tls: Some(files),
            ..EtcdSettings::default()
        },
    );
    let with = |authority: &TestAuthority, certificate| {
        let files = tls_files(&authority.certificate(), certificate);
        let settings = GatewaySettings {
            tls: Some(EtcdTls::read(&files).expect("files that work")),
            ..cluster.client_settings()
        };
        GatewayClient::new(settings).expect("settings that work")
    };
    block_on(async {
        let trusted = with(&authority, Some(authority.sign("node")));
        let lease = trusted
            .grant(Duration::from_secs(60))
            .await
            .expect("a lease")
            .lease;
        trusted
            .put("/sublet/prod/1/nodes/x", b"x", lease)
            .await
            .expect("set");
        for untrusted in [
            with(&stranger, Some(authority.sign("node"))),
            with(&authority, Some(stranger.sign("node"))),
            with(&authority, None),
        ] {
            let refused = untrusted.read("/sublet/").await.expect_err("no trust");
            assert!(matches!(refused, StoreError::Tls { .. }), "{refused}");
            let refused = untrusted.watch("/sublet/", Revision(1)).await.map(drop);
            assert!(
                matches!(refused, Err(WatchEnd::Cut(StoreError::Tls { .. }))),
                "{refused:?}"
            );
        }
        let mut a = Driven::start(Arc::new(trusted), "a", Candidacy::Candidate);
        a.wait_for("elected").await;
        a.finish().await;
    });
}

/// etcd goes on with a node's token, and its member forgets that when it is started again.
#[test]
fn a_member_takes_part_again_with_a_password_that_was_renewed() {
    if !is_installed() {
        return;
    }
    let mut cluster = EtcdCluster::start(1, EtcdSettings::default());
    block_on(async {
        enable_users(&cluster.client()).await;
        let node = Arc::new(as_user(&cluster, "sublet", "of sublet"));
        let mut a = Driven::start(node.clone(), "a", Candidacy::Candidate);
        a.wait_for("elected").await;
        let root = as_user(&cluster, "root", "of root");
        let changed = json!({ "name": "sublet", "password": "another" });
        let answer = root.ask("/v3/auth/user/changepw", &changed).await;
        answer.expect("changed");
        cluster.kill(0);
        cluster.start_member(0);
        a.wait_for("deposed").await;
        node.renew_credentials(RenewedCredentials {
            password: Some(Zeroizing::new("another".to_owned())),
            ..RenewedCredentials::default()
        });
        a.wait_for("elected").await;
        put(&root, "/sublet/prod/1/nodes/b", &record(2)).await;
        a.wait_for("node b 0000000000000002").await;
        a.finish().await;
    });
}

#[test]
fn a_member_shows_the_certificate_that_was_renewed_last() {
    if !is_installed() {
        return;
    }
    let (authority, stranger) = (TestAuthority::new(), TestAuthority::new());
    let files = EtcdFiles {
        authority: authority.certificate(),
        certificate: authority.sign("etcd"),
    };
    let secured = EtcdSettings {
        tls: Some(files),
        ..EtcdSettings::default()
    };
    let cluster = EtcdCluster::start(1, secured);
    let signed_by = |signer: &TestAuthority| {
        let files = tls_files(&authority.certificate(), Some(signer.sign("node")));
        RenewedCredentials {
            tls: Some(EtcdTls::read(&files).expect("files that work")),
            ..RenewedCredentials::default()
        }
    };
    block_on(async {
        let node = Arc::new(cluster.client());
        let mut a = Driven::start(node.clone(), "a", Candidacy::Candidate);
        a.wait_for("elected").await;
        node.renew_credentials(signed_by(&stranger));
        a.wait_for("deposed").await;
        node.renew_credentials(signed_by(&authority));
        a.wait_for("elected").await;
        a.finish().await;
    });
}

/// docs/cluster.md says it: etcd's gateway takes no certificate with a common name where it has users.
#[test]
fn etcds_users_show_certificates_without_a_subject() {
    if !is_installed() {
        return;
    }
    let authority = TestAuthority::new();
    let files = EtcdFiles {
        authority: authority.certificate(),
        certificate: authority.sign("etcd"),
    };
    let secured = EtcdSettings {
        tls: Some(files),
        ..EtcdSettings::default()
    };
    let cluster = EtcdCluster::start(1, secured);
    block_on(async {
        enable_users(&cluster.client()).await;
        let node = as_user(&cluster, "sublet", "of sublet");
        node.read("/sublet/prod/1/").await.expect("read");
        let named = Some(authority.sign_with_subject("named"));
        let files = tls_files(&authority.certificate(), named);
        node.renew_credentials(RenewedCredentials {
            tls: Some(EtcdTls::read(&files).expect("files that work")),
            ..RenewedCredentials::default()
        });
        let refused = node.read("/sublet/prod/1/").await.expect_err("a name");
        assert!(refused.to_string().contains("CommonName"), "{refused}");
    });
}
