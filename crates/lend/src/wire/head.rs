//! The head of a message.
//!
//! ```text
//! 0       4      5        6        8     16      20                24
//! | bytes | verb | status | ranges | tag | lease | incarnation_low |
//! ```

use super::fields::{field, put};
use super::limits::{
    ANSWER_BYTES, HEAD_BYTES, MAC_BYTES, PAGE_BYTES, PAGES_MAX, RANGE_BYTES, RANGES_MAX,
};

const VERB_AT: usize = 4;
const STATUS_AT: usize = 5;
const RANGES_AT: usize = 6;
const TAG_AT: usize = 8;
const LEASE_AT: usize = 16;
const INCARNATION_AT: usize = 20;

/// What a message is: its verb on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// The borrower asks for pages.
    Read,
    /// The lender answers a read. The pages that it has follow.
    Data,
    /// The borrower sends pages, which follow.
    Write,
    /// The lender answers a write.
    Done,
}

impl MessageKind {
    const ALL: [MessageKind; 4] = [
        MessageKind::Read,
        MessageKind::Data,
        MessageKind::Write,
        MessageKind::Done,
    ];

    fn code(self) -> u8 {
        match self {
            MessageKind::Read => 1,
            MessageKind::Data => 2,
            MessageKind::Write => 3,
            MessageKind::Done => 4,
        }
    }

    fn of(code: u8) -> Option<MessageKind> {
        MessageKind::ALL
            .into_iter()
            .find(|kind| kind.code() == code)
    }

    /// Returns whether the borrower sends it.
    pub fn is_request(self) -> bool {
        matches!(self, MessageKind::Read | MessageKind::Write)
    }

    /// Returns whether pages may follow it.
    pub fn carries_pages(self) -> bool {
        matches!(self, MessageKind::Data | MessageKind::Write)
    }
}

/// How a request went. Requests themselves carry `Ok`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageStatus {
    /// The pages of the set were read or taken.
    Ok,
    /// The lender has no such lease any more.
    LeaseGone,
    /// The lender has no time or memory for the request now.
    Busy,
    /// The lender has the lease, but not these blocks in it, or not for this borrower.
    Refused,
}

impl MessageStatus {
    const ALL: [MessageStatus; 4] = [
        MessageStatus::Ok,
        MessageStatus::LeaseGone,
        MessageStatus::Busy,
        MessageStatus::Refused,
    ];

    fn code(self) -> u8 {
        match self {
            MessageStatus::Ok => 0,
            MessageStatus::LeaseGone => 1,
            MessageStatus::Busy => 2,
            MessageStatus::Refused => 3,
        }
    }

    fn of(code: u8) -> Option<MessageStatus> {
        MessageStatus::ALL
            .into_iter()
            .find(|status| status.code() == code)
    }
}

/// The number of a request on its connection, from 1. Its answer carries the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageTag(pub u64);

/// The head of a message whose counts are within the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageHead {
    /// What the message is.
    pub kind: MessageKind,
    /// How the request went.
    pub status: MessageStatus,
    /// The number of ranges, at most 64. Answers have none.
    pub ranges: u16,
    /// The number of pages that follow, at most 64.
    pub pages: u16,
    /// The number of the request.
    pub tag: MessageTag,
    /// The lease that the request is about.
    pub lease: u32,
    /// The low half of the lender's incarnation.
    pub incarnation_low: u32,
}

/// Why bytes are no head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// No message has this verb.
    #[error("verb {0} is unknown in version 1; close the connection")]
    UnknownVerb(u8),
    /// No answer has this status.
    #[error("status {0} is unknown in version 1; close the connection")]
    UnknownStatus(u8),
    /// A request carries the status of an answer.
    #[error("a request carries the status {0:?} of an answer; close the connection")]
    RequestStatus(MessageStatus),
    /// A request has no range or too many, or an answer has some.
    #[error(
        "{kind:?} with {ranges} ranges; requests have 1 to {RANGES_MAX}, answers none; close the connection"
    )]
    RangeCount {
        /// What the message is.
        kind: MessageKind,
        /// The number of its ranges.
        ranges: u16,
    },
    /// The length is not that of the ranges and of whole pages, or there are too many pages.
    #[error(
        "{kind:?} with {ranges} ranges is said to have {bytes} bytes, which fit no number of pages; close the connection"
    )]
    Length {
        /// What the message is.
        kind: MessageKind,
        /// The number of its ranges.
        ranges: u16,
        /// The bytes behind the head.
        bytes: u32,
    },
}

