//! A page connection that a borrower opens, and the wait for several of them.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, ipproto, socket_with, sockopt};

/// How long a lender may leave bytes or requests unanswered before its connection ends.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(1);

/// How long a borrower waits before it connects again to a lender whose connection ended.
pub(super) const RECONNECT_PAUSE: Duration = Duration::from_millis(100);

/// How long to wait if the kernel cannot.
const LACK_PAUSE: Duration = Duration::from_millis(1);

/// Begins to connect. The socket takes bytes when it is connected, and never blocks.
///
/// # Errors
///
/// The kernel has no socket, or no way leads to the address.
pub(super) fn begin_connect(address: SocketAddr) -> io::Result<TcpStream> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket: OwnedFd = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    sockopt::set_tcp_user_timeout(&socket, SILENCE_MAX.as_millis() as u32)?;
    match connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(TcpStream::from(socket)),
        Err(error) => Err(error.into()),
    }
}

/// Waits until one of the sockets is ready, or at most `longest`. It may return sooner.
///
/// # Errors
///
/// The kernel's poll failed.
pub(super) fn poll_sockets(
    sockets: &mut [PollFd<'_>],
    longest: Option<Duration>,
) -> io::Result<()> {
    let longest = longest.and_then(|longest| Timespec::try_from(longest).ok());
    match poll(sockets, longest.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        // The kernel has no memory for it at this moment.
        Err(Errno::NOMEM | Errno::AGAIN) => {
            thread::sleep(LACK_PAUSE);
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}
