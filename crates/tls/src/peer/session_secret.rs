//! The secret that both ends of a control connection derive from it, and nobody else knows.

use rustls::{ConnectionCommon, Error};

/// The bytes of a session's secret.
pub const SESSION_SECRET_BYTES: usize = 32;

/// The label under which TLS exports the secret (RFC 5705). Both ends must use the same.
pub const SESSION_SECRET_LABEL: &[u8] = b"EXPERIMENTAL-sublet-lending-session";

/// Returns the secret of a connection, by the exporter of TLS 1.3 (RFC 8446 §7.5).
///
/// Data connections prove with it that they belong to this control connection.
///
/// # Errors
///
/// The handshake has not ended yet.
pub fn session_secret<Side>(
    tls: &ConnectionCommon<Side>,
) -> Result<[u8; SESSION_SECRET_BYTES], Error> {
    tls.export_keying_material([0; SESSION_SECRET_BYTES], SESSION_SECRET_LABEL, None)
}
