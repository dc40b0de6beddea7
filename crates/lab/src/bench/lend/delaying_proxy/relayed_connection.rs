//! A connection that is relayed.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags};

use super::added_delay::RelayWay;
use super::held_bytes::HeldBytes;
use super::relay_orders::HoldTally;

/// Bytes that one read takes.
pub(super) const READ_BYTES: usize = 64 << 10;

/// What one way has, and how far it is.
#[derive(Default)]
struct WayState {
    held: HeldBytes,
    /// Whether its source has ended.
    has_ended: bool,
    /// Whether that was passed on.
    is_closed: bool,
    /// Whether the socket that it leads to takes nothing now.
    is_blocked: bool,
}

/// A client's connection and the one to the target.
pub(super) struct RelayedConnection {
    client: TcpStream,
    target: TcpStream,
    forth: WayState,
    back: WayState,
}

/// What a relay needs for each exchange.
pub(super) struct RelayTools<'r> {
    /// When bytes are due that come now.
    pub(super) due: &'r mut dyn FnMut(RelayWay) -> Instant,
    /// Room for what one read takes.
    pub(super) room: &'r mut [u8],
    pub(super) tally: &'r mut HoldTally,
}

impl RelayedConnection {
    /// Connects a client's connection with the target.
    pub(super) fn new(client: TcpStream, to: SocketAddr) -> io::Result<RelayedConnection> {
        let target = TcpStream::connect(to)?;
        for socket in [&client, &target] {
            socket.set_nodelay(true)?;
            socket.set_nonblocking(true)?;
        }
        Ok(RelayedConnection {
            client,
            target,
            forth: WayState::default(),
            back: WayState::default(),
        })
    }

    /// Its sockets, and what each waits for.
    pub(super) fn awaited(&self) -> [Option<PollFd<'_>>; 2] {
        let RelayedConnection {
            client,
            target,
            forth,
            back,
        } = self;
        [(client, forth, back), (target, back, forth)].map(|(socket, from, into)| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, from.takes_more());
            flags.set(PollFlags::OUT, into.is_blocked);
            (!flags.is_empty()).then(|| PollFd::new(socket, flags))
        })
    }

    /// When it has something to send next, unless it waits for a socket.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let ways = [&self.forth, &self.back].into_iter();
        let free = ways.filter(|way| !way.is_blocked);
        free.filter_map(|way| way.held.first_due()).min()
    }

    /// Takes what has come and sends what is due. Returns whether bytes moved.
    ///
    /// # Errors
    ///
    /// The connection is over.
    pub(super) fn exchange(&mut self, tools: &mut RelayTools<'_>) -> io::Result<bool> {
        let (client, target) = (&mut self.client, &mut self.target);
        let mut moved = self.forth.receive(client, RelayWay::Forth, tools)?;
        moved |= self.back.receive(target, RelayWay::Back, tools)?;
        moved |= self.forth.deliver(target, tools)?;
        moved |= self.back.deliver(client, tools)?;
        match self.forth.is_closed && self.back.is_closed {
            true => Err(io::ErrorKind::UnexpectedEof.into()),
            false => Ok(moved),
        }
    }
}

impl WayState {
    fn takes_more(&self) -> bool {
        !self.has_ended && self.held.has_room()
    }

    fn receive(
        &mut self,
        from: &mut TcpStream,
        way: RelayWay,
        tools: &mut RelayTools<'_>,
    ) -> io::Result<bool> {
        let mut moved = false;
        while self.takes_more() {
            match unless_blocked(from.read(tools.room))? {
                None => break,
                Some(0) => self.has_ended = true,
                Some(count) => self.held.hold(&tools.room[..count], (tools.due)(way)),
            }
            moved = true;
        }
        Ok(moved)
    }

    fn deliver(&mut self, into: &mut TcpStream, tools: &mut RelayTools<'_>) -> io::Result<bool> {
        let mut moved = false;
        self.is_blocked = false;
        while let Some(bytes) = self.held.due_at(Instant::now()) {
            let Some(count) = unless_blocked(into.write(bytes))? else {
                self.is_blocked = true;
                break;
            };
            moved = true;
            if let Some(due) = self.held.sent(count) {
                tools.tally.add(due.elapsed());
            }
        }
        if self.has_ended && self.held.is_empty() && !self.is_closed {
            // The other side may have gone already.
            let _ = into.shutdown(Shutdown::Write);
            self.is_closed = true;
        }
        Ok(moved)
    }
}

/// What a call on a socket says. `None` if it would have to wait.
fn unless_blocked(done: io::Result<usize>) -> io::Result<Option<usize>> {
    match done {
        Ok(count) => Ok(Some(count)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
        Err(error) => Err(error),
    }
}
