//! A page connection that a borrower opens. Nothing here waits.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, ipproto, socket_with, sockopt};

/// How long a lender may leave bytes or requests unanswered before its connection ends.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(1);

/// How long a borrower waits before it connects again to a lender whose connection ended.
pub(super) const RECONNECT_PAUSE: Duration = Duration::from_millis(100);

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
