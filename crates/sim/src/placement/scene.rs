//! How much the nodes need, and when.

use std::fmt;

use serde::Serialize;

/// The nodes of a cluster.
pub(super) const NODES: usize = 300;

/// The virtual seconds of a run.
pub(super) const SECONDS: u32 = 900;

/// The blocks of a node: 8 GiB.
pub(super) const CAPACITY: u32 = 4096;

/// The blocks that a node keeps free when it lends.
pub(super) const RESERVE: u32 = CAPACITY / 20;

/// How much memory the nodes need together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlacementScene {
    /// Few peaks, and much idle memory.
    Plenty,
    /// As many peaks as the idle memory bears.
    Scarce,
    /// All want more than there is.
    Short,
}

impl PlacementScene {
    /// All scenes.
    pub const ALL: [PlacementScene; 3] = [
        PlacementScene::Plenty,
        PlacementScene::Scarce,
        PlacementScene::Short,
    ];

    /// The part of its memory that a node needs without a peak, on average.
    pub(super) fn base_share(self) -> f64 {
        match self {
            PlacementScene::Plenty => 0.5,
            PlacementScene::Scarce => 0.65,
            PlacementScene::Short => 0.8,
        }
    }

    /// The probability that a peak begins in a second.
    pub(super) fn peak_probability(self) -> f64 {
        match self {
            PlacementScene::Plenty => 1.0 / 900.0,
            PlacementScene::Scarce => 1.0 / 240.0,
            PlacementScene::Short => 1.0 / 80.0,
        }
    }
}

/// `plenty`, `scarce`, `short`.
impl fmt::Display for PlacementScene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            PlacementScene::Plenty => "plenty",
            PlacementScene::Scarce => "scarce",
            PlacementScene::Short => "short",
        })
    }
}
