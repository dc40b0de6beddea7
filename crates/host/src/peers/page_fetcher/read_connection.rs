//! A thread's own connection to a lender, for reads.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::PollFlags;
use sublet_lend::wire::{
    AnswerEvent, BorrowerChannel, ConnectionClass, MessageTag, PAGE_BYTES, PageRequest, PageSpan,
    RangeList, RequestError, WireError,
};

use super::fetch_batch::FetchBatch;
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
    /// Whether the lender has answered a request.
    was_let_in: bool,
    /// The request whose pages arrive.
    arriving: Option<MessageTag>,
}

/// The reads that one lender was asked for, and the room for their pages.
pub(super) struct AwaitedReads<'b> {
    pub(super) batches: &'b mut [FetchBatch],
    pub(super) lender: usize,
}

impl AwaitedReads<'_> {
    /// The batch with the awaited read of this tag, and the read's number in it. `None` if nobody waits for it any more.
    fn find(&mut self, tag: MessageTag) -> Option<(&mut FetchBatch, usize)> {
        let lender = self.lender;
        let is_it =
            |read: &PendingRead| read.lender == lender && read.tag == tag && read.is_awaited();
        let mut batches = self.batches.iter_mut();
        batches.find_map(|batch| {
            let at = batch.reads.iter().position(is_it)?;
            Some((batch, at))
        })
    }

    /// Changes the awaited read of this tag, if somebody waits for it.
    fn change(&mut self, tag: MessageTag, change: impl FnOnce(&mut PendingRead)) {
        if let Some((batch, at)) = self.find(tag) {
            change(&mut batch.reads[at]);
        }
    }

    /// Returns whether a read of this lender is awaited.
    pub(super) fn are_there(&self) -> bool {
        let mut reads = self.batches.iter().flat_map(|batch| &batch.reads);
        reads.any(|read| read.lender == self.lender && read.is_awaited())
    }

    /// Returns whether there were reads of this lender, and none is awaited any more.
    fn are_settled(&self) -> bool {
        let reads = self.batches.iter().flat_map(|batch| &batch.reads);
        let mut of_lender = reads.filter(|read| read.lender == self.lender).peekable();
        of_lender.peek().is_some() && !of_lender.any(PendingRead::is_awaited)
    }

    /// The room for `len` bytes of pages. `None` if nobody waits for them any more.
    fn room(&mut self, tag: MessageTag, span: PageSpan, len: usize) -> Option<&mut [u8]> {
        let (batch, at) = self.find(tag)?;
        let begin = batch.reads[at].bytes_at(span.ordinal, span.offset);
        batch.bytes.get_mut(begin..begin + len)
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
            was_let_in: false,
            arriving: None,
        })
    }

    /// Returns whether the lender has answered a request. It closes a connection without a word that it does not let in.
    pub(super) fn was_let_in(&self) -> bool {
        self.was_let_in
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

    /// Sends what the socket takes.
    ///
    /// # Errors
    ///
    /// The connection is at its end.
    pub(super) fn send(&mut self) -> Result<(), ReadConnectionEnd> {
        self.output.flush(&mut self.socket)?;
        Ok(())
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
            if let Some(into) = self.pages_to_read(&mut awaited) {
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

    /// Where the next bytes of the socket belong, if they are all of pages that somebody waits for.
    fn pages_to_read<'b>(&self, awaited: &'b mut AwaitedReads<'_>) -> Option<&'b mut [u8]> {
        if !self.input.unused().is_empty() {
            return None;
        }
        let mut missing = self.channel.missing_pages();
        let first = missing.next()?;
        let neighbours = missing
            .zip(first.ordinal + 1..)
            .take_while(|(span, next)| span.ordinal == *next);
        let len = first.len + neighbours.count() * PAGE_BYTES;
        awaited.room(self.arriving?, first, len)
    }

    fn receive(&mut self, awaited: &mut AwaitedReads<'_>) -> Result<(), WireError> {
        let mut unused = self.input.unused();
        loop {
            match self.channel.receive(&mut unused)? {
                AnswerEvent::Idle => break,
                AnswerEvent::Answered { request, answer } => {
                    self.was_let_in = true;
                    self.arriving = Some(request.tag);
                    awaited.change(request.tag, |read| read.answered(answer));
                }
                AnswerEvent::PageBytes {
                    request,
                    span,
                    bytes,
                } => {
                    if let Some(room) = awaited.room(request.tag, span, span.len) {
                        room.copy_from_slice(bytes);
                    }
                }
                AnswerEvent::ReadComplete(request) => {
                    self.arriving = None;
                    awaited.change(request.tag, PendingRead::completed);
                }
            }
        }
        let left = unused.len();
        self.input.leave(left);
        Ok(())
    }
}
