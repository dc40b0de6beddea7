//! What the gateway is asked, as JSON.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use crate::answers::ENTRIES_MAX;
use crate::store::{LeaseId, Revision, Term};

/// Asks for a lease. etcd counts in seconds.
pub(crate) fn grant(ttl: Duration) -> Vec<u8> {
    let secs = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
    bytes(&json!({ "TTL": secs.max(1).to_string() }))
}

/// Renews or revokes a lease.
pub(crate) fn lease(lease: LeaseId) -> Vec<u8> {
    bytes(&json!({ "ID": lease.0.to_string() }))
}

/// Sets a key.
pub(crate) fn put(key: &str, value: &[u8], lease: LeaseId) -> Vec<u8> {
    bytes(&put_operation(key, value, lease))
}

/// Reads a prefix.
pub(crate) fn range(prefix: &str) -> Vec<u8> {
    bytes(&json!({
        "key": STANDARD.encode(prefix),
        "range_end": STANDARD.encode(prefix_end(prefix)),
        "limit": ENTRIES_MAX.to_string(),
    }))
}

/// Watches a prefix from a revision on.
pub(crate) fn watch(prefix: &str, from: Revision) -> Vec<u8> {
    bytes(&json!({ "create_request": {
        "key": STANDARD.encode(prefix),
        "range_end": STANDARD.encode(prefix_end(prefix)),
        "start_revision": from.0.to_string(),
        "progress_notify": true,
    }}))
}

/// Creates the leader's key if it is not there, and reads it.
pub(crate) fn campaign(key: &str, value: &[u8], lease: LeaseId) -> Vec<u8> {
    let read = json!({ "request_range": { "key": STANDARD.encode(key) } });
    bytes(&json!({
        "compare": [created_at(key, 0)],
        "success": [{ "request_put": put_operation(key, value, lease) }, read],
        "failure": [read],
    }))
}

/// Deletes the leader's key if it is of that term.
pub(crate) fn resign(key: &str, term: Term) -> Vec<u8> {
    bytes(&json!({
        "compare": [created_at(key, term.0)],
        "success": [{ "request_delete_range": { "key": STANDARD.encode(key) } }],
    }))
}

/// Asks for a token.
pub(crate) fn authenticate(name: &str, password: &str) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(bytes(&json!({ "name": name, "password": password })))
}

fn put_operation(key: &str, value: &[u8], lease: LeaseId) -> Value {
    json!({
        "key": STANDARD.encode(key),
        "value": STANDARD.encode(value),
        "lease": lease.0.to_string(),
    })
}

/// Compares the revision that created a key. It is 0 if the key is not there.
fn created_at(key: &str, revision: u64) -> Value {
    json!({
        "result": "EQUAL",
        "target": "CREATE",
        "key": STANDARD.encode(key),
        "create_revision": revision.to_string(),
    })
}

fn bytes(question: &Value) -> Vec<u8> {
    question.to_string().into_bytes()
}

/// The first key behind all that begin with a prefix. A lone 0 stands for no end.
fn prefix_end(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    vec![0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_behind_all_its_keys() {
        let end = prefix_end("/sublet/a/1/");
        assert_eq!(end, b"/sublet/a/10");
        assert!(b"/sublet/a/1/\xff\xff".as_slice() < end.as_slice());
        assert_eq!(prefix_end(""), [0]);
    }

    #[test]
    fn questions_are_as_the_gateway_reads_them() {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("JSON");
        assert_eq!(text(grant(Duration::from_millis(4_001))), r#"{"TTL":"5"}"#);
        assert_eq!(text(grant(Duration::ZERO)), r#"{"TTL":"1"}"#);
        assert_eq!(text(lease(LeaseId(7))), r#"{"ID":"7"}"#);
        assert_eq!(
            text(put("/a", b"b", LeaseId(7))),
            r#"{"key":"L2E=","lease":"7","value":"Yg=="}"#
        );
        let campaign = text(campaign("/a", b"b", LeaseId(7)));
        assert!(campaign.contains(r#""create_revision":"0""#), "{campaign}");
        let resign = text(resign("/a", Term(9)));
        assert!(resign.contains(r#""create_revision":"9""#), "{resign}");
    }
}
