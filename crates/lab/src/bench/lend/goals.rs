//! What reads of a lender's pages are to reach beside the peers.

use super::super::report::Goal;
use super::raw_figures::RawFigure;

/// The names of those that are compared.
pub(super) const BARE: &str = "a bare responder";
pub(super) const NBDKIT: &str = "nbdkit";
pub(super) const MEMCACHED: &str = "memcached";
pub(super) const REDIS: &str = "redis";
pub(super) const PLAIN: &str = "the same without opening seals";

/// The most that ours may be beside the peer's, if there is a goal.
pub(super) fn goal(pages: u16, peer: &str, figure: RawFigure) -> Option<Goal> {
    let most = match (figure, pages, peer) {
        (RawFigure::Median, 1, BARE) => 1.3,
        (RawFigure::Median, 1, MEMCACHED) => 1.0,
        (RawFigure::Median, 1, NBDKIT) => 0.9,
        (RawFigure::Median, 8 | 32, MEMCACHED) => 0.85,
        (RawFigure::Median, 8, NBDKIT) => 0.4,
        (RawFigure::Median, 32, NBDKIT) => 0.3,
        (RawFigure::ServerCpu, 32, MEMCACHED) => 0.8,
        (RawFigure::ServerCpu, 32, NBDKIT) => 0.2,
        (RawFigure::Median, 1 | 8 | 32, PLAIN) => 1.15,
        _ => return None,
    };
    Some(Goal::RatioAtMost(most))
}
