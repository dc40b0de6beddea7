//! Why the bytes of a data connection are refused. After any of these the connection must be closed.

use super::answer::AnswerError;
use super::head::{HeadError, MessageKind, MessageTag};
use super::hello::ConnectionClass;
use super::range::RangeError;
use super::sequence::WrongTag;

/// Why a data connection is at its end: the peer is wrong, or somebody changed its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The head is wrong.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// The message does not belong on this connection.
    #[error("{kind:?} came on a connection of class {class:?}; close it")]
    UnexpectedKind {
        /// What the message is.
        kind: MessageKind,
        /// What the connection carries.
        class: ConnectionClass,
    },
    /// The authentication code is wrong.
    #[error("the code of the message with tag {} is wrong: it was changed on the way, or made without the key; close the connection", .0.0)]
    Code(MessageTag),
    /// The message is not the next one.
    #[error(transparent)]
    Tag(#[from] WrongTag),
    /// The request is for an earlier or later run of the lender.
    #[error(
        "the message is for the incarnation that ends in {found:08x}, and the lender's ends in {expected:08x}; connect anew"
    )]
    OtherIncarnation {
        /// The low half of the lender's incarnation.
        expected: u32,
        /// The one of the message.
        found: u32,
    },
    /// A range is wrong.
    #[error("range {nth} of the message: {source}; close the connection")]
    Range {
        /// The range, from 0.
        nth: usize,
        /// What is wrong with it.
        source: RangeError,
    },
    /// The length of the message stands for another number of pages than its ranges or its set.
    #[error(
        "the message's length has room for {length} pages, and its ranges or its set are of {named}; close the connection"
    )]
    PageCount {
        /// Pages by the length.
        length: usize,
        /// Pages by the ranges or the set.
        named: usize,
    },
    /// An answer came though no request waits for one.
    #[error("an answer with tag {} came though every request is answered; close the connection", .0.0)]
    Unasked(MessageTag),
    /// An answer is about another lease than its request.
    #[error(
        "the answer is about lease {found}, and its request was about lease {expected}; close the connection"
    )]
    OtherLease {
        /// The lease of the request.
        expected: u32,
        /// The lease of the answer.
        found: u32,
    },
    /// An answer does not suit its request.
    #[error(transparent)]
    Answer(#[from] AnswerError),
}