impl MessageHead {
    /// Bytes of the message before its pages: the head, the ranges or the set, and the code.
    pub fn bytes_before_pages(&self) -> usize {
        bytes_before_pages(self.kind, self.ranges)
    }

    /// The bytes of the head.
    pub fn encode(&self) -> [u8; HEAD_BYTES] {
        let after = self.bytes_before_pages() - HEAD_BYTES + usize::from(self.pages) * PAGE_BYTES;
        let mut bytes = [0; HEAD_BYTES];
        put(&mut bytes, 0, (after as u32).to_le_bytes());
        put(&mut bytes, VERB_AT, [self.kind.code()]);
        put(&mut bytes, STATUS_AT, [self.status.code()]);
        put(&mut bytes, RANGES_AT, self.ranges.to_le_bytes());
        put(&mut bytes, TAG_AT, self.tag.0.to_le_bytes());
        put(&mut bytes, LEASE_AT, self.lease.to_le_bytes());
        put(
            &mut bytes,
            INCARNATION_AT,
            self.incarnation_low.to_le_bytes(),
        );
        bytes
    }

    /// Reads a head. It bounds what a reader must take before the code can be checked.
    ///
    /// # Errors
    ///
    /// The verb or the status is unknown, or a count is out of its limits or contradicts the length.
    pub fn decode(bytes: &[u8; HEAD_BYTES]) -> Result<MessageHead, HeadError> {
        let [verb] = field(bytes, VERB_AT);
        let [status] = field(bytes, STATUS_AT);
        let kind = MessageKind::of(verb).ok_or(HeadError::UnknownVerb(verb))?;
        let status = MessageStatus::of(status).ok_or(HeadError::UnknownStatus(status))?;
        if kind.is_request() && status != MessageStatus::Ok {
            return Err(HeadError::RequestStatus(status));
        }
        let ranges = u16::from_le_bytes(field(bytes, RANGES_AT));
        let allowed = if kind.is_request() {
            1..=RANGES_MAX
        } else {
            0..=0
        };
        if !allowed.contains(&usize::from(ranges)) {
            return Err(HeadError::RangeCount { kind, ranges });
        }
        Ok(MessageHead {
            kind,
            status,
            ranges,
            pages: pages_behind(kind, ranges, u32::from_le_bytes(field(bytes, 0)))?,
            tag: MessageTag(u64::from_le_bytes(field(bytes, TAG_AT))),
            lease: u32::from_le_bytes(field(bytes, LEASE_AT)),
            incarnation_low: u32::from_le_bytes(field(bytes, INCARNATION_AT)),
        })
    }
}

fn bytes_before_pages(kind: MessageKind, ranges: u16) -> usize {
    match kind.is_request() {
        true => HEAD_BYTES + usize::from(ranges) * RANGE_BYTES + MAC_BYTES,
        false => ANSWER_BYTES,
    }
}

