//! The answers about leases.

use std::time::Duration;

use serde::Deserialize;

use crate::store::{LeaseGrant, LeaseId, Renewal};

use super::fault::parse;
use super::gateway_fault::FaultBody;
use super::number::GatewayNumber;
use super::{AnswerFault, GatewayFault};

/// The longest time to live that is believed: etcd grants no more.
const TTL_SECS_MAX: u64 = 9_000_000_000;

#[derive(Debug, Deserialize)]
struct LeaseAnswer {
    #[serde(rename = "ID")]
    id: GatewayNumber,
    /// It is missing if the lease has ended.
    #[serde(rename = "TTL", default)]
    ttl_secs: GatewayNumber,
}

/// One message of the stream that a renewal is answered by.
#[derive(Debug, Deserialize)]
struct RenewalMessage {
    result: Option<LeaseAnswer>,
    error: Option<FaultBody>,
}

impl LeaseAnswer {
    fn ttl(&self) -> Option<Duration> {
        let secs = self.ttl_secs.0;
        (1..=TTL_SECS_MAX)
            .contains(&secs)
            .then(|| Duration::from_secs(secs))
    }
}

/// Parses the answer to the wish for a lease.
///
/// # Errors
///
/// It is none.
pub fn decode_grant(bytes: &[u8]) -> Result<LeaseGrant, AnswerFault> {
    let what = "a new lease";
    let answer: LeaseAnswer = parse(what, bytes)?;
    let missing = |missing| AnswerFault::Missing { what, missing };
    match (answer.id.0, answer.ttl()) {
        (0, _) => Err(missing("lease")),
        (_, None) => Err(missing("time to live")),
        (id, Some(ttl)) => Ok(LeaseGrant {
            lease: LeaseId(id),
            ttl,
        }),
    }
}

/// Parses the answer to a renewal of that lease. The outer error is about the answer, the inner one is etcd's.
///
/// # Errors
///
/// It is none, or of another lease.
pub fn decode_renewal(
    lease: LeaseId,
    bytes: &[u8],
) -> Result<Result<Renewal, GatewayFault>, AnswerFault> {
    let what = "a renewed lease";
    let mut messages = bytes.split(|byte| *byte == b'\n');
    let message: RenewalMessage = parse(what, messages.next().unwrap_or_default())?;
    if let Some(fault) = message.error {
        return Ok(Err(fault.into()));
    }
    match message.result {
        Some(answer) if answer.id.0 == lease.0 => {
            Ok(Ok(answer.ttl().map_or(Renewal::Gone, Renewal::Renewed)))
        }
        _ => Err(AnswerFault::Missing {
            what,
            missing: "answer about this lease",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_has_a_number_and_a_time() {
        let json = br#"{"header":{"revision":"1"},"ID":"7587862072907233285","TTL":"5"}"#;
        let grant = decode_grant(json).expect("a lease");
        assert_eq!(grant.lease, LeaseId(7_587_862_072_907_233_285));
        assert_eq!(grant.ttl, Duration::from_secs(5));
        for json in [
            r#"{"ID":"1"}"#,
            r#"{"TTL":"5"}"#,
            r#"{"ID":"0","TTL":"5"}"#,
            r#"{"ID":"1","TTL":"9223372036854775807"}"#,
            "{}",
        ] {
            assert!(decode_grant(json.as_bytes()).is_err(), "{json}");
        }
    }

    #[test]
    fn a_renewal_without_a_time_says_that_the_lease_is_gone() {
        let decode = |json: &str| decode_renewal(LeaseId(7), json.as_bytes());
        let renewed = decode("{\"result\":{\"header\":{},\"ID\":\"7\",\"TTL\":\"8\"}}\n");
        let eight = Renewal::Renewed(Duration::from_secs(8));
        assert_eq!(renewed.expect("an answer"), Ok(eight));
        let gone = decode(r#"{"result":{"header":{},"ID":"7"}}"#);
        assert_eq!(gone.expect("an answer"), Ok(Renewal::Gone));
        let fault = decode(r#"{"error":{"grpc_code":14,"message":"etcdserver: no leader"}}"#);
        assert_eq!(
            fault.expect("an answer").map_err(|fault| fault.code),
            Err(14)
        );
        for json in [
            "",
            "{}",
            r#"{"result":{"ID":"8","TTL":"5"}}"#,
            r#"{"result":{"TTL":"5"}}"#,
        ] {
            assert!(decode(json).is_err(), "{json}");
        }
    }
}
