//! Why a tenant's target is what it is: as values for programs, and as a sentence for people.

use std::fmt;

use serde::{Deserialize, Serialize};
use sublet_types::{Pages, TenantId};

/// One tenant's part of a decision. A log of these answers "why did this tenant lose memory".
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Explanation {
    /// The tenant.
    pub id: TenantId,
    /// Its target before.
    pub before: Option<Pages>,
    /// Its target from now on.
    pub after: Option<Pages>,
    /// Why the policy chose it.
    pub reason: Reason,
    /// What made the target differ from the policy's choice.
    pub bound: Option<TargetBound>,
}

impl Explanation {
    /// Returns whether it may hold less than before.
    pub fn is_less(&self) -> bool {
        let both = self.before.zip(self.after);
        both.is_some_and(|(before, after)| after < before)
    }

    /// Returns whether the decision changed its target.
    pub fn is_change(&self) -> bool {
        self.before != self.after
    }
}

/// Why a policy chose a target.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum Reason {
    /// The policy sets no targets (`greedy`).
    Unbound,
    /// The policy sets no targets. The tenant with the largest fairness gives way (`weights`).
    Fairness {
        /// f of Mortar §5.2: the tenant's part of the memory over its part of the weights. Above 1 it has more than its
        /// share.
        fairness: f64,
    },
    /// An equal share for each tenant (`static-alloc`).
    EqualShare {
        /// How many tenants share.
        tenants: u64,
    },
    /// An equal share for each tenant that has put (`reconf-static`).
    ActiveShare {
        /// How many tenants share.
        active: u64,
        /// How many tenants there are.
        tenants: u64,
    },
    /// It has never put (`reconf-static`).
    Inactive,
    /// It had no target yet and begins with an equal share (`smart-alloc`, `two-level`).
    Initial {
        /// How many tenants there are.
        tenants: u64,
    },
    /// Puts found no room, so it gets more (`smart-alloc`, `two-level`).
    FailedPuts {
        /// How many puts failed since the last decision.
        failed: u64,
        /// By how much its target was raised.
        step: Pages,
    },
    /// It holds less than it may, so it gets less (`smart-alloc`, `two-level`).
    UnderUse {
        /// How much of its target it did not hold.
        unused: Pages,
        /// How much unused memory would have been tolerated.
        threshold: Pages,
        /// By how much its target was lowered.
        step: Pages,
    },
    /// Every put found room, and it holds about as much as it may (`smart-alloc`, `two-level`).
    Fitting {
        /// How much of its target it did not hold.
        unused: Pages,
    },
    /// Its part of the utility (`utility`).
    Utility {
        /// w of Synergy's Algorithm 1, from 0 to 1.
        share: f64,
        /// Its part of all weights, from 0 to 1.
        weight: f64,
        /// The part of reads among its reads and writes, from 0 to 1.
        usefulness: f64,
        /// The part of shared pages among its used pages, from 0 to 1.
        sharing: f64,
    },
    /// What its curve promises (`mrc`).
    Curve {
        /// Hits per second with the memory that it gets.
        hits: f64,
        /// Hits per second with what it could hold before.
        hits_before: f64,
    },
    /// Its hits are not measured: it gets its weighted share (`mrc`).
    Unmeasured,
    /// It neither put nor got for long, and gets only what nobody else has a use for (`mrc`).
    Idle {
        /// For how many seconds. `None` if it never put or got.
        secs: Option<u32>,
    },
    /// All memory is one pool, and the tenant keeps its guard whatever happens (`pooled`).
    Pooled {
        /// What it keeps.
        guard: Pages,
    },
    /// More memory brings it hardly any hits. It gives way first, down to its guard, and displaces its own pages
    /// (`pooled`).
    Flat {
        /// Its hits per page above its guard, in percent of all tenants' hits per page above half of their shares.
        hits_percent: f64,
    },
    /// A better division would not be worth the moving of memory (`mrc`).
    Steady {
        /// How many more hits that division would bring, in percent.
        gain_percent: f64,
    },
}

/// A tenant holds less than it did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loss {
    /// What it held.
    pub before: Pages,
    /// What it holds.
    pub after: Pages,
    /// In how many seconds it lost it.
    pub secs: u32,
    /// What took it.
    pub cause: LossCause,
}

