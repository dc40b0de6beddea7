//! A client's socket, in the open or through TLS.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use mio::event::Event;

use super::Presence;
use crate::doors::{TlsFigures, TlsStream, socket};

/// What a closing connection's client may still have sent: it is read, lest the kernel answers with a reset that
/// overtakes the last reply.
const LAST_WORDS_MAX: usize = 256 << 10;

/// The other side is gone, or its socket is of no more use.
pub(crate) struct Gone;

impl From<io::Error> for Gone {
    fn from(_: io::Error) -> Gone {
        Gone
    }
}

/// Whether a socket took all it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Open,
    Blocked,
}

/// What a read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// So many bytes, at least one.
    Bytes(usize),
    /// There is nothing now: the kernel tells when there is.
    Nothing,
    /// The client sends nothing more.
    End,
}

/// What the kernel said of a client's socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Readiness {
    pub(crate) readable: bool,
    /// Something urgent came, which ends a read early.
    pub(crate) urgent: bool,
    pub(crate) presence: Presence,
}

impl Readiness {
    pub(crate) fn of(event: &Event) -> Readiness {
        Readiness {
            readable: event.is_readable(),
            urgent: event.is_priority(),
            presence: Presence::of(event),
        }
    }
}

/// Bytes that wait to be sent.
pub(crate) trait Outgoing {
    /// What waits.
    fn waiting(&self) -> &[u8];

    /// The front `count` bytes are done with.
    fn finish(&mut self, count: usize);
}

/// A connected socket that never blocks.
pub(crate) struct Stream {
    socket: Arc<OwnedFd>,
    tls: Option<Box<TlsStream>>,
    is_local: bool,
    readable: bool,
    /// A short read may have left something, and the kernel says nothing more of it.
    is_odd: bool,
    presence: Presence,
}

impl Stream {
    /// A socket of which nothing was read yet.
    pub(crate) fn new(socket: Arc<OwnedFd>, tls: Option<TlsStream>) -> Stream {
        Stream {
            is_local: socket::is_local(&socket),
            socket,
            tls: tls.map(Box::new),
            readable: true,
            is_odd: false,
            presence: Presence::Here,
        }
    }

    pub(crate) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Whether it stays within this host.
    pub(crate) fn is_local(&self) -> bool {
        self.is_local
    }

    /// What the kernel last said of its client.
    pub(crate) fn presence(&self) -> Presence {
        self.presence
    }

    /// Whether there may be something to read.
    pub(crate) fn is_readable(&self) -> bool {
        self.readable
    }

    /// Notes what the kernel said.
    pub(crate) fn notice(&mut self, readiness: Readiness) {
        self.presence = self.presence.max(readiness.presence);
        self.is_odd |= readiness.urgent || readiness.presence > Presence::Here;
        self.readable |= readiness.readable || self.is_odd;
    }

    /// Nobody said so, but there may be something to read.
    pub(crate) fn expect_input(&mut self) {
        self.readable = true;
    }

    /// From now on all goes through TLS.
    pub(crate) fn begin_tls(&mut self, tls: TlsStream) {
        self.tls = Some(Box::new(tls));
        self.readable = true;
    }

