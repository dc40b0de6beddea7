//! What a node and a leader write about themselves. Fields that this version does not know are skipped, so that nodes
//! of two versions can be in one cluster.

use serde::{Deserialize, Serialize};
use sublet_types::{NodeName, explain_serde};

/// The most bytes of a record.
pub const RECORD_BYTES_MAX: usize = 8 << 10;

/// The most addresses of a node.
pub const ADDRESSES_MAX: usize = 8;

/// The most bytes of a text in a record.
const TEXT_BYTES_MAX: usize = 512;

/// What a node writes about itself when it registers. Others read the addresses. The rest is for people that look into the
/// store: a node proves it by its certificate, in its hello and in its reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Where it listens for control connections, as `HOST:PORT`. They are [`ADDRESSES_MAX`] at most.
    pub addresses: Vec<String>,
    /// The SHA-256 fingerprint of its certificate, in hexadecimal digits.
    pub fingerprint: String,
    /// The random number of its run, in 16 hexadecimal digits.
    pub incarnation: String,
    /// Where it stands. Nodes of one rack are near to each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rack: Option<String>,
}

/// What a leader writes into its key.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct LeaderRecord {
    /// Its name.
    pub node: NodeName,
}

/// Why a record is not used.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// It is too long.
    #[error("a record of {bytes} bytes, and {RECORD_BYTES_MAX} are the most")]
    Long {
        /// Its bytes.
        bytes: usize,
    },
    /// It is no JSON of this form.
    #[error("a record that is wrong: {}", explain_serde(&.source.to_string()))]
    Wrong {
        /// What the parser says.
        source: serde_json::Error,
    },
    /// A field exceeds its bound.
    #[error("a record whose `{field}` exceeds its bound")]
    Bound {
        /// The field.
        field: &'static str,
    },
}

impl NodeRecord {
    /// Parses what a node wrote.
    ///
    /// # Errors
    ///
    /// It is no such record, or exceeds a bound.
    pub fn parse(bytes: &[u8]) -> Result<NodeRecord, RecordError> {
        let record: NodeRecord = parse(bytes)?;
        record.check()?;
        Ok(record)
    }

    /// Returns the record's JSON.
    ///
    /// # Errors
    ///
    /// A field exceeds its bound.
    pub fn encode(&self) -> Result<Vec<u8>, RecordError> {
        self.check()?;
        serde_json::to_vec(self).map_err(|source| RecordError::Wrong { source })
    }

    fn check(&self) -> Result<(), RecordError> {
        let is_long = |text: &String| text.len() > TEXT_BYTES_MAX;
        let field = match self {
            _ if self.addresses.len() > ADDRESSES_MAX => "addresses",
            _ if self.addresses.iter().any(is_long) => "addresses",
            _ if is_long(&self.fingerprint) => "fingerprint",
            _ if is_long(&self.incarnation) => "incarnation",
            _ if self.rack.as_ref().is_some_and(is_long) => "rack",
            _ => return Ok(()),
        };
        Err(RecordError::Bound { field })
    }
}

impl LeaderRecord {
    /// Parses what a leader wrote.
    ///
    /// # Errors
    ///
    /// It is no such record.
    pub fn parse(bytes: &[u8]) -> Result<LeaderRecord, RecordError> {
        parse(bytes)
    }

    /// Returns the record's JSON.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::json!({ "node": self.node.as_str() })
            .to_string()
            .into_bytes()
    }
}

fn parse<R: for<'a> Deserialize<'a>>(bytes: &[u8]) -> Result<R, RecordError> {
    if bytes.len() > RECORD_BYTES_MAX {
        return Err(RecordError::Long { bytes: bytes.len() });
    }
    serde_json::from_slice(bytes).map_err(|source| RecordError::Wrong { source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> NodeRecord {
        NodeRecord {
            addresses: vec!["a.example:7071".to_owned()],
            fingerprint: "00".repeat(32),
            incarnation: "00000000000000ff".to_owned(),
            rack: None,
        }
    }

    #[test]
    fn a_record_survives_its_json() {
        for rack in [None, Some("r1".to_owned())] {
            let record = NodeRecord { rack, ..record() };
            let bytes = record.encode().expect("within its bounds");
            assert!(bytes.len() <= RECORD_BYTES_MAX);
            assert_eq!(NodeRecord::parse(&bytes).expect("a record"), record);
        }
        let leader = LeaderRecord {
            node: "a".parse().expect("a name"),
        };
        let bytes = leader.encode();
        assert_eq!(bytes, br#"{"node":"a"}"#);
        assert_eq!(LeaderRecord::parse(&bytes).expect("a record"), leader);
    }

    #[test]
    fn a_newer_version_may_say_more() {
        let bytes = br#"{"addresses":[],"fingerprint":"","incarnation":"1","zone":{"a":1}}"#;
        assert!(NodeRecord::parse(bytes).is_ok());
    }

    #[test]
    fn what_exceeds_a_bound_is_refused_by_both_sides() {
        let long = "x".repeat(TEXT_BYTES_MAX + 1);
        let crowd = vec![String::new(); ADDRESSES_MAX + 1];
        for wrong in [
            NodeRecord {
                addresses: crowd,
                ..record()
            },
            NodeRecord {
                addresses: vec![long.clone()],
                ..record()
            },
            NodeRecord {
                fingerprint: long.clone(),
                ..record()
            },
            NodeRecord {
                incarnation: long.clone(),
                ..record()
            },
            NodeRecord {
                rack: Some(long),
                ..record()
            },
        ] {
            assert!(wrong.encode().is_err(), "{wrong:?}");
            let bytes = serde_json::to_vec(&wrong).expect("JSON");
            assert!(NodeRecord::parse(&bytes).is_err(), "{wrong:?}");
        }
        let padded = [
            vec![b' '; RECORD_BYTES_MAX],
            record().encode().expect("JSON"),
        ]
        .concat();
        assert!(matches!(
            NodeRecord::parse(&padded),
            Err(RecordError::Long { .. })
        ));
        assert!(NodeRecord::parse(b"[]").is_err());
        assert!(LeaderRecord::parse(br#"{"node":"a/b"}"#).is_err());
    }
}
