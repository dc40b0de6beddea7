//! The gateway client against servers that answer oddly.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use zeroize::Zeroizing;

use crate::answers::AnswerFault;
use crate::gateway::{CallTimes, EtcdUser, GatewayClient, GatewaySettings};
use crate::store::{
    ClusterStore, LeaseId, Renewal, Revision, StoreError, StoreWatch, Term, WatchEnd,
};

use super::contract::block_on;
use super::fake_gateway::{FakeGateway, HeardRequest, Reply, client, settings};

const EMPTY: &str = r#"{"header":{"revision":"7"}}"#;

/// A limit that a test runs into.
const SHORT: Duration = Duration::from_millis(150);

fn json(body: &str) -> Reply {
    Reply::Json(200, body.to_owned())
}

fn fault(status: u16, code: u32, message: &str) -> Reply {
    let message = format!("etcdserver: {message}");
    let body = serde_json::json!({ "error": message, "message": message, "code": code });
    Reply::Json(status, body.to_string())
}

fn short_times() -> CallTimes {
    CallTimes {
        call: SHORT,
        renewal: SHORT,
        login: SHORT,
        silence: SHORT,
    }
}

/// A client that gives up soon.
fn hasty_client(gateways: &[&FakeGateway]) -> GatewayClient {
    let settings = GatewaySettings {
        times: short_times(),
        ..settings(gateways)
    };
    GatewayClient::new(settings).expect("settings that work")
}

fn client_with_user(gateways: &[&FakeGateway]) -> GatewayClient {
    let settings = GatewaySettings {
        user: Some(EtcdUser {
            name: "sublet".to_owned(),
            password: Zeroizing::new("pass word".to_owned()),
        }),
        ..settings(gateways)
    };
    GatewayClient::new(settings).expect("settings that work")
}

#[test]
fn an_endpoint_that_fails_is_followed_by_the_next_one_which_is_kept() {
    block_on(async {
        let broken = FakeGateway::start(|_| Reply::Hangup).await;
        let no_leader = FakeGateway::start(|_| fault(503, 14, "no leader")).await;
        let well = FakeGateway::start(|_| json(EMPTY)).await;
        let client = client(&[&broken, &no_leader, &well]);
        for _ in 0..3 {
            let snapshot = client.read("/a/").await.expect("read");
            assert_eq!(snapshot.revision, Revision(7));
        }
        assert_eq!(broken.paths(), ["/v3/kv/range"]);
        assert_eq!(no_leader.paths(), ["/v3/kv/range"]);
        assert_eq!(well.paths(), ["/v3/kv/range"; 3]);
    });
}

#[test]
fn nobody_listens_or_nobody_answers_and_the_call_has_an_end() {
    block_on(async {
        let gone = {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
            listener.local_addr().expect("an address")
        };
        let mut settings = GatewaySettings {
            endpoints: vec![format!("http://{gone}").parse().expect("an endpoint")],
            ..settings(&[])
        };
        settings.times = short_times();
        let client = GatewayClient::new(settings).expect("settings that work");
        let refused = client.read("/a/").await.expect_err("nobody is there");
        assert!(
            matches!(refused, StoreError::Unreachable { .. }),
            "{refused}"
        );
        assert!(refused.to_string().contains(&gone.to_string()), "{refused}");
        let silent = FakeGateway::start(|_| Reply::Silence).await;
        let client = hasty_client(&[&silent, &silent]);
        let late = client.renew(LeaseId(1)).await.expect_err("nobody answers");
        assert!(
            matches!(late, StoreError::TimedOut { limit, .. } if limit == SHORT),
            "{late}"
        );
        assert_eq!(silent.paths().len(), 2, "each endpoint is tried once");
        let late = client.watch("/a/", Revision(1)).await;
        assert!(matches!(
            late,
            Err(WatchEnd::Cut(StoreError::TimedOut { .. }))
        ));
    });
}

