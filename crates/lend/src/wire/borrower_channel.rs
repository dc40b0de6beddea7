//! The borrower's end of a data connection: requests out, answers in.

use super::answer::Answer;
use super::fields::field;
use super::head::{MessageHead, MessageKind, MessageStatus};
use super::hello::ConnectionClass;
use super::in_flight::InFlight;
use super::message_mac::MessageMac;
use super::message_reader::MessageReader;
use super::page_request::PageRequest;
use super::page_set::PageSet;
use super::page_stream::{ExcessPageBytes, PageSpan, PageStream};
use super::range::RangeList;
use super::sequence::TagSequencer;
use super::session_keys::ConnectionKeys;
use super::wire_error::WireError;

/// What `BorrowerChannel::receive` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerEvent<'i> {
    /// All input is used.
    Idle,
    /// The oldest request is answered. On a read connection, the bytes of its pages follow, then `ReadComplete`.
    Answered {
        /// The request.
        request: PageRequest,
        /// What the lender says.
        answer: Answer,
    },
    /// Bytes of a page of the request that was answered last. Nobody has checked them: open the page's seal.
    PageBytes {
        /// The request.
        request: PageRequest,
        /// Where in which page the bytes belong.
        span: PageSpan,
        /// The bytes, in the input.
        bytes: &'i [u8],
    },
    /// All pages of the answer arrived.
    ReadComplete(PageRequest),
}

/// Why a request cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// As many requests wait for their answers as may.
    #[error("{0} requests wait for their answers; send this one when the oldest is answered")]
    TooManyInFlight(usize),
    /// The request has no pages.
    #[error("the request has no pages; send none")]
    NoPages,
}

/// The phase of the borrower's end.
#[derive(Debug)]
enum BorrowerPhase {
    AwaitsHead,
    AwaitsPages(PageRequest, PageStream),
    Refused(WireError),
}

/// The borrower's end of a data connection. Its memory is fixed.
///
/// Bytes of pages arrive in two ways: `receive` hands out those that are in its input, and the borrower may read others
/// from the socket straight to where `missing_pages` says. No request can be taken back: if nobody waits for an answer
/// any more, the borrower receives it all the same, and throws its pages away.
#[derive(Debug)]
pub struct BorrowerChannel {
    class: ConnectionClass,
    incarnation_low: u32,
    reader: MessageReader,
    request_mac: MessageMac,
    tags: TagSequencer,
    in_flight: InFlight,
    phase: BorrowerPhase,
}

impl BorrowerChannel {
    /// A connection behind its hello. `incarnation` is the lender's.
    pub fn new(class: ConnectionClass, keys: ConnectionKeys, incarnation: u64) -> BorrowerChannel {
        let kind = match class {
            ConnectionClass::Read => MessageKind::Data,
            ConnectionClass::Write => MessageKind::Done,
        };
        BorrowerChannel {
            class,
            incarnation_low: incarnation as u32,
            reader: MessageReader::new(class, kind, keys.to_borrower),
            request_mac: MessageMac::new(keys.to_lender),
            tags: TagSequencer::default(),
            in_flight: InFlight::new(class),
            phase: BorrowerPhase::AwaitsHead,
        }
    }

    /// Returns whether another request may be sent now.
    pub fn has_room(&self) -> bool {
        self.in_flight.has_room()
    }

    /// The requests that wait for their answers, the oldest first. They are lost if the connection ends.
    pub fn unanswered(&self) -> impl Iterator<Item = PageRequest> {
        self.in_flight.iter()
    }

    /// Appends a request for pages of a lease to `out`: a read or a write, as the connection's class says. The bytes of
    /// a write's pages must follow it, in order.
    ///
    /// It appends at most `REQUEST_BYTES_MAX` bytes, and allocates only if `out` has no room for them. Requests must be
    /// sent in the order in which they were written.
    ///
    /// # Errors
    ///
    /// Too many requests wait for their answers, or this one has no pages. Nothing is appended.
    pub fn request(
        &mut self,
        lease: u32,
        ranges: &RangeList,
        out: &mut Vec<u8>,
    ) -> Result<PageRequest, RequestError> {
        let pages = ranges.page_count();
        if pages == 0 {
            return Err(RequestError::NoPages);
        }
        if !self.in_flight.has_room() {
            return Err(RequestError::TooManyInFlight(self.in_flight.limit()));
        }
        let tag = self.tags.next_tag();
        let request = PageRequest { tag, lease, pages };
        self.append(request, ranges, out);
        self.in_flight.push(request);
        Ok(request)
    }

