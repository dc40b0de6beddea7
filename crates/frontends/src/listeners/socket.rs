//! A connected socket that never blocks.

use std::io::{self, IoSliceMut, Read, Write};
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvAncillaryBuffer, RecvFlags, ReturnFlags, SendFlags, sockopt};

/// Reads into `buffer`. Returns `WouldBlock` if nothing is there, and 0 at the end.
pub(crate) fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match rustix::net::recv(socket, &mut *buffer, RecvFlags::DONTWAIT) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok((count, _)) => return Ok(count),
        }
    }
}

/// Reads as [`receive`] does, into `first` and then into `second`.
pub(crate) fn receive_both(
    socket: &OwnedFd,
    first: &mut [u8],
    second: &mut [u8],
) -> io::Result<usize> {
    let mut both = [IoSliceMut::new(first), IoSliceMut::new(second)];
    loop {
        match rustix::io::readv(socket, &mut both) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(count) => return Ok(count),
        }
    }
}

/// Reads as [`receive_both`] does, from a Unix socket. Also returns whether file descriptors came with the bytes. If
/// so, more bytes may be there, however few were read. The descriptors are refused.
pub(crate) fn receive_from_unix(
    socket: &OwnedFd,
    first: &mut [u8],
    second: &mut [u8],
) -> io::Result<(usize, bool)> {
    let mut both = [IoSliceMut::new(first), IoSliceMut::new(second)];
    // An empty slice still costs the kernel some work.
    let skipped = usize::from(both[0].is_empty());
    loop {
        let mut no_files = RecvAncillaryBuffer::default();
        let into = &mut both[skipped..];
        match rustix::net::recvmsg(socket, into, &mut no_files, RecvFlags::DONTWAIT) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(got) => return Ok((got.bytes, got.flags.contains(ReturnFlags::CTRUNC))),
        }
    }
}

/// Writes some of `bytes`. Returns `WouldBlock` if the socket takes no more. Never raises SIGPIPE.
pub(crate) fn send(socket: &OwnedFd, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match rustix::net::send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(count) => return Ok(count),
        }
    }
}

/// Returns whether a socket stays within this host.
pub(crate) fn is_local(socket: &OwnedFd) -> bool {
    sockopt::socket_domain(socket) == Ok(AddressFamily::UNIX)
}

/// Returns whether the peer of a local socket has yet to read more than a quarter of the socket's buffer. The buffer is
/// `net.core.wmem_default`, so a quarter is 52 KiB with the kernel's defaults. The kernel does not call such a socket
/// writable.
pub(crate) fn is_far_behind(socket: &OwnedFd) -> bool {
    let mut poll_fds = [PollFd::new(socket, PollFlags::OUT)];
    poll(&mut poll_fds, Some(&Timespec::default())) == Ok(0)
}

/// A socket as `rustls` reads and writes it.
pub(super) struct RustlsSocket<'a>(pub(super) &'a OwnedFd);

impl Read for RustlsSocket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        receive(self.0, buffer)
    }
}

impl Write for RustlsSocket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        send(self.0, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_peer_with_much_to_read_is_far_behind_until_it_has_read() {
        let (here, mut there) = UnixStream::pair().expect("a pair");
        let here = OwnedFd::from(here);
        let page = [7; 4096];
        assert!(is_local(&here) && !is_far_behind(&here));
        let sent = (0..).take_while(|_| send(&here, &page).is_ok()).count();
        assert!(sent > 1 && is_far_behind(&here));
        let mut all = vec![0; (sent - 1) * page.len()];
        there.read_exact(&mut all).expect("as much as was sent");
        assert!(!is_far_behind(&here));
    }
}
