//! The control messages, by kind.

use super::bodies::{
    Borrow, Bye, Claim, ControlHello, End, Grant, LeaseAudit, LendReport, Ping, Pong, RecallNotice,
    RecalledRanges, ReturnedRanges,
};

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
}

impl ControlMessage {
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