    /// Takes bytes from the front of `input`. However they are cut, the same answers come.
    ///
    /// # Errors
    ///
    /// The lender or somebody on the way broke the protocol. The connection is at its end: each further call fails
    /// alike.
    pub fn receive<'i>(&mut self, input: &mut &'i [u8]) -> Result<AnswerEvent<'i>, WireError> {
        match &mut self.phase {
            BorrowerPhase::Refused(error) => Err(*error),
            BorrowerPhase::AwaitsPages(request, pages) => {
                let request = *request;
                if pages.missing() == 0 {
                    self.phase = BorrowerPhase::AwaitsHead;
                    return Ok(AnswerEvent::ReadComplete(request));
                }
                let part = |(span, bytes)| AnswerEvent::PageBytes {
                    request,
                    span,
                    bytes,
                };
                Ok(pages.take(input).map_or(AnswerEvent::Idle, part))
            }
            BorrowerPhase::AwaitsHead => {
                let received = self.receive_answer(input);
                received.inspect_err(|error| self.phase = BorrowerPhase::Refused(*error))
            }
        }
    }

    /// The pages of the answer whose bytes must still arrive, in order. They may be read straight to where they belong.
    pub fn missing_pages(&self) -> impl Iterator<Item = PageSpan> {
        let missing = match &self.phase {
            BorrowerPhase::AwaitsPages(_, pages) => *pages,
            _ => PageStream::default(),
        };
        missing.spans()
    }

    /// Counts bytes that the borrower read into the first of `missing_pages`.
    ///
    /// # Errors
    ///
    /// The answer lacks fewer bytes.
    pub fn pages_arrived(&mut self, bytes: usize) -> Result<(), ExcessPageBytes> {
        match &mut self.phase {
            BorrowerPhase::AwaitsPages(_, pages) => pages.advance(bytes),
            _ => PageStream::default().advance(bytes),
        }
    }

    fn append(&self, request: PageRequest, ranges: &RangeList, out: &mut Vec<u8>) {
        let (kind, pages) = match self.class {
            ConnectionClass::Read => (MessageKind::Read, 0),
            ConnectionClass::Write => (MessageKind::Write, request.pages as u16),
        };
        let head = MessageHead {
            kind,
            status: MessageStatus::Ok,
            ranges: ranges.ranges().len() as u16,
            pages,
            tag: request.tag,
            lease: request.lease,
            incarnation_low: self.incarnation_low,
        };
        let begins = out.len();
        out.extend_from_slice(&head.encode());
        for range in ranges.ranges() {
            out.extend_from_slice(&range.encode());
        }
        let code = self.request_mac.code(request.tag, &out[begins..]);
        out.extend_from_slice(&code);
    }

    fn receive_answer<'i>(&mut self, input: &mut &'i [u8]) -> Result<AnswerEvent<'i>, WireError> {
        let Some(head) = self.reader.receive(input)? else {
            return Ok(AnswerEvent::Idle);
        };
        let request = self.in_flight.pop().ok_or(WireError::Unasked(head.tag))?;
        self.check_origin(&head, request)?;
        let pages = PageSet(u64::from_le_bytes(field(self.reader.body(&head), 0)));
        let answer = Answer::of(head.status, pages)?;
        answer.check_against(request.pages)?;
        if self.class == ConnectionClass::Read {
            let (length, named) = (usize::from(head.pages), pages.len());
            if length != named {
                return Err(WireError::PageCount { length, named });
            }
            self.phase = BorrowerPhase::AwaitsPages(request, PageStream::new(pages));
        }
        Ok(AnswerEvent::Answered { request, answer })
    }

    /// Checks that the answer is of the lender and the lease that were asked.
    fn check_origin(&self, head: &MessageHead, request: PageRequest) -> Result<(), WireError> {
        if head.incarnation_low != self.incarnation_low {
            return Err(WireError::OtherIncarnation {
                expected: self.incarnation_low,
                found: head.incarnation_low,
            });
        }
        if head.lease != request.lease {
            return Err(WireError::OtherLease {
                expected: request.lease,
                found: head.lease,
            });
        }
        Ok(())
    }
}
