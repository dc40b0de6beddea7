//! How many blocks a borrower is granted. The decision is pure: figures in, a number and a reason out.

use crate::control::GrantLimit;

/// The most that a node lends: `lend.max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LendMax {
    /// What headroom leaves.
    Auto,
    /// This many blocks, and what headroom leaves of them. 0 is never.
    Blocks(u32),
}

/// The most that one borrower gets: `lend.max_each`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxEach {
    /// This many hundredths of what may be lent in all, rounded up to a block.
    Percent(u8),
    /// This many blocks.
    Blocks(u32),
}

/// How much a node may lend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LendLimits {
    /// To all borrowers.
    pub max: LendMax,
    /// To each borrower.
    pub max_each: MaxEach,
}

/// What a grant depends on. All amounts are blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantInputs {
    /// What the borrower asks for.
    pub asked: u32,
    /// What the host can lend now, beyond what it has lent.
    pub lendable: u32,
    /// What is lent to all borrowers.
    pub lent: u32,
    /// What is lent to this borrower.
    pub lent_to_peer: u32,
    /// How many more blocks fit the borrower's leases.
    pub room: usize,
    /// Why the node lends nothing at present, if so.
    pub barred: Option<GrantLimit>,
}

/// How many blocks are granted, and why not all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantDecision {
    /// The blocks.
    pub blocks: u32,
    /// What limits them, if they are fewer than asked for.
    pub limit: Option<GrantLimit>,
}

/// Decides a grant. The tightest bound is the reason.
pub fn decide_grant(limits: LendLimits, inputs: &GrantInputs) -> GrantDecision {
    if let Some(limit) = inputs.barred {
        return GrantDecision {
            blocks: 0,
            limit: Some(limit),
        };
    }
    let all = match limits.max {
        LendMax::Auto => inputs.lent.saturating_add(inputs.lendable),
        LendMax::Blocks(blocks) => blocks,
    };
    let each = match limits.max_each {
        MaxEach::Percent(percent) => {
            (u64::from(all) * u64::from(percent.min(100))).div_ceil(100) as u32
        }
        MaxEach::Blocks(blocks) => blocks,
    };
    let room = u32::try_from(inputs.room).unwrap_or(u32::MAX);
    let bounds = [
        (inputs.lendable, GrantLimit::Spare),
        (all.saturating_sub(inputs.lent), GrantLimit::Max),
        (
            each.saturating_sub(inputs.lent_to_peer),
            GrantLimit::MaxEach,
        ),
        (room, GrantLimit::Leases),
    ];
    let mut decision = GrantDecision {
        blocks: inputs.asked,
        limit: None,
    };
    for (blocks, limit) in bounds {
        if blocks < decision.blocks {
            decision = GrantDecision {
                blocks,
                limit: Some(limit),
            };
        }
    }
    decision
}

#[cfg(test)]
mod tests {
    use super::*;

    const INPUTS: GrantInputs = GrantInputs {
        asked: 100,
        lendable: 1000,
        lent: 200,
        lent_to_peer: 50,
        room: 1 << 17,
        barred: None,
    };

    fn decided(max: LendMax, max_each: MaxEach, inputs: GrantInputs) -> (u32, Option<GrantLimit>) {
        let decision = decide_grant(LendLimits { max, max_each }, &inputs);
        (decision.blocks, decision.limit)
    }

    #[test]
    fn the_tightest_bound_is_the_reason() {
        let half = MaxEach::Percent(50);
        assert_eq!(decided(LendMax::Auto, half, INPUTS), (100, None));
        let short = GrantInputs {
            lendable: 7,
            ..INPUTS
        };
        assert_eq!(
            decided(LendMax::Auto, MaxEach::Percent(100), short),
            (7, Some(GrantLimit::Spare))
        );
        assert_eq!(
            decided(LendMax::Blocks(230), MaxEach::Percent(100), INPUTS),
            (30, Some(GrantLimit::Max))
        );
        assert_eq!(
            decided(LendMax::Blocks(0), half, INPUTS),
            (0, Some(GrantLimit::Max))
        );
        assert_eq!(
            decided(LendMax::Auto, MaxEach::Blocks(60), INPUTS),
            (10, Some(GrantLimit::MaxEach))
        );
        // Half of 240 is 120, and 110 of them are lent to it.
        let little = GrantInputs {
            lendable: 40,
            lent: 200,
            asked: 30,
            lent_to_peer: 110,
            ..INPUTS
        };
        assert_eq!(
            decided(LendMax::Auto, half, little),
            (10, Some(GrantLimit::MaxEach))
        );
        assert_eq!(
            decided(LendMax::Auto, half, GrantInputs { room: 3, ..INPUTS }),
            (3, Some(GrantLimit::Leases))
        );
        let barred = GrantInputs {
            barred: Some(GrantLimit::Wants),
            ..INPUTS
        };
        assert_eq!(
            decided(LendMax::Auto, half, barred),
            (0, Some(GrantLimit::Wants))
        );
    }

    #[test]
    fn a_limit_below_what_is_lent_grants_nothing() {
        assert_eq!(
            decided(LendMax::Blocks(100), MaxEach::Blocks(500), INPUTS),
            (0, Some(GrantLimit::Max))
        );
    }
}
