//! A connected socket that never blocks.

use std::io::{self, IoSliceMut, Read, Write};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, ReturnFlags, SendFlags};

/// Reads into `buffer`; `WouldBlock` when there is nothing, 0 at the end.
pub(crate) fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match rustix::net::recv(socket, &mut *buffer, RecvFlags::DONTWAIT) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok((count, _)) => return Ok(count),
        }
    }
}

/// The same on a Unix socket. Says besides whether files came with what was read: then more may be there, however
/// little it was. The files are refused.
pub(crate) fn receive_from_unix(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<(usize, bool)> {
    loop {
        let mut no_files = RecvAncillaryBuffer::default();
        let buffers = &mut [IoSliceMut::new(buffer)];
        match rustix::net::recvmsg(socket, buffers, &mut no_files, RecvFlags::DONTWAIT) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(got) => return Ok((got.bytes, got.flags.contains(ReturnFlags::CTRUNC))),
        }
    }
}

/// Writes some of `bytes`; `WouldBlock` when the socket takes no more. Never raises SIGPIPE.
pub(crate) fn send(socket: &OwnedFd, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match rustix::net::send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(count) => return Ok(count),
        }
    }
}

/// A socket as `rustls` reads and writes it.
pub(super) struct Wire<'a>(pub(super) &'a OwnedFd);

impl Read for Wire<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        receive(self.0, buffer)
    }
}

impl Write for Wire<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        send(self.0, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