    /// Sends what waits, as far as the socket takes it.
    pub(crate) fn send(&mut self, waiting: &mut impl Outgoing) -> Result<Flow, Gone> {
        while !waiting.waiting().is_empty() {
            let sent = match &mut self.tls {
                None => socket::send(&self.socket, waiting.waiting()),
                Some(tls) => tls.write(&self.socket, waiting.waiting()),
            };
            match sent {
                Ok(count) => waiting.finish(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Flow::Blocked);
                }
                Err(error) => return Err(error.into()),
            }
        }
        match &mut self.tls {
            None => Ok(Flow::Open),
            Some(tls) => match tls.flush(&self.socket)? {
                true => Ok(Flow::Open),
                false => Ok(Flow::Blocked),
            },
        }
    }

    /// Reads once, first what goes `apart`, then into `space`.
    pub(crate) fn receive(
        &mut self,
        apart: &mut [u8],
        space: &mut [u8],
        figures: &impl TlsFigures,
    ) -> Result<Came, Gone> {
        let (wanted, both) = (apart.len(), apart.len() + space.len());
        let read = match &mut self.tls {
            // TLS keeps bytes of its own, of which the kernel knows nothing.
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
            Ok((0, _)) => Ok(Came::End),
            Ok((count, may_be_cut)) => {
                // A short read emptied the socket, and the kernel tells when more comes. Not so after a hang-up, which it
                // told already, nor at urgent bytes or files, which end a read early.
                self.readable = count == both || self.is_odd || may_be_cut;
                Ok(Came::Bytes(count))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.readable = false;
                Ok(Came::Nothing)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Reads what a client still says whose connection is over, lest the last reply is lost.
    pub(crate) fn hear_last_words(&mut self, space: &mut [u8]) {
        if let Some(tls) = &mut self.tls {
            tls.close(&self.socket);
        }
        let mut heard = 0;
        while heard < LAST_WORDS_MAX {
            match socket::receive(&self.socket, space) {
                Ok(count) if count > 0 => heard += count,
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

    struct Waiting(Vec<u8>);

    impl Outgoing for Waiting {
        fn waiting(&self) -> &[u8] {
            &self.0
        }

        fn finish(&mut self, count: usize) {
            self.0.drain(..count);
        }
    }

    fn pair() -> (Stream, UnixStream) {
        let (here, there) = UnixStream::pair().expect("a pair");
        here.set_nonblocking(true).expect("it never blocks");
        (Stream::new(Arc::new(here.into()), None), there)
    }

    fn receive(stream: &mut Stream, apart: &mut [u8], space: &mut [u8]) -> Came {
        let came = stream.receive(apart, space, &NoTls);
        came.unwrap_or_else(|Gone| panic!("it is there"))
    }

    #[test]
    fn what_goes_apart_comes_first_and_a_short_read_empties_the_socket() {
        let (mut stream, mut there) = pair();
        there.write_all(b"abcde").expect("sent");
        let (mut apart, mut space) = ([0; 2], [0; 8]);
        assert_eq!(receive(&mut stream, &mut apart, &mut space), Came::Bytes(5));
        assert_eq!((&apart, &space[..3]), (b"ab", &b"cde"[..]));
        assert!(!stream.is_readable());
        assert_eq!(receive(&mut stream, &mut [], &mut space), Came::Nothing);
    }

    #[test]
    fn who_sends_nothing_more_is_read_to_its_end_and_can_still_read() {
        let (mut stream, mut there) = pair();
        there.write_all(b"abc").expect("sent");
        there.shutdown(Shutdown::Write).expect("silent");
        stream.notice(Readiness {
            readable: true,
            presence: Presence::Silent,
            ..Readiness::default()
        });
        let mut space = [0; 8];
        assert_eq!(receive(&mut stream, &mut [], &mut space), Came::Bytes(3));
        assert!(stream.is_readable(), "the kernel told of the end already");
        assert_eq!(receive(&mut stream, &mut [], &mut space), Came::End);
        let mut reply = Waiting(b"reply".to_vec());
        assert!(matches!(stream.send(&mut reply), Ok(Flow::Open)));
        there.read_exact(&mut [0; 5]).expect("the reply");
    }

    #[test]
    fn who_does_not_read_blocks_and_who_is_gone_is_gone() {
        let (mut stream, there) = pair();
        let mut replies = Waiting(vec![1; 16 << 20]);
        assert!(matches!(stream.send(&mut replies), Ok(Flow::Blocked)));
        assert!(!replies.0.is_empty());
        drop(there);
        assert!(stream.send(&mut replies).is_err());
    }
}
