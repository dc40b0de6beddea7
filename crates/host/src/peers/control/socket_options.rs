//! Options of the sockets of control connections.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::sockopt;

/// How long sent bytes may stay unacknowledged, in milliseconds.
const USER_TIMEOUT_MILLIS: u32 = 1000;

/// How long a connection is silent before the kernel asks whether the peer is there, and the pause between questions.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(1);

/// How many questions may stay unanswered.
const KEEPALIVE_COUNT: u32 = 3;

/// Makes the kernel find out soon that a peer is gone, and send each line at once.
pub(super) fn set_control_options(socket: &impl AsFd) -> io::Result<()> {
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_tcp_user_timeout(socket, USER_TIMEOUT_MILLIS)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, KEEPALIVE_EVERY)?;
    sockopt::set_tcp_keepintvl(socket, KEEPALIVE_EVERY)?;
    sockopt::set_tcp_keepcnt(socket, KEEPALIVE_COUNT)?;
    Ok(())
}
