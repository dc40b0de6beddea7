//! The messages of a watch.

use serde::Deserialize;

use crate::store::{Change, Revision};

use super::entries::KeyValue;
use super::fault::parse;
use super::gateway_fault::FaultBody;
use super::number::GatewayNumber;
use super::{AnswerFault, GatewayFault};

/// A message of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchMessage {
    /// The watch is open. The member of etcd stands at this revision.
    Created(Revision),
    /// These changes happened, in this order.
    Changes(Vec<Change>),
    /// The watch is still open.
    Progress,
    /// etcd has forgotten revisions that were to be told. The watch is over.
    Compacted,
    /// etcd has ended the watch.
    Canceled {
        /// What etcd says.
        reason: String,
    },
    /// The stream is over by an error.
    Failed(GatewayFault),
}

#[derive(Debug, Deserialize)]
struct StreamMessage {
    result: Option<WatchAnswer>,
    error: Option<FaultBody>,
}

#[derive(Debug, Deserialize)]
struct WatchAnswer {
    header: Option<WatchHeader>,
    #[serde(default)]
    created: bool,
    #[serde(default)]
    canceled: bool,
    #[serde(default)]
    compact_revision: GatewayNumber,
    #[serde(default)]
    cancel_reason: String,
    #[serde(default)]
    events: Vec<KeyEvent>,
}

/// Of a watch that ends by a compaction it has no revision.
#[derive(Debug, Deserialize)]
struct WatchHeader {
    #[serde(default)]
    revision: GatewayNumber,
}

#[derive(Debug, Deserialize)]
struct KeyEvent {
    #[serde(rename = "type", default)]
    kind: KeyEventKind,
    kv: KeyValue,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum KeyEventKind {
    /// The gateway leaves it out.
    #[default]
    Put,
    Delete,
}

/// Parses one message of a watch.
///
/// # Errors
///
/// It is none.
pub fn decode_watch(line: &[u8]) -> Result<WatchMessage, AnswerFault> {
    let what = "a watch";
    let message: StreamMessage = parse(what, line)?;
    if let Some(fault) = message.error {
        return Ok(WatchMessage::Failed(fault.into()));
    }
    let missing = |missing| AnswerFault::Missing { what, missing };
    let answer = message.result.ok_or(missing("result"))?;
    if answer.compact_revision.0 > 0 {
        return Ok(WatchMessage::Compacted);
    }
    if answer.canceled {
        let reason = answer.cancel_reason;
        return Ok(WatchMessage::Canceled { reason });
    }
    if answer.created {
        let revision = answer.header.map_or(0, |header| header.revision.0);
        return match revision {
            0 => Err(missing("revision")),
            revision => Ok(WatchMessage::Created(Revision(revision))),
        };
    }
    let changes: Vec<Change> = answer.events.into_iter().filter_map(change).collect();
    Ok(match changes.is_empty() {
        true => WatchMessage::Progress,
        false => WatchMessage::Changes(changes),
    })
}

/// The change. `None` if the key is no UTF-8: none of ours is so.
fn change(event: KeyEvent) -> Option<Change> {
    match event.kind {
        KeyEventKind::Put => event.kv.into_entry().map(Change::Put),
        KeyEventKind::Delete => Some(Change::Deleted {
            key: String::from_utf8(event.kv.key.0).ok()?,
            revision: Revision(event.kv.mod_revision.0),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(line: &str) -> WatchMessage {
        decode_watch(line.as_bytes()).expect(line)
    }

    #[test]
    fn each_message_of_a_watch_is_known() {
        let created = r#"{"result":{"header":{"cluster_id":"1","revision":"12"},"created":true}}"#;
        assert_eq!(decode(created), WatchMessage::Created(Revision(12)));
        let changes = r#"{"result":{"header":{"revision":"14"},"events":[
            {"kv":{"key":"L2E=","create_revision":"13","mod_revision":"13","version":"1","value":"Yg=="}},
            {"type":"DELETE","kv":{"key":"L2E=","mod_revision":"14"}}]}}"#;
        let WatchMessage::Changes(changes) = decode(changes) else {
            panic!("changes");
        };
        assert!(matches!(&changes[0], Change::Put(entry) if entry.value == b"b"));
        let deleted = Change::Deleted {
            key: "/a".to_owned(),
            revision: Revision(14),
        };
        assert_eq!(changes[1], deleted);
        let progress = r#"{"result":{"header":{"revision":"14"}}}"#;
        assert_eq!(decode(progress), WatchMessage::Progress);
    }

    #[test]
    fn each_end_of_a_watch_is_known() {
        let compacted =
            r#"{"result":{"header":{"cluster_id":"1"},"canceled":true,"compact_revision":"9"}}"#;
        assert_eq!(decode(compacted), WatchMessage::Compacted);
        let canceled = r#"{"result":{"header":{"revision":"14"},"watch_id":"-1","created":true,"canceled":true,"cancel_reason":"etcdserver: permission denied"}}"#;
        let reason = "etcdserver: permission denied".to_owned();
        assert_eq!(decode(canceled), WatchMessage::Canceled { reason });
        for failed in [
            r#"{"error":{"grpc_code":14,"http_code":503,"message":"etcdserver: no leader"}}"#,
            r#"{"error":{"code":14,"message":"etcdserver: no leader","details":[]}}"#,
        ] {
            assert!(matches!(decode(failed), WatchMessage::Failed(fault) if fault.code == 14));
        }
        for wrong in [
            "",
            "{}",
            "[]",
            r#"{"result":{"created":true}}"#,
            r#"{"result":{"header":{"cluster_id":"1"},"created":true}}"#,
            r#"{"result":{"events":[{"type":"MOVE"}]}}"#,
        ] {
            assert!(decode_watch(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