/// Why a tenant holds less than it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum LossCause {
    /// It held more than its target.
    OverTarget {
        /// What it may hold.
        target: Pages,
    },
    /// It held more than its ceiling, which its owner had lowered.
    OverCeiling {
        /// What it may hold.
        ceiling: Pages,
    },
    /// The arena gave memory back to the host.
    ArenaShrank {
        /// How much left all tenants.
        by: Pages,
        /// What is left for all tenants.
        to: Pages,
    },
    /// The owner released memory by hand.
    Released {
        /// How much left all tenants.
        by: Pages,
    },
    /// Others put, nothing was free, and this tenant was first to give way. It had most above its weighted share, or
    /// the oldest pages under `pooled`.
    GaveWay {
        /// How much more the others hold.
        gained: Pages,
    },
    /// It evicted its own pages, so that its next puts find room. Nobody got more by it.
    MadeRoom,
    /// It flushed or deleted what it had, or its items expired.
    LetGo,
}

/// What made a target differ from the policy's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "bound", rename_all = "kebab-case")]
pub enum TargetBound {
    /// Its floor is higher.
    Floor {
        /// What the policy chose.
        asked: Pages,
    },
    /// Its ceiling is lower.
    Ceiling {
        /// What the policy chose.
        asked: Pages,
    },
    /// All targets together exceeded the total: each tenant gave in proportion to what it had above its floor.
    ScaledDown {
        /// What the policy chose, within floor and ceiling.
        asked: Pages,
        /// What the policy chose for all tenants together.
        together: Pages,
        /// What there is.
        total: Pages,
    },
}

/// `from 100 MiB to 80.0 MiB: 12 puts found no room, so it may hold 4.00 MiB more; …`
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.before, self.after) {
            (Some(before), Some(after)) if before == after => write!(f, "still {}", before.bytes()),
            (None, None) => write!(f, "no target"),
            (Some(before), None) => write!(f, "from {} to no target", before.bytes()),
            (None, Some(after)) => write!(f, "from no target to {}", after.bytes()),
            (Some(before), Some(after)) => {
                write!(f, "from {} to {}", before.bytes(), after.bytes())
            }
        }?;
        write!(f, ": {}", self.reason)?;
        match self.bound {
            Some(bound) => write!(f, "; {bound}"),
            None => Ok(()),
        }
    }
}

/// `lost 40.0 MiB of 200 MiB in 3 s: others put …`
impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lost = Pages(self.before.0.saturating_sub(self.after.0));
        write!(
            f,
            "lost {} of {} in {} s: {}",
            lost.bytes(),
            self.before.bytes(),
            self.secs,
            self.cause
        )
    }
}

impl fmt::Display for LossCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LossCause::OverTarget { target } => {
                write!(f, "it held more than its target of {}", target.bytes())
            }
            LossCause::ArenaShrank { by, to } => write!(
                f,
                "the arena gave {} to the host and has {} for all tenants",
                by.bytes(),
                to.bytes()
            ),
            LossCause::OverCeiling { ceiling } => {
                write!(f, "its owner lowered its ceiling to {}", ceiling.bytes())
            }
            LossCause::Released { by } => {
                write!(f, "{} were released by hand", by.bytes())
            }
            LossCause::GaveWay { gained } => write!(
                f,
                "others put and hold {} more; no memory was free, and it was first to give way",
                gained.bytes()
            ),
            LossCause::MadeRoom => {
                write!(
                    f,
                    "it evicted its own ahead of its next puts, and nobody got more by it"
                )
            }
            LossCause::LetGo => write!(f, "it flushed or deleted what it had, or that expired"),
        }
    }
}

fn pooled(f: &mut fmt::Formatter<'_>, guard: Pages) -> fmt::Result {
    write!(
        f,
        "what was put first goes first, whoever's it is, but {} of it stay",
        guard.bytes()
    )
}

