//! Connections that were accepted and have sent nothing yet. Their first byte says what they carry.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use mio::net::TcpStream;
use sublet_lend::ids::ConnectionId;

/// The most connections that have sent nothing. A further one takes the place of the oldest.
const NEWCOMERS_MAX: usize = 256;

/// The first byte of a connection that carries pages: that of its hello, `SBLD`. TLS begins with another.
const PAGES_FIRST_BYTE: u8 = b'S';

/// What an accepted connection carries.
pub(super) enum AcceptedKind {
    /// Its first byte has not come.
    Unknown,
    /// It ended before its first byte.
    Ended,
    /// Pages.
    Pages(TcpStream, SocketAddr),
    /// Control messages, or whatever TLS then refuses.
    Control(TcpStream, SocketAddr),
}

struct Newcomer {
    stream: TcpStream,
    remote: SocketAddr,
    until: Duration,
}

/// The connections that have sent nothing.
#[derive(Default)]
pub(super) struct Newcomers(BTreeMap<ConnectionId, Newcomer>);

impl Newcomers {
    /// Adds a connection, which must send something before `until`.
    pub(super) fn add(
        &mut self,
        id: ConnectionId,
        stream: TcpStream,
        remote: SocketAddr,
        until: Duration,
    ) {
        if self.0.len() >= NEWCOMERS_MAX {
            self.0.pop_first();
        }
        let newcomer = Newcomer {
            stream,
            remote,
            until,
        };
        self.0.insert(id, newcomer);
    }

    /// Returns whether this number is a newcomer's.
    pub(super) fn has(&self, id: ConnectionId) -> bool {
        self.0.contains_key(&id)
    }

    /// Looks at the first byte of a connection, which stays there to be read.
    pub(super) fn look(&mut self, id: ConnectionId) -> AcceptedKind {
        let Some(newcomer) = self.0.remove(&id) else {
            return AcceptedKind::Ended;
        };
        let mut first = [0];
        match newcomer.stream.peek(&mut first) {
            Ok(1) if first[0] == PAGES_FIRST_BYTE => {
                AcceptedKind::Pages(newcomer.stream, newcomer.remote)
            }
            Ok(1) => AcceptedKind::Control(newcomer.stream, newcomer.remote),
            Err(error) if is_transient(&error) => {
                self.0.insert(id, newcomer);
                AcceptedKind::Unknown
            }
            _ => AcceptedKind::Ended,
        }
    }

    /// Drops those whose time is over.
    pub(super) fn expire(&mut self, now: Duration) {
        self.0.retain(|_, newcomer| now < newcomer.until);
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}
