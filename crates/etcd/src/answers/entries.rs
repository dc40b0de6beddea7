//! The answers about keys.

use serde::Deserialize;

use crate::store::{Entry, LeaseId, PrefixSnapshot, Revision};

use super::AnswerFault;
use super::base64_bytes::Base64Bytes;
use super::fault::parse;
use super::number::GatewayNumber;

/// The most keys below a cluster's prefix.
pub const ENTRIES_MAX: usize = 16_384;

/// What each answer begins with.
#[derive(Debug, Deserialize)]
struct Header {
    revision: GatewayNumber,
}

/// A key with its value. Of a key that was deleted, only the revision of that is there.
#[derive(Debug, Deserialize)]
pub(super) struct KeyValue {
    pub(super) key: Base64Bytes,
    #[serde(default)]
    value: Base64Bytes,
    #[serde(default)]
    create_revision: GatewayNumber,
    pub(super) mod_revision: GatewayNumber,
    #[serde(default)]
    lease: GatewayNumber,
}

#[derive(Debug, Deserialize)]
struct PutAnswer {
    header: Header,
}

#[derive(Debug, Deserialize)]
struct RangeAnswer {
    header: Header,
    #[serde(default)]
    kvs: Vec<KeyValue>,
    #[serde(default)]
    more: bool,
}

#[derive(Debug, Deserialize)]
struct TransactionAnswer {
    #[serde(default)]
    responses: Vec<TransactionResponse>,
}

/// Of one operation of a transaction. Those that are no reading are skipped.
#[derive(Debug, Deserialize)]
struct TransactionResponse {
    response_range: Option<RangeAnswer>,
}

impl KeyValue {
    /// The entry. `None` if the key is no UTF-8: none of ours is so.
    pub(super) fn into_entry(self) -> Option<Entry> {
        Some(Entry {
            key: String::from_utf8(self.key.0).ok()?,
            value: self.value.0,
            created: Revision(self.create_revision.0),
            modified: Revision(self.mod_revision.0),
            lease: Some(LeaseId(self.lease.0)).filter(|lease| lease.0 != 0),
        })
    }
}

/// Parses the answer to a reading of a prefix.
///
/// # Errors
///
/// It is none, or has too many keys.
pub fn decode_range(bytes: &[u8]) -> Result<PrefixSnapshot, AnswerFault> {
    let answer: RangeAnswer = parse("keys", bytes)?;
    if answer.more || answer.kvs.len() > ENTRIES_MAX {
        return Err(AnswerFault::Many);
    }
    let entries = answer.kvs.into_iter().filter_map(KeyValue::into_entry);
    Ok(PrefixSnapshot {
        revision: Revision(answer.header.revision.0),
        entries: entries.collect(),
    })
}

/// Parses the answer to a put: the revision of the change.
///
/// # Errors
///
/// It is none.
pub fn decode_put(bytes: &[u8]) -> Result<Revision, AnswerFault> {
    let answer: PutAnswer = parse("a key that was set", bytes)?;
    Ok(Revision(answer.header.revision.0))
}

/// Parses the answer to a campaign: the entry of the leader's key, which the transaction read last.
///
/// # Errors
///
/// It is none, or has no such entry.
pub fn decode_campaign(bytes: &[u8]) -> Result<Entry, AnswerFault> {
    let what = "a campaign";
    let answer: TransactionAnswer = parse(what, bytes)?;
    let mut ranges = answer
        .responses
        .into_iter()
        .filter_map(|response| response.response_range);
    let entry = ranges.next().and_then(|range| range.kvs.into_iter().next());
    entry
        .and_then(KeyValue::into_entry)
        .filter(|entry| entry.created.0 > 0)
        .ok_or(AnswerFault::Missing {
            what,
            missing: "leader's key",
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_with_what_the_gateway_leaves_out() {
        let json = br#"{"header":{"cluster_id":"1","member_id":"2","revision":"12","raft_term":"3"},
            "kvs":[{"key":"L2E=","create_revision":"5","mod_revision":"9","version":"2","value":"Yg==","lease":"77"},
                   {"key":"L2I=","create_revision":"6","mod_revision":"6","version":"1"},
                   {"key":"/w==","create_revision":"6","mod_revision":"6"}],"count":"3"}"#;
        let snapshot = decode_range(json).expect("keys");
        assert_eq!(snapshot.revision, Revision(12));
        let [a, b] = &snapshot.entries[..] else {
            panic!("two keys are UTF-8: {snapshot:?}");
        };
        assert_eq!(
            (a.key.as_str(), &a.value[..], a.lease),
            ("/a", &b"b"[..], Some(LeaseId(77)))
        );
        assert_eq!((a.created, a.modified), (Revision(5), Revision(9)));
        assert_eq!(
            (b.key.as_str(), &b.value[..], b.lease),
            ("/b", &b""[..], None)
        );
    }

    #[test]
    fn what_lacks_a_revision_is_no_empty_store() {
        for json in [
            "",
            "{}",
            "[]",
            "null",
            r#"{"kvs":[]}"#,
            r#"{"header":{}}"#,
            r#"{"header":null}"#,
            r#"{"header":{"revision":"-1"}}"#,
            r#"{"header":{"revision":"1"},"kvs":[{}]}"#,
            r#"{"header":{"revision":"1"},"kvs":[{"key":"?","mod_revision":"1"}]}"#,
            r#"{"header":{"revision":"1"},"kvs":[{"key":"L2E="}]}"#,
            r#"{"header":{"revision":"1"},"kvs":"#,
        ] {
            assert!(decode_range(json.as_bytes()).is_err(), "{json}");
        }
        let more = br#"{"header":{"revision":"1"},"more":true}"#;
        assert!(matches!(decode_range(more), Err(AnswerFault::Many)));
    }

    #[test]
    fn a_campaign_tells_who_leads_whether_it_won_or_not() {
        let range = r#"{"response_range":{"header":{"revision":"9"},"kvs":[{"key":"L2w=","create_revision":"9","mod_revision":"9","version":"1","value":"YQ==","lease":"4"}],"count":"1"}}"#;
        let won = format!(
            r#"{{"header":{{"revision":"9"}},"succeeded":true,"responses":[{{"response_put":{{"header":{{"revision":"9"}}}}}},{range}]}}"#
        );
        let lost = format!(r#"{{"header":{{"revision":"9"}},"responses":[{range}]}}"#);
        for json in [won, lost] {
            let entry = decode_campaign(json.as_bytes()).expect("a leader");
            assert_eq!((entry.term().0, entry.lease), (9, Some(LeaseId(4))));
        }
        for json in [
            "{}",
            r#"{"responses":[]}"#,
            r#"{"responses":[{"response_range":{"header":{"revision":"9"}}}]}"#,
        ] {
            assert!(decode_campaign(json.as_bytes()).is_err(), "{json}");
        }
        assert_eq!(
            decode_put(br#"{"header":{"revision":"3"}}"#).expect("set"),
            Revision(3)
        );
        assert!(decode_put(b"{}").is_err());
    }
}
