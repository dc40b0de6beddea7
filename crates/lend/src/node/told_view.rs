//! What a leader told of its cluster, and what was asked of it.

use std::time::Duration;

use crate::control::{ViewAdvice, ViewAlarm, ViewNode};
use crate::ids::{NodeName, Term};

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

/// A question that is not answered in full yet.
#[derive(Clone, Debug)]
pub(super) struct AskedView {
    /// Its number. Late answers to a question before have another one.
    pub(super) tag: u64,
    /// When its next part was asked for.
    pub(super) since: Duration,
    /// What came of the answer.
    pub(super) view: ToldView,
}

impl AskedView {
    /// The name up to which nodes came.
    pub(super) fn last_name(&self) -> Option<NodeName> {
        self.view.nodes.last().map(|node| node.name.clone())
    }
}

/// The answers to this node's questions.
#[derive(Clone, Debug, Default)]
pub(super) struct ViewAnswers {
    /// The question that is not answered in full yet.
    pub(super) asked: Option<AskedView>,
    /// The last answer that is whole.
    pub(super) told: Option<ToldView>,
}
