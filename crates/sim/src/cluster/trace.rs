//! What happened in a run, for who must find out why a judge found something.

use std::collections::VecDeque;
use std::fmt;

use sublet_lend::ids::{LeaseId, Term};

use super::content::GuestPage;
use super::ids::{NodeNumber, NodeRun};
use crate::virtual_time::VirtualInstant;

/// Something that happened at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TraceEvent {
    /// A run began.
    Started(NodeRun),
    /// Something was done to the node, to its host or to a link of it.
    Fault(&'static str, Option<NodeNumber>),
    /// A control message was sent.
    Sent(&'static str, NodeNumber),
    /// A control message came.
    Heard(&'static str, NodeNumber),
    /// The node was told who leads, and in which term.
    Told(Option<NodeNumber>, Term),
    /// A session began.
    SessionOpened(NodeNumber),
    /// A session ended.
    SessionClosed(NodeNumber),
    /// Blocks were set aside for a borrower.
    Lent(NodeNumber, usize),
    /// Lent blocks were taken back for the host or its tenants.
    Taken(usize),
    /// Lent blocks came back, for a reason of the protocol.
    Freed(usize),
    /// Blocks of a lender are ready.
    Borrowed(NodeNumber, LeaseId, u32),
    /// Borrowed blocks are forgotten.
    Forgotten(NodeNumber, LeaseId, u32),
    /// A borrowed lease ended.
    LeaseEnded(NodeNumber, LeaseId),
    /// Borrowed blocks went back.
    Returned(NodeNumber, u32),
    /// A lender is asked for pages.
    Reads(NodeNumber, usize),
    /// A read ended.
    ReadEnded(NodeNumber, &'static str),
    /// Pages are sent to a lender.
    Writes(NodeNumber, usize),
    /// A write was answered: so many pages were taken.
    WriteDone(NodeNumber, usize),
    /// Writes of so many pages were not answered, and their connection is over.
    WritesLost(NodeNumber, usize),
    /// The guest did something with so many pages from this one on.
    Guest(&'static str, GuestPage, u32),
    /// The host lets the arena have so many blocks.
    Limit(u64),
}

impl fmt::Display for TraceEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceEvent::Started(run) => write!(f, "starts as {run}"),
            TraceEvent::Fault(what, None) => write!(f, "** {what}"),
            TraceEvent::Fault(what, Some(other)) => write!(f, "** {what} {other}"),
            TraceEvent::Sent(kind, to) => write!(f, "says {kind} to {to}"),
            TraceEvent::Heard(kind, from) => write!(f, "hears {kind} of {from}"),
            TraceEvent::Told(Some(leader), term) => {
                write!(f, "is told that {leader} leads in term {}", term.0)
            }
            TraceEvent::Told(None, _) => write!(f, "is told that nobody leads"),
            TraceEvent::SessionOpened(peer) => write!(f, "has a session with {peer}"),
            TraceEvent::SessionClosed(peer) => write!(f, "has no session with {peer} any more"),
            TraceEvent::Lent(to, blocks) => write!(f, "sets {blocks} blocks aside for {to}"),
            TraceEvent::Taken(blocks) => write!(f, "took {blocks} lent blocks back"),
            TraceEvent::Freed(blocks) => write!(f, "has {blocks} lent blocks back"),
            TraceEvent::Borrowed(of, lease, blocks) => {
                write!(f, "has {blocks} blocks more of lease {lease} of {of}")
            }
            TraceEvent::Forgotten(of, lease, blocks) => {
                write!(f, "forgets {blocks} blocks of lease {lease} of {of}")
            }
            TraceEvent::LeaseEnded(of, lease) => write!(f, "ends lease {lease} of {of}"),
            TraceEvent::Returned(to, blocks) => write!(f, "returns {blocks} blocks to {to}"),
            TraceEvent::Reads(of, pages) => write!(f, "reads {pages} pages of {of}"),
            TraceEvent::ReadEnded(of, how) => write!(f, "has a read of {of}: {how}"),
            TraceEvent::Writes(to, pages) => write!(f, "writes {pages} pages to {to}"),
            TraceEvent::WriteDone(by, pages) => write!(f, "has {pages} pages taken by {by}"),
            TraceEvent::WritesLost(to, pages) => write!(f, "lost writes of {pages} pages to {to}"),
            TraceEvent::Guest(verb, page, count) => {
                write!(f, "guest {verb} {:?} {}+{count}", page.pool, page.number)
            }
            TraceEvent::Limit(blocks) => write!(f, "may hold {blocks} blocks of its own"),
        }
    }
}

/// Something that happened, when, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TraceLine {
    at: VirtualInstant,
    node: NodeNumber,
    what: TraceEvent,
}

impl fmt::Display for TraceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>12.6} {:>4} {}", self.at.secs(), self.node, self.what)
    }
}

/// How much of a run is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TraceLength {
    /// The end of it.
    #[default]
    End,
    /// All.
    Whole,
}

/// Lines that are kept of the end of a run.
const END_LINES: usize = 40;

/// The trace of a run.
#[derive(Debug)]
pub(super) struct ClusterTrace {
    lines: VecDeque<TraceLine>,
    length: TraceLength,
}

impl ClusterTrace {
    /// An empty trace.
    pub(super) fn new(length: TraceLength) -> ClusterTrace {
        ClusterTrace {
            lines: VecDeque::with_capacity(END_LINES),
            length,
        }
    }

    /// Appends a line.
    pub(super) fn note(&mut self, at: VirtualInstant, node: NodeNumber, what: TraceEvent) {
        if self.length == TraceLength::End && self.lines.len() == END_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(TraceLine { at, node, what });
    }

    /// The lines, the oldest first.
    pub(super) fn lines(&self) -> Vec<String> {
        self.lines.iter().map(TraceLine::to_string).collect()
    }
}