#[test]
fn odd_answers_are_faults_and_no_empty_stores() {
    let endless = format!(
        "HTTP/1.1 200 OK\r\n\r\n{{\"header\":\"{}",
        "a".repeat(1 << 16)
    );
    for reply in [
        "",
        "{}",
        "[]",
        "null",
        "{\"header\":{\"revision\":\"7\"",
        "{\"header\":{\"revision\":[]}}",
        "<html>welcome</html>",
        "{\"header\":{\"revision\":\"7\"}}{\"header\":{\"revision\":\"7\"}}",
    ] {
        block_on(async {
            let odd = FakeGateway::start(move |_| json(reply)).await;
            let failed = client(&[&odd]).read("/a/").await.expect_err(reply);
            assert!(
                matches!(failed, StoreError::Garbled { .. }),
                "{reply}: {failed}"
            );
        });
    }
    for raw in [
        "SSH-2.0-OpenSSH_9.2\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"header\"".to_owned(),
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n".to_owned(),
        endless,
    ] {
        block_on(async {
            let bytes = raw.clone().into_bytes();
            let odd = FakeGateway::start(move |_| Reply::Raw(bytes.clone())).await;
            assert!(client(&[&odd]).read("/a/").await.is_err(), "{raw:.40}");
        });
    }
}

#[test]
fn an_answer_without_end_is_not_read_to_its_end() {
    block_on(async {
        let huge = FakeGateway::start(|_| {
            let piece = "1".repeat(1 << 20);
            Reply::Stream(vec![piece; 40])
        })
        .await;
        let failed = client(&[&huge]).read("/a/").await.expect_err("huge");
        let StoreError::Garbled { fault, .. } = failed else {
            panic!("{failed}");
        };
        assert!(matches!(fault, AnswerFault::Long { .. }), "{fault}");
    });
}

#[test]
fn a_connection_is_used_again_and_one_that_was_closed_costs_no_error() {
    block_on(async {
        let count = AtomicUsize::new(0);
        let gateway = FakeGateway::start(move |_| {
            match count.fetch_add(1, Ordering::Relaxed) {
                // The answer is whole, and then the connection ends, as that of a member that restarts.
                1 => {
                    let length = EMPTY.len();
                    let whole =
                        format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{EMPTY}");
                    Reply::Raw(whole.into_bytes())
                }
                _ => json(EMPTY),
            }
        })
        .await;
        let client = client(&[&gateway]);
        for _ in 0..4 {
            client.read("/a/").await.expect("read");
        }
        assert_eq!(gateway.paths().len(), 4);
    });
}

#[test]
fn faults_of_the_cluster_are_told_by_the_first_endpoint() {
    block_on(async {
        let gateway = FakeGateway::start(|heard| match heard.path.as_str() {
            "/v3/kv/range" => fault(403, 7, "permission denied"),
            "/v3/kv/put" => fault(404, 5, "requested lease not found"),
            "/v3/lease/revoke" => fault(404, 5, "requested lease not found"),
            "/v3/kv/txn" => fault(429, 8, "mvcc: database space exceeded"),
            "/v3/lease/grant" => fault(400, 3, "user name is empty"),
            _ => Reply::Json(404, "404 page not found\n".to_owned()),
        })
        .await;
        let other = FakeGateway::start(|_| json(EMPTY)).await;
        let client = client(&[&gateway, &other]);
        let denied = client.read("/a/").await.expect_err("denied");
        assert!(matches!(&denied, StoreError::Denied { .. }), "{denied}");
        let gone = client.put("/a/b", b"", LeaseId(1)).await.expect_err("gone");
        assert!(matches!(gone, StoreError::LeaseGone), "{gone}");
        client.revoke(LeaseId(1)).await.expect("it is gone already");
        let full = client.resign("/a/leader", Term(1)).await.expect_err("full");
        assert!(full.to_string().contains("space exceeded"), "{full}");
        let unknown = client
            .grant(Duration::from_secs(5))
            .await
            .expect_err("no user");
        assert!(matches!(unknown, StoreError::NoUser { .. }), "{unknown}");
        let old = client.renew(LeaseId(1)).await.expect_err("an old etcd");
        assert!(old.to_string().contains("etcd 3.4"), "{old}");
        assert!(other.paths().is_empty(), "{:?}", other.paths());
    });
}

