//! The load generator: closed loops of pipelined batches over a few connections, in one thread.
//!
//! It is cheaper than any server under test. Requests are written out in advance and sent by one call per batch.
//! Replies are read by as few calls as they arrive in, and their length is known beforehand.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::request_stream::{RequestStream, WrongReply, shown};

/// A server counts as broken if it answers nothing for this long.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// How the generator waits for replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum ReplyWait {
    /// It asks the sockets again and again. So it costs the server nothing, like a client on another machine.
    Polling,
    /// It sleeps in the kernel, and the server has to wake it.
    Sleeping,
}

/// How hard a server is driven.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadProfile {
    /// Requests that are sent at once.
    pub(super) pipeline: usize,
    /// Connections, each of which has one batch under way.
    pub(super) connections: usize,
    /// How the generator waits for replies.
    pub(super) waiting: ReplyWait,
}

/// When a run ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum RunEnd {
    /// After the stream's last request.
    End,
    /// After this time. The stream begins again as often as needed.
    Elapsed(Duration),
}

/// The results of a run.
pub(super) struct LoadOutcome {
    /// Requests that were answered.
    pub(super) requests: u64,
    /// How long it took.
    pub(super) elapsed: Duration,
    /// Nanoseconds from sending a batch to having its last reply.
    pub(super) round_trips: Histogram<u64>,
    /// How long the generator had nothing to do.
    pub(super) idle: Duration,
}

/// Why a run ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Connection(#[from] io::Error),
    /// The reply ended early: an error line, or a miss instead of an expected hit.
    #[error("no answer for {SILENCE_MAX:?}; received so far: {0:?}")]
    Silence(String),
    /// The reply was wrong.
    #[error(transparent)]
    Wrong(#[from] WrongReply),
}

impl LoadError {
    /// An error for `received` in place of `expected`.
    pub(super) fn wrong(expected: &[u8], received: &[u8]) -> LoadError {
        LoadError::Wrong(WrongReply::new(expected, received))
    }
}

impl From<rustix::io::Errno> for LoadError {
    fn from(errno: rustix::io::Errno) -> LoadError {
        LoadError::Connection(errno.into())
    }
}

impl LoadProfile {
    /// Drives the servers at `addresses` with `request_stream`. The connections are divided among the servers.
    pub(super) fn run(
        &self,
        addresses: &[SocketAddr],
        stream: &RequestStream<'_>,
        until: RunEnd,
    ) -> Result<LoadOutcome, LoadError> {
        let dealt = addresses.iter().cycle().take(self.connections.max(1));
        let connections = dealt.map(|address| Connection::open(*address));
        LoadRun {
            load: self,
            stream,
            connections: connections.collect::<io::Result<_>>()?,
            next: 0,
            requests: 0,
            round_trips: empty_histogram(),
            idle: Duration::ZERO,
        }
        .run(until)
    }
}

/// A histogram of round trips in nanoseconds, to three digits, up to a minute.
fn empty_histogram() -> Histogram<u64> {
    const MINUTE: u64 = 60_000_000_000;
    const DIGITS: u8 = 3;
    Histogram::new_with_bounds(1, MINUTE, DIGITS)
        .unwrap_or_else(|_| unreachable!("a minute and three digits are within bounds"))
}

struct LoadRun<'a> {
    load: &'a LoadProfile,
    stream: &'a RequestStream<'a>,
    connections: Vec<Connection>,
    /// The stream's next request to send.
    next: usize,
    requests: u64,
    round_trips: Histogram<u64>,
    idle: Duration,
}

