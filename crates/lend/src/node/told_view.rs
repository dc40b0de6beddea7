//! What a leader told of its cluster, and what was asked of it.

use std::time::Duration;

use crate::control::{ViewAdvice, ViewAlarm, ViewNode};
use crate::ids::Term;

/// How the leader saw the cluster when it was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToldView {
    /// When the first part came.
    pub at: Duration,
    /// The leader's term.
    pub term: Term,
    /// The nodes by name.
    pub nodes: Vec<ViewNode>,
    /// The latest advice, the oldest first.
    pub advice: Vec<ViewAdvice>,
    /// Pairs whose counts differ.
    pub alarms: Vec<ViewAlarm>,
    /// The placement policy and its knobs.
    pub placement: String,
}

/// The answers to this node's questions.
#[derive(Clone, Debug, Default)]
pub(super) struct ViewAnswers {
    /// The question that is not answered in full yet: since when, and what came.
    pub(super) asked: Option<(Duration, ToldView)>,
    /// The last answer that is whole.
    pub(super) told: Option<ToldView>,
}
