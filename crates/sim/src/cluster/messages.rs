//! What travels between simulated nodes: lines of the control protocol as they are, and page messages in a few numbers.
//!
//! Page messages say what those of the daemon say. They carry stamps in place of pages, and need no code of their own
//! against forgery: the network alters nothing but where a message ends.

use sublet_lend::ids::{Incarnation, LeaseId, SessionId};
use sublet_lend::wire::{
    ANSWER_BYTES, Answer, HEAD_BYTES, HELLO_BYTES, MAC_BYTES, PAGE_BYTES, RANGE_BYTES,
};

use super::seal::SealedBytes;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChannelClass {
    /// Lines between two nodes.
    Control,
    /// Reads of pages.
    Read,
    /// Writes of pages.
    Write,
}

/// Something that travels on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Payload {
    /// Bytes of control lines.
    Lines(Vec<u8>),
    /// A message about pages.
    Pages(Box<PageMessage>),
}

/// The number of a request on its connection. It rises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RequestTag(pub(super) u64);

/// A page of a lent block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LentPlace {
    pub(super) index: u32,
    pub(super) place: u16,
}

/// The first message of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageHello {
    pub(super) class: ChannelClass,
    /// The lender's number of the session.
    pub(super) session: SessionId,
    /// The number of the connection in its session. It rises.
    pub(super) number: u64,
    /// The lender's run, as the borrower knows it.
    pub(super) lender: Incarnation,
}

/// A borrower reads pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReadRequest {
    pub(super) tag: RequestTag,
    pub(super) lease: LeaseId,
    pub(super) places: Vec<LentPlace>,
}

/// A page of an answer. Only the judges look at whether the lender altered it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReadPage {
    pub(super) ordinal: usize,
    pub(super) bytes: SealedBytes,
    pub(super) is_altered: bool,
}

/// A lender's answer to a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReadAnswer {
    pub(super) tag: RequestTag,
    pub(super) answer: Answer,
    pub(super) pages: Vec<ReadPage>,
}

/// A borrower writes pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WriteRequest {
    pub(super) tag: RequestTag,
    pub(super) lease: LeaseId,
    pub(super) pages: Vec<(LentPlace, SealedBytes)>,
    /// Whether all of it arrives. The lender takes each page when it is there, and answers the whole.
    pub(super) ends: MessageEnd,
}

/// Whether a message was cut by the end of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageEnd {
    /// All of it is there.
    Whole,
    /// The rest never comes.
    Cut,
}

/// A lender's answer to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WriteAnswer {
    pub(super) tag: RequestTag,
    pub(super) answer: Answer,
}

/// A message about pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PageMessage {
    /// The first of a connection.
    Hello(PageHello),
    /// Borrower to lender.
    Read(ReadRequest),
    /// Lender to borrower.
    Data(ReadAnswer),
    /// Borrower to lender.
    Write(WriteRequest),
    /// Lender to borrower.
    Done(WriteAnswer),
}

impl PageMessage {
    /// The bytes that the daemon's message would have, with a range for each page.
    fn bytes(&self) -> usize {
        let request = |pages: usize| HEAD_BYTES + pages * RANGE_BYTES + MAC_BYTES;
        match self {
            PageMessage::Hello(_) => HELLO_BYTES,
            PageMessage::Read(read) => request(read.places.len()),
            PageMessage::Data(answer) => ANSWER_BYTES + answer.pages.len() * PAGE_BYTES,
            PageMessage::Write(write) => {
                request(write.pages.len()) + write.pages.len() * PAGE_BYTES
            }
            PageMessage::Done(_) => ANSWER_BYTES,
        }
    }
}

impl From<PageMessage> for Payload {
    fn from(message: PageMessage) -> Payload {
        Payload::Pages(Box::new(message))
    }
}

impl Payload {
    /// Its bytes on the wire, before TLS.
    pub(super) fn bytes(&self) -> u64 {
        let bytes = match self {
            Payload::Lines(lines) => lines.len(),
            Payload::Pages(message) => message.bytes(),
        };
        bytes as u64
    }

    /// What arrives if the connection ends after this share of it. `None` if nothing of it means anything.
    pub(super) fn cut(self, share: f64) -> Option<Payload> {
        let part = |whole: usize| (whole as f64 * share) as usize;
        match self {
            Payload::Lines(mut lines) => {
                lines.truncate(part(lines.len()));
                (!lines.is_empty()).then_some(Payload::Lines(lines))
            }
            Payload::Pages(message) => {
                let PageMessage::Write(mut write) = *message else {
                    return None;
                };
                write.pages.truncate(part(write.pages.len()));
                write.ends = MessageEnd::Cut;
                (!write.pages.is_empty()).then(|| PageMessage::Write(write).into())
            }
        }
    }
}
