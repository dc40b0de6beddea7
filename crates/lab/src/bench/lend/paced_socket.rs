//! A socket that waits as the daemon's do: it polls while that pays, and sleeps otherwise.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use sublet_pace::{AdaptivePoller, PollMode, PollOutcome};

/// A connection, and the pace of its waits.
pub(super) struct PacedSocket {
    socket: TcpStream,
    pace: AdaptivePoller,
}

impl PacedSocket {
    /// A connected socket.
    pub(super) fn new(socket: TcpStream) -> io::Result<PacedSocket> {
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        Ok(PacedSocket {
            socket,
            pace: AdaptivePoller::default(),
        })
    }

    /// Reads some bytes, at least one.
    pub(super) fn read_some(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let socket = &mut self.socket;
        let mut read = try_read(socket, into)?;
        while read.is_none() {
            self.pace.wait(|mode| {
                if mode == PollMode::Blocking {
                    sleep(socket, PollFlags::IN)?;
                }
                read = try_read(socket, into)?;
                Ok::<_, io::Error>(match read {
                    Some(_) => PollOutcome::Work,
                    None => PollOutcome::Nothing,
                })
            })?;
        }
        Ok(read.unwrap_or_default())
    }

    /// Reads as many bytes.
    pub(super) fn read_exact(&mut self, into: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while done < into.len() {
            done += self.read_some(&mut into[done..])?;
        }
        Ok(())
    }

    /// Writes all bytes.
    pub(super) fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.socket.write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    sleep(&self.socket, PollFlags::OUT)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Reads once. `None` if the socket has nothing now.
fn try_read(socket: &mut TcpStream, into: &mut [u8]) -> io::Result<Option<usize>> {
    match socket.read(into) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(read) => Ok(Some(read)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

fn sleep(socket: &TcpStream, until: PollFlags) -> io::Result<()> {
    match poll(&mut [PollFd::new(socket, until)], None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
