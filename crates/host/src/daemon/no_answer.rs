//! Why there is no answer to what would be.

use std::fmt;

use sublet_types::{Pages, TenantName};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum NoAnswer {
    /// Not one question.
    #[error("ask about a tenant and its hits, a tenant and its memory, or a policy")]
    NoQuestion,
    /// A part that is none.
    #[error("{0} is no part of all gets: above 0 and up to 1")]
    NoPart(f64),
    /// It has no curve.
    #[error("{0} is not measured yet: so far its clients have asked for too little")]
    NotMeasured(TenantName),
    /// No memory brings so many hits.
    #[error(
        "{tenant} cannot have {} hits: at most {}, with {}, by what the last {} asked",
        Part(*.wanted), Part(*.most), .with.bytes(), Span(*.secs)
    )]
    OutOfReach {
        /// Who.
        tenant: TenantName,
        /// What was asked for.
        wanted: f64,
        /// The most that there is.
        most: f64,
        /// With so much memory.
        with: Pages,
        /// By what so many seconds asked.
        secs: u64,
    },
    /// Its ceiling is lower.
    #[error("{tenant} would need {}, and its ceiling is {}{}", .needs.bytes(), .ceiling.bytes(), AtMost(*.hits))]
    Ceiling {
        /// Who.
        tenant: TenantName,
        /// What it would need.
        needs: Pages,
        /// Its ceiling.
        ceiling: Pages,
        /// Its hits with that.
        hits: Option<f64>,
    },
    /// There is not so much.
    #[error(
        "{tenant} would need {}; if all others fell to their floors it could have {}{}",
        .needs.bytes(), .most.bytes(), AtMost(*.hits)
    )]
    NoRoom {
        /// Who.
        tenant: TenantName,
        /// What it would need.
        needs: Pages,
        /// What it could have.
        most: Pages,
        /// Its hits with that.
        hits: Option<f64>,
    },
}

/// `95.0 %`.
struct Part(f64);

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} %", self.0 * 100.0)
    }
}

/// `: with that at most 91.0 % would be hits`.
struct AtMost(Option<f64>);

impl fmt::Display for AtMost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(hits) => write!(f, ": with that at most {} would be hits", Part(hits)),
            None => Ok(()),
        }
    }
}

/// `58 min`, `40 s`.
struct Span(u64);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            secs @ 0..120 => write!(f, "{secs} s"),
            secs => write!(f, "{} min", secs / 60),
        }
    }
}