#[test]
fn a_renewal_says_how_long_the_lease_lives_or_that_it_is_gone() {
    block_on(async {
        let gateway = FakeGateway::start(|heard| {
            let id = heard.question["ID"].as_str().expect("a lease").to_owned();
            let ttl = if id == "7" { r#","TTL":"8""# } else { "" };
            let line = format!("{{\"result\":{{\"header\":{{}},\"ID\":\"{id}\"{ttl}}}}}\n");
            Reply::EndedStream(vec![line])
        })
        .await;
        let client = client(&[&gateway]);
        let renewed = client.renew(LeaseId(7)).await.expect("renewed");
        assert_eq!(renewed, Renewal::Renewed(Duration::from_secs(8)));
        assert_eq!(
            client.renew(LeaseId(8)).await.expect("an answer"),
            Renewal::Gone
        );
        let failing = FakeGateway::start(|_| {
            let line =
                r#"{"error":{"grpc_code":14,"http_code":503,"message":"etcdserver: no leader"}}"#;
            Reply::EndedStream(vec![line.to_owned()])
        })
        .await;
        let failed = client_of(&failing).renew(LeaseId(7)).await;
        assert!(matches!(failed, Err(StoreError::Unavailable { .. })));
    });
}

fn client_of(gateway: &FakeGateway) -> GatewayClient {
    client(&[gateway])
}

fn created(revision: u64) -> String {
    format!("{{\"result\":{{\"header\":{{\"revision\":\"{revision}\"}},\"created\":true}}}}\n")
}

fn change(key: &str, revision: u64) -> String {
    format!(
        "{{\"result\":{{\"header\":{{\"revision\":\"{revision}\"}},\"events\":[{{\"type\":\"DELETE\",\"kv\":{{\"key\":\"{key}\",\"mod_revision\":\"{revision}\"}}}}]}}}}\n"
    )
}

#[test]
fn a_watch_is_cut_into_messages_wherever_its_bytes_are_cut() {
    block_on(async {
        let text = created(4) + "\n" + &change("L2E=", 5) + &change("L2I=", 6);
        for size in [1, 7, 64, 4_096] {
            let pieces: Vec<String> = text
                .as_bytes()
                .chunks(size)
                .map(|piece| String::from_utf8(piece.to_vec()).expect("ASCII"))
                .collect();
            let gateway = FakeGateway::start(move |_| Reply::Stream(pieces.clone())).await;
            let mut watch = client_of(&gateway)
                .watch("/", Revision(5))
                .await
                .expect("a watch");
            assert_eq!(watch.opened_at(), Revision(4));
            for revision in [5, 6] {
                let told = watch.next().await.expect("a change");
                assert_eq!(told.len(), 1);
                assert_eq!(told[0].revision(), Revision(revision));
            }
            let heard = &gateway.heard()[0];
            assert_eq!(heard.path, "/v3/watch");
            assert_eq!(heard.header("grpc-metadata-hasleader"), Some("true"));
            assert_eq!(heard.question["create_request"]["start_revision"], "5");
        }
    });
}

#[test]
fn a_watch_ends_by_silence_by_its_end_by_an_error_and_by_a_compaction() {
    block_on(async {
        let silent = FakeGateway::start(|_| Reply::Stream(vec![created(4)])).await;
        let mut watch = hasty_client(&[&silent])
            .watch("/", Revision(5))
            .await
            .expect("a watch");
        assert!(matches!(watch.next().await, Err(WatchEnd::Silent)));
        let ended = FakeGateway::start(|_| Reply::EndedStream(vec![created(4)])).await;
        let mut watch = client_of(&ended)
            .watch("/", Revision(5))
            .await
            .expect("a watch");
        assert!(matches!(
            watch.next().await,
            Err(WatchEnd::Cut(StoreError::Unreachable { .. }))
        ));
        let failing =
            r#"{"error":{"grpc_code":14,"message":"etcdserver: no leader"}}"#.to_owned() + "\n";
        let cut =
            FakeGateway::start(move |_| Reply::Stream(vec![created(4), failing.clone()])).await;
        let mut watch = client_of(&cut)
            .watch("/", Revision(5))
            .await
            .expect("a watch");
        assert!(matches!(
            watch.next().await,
            Err(WatchEnd::Cut(StoreError::Unavailable { .. }))
        ));
        let compacted =
            r#"{"result":{"header":{"revision":"9"},"canceled":true,"compact_revision":"8"}}"#
                .to_owned()
                + "\n";
        let forgetful =
            FakeGateway::start(move |_| Reply::Stream(vec![created(4), compacted.clone()])).await;
        let mut watch = client_of(&forgetful)
            .watch("/", Revision(5))
            .await
            .expect("a watch");
        assert!(matches!(watch.next().await, Err(WatchEnd::Compacted)));
        let broken =
            r#"{"error":{"grpc_code":11,"message":"etcdserver: mvcc: required revision has been compacted"}}"#
                .to_owned()
                + "\n";
        let broken =
            FakeGateway::start(move |_| Reply::Stream(vec![created(4), broken.clone()])).await;
        let mut watch = client_of(&broken)
            .watch("/", Revision(5))
            .await
            .expect("a watch");
        assert!(matches!(watch.next().await, Err(WatchEnd::Compacted)));
        let odd = FakeGateway::start(|_| Reply::Stream(vec!["hello\n".to_owned()])).await;
        let refused = client_of(&odd).watch("/", Revision(5)).await;
        assert!(matches!(
            refused,
            Err(WatchEnd::Cut(StoreError::Garbled { .. }))
        ));
        let endless = FakeGateway::start(|_| {
            let piece = "a".repeat(1 << 20);
            let mut pieces = vec![created(4)];
            pieces.resize(12, piece);
            Reply::Stream(pieces)
        })
        .await;
        let mut watch = client_of(&endless)
            .watch("/", Revision(5))
            .await
            .expect("a watch");
        let long = watch.next().await;
        assert!(
            matches!(long, Err(WatchEnd::Cut(StoreError::Garbled { .. }))),
            "{long:?}"
        );
    });
}

#[test]
fn an_endpoint_where_no_watch_opens_is_followed_by_the_next_one() {
    block_on(async {
        let no_leader = FakeGateway::start(|_| fault(503, 14, "no leader")).await;
        let well = FakeGateway::start(|_| Reply::Stream(vec![created(4)])).await;
        let denying = FakeGateway::start(|_| fault(403, 7, "permission denied")).await;
        let opened = client(&[&no_leader, &well]).watch("/", Revision(5)).await;
        assert_eq!(opened.expect("a watch").opened_at(), Revision(4));
        let denied = client(&[&denying, &well]).watch("/", Revision(5)).await;
        assert!(matches!(
            denied.map(drop),
            Err(WatchEnd::Cut(StoreError::Denied { .. }))
        ));
        assert_eq!(well.paths().len(), 1, "all endpoints would deny it");
    });
}

#[test]
fn watches_change_places() {
    block_on(async {
        let one = FakeGateway::start(|_| Reply::Stream(vec![created(4)])).await;
        let other = FakeGateway::start(|_| Reply::Stream(vec![created(4)])).await;
        let client = client(&[&one, &other]);
        for _ in 0..4 {
            client.watch("/", Revision(5)).await.expect("a watch");
        }
        assert_eq!((one.paths().len(), other.paths().len()), (2, 2));
    });
}

/// An etcd with users, whose tokens are `t0`, `t1` and so on. It accepts those from `first` on.
async fn with_users(first: usize) -> FakeGateway {
    let count = AtomicUsize::new(0);
    FakeGateway::start(move |heard| answer_with_users(heard, &count, first)).await
}

fn answer_with_users(heard: &HeardRequest, count: &AtomicUsize, first: usize) -> Reply {
    if heard.path == "/v3/auth/authenticate" {
        return match heard.question["password"].as_str() {
            Some("pass word") => {
                let token = count.fetch_add(1, Ordering::Relaxed);
                json(&format!(
                    r#"{{"header":{{"revision":"1"}},"token":"t{token}"}}"#
                ))
            }
            _ => fault(400, 3, "authentication failed, invalid user ID or password"),
        };
    }
    let token = heard
        .header("authorization")
        .and_then(|token| token.strip_prefix('t'));
    match token.map(|token| token.parse::<usize>().expect("a token")) {
        Some(token) if token >= first => json(EMPTY),
        Some(_) => fault(401, 16, "invalid auth token"),
        None => fault(400, 3, "user name is empty"),
    }
}

#[test]
fn a_token_is_asked_for_once_and_again_when_it_is_refused() {
    block_on(async {
        let gateway = with_users(0).await;
        let client = client_with_user(&[&gateway]);
        for _ in 0..2 {
            client.read("/a/").await.expect("read");
        }
        assert_eq!(
            gateway.paths(),
            ["/v3/auth/authenticate", "/v3/kv/range", "/v3/kv/range"]
        );
        let restarted = with_users(1).await;
        let client = client_with_user(&[&restarted]);
        client
            .read("/a/")
            .await
            .expect("read with the second token");
        let login = "/v3/auth/authenticate";
        assert_eq!(
            restarted.paths(),
            [login, "/v3/kv/range", login, "/v3/kv/range"]
        );
        let stubborn = with_users(usize::MAX).await;
        let refused = client_with_user(&[&stubborn]).read("/a/").await;
        assert!(matches!(refused, Err(StoreError::TokenRefused { .. })));
        assert_eq!(stubborn.paths().len(), 4, "one new token, and no more");
    });
}

/// Two calls are refused with one token. The first asks for a new one, and the other one takes that.
#[test]
fn calls_beside_each_other_share_a_token_and_the_next_one() {
    block_on(async {
        let restarted = with_users(1).await;
        let client = client_with_user(&[&restarted]);
        let (one, other) = tokio::join!(client.read("/a/"), client.read("/b/"));
        one.expect("read with the second token");
        other.expect("read with the second token");
        let paths = restarted.paths();
        let logins = paths.iter().filter(|path| *path == "/v3/auth/authenticate");
        assert_eq!(logins.count(), 2, "{paths:?}");
    });
}

#[test]
fn a_wrong_password_is_told_and_never_shown() {
    block_on(async {
        let gateway = with_users(0).await;
        let mut settings = settings(&[&gateway]);
        settings.user = Some(EtcdUser {
            name: "sublet".to_owned(),
            password: Zeroizing::new("wrong".to_owned()),
        });
        let client = GatewayClient::new(settings).expect("settings that work");
        let refused = client.read("/a/").await.expect_err("refused");
        assert!(
            matches!(refused, StoreError::LoginRefused { .. }),
            "{refused}"
        );
        let told = format!("{refused} {refused:?}");
        assert!(told.contains("sublet") && !told.contains("wrong"), "{told}");
    });
}

#[test]
fn an_etcd_without_users_is_spoken_to_without_a_token_until_it_has_users() {
    block_on(async {
        let has_users = std::sync::Arc::new(AtomicUsize::new(0));
        let (switch, count) = (has_users.clone(), AtomicUsize::new(0));
        let gateway = FakeGateway::start(move |heard| {
            match (switch.load(Ordering::Relaxed), heard.path.as_str()) {
                (0, "/v3/auth/authenticate") => fault(400, 9, "authentication is not enabled"),
                (0, _) => json(EMPTY),
                _ => answer_with_users(heard, &count, 0),
            }
        })
        .await;
        let client = client_with_user(&[&gateway]);
        for _ in 0..2 {
            client.read("/a/").await.expect("read");
        }
        assert_eq!(
            gateway.paths().len(),
            3,
            "it is asked once whether it has users"
        );
        has_users.store(1, Ordering::Relaxed);
        client.read("/a/").await.expect("read with a token");
    });
}

/// etcd 3.4 cancels a watch for lack of permission if it does not know the token.
#[test]
fn a_watch_that_is_denied_is_tried_with_a_new_token_once() {
    block_on(async {
        let count = AtomicUsize::new(0);
        let gateway = FakeGateway::start(move |heard| match heard.path.as_str() {
            "/v3/watch" if heard.header("authorization") == Some("t1") => {
                Reply::Stream(vec![created(4)])
            }
            "/v3/watch" => {
                let denied = r#"{"result":{"header":{"revision":"4"},"watch_id":"-1","created":true,"canceled":true,"cancel_reason":"etcdserver: permission denied"}}"#;
                Reply::Stream(vec![format!("{denied}\n")])
            }
            _ => answer_with_users(heard, &count, 0),
        })
        .await;
        let client = client_with_user(&[&gateway]);
        client
            .watch("/", Revision(5))
            .await
            .expect("a watch with the second token");
        let anonymous = client_of(&gateway).watch("/", Revision(5)).await;
        assert!(matches!(
            anonymous,
            Err(WatchEnd::Cut(StoreError::Denied { .. }))
        ));
    });
}
