//! The control messages, by kind.

use super::bodies::{
    Borrow, Bye, Claim, ControlHello, End, Grant, LeaseAudit, LendReport, Ping, Pong, RecallNotice,
    RecalledRanges, ReturnedRanges,
};
use super::cluster_bodies::{BorrowAdvice, ClusterReport, MembersUpdate};
use super::view_bodies::{ViewPart, ViewQuery};

/// A message of a control connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlMessage {
    /// The first of each end.
    Hello(Box<ControlHello>),
    /// Borrower to lender: asks for blocks.
    Borrow(Borrow),
    /// Lender to borrower: blocks, or none.
    Grant(Grant),
    /// Borrower to lender: gives blocks back.
    Return(ReturnedRanges),
    /// Lender to borrower: asks for blocks back, with notice.
    Recall(RecallNotice),
    /// Lender to borrower: has taken blocks back.
    Recalled(RecalledRanges),
    /// Lender to borrower: a lease is over.
    End(End),
    /// Lender to borrower: asks which blocks it has.
    Audit(LeaseAudit),
    /// Borrower to lender: says which blocks it has.
    Claim(Claim),
    /// The sender wants to go: it neither lends nor borrows any more, and recalls and returns everything.
    Leave,
    /// The last of a connection.
    Bye(Bye),
    /// A sign of life.
    Ping(Ping),
    /// The answer to a ping.
    Pong(Pong),
    /// Figures, once a second.
    Report(LendReport),
    /// Node to leader: figures of the node and of its leases, once a second.
    ClusterReport(Box<ClusterReport>),
    /// Leader to node: who takes part.
    Members(Box<MembersUpdate>),
    /// Leader to borrower: whom it should ask.
    Advise(Box<BorrowAdvice>),
    /// Node to leader: asks how the cluster stands.
    AskView(Box<ViewQuery>),
    /// Leader to node: a part of that.
    View(Box<ViewPart>),
}

impl ControlMessage {
    /// Returns whether the message says no more than that its sender is there and how it stands.
    pub fn is_sign_of_life(&self) -> bool {
        matches!(
            self,
            ControlMessage::Ping(_) | ControlMessage::Pong(_) | ControlMessage::Report(_)
        )
    }

    /// The word that names the message's kind on the wire.
    pub fn kind(&self) -> &'static str {
        match self {
            ControlMessage::Hello(_) => "hello",
            ControlMessage::Borrow(_) => "borrow",
            ControlMessage::Grant(_) => "grant",
            ControlMessage::Return(_) => "return",
            ControlMessage::Recall(_) => "recall",
            ControlMessage::Recalled(_) => "recalled",
            ControlMessage::End(_) => "end",
            ControlMessage::Audit(_) => "audit",
            ControlMessage::Claim(_) => "claim",
            ControlMessage::Leave => "leave",
            ControlMessage::Bye(_) => "bye",
            ControlMessage::Ping(_) => "ping",
            ControlMessage::Pong(_) => "pong",
            ControlMessage::Report(_) => "report",
            ControlMessage::ClusterReport(_) => "cluster_report",
            ControlMessage::Members(_) => "members",
            ControlMessage::Advise(_) => "advise",
            ControlMessage::AskView(_) => "ask_view",
            ControlMessage::View(_) => "view",
        }
    }
}

/// A line that was decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlLine {
    /// A message of this version.
    Message(ControlMessage),
    /// A message of a kind that this version does not know. It is ignored.
    UnknownKind,
}
