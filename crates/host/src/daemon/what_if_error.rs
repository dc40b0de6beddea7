//! Why a what-if question has no answer.

use std::fmt;

use sublet_types::{Pages, TenantName};

/// Why the question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum WhatIfError {
    /// It is not exactly one question.
    #[error("ask about a tenant and its hits, a tenant and its memory, or a policy")]
    NoQuestion,
    /// The number is not a part of all gets.
    #[error("{0} is not a part of all gets: it must be above 0 and at most 1")]
    NotAFraction(f64),
    /// The tenant has no curve.
    #[error("{0} is not measured yet: so far its clients have asked for too little")]
    NotMeasured(TenantName),
    /// No memory brings so many hits.
    #[error(
        "{tenant} cannot have {} hits: at most {}, with {}, by what the last {} asked",
        Percentage(*.wanted), Percentage(*.most), .with.bytes(), DurationText(*.secs)
    )]
    OutOfReach {
        /// Who.
        tenant: TenantName,
        /// The part that was asked for.
        wanted: f64,
        /// The largest part that is possible.
        most: f64,
        /// The memory with which it is.
        with: Pages,
        /// The seconds whose requests were counted.
        secs: u64,
    },
    /// The tenant's ceiling is lower.
    #[error("{tenant} would need {}, and its ceiling is {}{}", .needs.bytes(), .ceiling.bytes(), HitsBound(*.hits))]
    Ceiling {
        /// Who.
        tenant: TenantName,
        /// The memory that it would need.
        needs: Pages,
        /// Its ceiling.
        ceiling: Pages,
        /// Its hits with the ceiling.
        hits: Option<f64>,
    },
    /// There is not so much memory.
    #[error(
        "{tenant} would need {}; if all others fell to their floors it could have {}{}",
        .needs.bytes(), .most.bytes(), HitsBound(*.hits)
    )]
    NoRoom {
        /// Who.
        tenant: TenantName,
        /// The memory that it would need.
        needs: Pages,
        /// The memory that it could have.
        most: Pages,
        /// Its hits with that memory.
        hits: Option<f64>,
    },
}

/// `95.0 %`.
struct Percentage(f64);

impl fmt::Display for Percentage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} %", self.0 * 100.0)
    }
}

/// `: with that at most 91.0 % would be hits`.
struct HitsBound(Option<f64>);

impl fmt::Display for HitsBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(hits) => write!(f, ": with that at most {} would be hits", Percentage(hits)),
            None => Ok(()),
        }
    }
}

/// `58 min`, `40 s`.
struct DurationText(u64);

impl fmt::Display for DurationText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            secs @ 0..120 => write!(f, "{secs} s"),
            secs => write!(f, "{} min", secs / 60),
        }
    }
}
