//! How a connection begins and ends, on the tenant's Unix socket.
//!
//! ```text
//!   client → daemon, 32 bytes: magic "SUBLETRG", version u32, entries u32, page_slots u32, 12 zero bytes
//!   daemon → client, 32 bytes: magic "SUBLETRG", version u32, answer u32, entries u32, page_slots u32, ring_bytes u64
//!                              and two descriptors: the ring's memory, and the daemon's doorbell (an eventfd)
//! ```
//!
//! The client says how large a ring it would like, and the daemon says how large it is. An answer other than 0 is a
//! [`Rejection`]. It comes without descriptors and ends the connection. A version that the daemon does not speak ends
//! the connection as well.
//!
//! From then on the client sends nothing. Each byte that the daemon sends rings the client's doorbell (0), or says why
//! the daemon ends the connection ([`CloseReason`]).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

use super::client_end::{ClientEnd, InvalidRing};
use super::layout::{MAGIC, Shape, VERSION};

/// Bytes of each greeting.
pub const HELLO_BYTES: usize = 32;

/// How long a client waits for the daemon's greeting.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);

/// The byte on the socket that rings the client's doorbell.
pub const DOORBELL_BYTE: u8 = 0;

/// Why the daemon rejects a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(u32)]
pub enum Rejection {
    /// The client speaks another version.
    #[error("the daemon speaks version {VERSION} of the ring only")]
    Version = 1,
    /// The user may not connect.
    #[error(
        "this user may not use the ring: add its uid to `allow_uids` of the listener in the daemon's config"
    )]
    NotAllowed = 2,
    /// The listener has as many connections as it takes.
    #[error("the listener has as many connections as it takes")]
    TooMany = 3,
    /// The daemon has no memory or descriptor left.
    #[error("the daemon has no memory or descriptor left for a ring")]
    Exhausted = 4,
    /// The greeting makes no sense.
    #[error("the greeting makes no sense to the daemon")]
    Garbled = 5,
}

impl Rejection {
    /// The rejection of this number.
    pub fn of(number: u32) -> Option<Rejection> {
        Some(match number {
            1 => Rejection::Version,
            2 => Rejection::NotAllowed,
            3 => Rejection::TooMany,
            4 => Rejection::Exhausted,
            5 => Rejection::Garbled,
            _ => return None,
        })
    }
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(u8)]
pub enum CloseReason {
    /// The daemon stops.
    #[error("the daemon stopped")]
    Stopping = 1,
    /// The ring holds an impossible index.
    #[error(
        "the daemon found an impossible index in the ring's header: something wrote over it, or this client has a bug"
    )]
    Garbage = 2,
    /// The client sent bytes after the greeting.
    #[error("the daemon was sent bytes on the ring's socket after the greeting")]
    Chatter = 3,
    /// The greeting did not come in time.
    #[error("the greeting came too late")]
    Late = 4,
    /// The daemon hung up without a reason: it was killed, or it is an older one.
    #[error("the daemon hung up")]
    HungUp = 255,
}

