//! What is wrong with an answer.

use sublet_types::explain_serde;

use super::ENTRIES_MAX;

/// What is wrong with an answer.
#[derive(Debug, thiserror::Error)]
pub enum AnswerFault {
    /// It is no JSON of the expected form.
    #[error("the answer about {what} is not of its form: {}", explain_serde(&.source.to_string()))]
    NotJson {
        /// What was asked for.
        what: &'static str,
        /// What the parser says.
        source: serde_json::Error,
    },
    /// It lacks what it must have.
    #[error("the answer about {what} has no {missing}")]
    Missing {
        /// What was asked for.
        what: &'static str,
        /// What it lacks.
        missing: &'static str,
    },
    /// It is too long.
    #[error("the answer has more than {bytes} bytes")]
    Long {
        /// The most that are read.
        bytes: usize,
    },
    /// There are too many keys.
    #[error("there are more than {ENTRIES_MAX} keys below the cluster's prefix")]
    Many,
    /// It is no HTTP, or ends too early.
    #[error("it is no whole HTTP answer: {source}")]
    NotHttp {
        /// What the HTTP library says.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Parses JSON.
pub(super) fn parse<'a, T: serde::Deserialize<'a>>(
    what: &'static str,
    bytes: &'a [u8],
) -> Result<T, AnswerFault> {
    serde_json::from_slice(bytes).map_err(|source| AnswerFault::NotJson { what, source })
}
