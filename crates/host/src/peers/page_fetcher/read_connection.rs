//! A thread's own connection to a lender, for reads.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::PollFlags;
use sublet_lend::wire::{
    AnswerEvent, BorrowerChannel, ConnectionClass, MessageTag, PAGE_BYTES, PageRequest, RangeList,
    RequestError, WireError,
};

use super::pending_read::PendingRead;
use crate::peers::byte_buffers::{InputBuffer, OutputBuffer, SocketProgress, read_some};
use crate::peers::lender_session::LenderSession;
use crate::peers::outgoing_socket::begin_connect;

/// Bytes that one read takes while no page is awaited: the answers of several requests, and the first pages.
const INPUT_BYTES: usize = 16 << 10;

/// Why a connection to a lender ends.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadConnectionEnd {
    /// The lender closed it, or the network did.
    #[error(transparent)]
    Socket(#[from] io::Error),
    /// The lender broke the protocol.
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// A connection to a lender.
pub(super) struct ReadConnection {
    socket: TcpStream,
    channel: BorrowerChannel,
    input: InputBuffer,
    output: OutputBuffer,
    /// The request whose pages arrive.
    arriving: Option<MessageTag>,
}

/// The reads of a batch that one lender was asked for, and the room for the batch's pages.
pub(super) struct AwaitedReads<'b> {
    pub(super) reads: &'b mut [PendingRead],
    pub(super) lender: usize,
    pub(super) pages: &'b mut [u8],
}

impl AwaitedReads<'_> {
    /// The awaited read with this tag. `None` if nobody waits for it any more.
    fn find(&mut self, tag: MessageTag) -> Option<&mut PendingRead> {
        let lender = self.lender;
        let is_it =
            |read: &&mut PendingRead| read.lender == lender && read.tag == tag && read.is_awaited();
        self.reads.iter_mut().find(is_it)
    }

    /// Returns whether there were reads of this lender, and none is awaited any more.
    fn are_settled(&self) -> bool {
        let is_awaited = |read: &PendingRead| read.lender == self.lender && read.is_awaited();
        !self.reads.is_empty() && !self.reads.iter().any(is_awaited)
    }

    /// Where the bytes of a page belong. `None` if nobody waits for it any more.
    fn bytes_at(&mut self, tag: MessageTag, ordinal: usize, offset: usize) -> Option<usize> {
        self.find(tag).map(|read| read.bytes_at(ordinal, offset))
    }
}

impl ReadConnection {
    /// Begins to connect, with a hello to be sent.
    ///
    /// # Errors
    ///
    /// The kernel has no socket, or no way leads to the lender.
    pub(super) fn open(session: &LenderSession) -> io::Result<ReadConnection> {
        let (hello, keys) = session.next_hello(ConnectionClass::Read);
        let mut output = OutputBuffer::default();
        output.bytes().extend_from_slice(&hello.encode());
        Ok(ReadConnection {
            socket: begin_connect(session.address())?,
            channel: BorrowerChannel::new(ConnectionClass::Read, keys, session.incarnation()),
            input: InputBuffer::new(INPUT_BYTES),
            output,
            arriving: None,
        })
    }

    /// Its socket, and what it waits for.
    pub(super) fn awaited(&self) -> (BorrowedFd<'_>, PollFlags) {
        let events = match self.output.unsent() {
            0 => PollFlags::IN,
            _ => PollFlags::IN | PollFlags::OUT,
        };
        (self.socket.as_fd(), events)
    }

    /// Appends a read. `exchange` sends it.
    ///
    /// # Errors
    ///
    /// As many requests wait for their answers as may.
    pub(super) fn ask(
        &mut self,
        lease: u32,
        ranges: &RangeList,
    ) -> Result<PageRequest, RequestError> {
        self.channel.request(lease, ranges, self.output.bytes())
    }

    /// Sends what the socket takes, and receives what has come. Answers that nobody waits for are thrown away.
    ///
    /// # Errors
    ///
    /// The connection is at its end.
    pub(super) fn exchange(
        &mut self,
        mut awaited: AwaitedReads<'_>,
    ) -> Result<(), ReadConnectionEnd> {
        if self.output.flush(&mut self.socket)? == SocketProgress::Blocked {
            // It is not connected yet, or the lender takes nothing.
            return Ok(());
        }
        loop {
            if let Some((at, bytes)) = self.pages_to_read(&mut awaited) {
                let into = &mut awaited.pages[at..at + bytes];
                let Some(read) = read_some(&mut self.socket, into)? else {
                    return Ok(());
                };
                let arrived = self.channel.pages_arrived(read);
                arrived.expect("no more was read than is missing");
            } else if self.input.fill(&mut self.socket)? == SocketProgress::Blocked {
                return Ok(());
            }
            self.receive(&mut awaited)?;
            if awaited.are_settled() {
                return Ok(());
            }
        }
    }

    /// Where the next bytes of the socket belong in the batch, if they are all of pages that somebody waits for.
    fn pages_to_read(&mut self, awaited: &mut AwaitedReads<'_>) -> Option<(usize, usize)> {
        if !self.input.unused().is_empty() {
            return None;
        }
        let mut missing = self.channel.missing_pages();
        let first = missing.next()?;
        let at = awaited.bytes_at(self.arriving?, first.ordinal, first.offset)?;
        let neighbours = missing
            .zip(first.ordinal + 1..)
            .take_while(|(span, next)| span.ordinal == *next);
        Some((at, first.len + neighbours.count() * PAGE_BYTES))
    }

    fn receive(&mut self, awaited: &mut AwaitedReads<'_>) -> Result<(), WireError> {
        let mut unused = self.input.unused();
        loop {
            match self.channel.receive(&mut unused)? {
                AnswerEvent::Idle => break,
                AnswerEvent::Answered { request, answer } => {
                    self.arriving = Some(request.tag);
                    if let Some(read) = awaited.find(request.tag) {
                        read.answered(answer);
                    }
                }
                AnswerEvent::PageBytes {
                    request,
                    span,
                    bytes,
                } => {
                    if let Some(at) = awaited.bytes_at(request.tag, span.ordinal, span.offset) {
                        awaited.pages[at..at + span.len].copy_from_slice(bytes);
                    }
                }
                AnswerEvent::ReadComplete(request) => {
                    self.arriving = None;
                    if let Some(read) = awaited.find(request.tag) {
                        read.completed();
                    }
                }
            }
        }
        let left = unused.len();
        self.input.leave(left);
        Ok(())
    }
}
