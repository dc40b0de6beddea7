//! How long a change holds.

use serde::{Deserialize, Serialize};

/// How long a change holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeLifetime {
    /// The change is saved and holds after a restart.
    #[default]
    Always,
    /// The change holds until the daemon ends.
    UntilRestart,
}
