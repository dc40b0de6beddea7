//! Which version of the control messages two daemons speak.

use serde::{Deserialize, Serialize};

/// A version of the control messages and of the data connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Version(pub u16);

/// The versions that this build speaks.
pub const VERSION_RANGE: VersionRange = VersionRange {
    lowest: Version(1),
    highest: Version(1),
};

/// The versions that a daemon speaks, from the lowest to the highest. They travel as `[lowest,highest]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "[Version; 2]", into = "[Version; 2]")]
pub struct VersionRange {
    lowest: Version,
    highest: Version,
}

/// A range of versions begins at 0, or is the wrong way round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("versions from {} to {}: the lowest is to be 1 or more, and not above the highest", .lowest.0, .highest.0)]
pub struct VersionRangeError {
    /// The lowest as it came.
    pub lowest: Version,
    /// The highest as it came.
    pub highest: Version,
}

impl VersionRange {
    /// The versions from `lowest` to `highest`. The error names both if they are the wrong way round, or begin at 0.
    pub fn new(lowest: Version, highest: Version) -> Result<VersionRange, VersionRangeError> {
        if lowest.0 == 0 || lowest > highest {
            return Err(VersionRangeError { lowest, highest });
        }
        Ok(VersionRange { lowest, highest })
    }

    /// The lowest version.
    pub fn lowest(self) -> Version {
        self.lowest
    }

    /// The highest version.
    pub fn highest(self) -> Version {
        self.highest
    }

    /// The highest version that both ranges have.
    pub fn highest_shared(self, other: VersionRange) -> Option<Version> {
        let highest = self.highest.min(other.highest);
        (highest >= self.lowest.max(other.lowest)).then_some(highest)
    }
}

impl TryFrom<[Version; 2]> for VersionRange {
    type Error = VersionRangeError;

    fn try_from([lowest, highest]: [Version; 2]) -> Result<VersionRange, VersionRangeError> {
        VersionRange::new(lowest, highest)
    }
}

impl From<VersionRange> for [Version; 2] {
    fn from(range: VersionRange) -> [Version; 2] {
        [range.lowest, range.highest]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_version_of_both_is_spoken() {
        let range = |lowest, highest| {
            VersionRange::new(Version(lowest), Version(highest)).expect("a range")
        };
        for (ours, theirs, common) in [
            ((1, 1), (1, 1), Some(1)),
            ((1, 1), (1, 4), Some(1)),
            ((1, 3), (2, 4), Some(3)),
            ((2, 3), (3, 3), Some(3)),
            ((1, 1), (2, 2), None),
            ((1, 2), (3, 9), None),
        ] {
            let (ours, theirs) = (range(ours.0, ours.1), range(theirs.0, theirs.1));
            assert_eq!(ours.highest_shared(theirs), common.map(Version));
            assert_eq!(theirs.highest_shared(ours), common.map(Version));
        }
        assert!(VersionRange::new(Version(0), Version(1)).is_err());
        assert!(VersionRange::new(Version(2), Version(1)).is_err());
    }
}