/// The number of pages of a message with that many bytes behind its head.
fn pages_behind(kind: MessageKind, ranges: u16, bytes: u32) -> Result<u16, HeadError> {
    let wrong = HeadError::Length {
        kind,
        ranges,
        bytes,
    };
    let fixed = bytes_before_pages(kind, ranges) - HEAD_BYTES;
    let rest = (bytes as usize).checked_sub(fixed).ok_or(wrong)?;
    let pages = rest / PAGE_BYTES;
    let allowed = match kind {
        MessageKind::Read | MessageKind::Done => 0..=0,
        MessageKind::Data => 0..=PAGES_MAX,
        // Each range has a page.
        MessageKind::Write => usize::from(ranges)..=PAGES_MAX,
    };
    match rest % PAGE_BYTES == 0 && allowed.contains(&pages) {
        true => Ok(pages as u16),
        false => Err(wrong),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(kind: MessageKind, ranges: u16, pages: u16) -> MessageHead {
        MessageHead {
            kind,
            status: MessageStatus::Ok,
            ranges,
            pages,
            tag: MessageTag(7),
            lease: 3,
            incarnation_low: 9,
        }
    }

    fn with_bytes(head: &MessageHead, after: u32) -> Result<MessageHead, HeadError> {
        let mut bytes = head.encode();
        put(&mut bytes, 0, after.to_le_bytes());
        MessageHead::decode(&bytes)
    }

    #[test]
    fn codes_are_understood_both_ways() {
        for code in 0..=u8::MAX {
            assert!(MessageKind::of(code).is_none_or(|kind| kind.code() == code));
            assert!(MessageStatus::of(code).is_none_or(|status| status.code() == code));
        }
        assert!(
            MessageKind::ALL
                .iter()
                .all(|kind| MessageKind::of(kind.code()) == Some(*kind))
        );
        let known = |status: &MessageStatus| MessageStatus::of(status.code()) == Some(*status);
        assert!(MessageStatus::ALL.iter().all(known));
    }

    #[test]
    fn unknown_verbs_and_statuses_are_refused() {
        let mut bytes = head(MessageKind::Read, 1, 0).encode();
        bytes[VERB_AT] = 5;
        assert_eq!(MessageHead::decode(&bytes), Err(HeadError::UnknownVerb(5)));
        let mut bytes = head(MessageKind::Done, 0, 0).encode();
        bytes[STATUS_AT] = 4;
        assert_eq!(
            MessageHead::decode(&bytes),
            Err(HeadError::UnknownStatus(4))
        );
        let mut bytes = head(MessageKind::Write, 1, 1).encode();
        bytes[STATUS_AT] = 2;
        let busy = HeadError::RequestStatus(MessageStatus::Busy);
        assert_eq!(MessageHead::decode(&bytes), Err(busy));
    }

    #[test]
    fn range_counts_have_limits() {
        for (kind, ranges, pages, good) in [
            (MessageKind::Read, 0, 0, false),
            (MessageKind::Read, 64, 0, true),
            (MessageKind::Read, 65, 0, false),
            (MessageKind::Write, 0, 1, false),
            (MessageKind::Data, 1, 0, false),
            (MessageKind::Done, 1, 0, false),
        ] {
            let decoded = MessageHead::decode(&head(kind, ranges, pages).encode());
            let refused = Err(HeadError::RangeCount { kind, ranges });
            assert_eq!(decoded == refused, !good, "{kind:?} {ranges}");
        }
    }

    #[test]
    fn lengths_are_those_of_whole_pages() {
        let write = head(MessageKind::Write, 2, 2);
        let fixed = 2 * 8 + 16;
        assert_eq!(with_bytes(&write, fixed + 2 * 4096), Ok(write));
        for wrong in [
            0,
            fixed - 1,
            fixed,
            fixed + 4096,
            fixed + 2 * 4096 + 1,
            fixed + 65 * 4096,
            u32::MAX,
        ] {
            assert!(matches!(
                with_bytes(&write, wrong),
                Err(HeadError::Length { .. })
            ));
        }
        let answer = head(MessageKind::Data, 0, 0);
        assert_eq!(with_bytes(&answer, 24), Ok(answer));
        assert!(with_bytes(&answer, 24 + 64 * 4096).is_ok());
        assert!(with_bytes(&answer, 24 + 65 * 4096).is_err());
        assert!(with_bytes(&head(MessageKind::Done, 0, 0), 24 + 4096).is_err());
        assert!(with_bytes(&head(MessageKind::Read, 1, 0), 24 + 4096).is_err());
    }
}