impl CloseReason {
    /// The reason that a byte on the socket stands for. `None` for a doorbell.
    pub fn of(byte: u8) -> Option<CloseReason> {
        Some(match byte {
            DOORBELL_BYTE => return None,
            1 => CloseReason::Stopping,
            2 => CloseReason::Garbage,
            3 => CloseReason::Chatter,
            4 => CloseReason::Late,
            _ => CloseReason::HungUp,
        })
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Nobody listens there.
    #[error("no ring at {path}: {source}")]
    Unreachable {
        /// The path of the socket.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The daemon rejected the client.
    #[error("{0}")]
    Rejected(#[from] Rejection),
    /// The other side is no daemon, or one of another version.
    #[error("what answers at {0} is no ring of this version")]
    Garbled(PathBuf),
    /// The ring cannot be used.
    #[error(transparent)]
    NoRing(#[from] InvalidRing),
}

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// How large a ring it would like.
    pub wish: Shape,
}

impl Hello {
    /// The bytes that the client sends.
    pub fn to_bytes(self) -> [u8; HELLO_BYTES] {
        greeting([VERSION, self.wish.entries(), self.wish.page_slots(), 0], 0)
    }

    /// Parses the bytes, unless they make no sense.
    pub fn of(bytes: &[u8; HELLO_BYTES]) -> Result<Hello, Rejection> {
        let ([version, entries, page_slots, zero], zeros) =
            parse_words(bytes).ok_or(Rejection::Garbled)?;
        if version != VERSION {
            return Err(Rejection::Version);
        }
        let wish = Shape::new(entries, page_slots).map_err(|_| Rejection::Garbled)?;
        match (zero, zeros) {
            (0, 0) => Ok(Hello { wish }),
            _ => Err(Rejection::Garbled),
        }
    }
}

/// The daemon's reply to the greeting.
pub type HelloReply = Result<Shape, Rejection>;

fn answer_bytes(answer: HelloReply) -> [u8; HELLO_BYTES] {
    match answer {
        Ok(shape) => greeting(
            [VERSION, 0, shape.entries(), shape.page_slots()],
            shape.bytes() as u64,
        ),
        Err(rejection) => greeting([VERSION, rejection as u32, 0, 0], 0),
    }
}

/// Parses the reply. `None` if the bytes make no sense.
fn answer_of(bytes: &[u8; HELLO_BYTES]) -> Option<HelloReply> {
    let ([version, answer, entries, page_slots], ring_bytes) = parse_words(bytes)?;
    if answer != 0 {
        return Rejection::of(answer).map(Err);
    }
    let shape = Shape::new(entries, page_slots).ok()?;
    let agrees = version == VERSION && ring_bytes == shape.bytes() as u64;
    agrees.then_some(Ok(shape))
}

fn greeting(words: [u32; 4], last: u64) -> [u8; HELLO_BYTES] {
    let mut bytes = [0; HELLO_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    for (place, word) in bytes[8..24].chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes[24..].copy_from_slice(&last.to_le_bytes());
    bytes
}

fn parse_words(bytes: &[u8; HELLO_BYTES]) -> Option<([u32; 4], u64)> {
    let (magic, rest) = bytes.split_first_chunk::<8>()?;
    let (words, last) = rest.split_first_chunk::<16>()?;
    let mut numbers = [0; 4];
    for (number, word) in numbers.iter_mut().zip(words.chunks_exact(4)) {
        *number = u32::from_le_bytes(word.try_into().ok()?);
    }
    let last = u64::from_le_bytes(last.try_into().ok()?);
    (*magic == MAGIC).then_some((numbers, last))
}

/// Accepts a client: sends it the ring and the daemon's doorbell. Never blocks.
pub fn accept(
    socket: impl AsFd,
    shape: Shape,
    memory: BorrowedFd<'_>,
    doorbell: BorrowedFd<'_>,
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [memory, doorbell];
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    send(socket, &answer_bytes(Ok(shape)), &mut control)
}

/// Rejects a client. Never blocks.
pub fn reject(socket: impl AsFd, rejection: Rejection) -> io::Result<()> {
    let mut none = SendAncillaryBuffer::default();
    send(socket, &answer_bytes(Err(rejection)), &mut none)
}

/// Rings a client's doorbell. Never blocks: a socket that takes no more bytes has rung often enough.
pub fn ring_doorbell(socket: impl AsFd) {
    send_byte(socket, DOORBELL_BYTE);
}

/// Says why the connection ends, if the socket still takes a byte. Never blocks.
pub fn send_close_reason(socket: impl AsFd, reason: CloseReason) {
    send_byte(socket, reason as u8);
}

fn send_byte(socket: impl AsFd, byte: u8) {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let _ = rustix::net::send(socket, &[byte], flags);
}

/// Sends a greeting. A socket that takes only a part of so few bytes is of no further use.
fn send(
    socket: impl AsFd,
    bytes: &[u8],
    control: &mut SendAncillaryBuffer<'_, '_, '_>,
) -> io::Result<()> {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    match rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], control, flags)? {
        sent if sent == bytes.len() => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// What a client has after the daemon accepted it.
#[derive(Debug)]
pub(super) struct EstablishedConnection {
    pub(super) socket: UnixStream,
    pub(super) end: ClientEnd,
    pub(super) doorbell: OwnedFd,
}

/// Connects to `path`. This blocks.
pub(super) fn connect(path: &Path, wish: Shape) -> Result<EstablishedConnection, ConnectError> {
    let unreachable = |source| ConnectError::Unreachable {
        path: path.to_owned(),
        source,
    };
    let garbled = || ConnectError::Garbled(path.to_owned());
    let socket = UnixStream::connect(path).map_err(unreachable)?;
    let (answer, descriptors) = handshake(&socket, Hello { wish }).map_err(unreachable)?;
    let shape = answer_of(&answer).ok_or_else(garbled)??;
    let [memory, doorbell] = <[OwnedFd; 2]>::try_from(descriptors).map_err(|_| garbled())?;
    let end = ClientEnd::open(memory, shape)?;
    Ok(EstablishedConnection {
        socket,
        end,
        doorbell,
    })
}

fn handshake(socket: &UnixStream, hello: Hello) -> io::Result<([u8; HELLO_BYTES], Vec<OwnedFd>)> {
    socket.set_read_timeout(Some(ANSWER_TIME_MAX))?;
    let sent = rustix::net::send(socket, &hello.to_bytes(), SendFlags::NOSIGNAL);
    match sent {
        // A client that is rejected at once can still read why.
        Ok(_) | Err(Errno::PIPE | Errno::CONNRESET) => {}
        Err(error) => return Err(error.into()),
    }
    let reply = receive_reply(socket)?;
    socket.set_read_timeout(None)?;
    Ok(reply)
}

fn receive_reply(socket: &UnixStream) -> io::Result<([u8; HELLO_BYTES], Vec<OwnedFd>)> {
    let mut bytes = [0; HELLO_BYTES];
    let mut descriptors = Vec::new();
    let mut filled = 0;
    while filled < HELLO_BYTES {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut rest = [IoSliceMut::new(&mut bytes[filled..])];
        let flags = RecvFlags::CMSG_CLOEXEC;
        match rustix::net::recvmsg(socket, &mut rest, &mut control, flags) {
            Ok(message) if message.bytes == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(message) => filled += message.bytes,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Err(io::ErrorKind::TimedOut.into()),
            Err(error) => return Err(error.into()),
        }
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                descriptors.extend(received);
            }
        }
    }
    Ok((bytes, descriptors))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> Shape {
        Shape::new(8, 3).expect("a fine shape")
    }

    #[test]
    fn greetings_have_these_bytes() {
        let mut golden = [0; HELLO_BYTES];
        golden[..8].copy_from_slice(b"SUBLETRG");
        (golden[8], golden[12], golden[16]) = (1, 8, 3);
        assert_eq!(Hello { wish: shape() }.to_bytes(), golden);
        assert_eq!(Hello::of(&golden), Ok(Hello { wish: shape() }));

        let mut golden = [0; HELLO_BYTES];
        golden[..8].copy_from_slice(b"SUBLETRG");
        (golden[8], golden[16], golden[20], golden[25]) = (1, 8, 3, 80);
        assert_eq!(answer_bytes(Ok(shape())), golden);
        assert_eq!(answer_of(&golden), Some(Ok(shape())));

        golden[12] = 2;
        assert_eq!(answer_of(&golden), Some(Err(Rejection::NotAllowed)));
        golden[12] = 99;
        assert_eq!(answer_of(&golden), None);
    }

    #[test]
    fn greetings_that_make_no_sense_are_told_apart() {
        let fine = Hello { wish: shape() }.to_bytes();
        let changed = |at: usize, to: u8| {
            let mut bytes = fine;
            bytes[at] = to;
            Hello::of(&bytes)
        };
        assert_eq!(changed(0, b'X'), Err(Rejection::Garbled));
        assert_eq!(changed(8, 2), Err(Rejection::Version));
        assert_eq!(changed(12, 7), Err(Rejection::Garbled));
        assert_eq!(changed(16, 0), Err(Rejection::Garbled));
        for reserved in 20..HELLO_BYTES {
            assert_eq!(changed(reserved, 1), Err(Rejection::Garbled));
        }
    }

    #[test]
    fn bytes_on_the_socket_mean_something() {
        assert_eq!(CloseReason::of(DOORBELL_BYTE), None);
        for reason in [
            CloseReason::Stopping,
            CloseReason::Garbage,
            CloseReason::Chatter,
        ] {
            assert_eq!(CloseReason::of(reason as u8), Some(reason));
        }
        assert_eq!(CloseReason::of(77), Some(CloseReason::HungUp));
    }
}
