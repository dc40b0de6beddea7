//! Bytes that came from a socket and are not used yet, and bytes that a socket did not take yet.

use std::io::{self, Read, Write};

/// What a socket did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SocketProgress {
    /// It gave or took as much as there was room or bytes for. There may be more.
    More,
    /// It has nothing now, or takes nothing now. The kernel reports when that changes.
    Blocked,
}

/// Bytes that came and are not used yet. Its memory is fixed.
#[derive(Debug)]
pub(super) struct InputBuffer {
    bytes: Box<[u8]>,
    begin: usize,
    end: usize,
}

impl InputBuffer {
    /// An empty buffer of this many bytes.
    pub(super) fn new(bytes: usize) -> InputBuffer {
        InputBuffer {
            bytes: vec![0; bytes].into(),
            begin: 0,
            end: 0,
        }
    }

    /// The bytes that are not used.
    pub(super) fn unused(&self) -> &[u8] {
        &self.bytes[self.begin..self.end]
    }

    /// Gives it room for this many bytes, if it has less.
    pub(super) fn grow(&mut self, bytes: usize) {
        if bytes > self.bytes.len() {
            let mut larger = InputBuffer::new(bytes);
            larger.bytes[..self.unused().len()].copy_from_slice(self.unused());
            larger.end = self.unused().len();
            *self = larger;
        }
    }

    /// Records that all but the last `left` bytes are used.
    pub(super) fn leave(&mut self, left: usize) {
        self.begin = self.end - left;
    }

    /// Reads once, if all bytes are used.
    ///
    /// # Errors
    ///
    /// The socket failed, or its other end sends nothing more (`UnexpectedEof`).
    pub(super) fn fill(&mut self, socket: &mut impl Read) -> io::Result<SocketProgress> {
        if self.begin < self.end {
            return Ok(SocketProgress::More);
        }
        (self.begin, self.end) = (0, 0);
        let read = read_some(socket, &mut self.bytes)?;
        self.end = read.unwrap_or(0);
        Ok(match read {
            Some(_) => SocketProgress::More,
            None => SocketProgress::Blocked,
        })
    }
}

/// Reads once. `None` if the socket has nothing now.
///
/// # Errors
///
/// The socket failed, or its other end sends nothing more (`UnexpectedEof`).
pub(super) fn read_some(socket: &mut impl Read, into: &mut [u8]) -> io::Result<Option<usize>> {
    loop {
        return match socket.read(into) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => Ok(Some(read)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        };
    }
}

/// Writes once. `None` if the socket takes nothing now.
///
/// # Errors
///
/// The socket failed.
pub(super) fn write_some(socket: &mut impl Write, bytes: &[u8]) -> io::Result<Option<usize>> {
    loop {
        return match socket.write(bytes) {
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => Ok(Some(written)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        };
    }
}

/// The memory that an empty output buffer keeps.
const KEPT_BYTES_MAX: usize = 512 << 10;

/// Bytes that a socket did not take yet. Whoever appends to it bounds it.
#[derive(Debug, Default)]
pub(super) struct OutputBuffer {
    bytes: Vec<u8>,
    sent: usize,
}

impl OutputBuffer {
    /// The number of bytes that are not sent.
    pub(super) fn unsent(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Where bytes are appended. Those before stay.
    pub(super) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Writes until all is sent or the socket takes nothing more.
    ///
    /// # Errors
    ///
    /// The socket failed.
    pub(super) fn flush(&mut self, socket: &mut impl Write) -> io::Result<SocketProgress> {
        while self.unsent() > 0 {
            match write_some(socket, &self.bytes[self.sent..])? {
                Some(written) => self.sent += written,
                None => {
                    self.drop_sent();
                    return Ok(SocketProgress::Blocked);
                }
            }
        }
        self.sent = 0;
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES_MAX);
        Ok(SocketProgress::More)
    }

    /// Drops what was sent, if that is at least as much as what it moves.
    fn drop_sent(&mut self) {
        if self.sent >= self.unsent() {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A socket that takes so many bytes, and then nothing more.
    struct SlowSocket(usize);

    impl Write for SlowSocket {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(std::mem::take(&mut self.0));
            match taken {
                0 => Err(io::ErrorKind::WouldBlock.into()),
                taken => Ok(taken),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A reader that is always a little behind costs no more than what it is behind.
    #[test]
    fn a_buffer_that_is_never_empty_does_not_grow() {
        const MESSAGE: usize = 64 << 10;
        let mut output = OutputBuffer::default();
        output.bytes().extend([0; MESSAGE]);
        for _ in 0..1000 {
            output.bytes().extend([0; MESSAGE]);
            let flushed = output.flush(&mut SlowSocket(MESSAGE));
            assert_eq!(flushed.expect("it takes some"), SocketProgress::Blocked);
            assert_eq!(output.unsent(), MESSAGE);
        }
        assert!(
            output.bytes.capacity() <= 8 * MESSAGE,
            "{}",
            output.bytes.capacity()
        );
    }
}
