//! A client's socket, plain or through TLS.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use mio::event::Event;

use super::PeerState;
use crate::listeners::{TlsFigures, TlsStream, socket};

/// The most bytes that are read from a client whose connection closes. If they stayed unread, the kernel would send a
/// reset that can overtake the last reply.
const DRAIN_MAX: usize = 256 << 10;

/// The peer is gone, or its socket is of no more use.
pub(crate) struct PeerGone;

impl From<io::Error> for PeerGone {
    fn from(_: io::Error) -> PeerGone {
        PeerGone
    }
}

/// Whether a socket took all bytes that it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendStatus {
    AllSent,
    Blocked,
}

/// What a read returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReceiveOutcome {
    /// This many bytes, at least one.
    Bytes(usize),
    /// Nothing is there now. The kernel reports when something is.
    WouldBlock,
    /// The client sends nothing more.
    Eof,
}

/// What the kernel reported of a client's socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Readiness {
    pub(crate) readable: bool,
    /// Urgent bytes came, which end a read early.
    pub(crate) urgent: bool,
    pub(crate) peer_state: PeerState,
}

impl Readiness {
    pub(crate) fn of(event: &Event) -> Readiness {
        Readiness {
            readable: event.is_readable(),
            urgent: event.is_priority(),
            peer_state: PeerState::of(event),
        }
    }
}

/// Bytes that wait to be sent.
pub(crate) trait SendBuffer {
    /// Returns the bytes that wait.
    fn waiting(&self) -> &[u8];

    /// Marks the front `count` bytes as sent.
    fn consume(&mut self, count: usize);
}

/// A connected socket that never blocks.
pub(crate) struct Stream {
    socket: Arc<OwnedFd>,
    tls: Option<Box<TlsStream>>,
    is_local: bool,
    readable: bool,
    /// A short read may have left bytes that the kernel will not report again.
    may_have_more: bool,
    peer_state: PeerState,
}

impl Stream {
    /// Makes a stream of a socket from which nothing was read yet.
    pub(crate) fn new(socket: Arc<OwnedFd>, tls: Option<TlsStream>) -> Stream {
        Stream {
            is_local: socket::is_local(&socket),
            socket,
            tls: tls.map(Box::new),
            readable: true,
            may_have_more: false,
            peer_state: PeerState::Open,
        }
    }

    pub(crate) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Returns whether the socket stays within this host.
    pub(crate) fn is_local(&self) -> bool {
        self.is_local
    }

    /// Returns what the kernel last said of the client.
    pub(crate) fn peer_state(&self) -> PeerState {
        self.peer_state
    }

    /// Returns whether there may be something to read.
    pub(crate) fn is_readable(&self) -> bool {
        self.readable
    }

    /// Records what the kernel reported.
    pub(crate) fn update_readiness(&mut self, readiness: Readiness) {
        self.peer_state = self.peer_state.max(readiness.peer_state);
        self.may_have_more |= readiness.urgent || readiness.peer_state > PeerState::Open;
        self.readable |= readiness.readable || self.may_have_more;
    }

    /// Marks the socket as readable although the kernel did not report it.
    pub(crate) fn expect_input(&mut self) {
        self.readable = true;
    }

    /// Sends and receives through TLS from now on.
    pub(crate) fn begin_tls(&mut self, tls: TlsStream) {
        self.tls = Some(Box::new(tls));
        self.readable = true;
    }

    /// Sends what waits, as far as the socket takes it.
    pub(crate) fn send(&mut self, waiting: &mut impl SendBuffer) -> Result<SendStatus, PeerGone> {
        while !waiting.waiting().is_empty() {
            let sent = match &mut self.tls {
                None => socket::send(&self.socket, waiting.waiting()),
                Some(tls) => tls.write(&self.socket, waiting.waiting()),
            };
            match sent {
                Ok(count) => waiting.consume(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(SendStatus::Blocked);
                }
                Err(error) => return Err(error.into()),
            }
        }
        match &mut self.tls {
            None => Ok(SendStatus::AllSent),
            Some(tls) => match tls.flush(&self.socket)? {
                true => Ok(SendStatus::AllSent),
                false => Ok(SendStatus::Blocked),
            },
        }
    }

