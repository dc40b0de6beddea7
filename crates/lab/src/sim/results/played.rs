//! What a command printed.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::ResultsError;
use super::record::Ran;

/// A command that ran, and what it printed.
pub(super) struct Played {
    /// The command.
    pub(super) ran: Ran,
    /// The JSON on its standard output.
    pub(super) json: Value,
}

impl Played {
    /// What it printed, as a `T`.
    ///
    /// # Errors
    ///
    /// It printed something else.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, ResultsError> {
        serde_json::from_value(self.json.clone()).map_err(|cause| ResultsError::Shape {
            line: self.ran.line.clone(),
            cause,
        })
    }
}
