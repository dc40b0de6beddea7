//! The lender's end of a data connection: requests in, answers out.

use super::answer::{Answer, AnswerError};
use super::fields::{field, put};
use super::head::{MessageHead, MessageKind};
use super::hello::ConnectionClass;
use super::limits::{ANSWER_BYTES, HEAD_BYTES, MAC_BYTES, RANGE_BYTES, UNSENT_BYTES_MAX};
use super::message_mac::MessageMac;
use super::message_reader::MessageReader;
use super::page_request::PageRequest;
use super::page_set::PageSet;
use super::page_stream::{ExcessPageBytes, PageSpan, PageStream};
use super::range::{LentPage, PageRange, RangeList};
use super::session_keys::ConnectionKeys;
use super::wire_error::WireError;

/// What `LenderChannel::receive` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestEvent<'i> {
    /// All input is used, or the last request is not answered yet.
    Idle,
    /// The borrower reads the pages of `LenderChannel::ranges`. Answer it.
    Read(PageRequest),
    /// The borrower writes the pages of `LenderChannel::ranges`. Their bytes follow.
    WriteBegins(PageRequest),
    /// Bytes of a page that the borrower writes.
    PageBytes {
        /// The page.
        page: LentPage,
        /// Where in the page the bytes belong.
        span: PageSpan,
        /// The bytes, in the input.
        bytes: &'i [u8],
    },
    /// All pages of the write arrived. Answer it.
    WriteComplete(PageRequest),
}

/// Why the lender cannot answer so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerRefused {
    /// No complete request waits for an answer.
    #[error("no request waits for an answer; receive one first")]
    NothingAsked,
    /// The answer does not suit the request.
    #[error(transparent)]
    Unsuitable(#[from] AnswerError),
}

/// The phase of the lender's end.
#[derive(Debug)]
enum LenderPhase {
    AwaitsHead,
    AwaitsPages(PageRequest, PageStream),
    AwaitsAnswer(PageRequest),
    Refused(WireError),
}

/// The lender's end of a data connection. It holds at most one request, and allocates nothing.
///
/// The lender receives until `Idle`, and answers each request before it receives the next. Bytes of pages arrive in two
/// ways: `receive` hands out those that are in its input, and the lender may read others from the socket straight to
/// where `missing_pages` says. The borrower alone bounds the requests in flight: what the lender has not received waits
/// in the socket.
#[derive(Debug)]
pub struct LenderChannel {
    class: ConnectionClass,
    incarnation_low: u32,
    reader: MessageReader,
    answer_mac: MessageMac,
    ranges: RangeList,
    phase: LenderPhase,
}

impl LenderChannel {
    /// A connection behind its hello. `incarnation` is the lender's own.
    pub fn new(class: ConnectionClass, keys: ConnectionKeys, incarnation: u64) -> LenderChannel {
        let kind = match class {
            ConnectionClass::Read => MessageKind::Read,
            ConnectionClass::Write => MessageKind::Write,
        };
        LenderChannel {
            class,
            incarnation_low: incarnation as u32,
            reader: MessageReader::new(class, kind, keys.to_lender),
            answer_mac: MessageMac::new(keys.to_borrower),
            ranges: RangeList::default(),
            phase: LenderPhase::AwaitsHead,
        }
    }

