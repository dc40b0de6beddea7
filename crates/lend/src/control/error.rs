//! Why a control line is refused.

use sublet_types::explain_serde;

use super::LINE_BYTES_MAX;

/// Why a control line is refused. The peer broke the protocol, and the connection is to be closed.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// A line has no end within its bound.
    #[error("a control line has no end within {LINE_BYTES_MAX} bytes; close the connection")]
    Long,
    /// A line is no JSON object with a kind.
    #[error("a control line is no JSON object with a `kind`: {}", explain_serde(&.source.to_string()))]
    NoKind {
        /// What the parser says.
        source: serde_json::Error,
    },
    /// A field of a known message is missing or wrong.
    #[error("a control line of kind `{kind}` is wrong: {}", explain_serde(&.source.to_string()))]
    Body {
        /// The kind of the message.
        kind: &'static str,
        /// What the parser says, with the bound that is exceeded.
        source: serde_json::Error,
    },
}
