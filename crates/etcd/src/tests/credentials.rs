//! Credentials that are renewed while a client works.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use zeroize::Zeroizing;

use crate::gateway::{EtcdUser, GatewayClient, GatewaySettings, RenewedCredentials};
use crate::member::Candidacy;
use crate::store::{ClusterStore, Revision, StoreError, StoreWatch, WatchEnd};

use super::contract::{block_on, eventually};
use super::driver::Driven;
use super::fake_gateway::{FakeGateway, HeardRequest, Reply, settings};

const LOGIN: &str = "/v3/auth/authenticate";
const READ: &str = "/v3/kv/range";
const WATCH: &str = "/v3/watch";

/// An etcd that knows one password, which a test changes. A token is good as long as its password.
#[derive(Clone)]
struct PasswordCheck {
    password: Arc<Mutex<&'static str>>,
    logins: Arc<AtomicUsize>,
}

impl PasswordCheck {
    fn new(password: &'static str) -> PasswordCheck {
        PasswordCheck {
            password: Arc::new(Mutex::new(password)),
            logins: Arc::default(),
        }
    }

    fn change(&self, password: &'static str) {
        *self.password.lock().expect("no panic") = password;
    }

    async fn serve(&self) -> FakeGateway {
        let check = self.clone();
        FakeGateway::start(move |heard| check.answer(heard)).await
    }

    fn answer(&self, heard: &HeardRequest) -> Reply {
        let password = *self.password.lock().expect("no panic");
        let token = format!("of {password}");
        let refused = |status, code, message: &str| {
            let body =
                serde_json::json!({ "message": format!("etcdserver: {message}"), "code": code });
            Reply::Json(status, body.to_string())
        };
        match heard.path.as_str() {
            LOGIN if heard.question["password"] == password => {
                self.logins.fetch_add(1, Ordering::Relaxed);
                Reply::Json(200, format!(r#"{{"token":"{token}"}}"#))
            }
            LOGIN => refused(400, 3, "authentication failed, invalid user ID or password"),
            _ if heard.header("authorization") != Some(token.as_str()) => {
                refused(401, 16, "invalid auth token")
            }
            WATCH => {
                let created = r#"{"result":{"header":{"revision":"7"},"created":true}}"#;
                Reply::Stream(vec![format!("{created}\n")])
            }
            _ => Reply::Json(200, r#"{"header":{"revision":"7"}}"#.to_owned()),
        }
    }
}

fn client_with(gateway: &FakeGateway, password: &str) -> GatewayClient {
    let settings = GatewaySettings {
        user: Some(EtcdUser {
            name: "sublet".to_owned(),
            password: Zeroizing::new(password.to_owned()),
        }),
        ..settings(&[gateway])
    };
    GatewayClient::new(settings).expect("settings that work")
}

fn password(text: &str) -> RenewedCredentials {
    RenewedCredentials {
        password: Some(Zeroizing::new(text.to_owned())),
        ..RenewedCredentials::default()
    }
}

#[test]
fn a_password_that_was_renewed_is_used_over_a_new_connection_with_a_new_token() {
    block_on(async {
        let check = PasswordCheck::new("old");
        let gateway = check.serve().await;
        let client = client_with(&gateway, "old");
        client.read("/a/").await.expect("read");
        check.change("new");
        let refused = client.read("/a/").await.expect_err("the old password");
        assert!(
            matches!(refused, StoreError::LoginRefused { .. }),
            "{refused}"
        );
        let before = gateway.heard().len();
        client.renew_credentials(password("new"));
        client.read("/a/").await.expect("read");
        let heard = gateway.heard().split_off(before);
        let paths: Vec<&str> = heard.iter().map(|heard| heard.path.as_str()).collect();
        assert_eq!(paths, [LOGIN, READ]);
        assert!(heard.iter().all(|heard| heard.connection > 0), "{heard:?}");
    });
}

/// etcd takes some tenths of a second of processor time for a token, and a fleet may be told to read its files at once.
#[test]
fn a_password_that_is_the_same_needs_no_new_token_but_a_new_connection() {
    block_on(async {
        let check = PasswordCheck::new("same");
        let gateway = check.serve().await;
        let client = client_with(&gateway, "same");
        client.read("/a/").await.expect("read");
        client.renew_credentials(password("same"));
        client.read("/a/").await.expect("read");
        assert_eq!(check.logins.load(Ordering::Relaxed), 1);
        let connections = gateway.heard().into_iter().map(|heard| heard.connection);
        assert_eq!(connections.collect::<Vec<_>>(), [0, 0, 1]);
        // Certificates alone were read anew.
        client.renew_credentials(RenewedCredentials::default());
        client.read("/a/").await.expect("read");
        assert_eq!(check.logins.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn an_open_watch_ends_and_the_next_one_shows_the_new_token() {
    block_on(async {
        let check = PasswordCheck::new("old");
        let gateway = check.serve().await;
        let client = client_with(&gateway, "old");
        let mut watch = client.watch("/", Revision(8)).await.expect("a watch");
        check.change("new");
        client.renew_credentials(password("new"));
        let end = watch.next().await;
        assert!(matches!(end, Err(WatchEnd::Renewed)), "{end:?}");
        let _open = client.watch("/", Revision(8)).await.expect("a watch");
        let heard = gateway.heard();
        let last = heard.last().expect("a request");
        assert_eq!(
            (last.path.as_str(), last.header("authorization")),
            (WATCH, Some("of new"))
        );
    });
}

/// A call that waits for its answer is not broken off: a lease may hang on it.
#[test]
fn a_call_in_flight_ends_as_it_began() {
    block_on(async {
        let check = PasswordCheck::new("old");
        let gateway = check.serve().await;
        let client = client_with(&gateway, "old");
        let mut read = std::pin::pin!(client.read("/a/"));
        let early = std::future::poll_fn(|cx| std::task::Poll::Ready(read.as_mut().poll(cx))).await;
        assert!(early.is_pending());
        client.renew_credentials(password("new"));
        read.await.expect("read with the old password");
    });
}

/// The whole of a member: its user was shut out, its lease ended, and it takes part again with the new password.
#[test]
fn a_member_that_was_shut_out_goes_on_with_credentials_that_were_renewed() {
    block_on(async {
        let check = PasswordCheck::new("new");
        let gateway = check.serve().await;
        let client = Arc::new(client_with(&gateway, "old"));
        let mut a = Driven::start(client.clone(), "a", Candidacy::Follower);
        a.wait_for("failed").await;
        client.renew_credentials(password("new"));
        a.wait_for("synchronized").await;
        let watches = || gateway.paths().iter().filter(|path| *path == WATCH).count();
        eventually(async || watches() == 1).await;
        client.renew_credentials(RenewedCredentials::default());
        eventually(async || watches() == 2).await;
        a.finish().await;
    });
}