    /// Takes bytes from the front of `input`. However they are cut, the same requests come.
    ///
    /// # Errors
    ///
    /// The borrower or somebody on the way broke the protocol. The connection is at its end: each further call fails
    /// alike.
    pub fn receive<'i>(&mut self, input: &mut &'i [u8]) -> Result<RequestEvent<'i>, WireError> {
        match &mut self.phase {
            LenderPhase::Refused(error) => Err(*error),
            LenderPhase::AwaitsAnswer(_) => Ok(RequestEvent::Idle),
            LenderPhase::AwaitsPages(request, pages) => {
                let request = *request;
                if pages.missing() == 0 {
                    self.phase = LenderPhase::AwaitsAnswer(request);
                    return Ok(RequestEvent::WriteComplete(request));
                }
                let taken = pages.take(input);
                Ok(taken.map_or(RequestEvent::Idle, |part| self.page_bytes(part)))
            }
            LenderPhase::AwaitsHead => {
                let received = self.receive_head(input);
                received.inspect_err(|error| self.phase = LenderPhase::Refused(*error))
            }
        }
    }

    /// The ranges of the request that came last.
    pub fn ranges(&self) -> &RangeList {
        &self.ranges
    }

    /// The pages of a write whose bytes must still arrive, in order. They may be read straight to where they belong.
    pub fn missing_pages(&self) -> impl Iterator<Item = (LentPage, PageSpan)> {
        let missing = match &self.phase {
            LenderPhase::AwaitsPages(_, pages) => *pages,
            _ => PageStream::default(),
        };
        let located = |span: PageSpan| Some((self.ranges.page_at(span.ordinal)?, span));
        missing.spans().filter_map(located)
    }

    /// Counts bytes that the lender read into the first of `missing_pages`.
    ///
    /// # Errors
    ///
    /// The write lacks fewer bytes.
    pub fn pages_arrived(&mut self, bytes: usize) -> Result<(), ExcessPageBytes> {
        match &mut self.phase {
            LenderPhase::AwaitsPages(_, pages) => pages.advance(bytes),
            _ => PageStream::default().advance(bytes),
        }
    }

    /// Returns whether the lender should read on from the socket, with that many bytes of answers unsent.
    pub fn wants_input(&self, unsent_bytes: usize) -> bool {
        let receives = matches!(
            self.phase,
            LenderPhase::AwaitsHead | LenderPhase::AwaitsPages(..)
        );
        receives && unsent_bytes <= UNSENT_BYTES_MAX
    }

    /// Answers the request that came last. The pages of a read's answer must follow these bytes, in order.
    ///
    /// # Errors
    ///
    /// No request waits, or it does not have these pages. The request still waits then.
    pub fn answer(&mut self, answer: Answer) -> Result<[u8; ANSWER_BYTES], AnswerRefused> {
        let LenderPhase::AwaitsAnswer(request) = self.phase else {
            return Err(AnswerRefused::NothingAsked);
        };
        answer.check_against(request.pages)?;
        self.phase = LenderPhase::AwaitsHead;
        Ok(self.answer_bytes(request, answer))
    }

    fn page_bytes<'i>(&self, (span, bytes): (PageSpan, &'i [u8])) -> RequestEvent<'i> {
        let page = self
            .ranges
            .page_at(span.ordinal)
            .expect("the stream has as many pages as the ranges");
        RequestEvent::PageBytes { page, span, bytes }
    }

    fn receive_head<'i>(&mut self, input: &mut &'i [u8]) -> Result<RequestEvent<'i>, WireError> {
        let Some(head) = self.reader.receive(input)? else {
            return Ok(RequestEvent::Idle);
        };
        if head.incarnation_low != self.incarnation_low {
            return Err(WireError::OtherIncarnation {
                expected: self.incarnation_low,
                found: head.incarnation_low,
            });
        }
        self.receive_ranges(&head)?;
        let request = PageRequest {
            tag: head.tag,
            lease: head.lease,
            pages: self.ranges.page_count(),
        };
        Ok(match self.class {
            ConnectionClass::Read => {
                self.phase = LenderPhase::AwaitsAnswer(request);
                RequestEvent::Read(request)
            }
            ConnectionClass::Write => {
                let pages = PageStream::new(PageSet::first(request.pages));
                self.phase = LenderPhase::AwaitsPages(request, pages);
                RequestEvent::WriteBegins(request)
            }
        })
    }

    fn receive_ranges(&mut self, head: &MessageHead) -> Result<(), WireError> {
        self.ranges.clear();
        for (nth, bytes) in self.reader.body(head).chunks_exact(RANGE_BYTES).enumerate() {
            let range = PageRange::decode(&field(bytes, 0));
            range
                .and_then(|range| self.ranges.push(range))
                .map_err(|source| WireError::Range { nth, source })?;
        }
        let (length, named) = (usize::from(head.pages), self.ranges.page_count());
        match head.kind.carries_pages() && length != named {
            true => Err(WireError::PageCount { length, named }),
            false => Ok(()),
        }
    }

    fn answer_bytes(&self, request: PageRequest, answer: Answer) -> [u8; ANSWER_BYTES] {
        let (kind, pages) = match self.class {
            ConnectionClass::Read => (MessageKind::Data, answer.pages().len() as u16),
            ConnectionClass::Write => (MessageKind::Done, 0),
        };
        let head = MessageHead {
            kind,
            status: answer.status(),
            ranges: 0,
            pages,
            tag: request.tag,
            lease: request.lease,
            incarnation_low: self.incarnation_low,
        };
        let mut bytes = [0; ANSWER_BYTES];
        put(&mut bytes, 0, head.encode());
        put(&mut bytes, HEAD_BYTES, answer.pages().0.to_le_bytes());
        let code_at = ANSWER_BYTES - MAC_BYTES;
        let code = self.answer_mac.code(request.tag, &bytes[..code_at]);
        put(&mut bytes, code_at, code);
        bytes
    }
}
