//! What the paper found (§V), from its text. Its plots are not read, so there are no running times of its own here.

use super::scenarios::VmcaScenario;

/// What the paper found in a scenario, for nodes 3 and 4. Shares of time are in percent.
#[derive(Clone, Copy, Debug)]
pub(super) struct PaperFigures {
    /// How much less time greedy-remote takes than greedy-local.
    pub(super) greedy_remote: [f64; 2],
    /// How much less time the best TLP takes than greedy-remote.
    pub(super) two_level: [f64; 2],
    /// P of that TLP.
    pub(super) percent: [f64; 2],
    /// What the paper says besides.
    pub(super) words: &'static str,
}

const FIGURES: [PaperFigures; 4] = [
    PaperFigures {
        greedy_remote: [11.94, 12.9],
        two_level: [7.3, 7.0],
        percent: [2.0, 6.0],
        words: "With P 1 % targets grow too slowly; with a large P a machine has more than it needs and others too little \
                (section V-A).",
    },
    PaperFigures {
        greedy_remote: [50.84, 45.96],
        two_level: [32.1, 31.8],
        percent: [2.0, 2.0],
        words: "With greedy-local one machine has more tmem than the others; less so with greedy-remote; TLP is fair \
                (section V-B).",
    },
    PaperFigures {
        greedy_remote: [50.6, 55.4],
        two_level: [10.1, 15.6],
        percent: [6.0, 4.0],
        words: "Performance rises with P, but suddenly. Graph-analytics keeps its tmem when it is done. The second run of \
                in-memory-analytics takes the same under all policies, for it runs alone (section V-C).",
    },
    PaperFigures {
        greedy_remote: [63.5, 76.8],
        two_level: [23.7, 37.5],
        percent: [2.0, 2.0],
        words: "The server has the same tmem under all policies. Graph-analytics and the client compete (section V-D).",
    },
];

impl VmcaScenario {
    /// What the paper found in it.
    pub(super) fn paper(self) -> PaperFigures {
        FIGURES[self.place()]
    }
}