    /// Reads once: first into `apart`, then into `space`.
    pub(crate) fn receive(
        &mut self,
        apart: &mut [u8],
        space: &mut [u8],
        figures: &impl TlsFigures,
    ) -> Result<ReceiveOutcome, PeerGone> {
        let (wanted, both) = (apart.len(), apart.len() + space.len());
        let read = match &mut self.tls {
            // TLS holds bytes of its own, of which the kernel knows nothing.
            Some(tls) => {
                let into = if wanted > 0 { apart } else { space };
                let read = tls.read(&self.socket, into, figures);
                read.map(|count| (count, true))
            }
            None if self.is_local => socket::receive_from_unix(&self.socket, apart, space),
            None if wanted > 0 => {
                let read = socket::receive_both(&self.socket, apart, space);
                read.map(|count| (count, false))
            }
            None => socket::receive(&self.socket, space).map(|count| (count, false)),
        };
        match read {
            Ok((0, _)) => Ok(ReceiveOutcome::Eof),
            Ok((count, may_be_cut)) => {
                // A short read emptied the socket, and the kernel reports when more comes. That does not hold after a
                // hang-up, which the kernel has reported already. Nor does it hold with urgent bytes or file
                // descriptors, which end a read early.
                self.readable = count == both || self.may_have_more || may_be_cut;
                Ok(ReceiveOutcome::Bytes(count))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.readable = false;
                Ok(ReceiveOutcome::WouldBlock)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Reads what the client of a closing connection still sends, so that the last reply is not lost.
    pub(crate) fn drain_input(&mut self, space: &mut [u8]) {
        if let Some(tls) = &mut self.tls {
            tls.close(&self.socket);
        }
        let mut drained = 0;
        while drained < DRAIN_MAX {
            match socket::receive(&self.socket, space) {
                Ok(count) if count > 0 => drained += count,
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;

    use super::*;

    struct NoTls;

    impl TlsFigures for NoTls {
        fn session_made(&self) {}
        fn handshake_failed(&self) {}
        fn record_failed(&self) {}
    }

    struct UnsentBytes(Vec<u8>);

    impl SendBuffer for UnsentBytes {
        fn waiting(&self) -> &[u8] {
            &self.0
        }

        fn consume(&mut self, count: usize) {
            self.0.drain(..count);
        }
    }

    fn pair() -> (Stream, UnixStream) {
        let (here, there) = UnixStream::pair().expect("a pair");
        here.set_nonblocking(true).expect("it never blocks");
        (Stream::new(Arc::new(here.into()), None), there)
    }

    fn receive(stream: &mut Stream, apart: &mut [u8], space: &mut [u8]) -> ReceiveOutcome {
        let received = stream.receive(apart, space, &NoTls);
        received.unwrap_or_else(|PeerGone| panic!("it is there"))
    }

    #[test]
    fn what_goes_apart_comes_first_and_a_short_read_empties_the_socket() {
        let (mut stream, mut there) = pair();
        there.write_all(b"abcde").expect("sent");
        let (mut apart, mut space) = ([0; 2], [0; 8]);
        assert_eq!(
            receive(&mut stream, &mut apart, &mut space),
            ReceiveOutcome::Bytes(5)
        );
        assert_eq!((&apart, &space[..3]), (b"ab", &b"cde"[..]));
        assert!(!stream.is_readable());
        assert_eq!(
            receive(&mut stream, &mut [], &mut space),
            ReceiveOutcome::WouldBlock
        );
    }

    #[test]
    fn a_half_closed_client_is_read_to_its_end_and_can_still_read() {
        let (mut stream, mut there) = pair();
        there.write_all(b"abc").expect("sent");
        there.shutdown(Shutdown::Write).expect("silent");
        stream.update_readiness(Readiness {
            readable: true,
            peer_state: PeerState::HalfClosed,
            ..Readiness::default()
        });
        let mut space = [0; 8];
        assert_eq!(
            receive(&mut stream, &mut [], &mut space),
            ReceiveOutcome::Bytes(3)
        );
        assert!(
            stream.is_readable(),
            "the kernel has reported the end already"
        );
        assert_eq!(
            receive(&mut stream, &mut [], &mut space),
            ReceiveOutcome::Eof
        );
        let mut reply = UnsentBytes(b"reply".to_vec());
        assert!(matches!(stream.send(&mut reply), Ok(SendStatus::AllSent)));
        there.read_exact(&mut [0; 5]).expect("the reply");
    }

    #[test]
    fn a_client_that_does_not_read_blocks_and_one_that_is_gone_is_an_error() {
        let (mut stream, mut there) = pair();
        let mut replies = UnsentBytes(vec![1; 16 << 20]);
        assert!(matches!(stream.send(&mut replies), Ok(SendStatus::Blocked)));
        let left = replies.0.len();
        assert!(left > 0 && left < 16 << 20, "{left} bytes are left");
        let mut taken = vec![0; (16 << 20) - left];
        there
            .read_exact(&mut taken)
            .expect("what was sent is heard");
        assert!(matches!(stream.send(&mut replies), Ok(SendStatus::Blocked)));
        assert!(replies.0.len() < left, "there is room again");
        drop(there);
        assert!(stream.send(&mut replies).is_err());
    }
}
