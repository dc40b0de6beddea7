//! Clients that connect before the listener accepts any.

use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use sublet_frontends::listeners::{Endpoint, bind_one};
use sublet_frontends::nbd::serve::BACKLOG;

/// All guests of a host come back at once after a restart.
#[test]
fn four_hundred_guests_may_come_before_the_first_is_let_in() {
    let somaxconn = std::fs::read_to_string("/proc/sys/net/core/somaxconn").expect("Linux");
    let most: usize = somaxconn.trim().parse().expect("a number");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("disk");
    let mode = 0o600;
    let endpoint = Endpoint::Unix { path, mode };
    let _listener = bind_one(&endpoint, BACKLOG).expect("a listener");
    let address = SocketAddrUnix::new(folder.path().join("disk")).expect("a path");
    let guests: Vec<OwnedFd> = (0..most.min(400))
        .map(|n| {
            let kind = (AddressFamily::UNIX, SocketType::STREAM);
            let guest = socket_with(kind.0, kind.1, SocketFlags::NONBLOCK, None).expect("a socket");
            connect(&guest, &address).unwrap_or_else(|error| panic!("guest {n}: {error}"));
            guest
        })
        .collect();
    assert_eq!(guests.len(), most.min(400));
}