impl LoadRun<'_> {
    fn run(mut self, until: RunEnd) -> Result<LoadOutcome, LoadError> {
        let begun = Instant::now();
        self.send_all()?;
        let mut moved_at = begun;
        let mut idle_since = None;
        while self.connections.iter().any(|c| c.batch.is_some()) {
            if self.pass(&until, begun)? {
                moved_at = Instant::now();
                self.idle += idle_since.take().map_or(Duration::ZERO, |t| moved_at - t);
                continue;
            }
            let now = Instant::now();
            idle_since.get_or_insert(now);
            if now - moved_at > SILENCE_MAX {
                return Err(self.timeout_error());
            }
            self.wait()?;
        }
        Ok(LoadOutcome {
            requests: self.requests,
            elapsed: begun.elapsed(),
            round_trips: self.round_trips,
            idle: self.idle,
        })
    }

    fn send_all(&mut self) -> Result<(), LoadError> {
        for place in 0..self.connections.len() {
            if let Some(batch) = self.next_batch(&RunEnd::End) {
                self.connections[place].begin(self.stream, batch)?;
            }
        }
        Ok(())
    }

    /// Looks at every connection once. Returns whether any made progress.
    fn pass(&mut self, until: &RunEnd, begun: Instant) -> Result<bool, LoadError> {
        let mut moved = false;
        for place in 0..self.connections.len() {
            let connection = &mut self.connections[place];
            match connection.advance(self.stream)? {
                BatchProgress::Nothing => {}
                BatchProgress::Some => moved = true,
                BatchProgress::Done(batch) => {
                    moved = true;
                    let now = Instant::now();
                    self.requests += batch.len() as u64;
                    let nanos = (now - connection.begun).as_nanos() as u64;
                    self.round_trips.saturating_record(nanos);
                    if is_over(until, now - begun) {
                        continue;
                    }
                    if let Some(batch) = self.next_batch(until) {
                        self.connections[place].begin(self.stream, batch)?;
                    }
                }
            }
        }
        Ok(moved)
    }

    fn next_batch(&mut self, until: &RunEnd) -> Option<Range<usize>> {
        if self.next >= self.stream.len() {
            if matches!(until, RunEnd::End) {
                return None;
            }
            self.next = 0;
        }
        let from = self.next;
        self.next = (from + self.load.pipeline).min(self.stream.len());
        Some(from..self.next)
    }

    fn wait(&self) -> Result<(), LoadError> {
        if self.load.waiting == ReplyWait::Polling {
            std::hint::spin_loop();
            return Ok(());
        }
        let busy = self.connections.iter().filter(|c| c.batch.is_some());
        let mut awaited: Vec<PollFd<'_>> = busy
            .map(|c| PollFd::new(&c.socket, c.interest(self.stream)))
            .collect();
        let second = Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        };
        poll(&mut awaited, Some(&second))?;
        Ok(())
    }

    fn timeout_error(&self) -> LoadError {
        let longest = self.connections.iter().max_by_key(|c| c.filled);
        LoadError::Silence(longest.map_or_else(String::new, |c| shown(&c.reply[..c.filled])))
    }
}

fn is_over(until: &RunEnd, elapsed: Duration) -> bool {
    matches!(until, RunEnd::Elapsed(limit) if elapsed >= *limit)
}

enum BatchProgress {
    /// The kernel had nothing for the connection.
    Nothing,
    /// Some bytes were sent or received.
    Some,
    /// The last reply of the batch came.
    Done(Range<usize>),
}

/// One connection and the batch it has under way.
struct Connection {
    socket: TcpStream,
    batch: Option<Range<usize>>,
    /// Bytes of the batch that were sent.
    sent: usize,
    /// Bytes of the reply that came. The buffer has room for all of it.
    filled: usize,
    reply: Vec<u8>,
    begun: Instant,
    batches: usize,
}

impl Connection {
    fn open(address: SocketAddr) -> io::Result<Connection> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        Ok(Connection {
            socket,
            batch: None,
            sent: 0,
            filled: 0,
            reply: Vec::new(),
            begun: Instant::now(),
            batches: 0,
        })
    }

    fn begin(&mut self, stream: &RequestStream<'_>, batch: Range<usize>) -> Result<(), LoadError> {
        self.reply.resize(stream.reply_bytes(batch.clone()), 0);
        self.batch = Some(batch);
        (self.sent, self.filled) = (0, 0);
        self.begun = Instant::now();
        self.send(stream)?;
        Ok(())
    }

    /// The events for which the kernel should wake the generator.
    fn interest(&self, stream: &RequestStream<'_>) -> PollFlags {
        let batch = self.batch.clone().unwrap_or_default();
        if self.sent < stream.bytes(batch).len() {
            PollFlags::IN | PollFlags::OUT
        } else {
            PollFlags::IN
        }
    }

    fn advance(&mut self, stream: &RequestStream<'_>) -> Result<BatchProgress, LoadError> {
        let Some(batch) = self.batch.clone() else {
            return Ok(BatchProgress::Nothing);
        };
        let sent = self.send(stream)?;
        let received = self.receive()?;
        if self.filled < self.reply.len() {
            return Ok(if sent + received == 0 {
                BatchProgress::Nothing
            } else {
                BatchProgress::Some
            });
        }
        stream.check(batch.clone(), &self.reply, self.batches % batch.len())?;
        self.batches += 1;
        self.batch = None;
        Ok(BatchProgress::Done(batch))
    }

    /// Sends bytes. Returns how many the kernel took.
    fn send(&mut self, stream: &RequestStream<'_>) -> io::Result<usize> {
        let Some(batch) = self.batch.clone() else {
            return Ok(0);
        };
        let unsent = &stream.bytes(batch)[self.sent..];
        if unsent.is_empty() {
            return Ok(0);
        }
        let sent = unless_busy(self.socket.write(unsent))?;
        self.sent += sent;
        Ok(sent)
    }

    /// Receives bytes. Returns how many the kernel had.
    fn receive(&mut self) -> io::Result<usize> {
        let received = match self.socket.read(&mut self.reply[self.filled..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            result => unless_busy(result)?,
        };
        self.filled += received;
        Ok(received)
    }
}

fn unless_busy(result: io::Result<usize>) -> io::Result<usize> {
    match result {
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
        result => result,
    }
}