fn flat(f: &mut fmt::Formatter<'_>, hits_percent: f64) -> fmt::Result {
    write!(
        f,
        "a page more brings it {hits_percent:.0} % of what a page brings on average, so it gives way first, down to what it keeps"
    )
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Unbound => write!(f, "whoever puts first takes what is free"),
            Reason::Fairness { fairness } => write!(
                f,
                "it has {fairness:.2} times its weighted share, and whoever has most gives way"
            ),
            Reason::EqualShare { tenants } => {
                write!(f, "each of {tenants} tenants has an equal share")
            }
            Reason::ActiveShare { active, tenants } => write!(
                f,
                "each of the {active} tenants that have put, of {tenants}, has an equal share"
            ),
            Reason::Inactive => write!(f, "it has never put a page"),
            Reason::Initial { tenants } => write!(
                f,
                "new to the policy, it begins with an equal share among {tenants} tenants"
            ),
            Reason::FailedPuts { failed, step } => write!(
                f,
                "{failed} puts found no room, so it may hold {} more",
                step.bytes()
            ),
            Reason::UnderUse {
                unused,
                threshold,
                step,
            } => write!(
                f,
                "it left {} unused, more than the {} that are let be, so it may hold {} less",
                unused.bytes(),
                threshold.bytes(),
                step.bytes()
            ),
            Reason::Fitting { unused } => write!(
                f,
                "every put found room, and only {} are unused",
                unused.bytes()
            ),
            Reason::Utility {
                share,
                weight,
                usefulness,
                sharing,
            } => write!(
                f,
                "its part of the utility is {share:.3}: {weight:.2} of the weights, {usefulness:.2} of its accesses \
                 are reads, {sharing:.2} of its pages are shared"
            ),
            Reason::Curve { hits, hits_before } => write!(
                f,
                "its curve promises {hits:.1} hits a second with it, {hits_before:.1} with what it had"
            ),
            Reason::Unmeasured => {
                write!(
                    f,
                    "its hits are not measured yet, so it has its weighted share"
                )
            }
            Reason::Idle { secs: Some(secs) } => write!(f, "it neither put nor got for {secs} s"),
            Reason::Idle { secs: None } => write!(f, "it never put nor got"),
            Reason::Pooled { guard } => pooled(f, *guard),
            Reason::Flat { hits_percent } => flat(f, *hits_percent),
            Reason::Steady { gain_percent } => write!(
                f,
                "the best division would bring {gain_percent:.1} % more hits, too few to move memory"
            ),
        }
    }
}

impl fmt::Display for TargetBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TargetBound::Floor { asked } => write!(f, "raised from {} to its floor", asked.bytes()),
            TargetBound::Ceiling { asked } => {
                write!(f, "cut from {} to its ceiling", asked.bytes())
            }
            TargetBound::ScaledDown {
                asked,
                together,
                total,
            } => write!(
                f,
                "scaled down from {}, as all together were to have {} of {}",
                asked.bytes(),
                together.bytes(),
                total.bytes()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost() -> Explanation {
        Explanation {
            id: TenantId(3),
            before: Some(Pages(25_600)),
            after: Some(Pages(20_480)),
            reason: Reason::FailedPuts {
                failed: 12,
                step: Pages(1024),
            },
            bound: Some(TargetBound::ScaledDown {
                asked: Pages(26_624),
                together: Pages(332_800),
                total: Pages(256_000),
            }),
        }
    }

    #[test]
    fn a_loss_reads_as_a_sentence() {
        assert_eq!(
            lost().to_string(),
            "from 100 MiB to 80.0 MiB: 12 puts found no room, so it may hold 4.00 MiB more; scaled down from 104 MiB, \
             as all together were to have 1.27 GiB of 0.98 GiB"
        );
    }

    #[test]
    fn what_did_not_change_says_so() {
        let same = Explanation {
            before: Some(Pages(512)),
            after: Some(Pages(512)),
            reason: Reason::EqualShare { tenants: 4 },
            bound: None,
            ..lost()
        };
        assert!(!same.is_change());
        assert_eq!(
            same.to_string(),
            "still 2.00 MiB: each of 4 tenants has an equal share"
        );
    }

    #[test]
    fn reasons_and_bounds_are_read_back_from_json() {
        let json = serde_json::to_string(&lost().reason).expect("it has no maps");
        assert_eq!(json, r#"{"reason":"failed-puts","failed":12,"step":1024}"#);
        let reason: Reason = serde_json::from_str(&json).expect("it was just written");
        assert_eq!(reason, lost().reason);
        let json = serde_json::to_string(&lost().bound).expect("it has no maps");
        let bound: Option<TargetBound> = serde_json::from_str(&json).expect("it was just written");
        assert_eq!(bound, lost().bound);
    }
}
