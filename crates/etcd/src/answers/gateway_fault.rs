//! The gateway's own errors, and what they mean for the one who asked.

use serde::Deserialize;

/// The most characters of a text that is no JSON, as a proxy may send it.
const TEXT_CHARS_MAX: usize = 200;

/// gRPC's numbers of the errors that mean something here.
mod code {
    pub(super) const CANCELED: u32 = 1;
    pub(super) const INVALID_ARGUMENT: u32 = 3;
    pub(super) const DEADLINE_EXCEEDED: u32 = 4;
    pub(super) const NOT_FOUND: u32 = 5;
    pub(super) const PERMISSION_DENIED: u32 = 7;
    pub(super) const FAILED_PRECONDITION: u32 = 9;
    pub(super) const OUT_OF_RANGE: u32 = 11;
    pub(super) const UNAVAILABLE: u32 = 14;
    pub(super) const UNAUTHENTICATED: u32 = 16;
}

/// An error that the gateway tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayFault {
    /// gRPC's number of the error. 0 if there is none.
    pub code: u32,
    /// What etcd says.
    pub message: String,
}

/// What an error means for the one who asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The token is not valid, or no more.
    Token,
    /// A user is needed.
    NoUser,
    /// The user or the password is wrong.
    Login,
    /// etcd has no users.
    NoAuthentication,
    /// The user may not do that.
    Denied,
    /// The lease has ended.
    LeaseGone,
    /// The revision is forgotten.
    Compacted,
    /// The member cannot serve now. Another may.
    Unavailable,
    /// Something else.
    Other,
}

/// An error as it stands in a body or in a stream. Its form differs between the versions of the gateway.
#[derive(Debug, Default, Deserialize)]
pub(super) struct FaultBody {
    #[serde(default)]
    code: u32,
    #[serde(default)]
    grpc_code: u32,
    #[serde(default)]
    message: String,
    #[serde(default)]
    error: String,
}

impl From<FaultBody> for GatewayFault {
    fn from(body: FaultBody) -> GatewayFault {
        GatewayFault {
            code: match body.grpc_code {
                0 => body.code,
                code => code,
            },
            message: printable(match body.message.is_empty() {
                true => &body.error,
                false => &body.message,
            }),
        }
    }
}

/// A text of another program, as a terminal may see it.
fn printable(text: &str) -> String {
    text.replace(char::is_control, "?")
}

/// Parses the body of an answer whose status is an error. A body that is none is quoted.
pub fn decode_fault(body: &[u8]) -> GatewayFault {
    match serde_json::from_slice::<FaultBody>(body) {
        Ok(fault) => fault.into(),
        Err(_) => GatewayFault {
            code: 0,
            message: printable(String::from_utf8_lossy(body).trim())
                .chars()
                .take(TEXT_CHARS_MAX)
                .collect(),
        },
    }
}

impl GatewayFault {
    /// What the error means.
    pub fn kind(&self) -> FaultKind {
        let says = |text: &str| self.message.contains(text);
        match self.code {
            code::UNAUTHENTICATED => FaultKind::Token,
            _ if says("invalid auth token") || says("revision of auth store is old") => {
                FaultKind::Token
            }
            code::INVALID_ARGUMENT if says("user name is empty") => FaultKind::NoUser,
            code::INVALID_ARGUMENT if says("authentication failed") => FaultKind::Login,
            code::FAILED_PRECONDITION if says("authentication is not enabled") => {
                FaultKind::NoAuthentication
            }
            code::PERMISSION_DENIED => FaultKind::Denied,
            // Why a watch was canceled is told without a number.
            0 if says("permission denied") => FaultKind::Denied,
            code::NOT_FOUND if says("lease not found") => FaultKind::LeaseGone,
            code::OUT_OF_RANGE if says("compacted") => FaultKind::Compacted,
            code::CANCELED | code::DEADLINE_EXCEEDED | code::UNAVAILABLE => FaultKind::Unavailable,
            _ if says("no leader") || says("leader changed") => FaultKind::Unavailable,
            _ if says("request timed out") || says("transport is closing") => {
                FaultKind::Unavailable
            }
            _ if says("too many requests") => FaultKind::Unavailable,
            _ => FaultKind::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_errors_of_each_version_of_the_gateway_are_known() {
        for (body, kind) in [
            (
                r#"{"error":"etcdserver: invalid auth token","message":"etcdserver: invalid auth token","code":16}"#,
                FaultKind::Token,
            ),
            (
                r#"{"error":"etcdserver: user name is empty","code":3}"#,
                FaultKind::NoUser,
            ),
            (
                r#"{"code":3,"message":"etcdserver: authentication failed, invalid user ID or password","details":[]}"#,
                FaultKind::Login,
            ),
            (
                r#"{"code":9,"message":"etcdserver: authentication is not enabled"}"#,
                FaultKind::NoAuthentication,
            ),
            (
                r#"{"code":3,"message":"etcdserver: revision of auth store is old"}"#,
                FaultKind::Token,
            ),
            (
                r#"{"code":7,"message":"etcdserver: permission denied"}"#,
                FaultKind::Denied,
            ),
            (
                r#"{"code":5,"message":"etcdserver: requested lease not found"}"#,
                FaultKind::LeaseGone,
            ),
            (
                r#"{"code":11,"message":"etcdserver: mvcc: required revision has been compacted"}"#,
                FaultKind::Compacted,
            ),
            (
                r#"{"grpc_code":14,"http_code":503,"message":"etcdserver: no leader","http_status":"Service Unavailable"}"#,
                FaultKind::Unavailable,
            ),
            (
                r#"{"code":14,"message":"etcdserver: request timed out"}"#,
                FaultKind::Unavailable,
            ),
            (
                r#"{"code":8,"message":"etcdserver: mvcc: database space exceeded"}"#,
                FaultKind::Other,
            ),
            ("404 page not found\n", FaultKind::Other),
            ("{}", FaultKind::Other),
        ] {
            assert_eq!(decode_fault(body.as_bytes()).kind(), kind, "{body}");
        }
    }

    #[test]
    fn a_body_that_is_no_error_is_quoted_within_bounds() {
        assert_eq!(
            decode_fault(b"404 page not found\n").message,
            "404 page not found"
        );
        assert_eq!(decode_fault(&[b'x'; 9_999]).message.len(), TEXT_CHARS_MAX);
        assert_eq!(decode_fault(b"\xff").message, "\u{fffd}");
        assert_eq!(decode_fault(b"\x1b[2Jno").message, "?[2Jno");
        let told = decode_fault(br#"{"error":"\u001b[2Jno","code":5}"#);
        assert_eq!(told.message, "?[2Jno");
        let odd = decode_fault(br#"{"error":{"a":1},"code":"x"}"#);
        assert_eq!(odd.code, 0);
    }
}
