//! Sockets of the control thread: who calls, who is called, what comes, and what ends.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpStream as PlainTcpStream};
use std::time::Duration;

use mio::net::TcpStream;
use mio::{Interest, Token};
use rustls::Connection as TlsSession;
use sublet_lend::control::ControlError;
use sublet_lend::ids::{ConnectionId, PeerId, SessionNonce};
use sublet_lend::node::{LendingInput, MEMBERS_MAX};
use sublet_tls::peer::{ConnectedPeer, PeerRefusal};

use super::super::connection::{
    ConnectionEnd, ConnectionOpener, ConnectionStage, ControlConnection, ReadProgress,
};
use super::super::dialer::{DialOutcome, DialedSocket};
use super::super::newcomers::AcceptedKind;
use super::super::notices::PeerNotice;
use super::super::refusals::{RefusalNews, RefusedParty};
use super::super::socket_options::set_control_options;
use super::{ControlThread, LISTENERS_MAX};

/// How long a connection may take to say its first byte, and how long TLS may take then.
const GREET_WITHIN: Duration = Duration::from_secs(5);

/// How long what was sent may take to go out after a connection was closed.
pub(super) const CLOSE_WITHIN: Duration = Duration::from_secs(1);

/// The cause under which lines are counted that are none of the protocol.
const GARBLED: &str = "garbled";

/// The most connections that were accepted and whose handshake goes on. A further one takes the place of the oldest.
/// Many come at once to a new leader.
const HANDSHAKES_MAX: usize = 256;

/// The most connections that are accepted before others have their turn.
const TURN_ACCEPTS_MAX: usize = 64;

/// The most control connections. A leader has one with each member, and for a moment those that are closing. Further
/// ones are not accepted.
const CONNECTIONS_MAX: usize = MEMBERS_MAX + 1024;

impl ControlThread {
    /// Gives each socket a turn that is ready, or had more than its last turn took.
    pub(super) fn serve_due(&mut self) {
        for token in std::mem::take(&mut self.sockets.due) {
            self.socket_ready(token);
            self.settle();
        }
    }

    /// Works on a socket of which the kernel reported something, or that is due.
    pub(super) fn socket_ready(&mut self, token: Token) {
        if token.0 < LISTENERS_MAX {
            return self.accept_all(token.0);
        }
        let id = ConnectionId(token.0 as u64);
        if self.dialer.has(id) {
            self.check_dial(id);
        } else if self.sockets.newcomers.has(id) {
            self.look_at_newcomer(id);
        } else {
            self.read(id);
        }
    }

    fn next_id(&mut self) -> ConnectionId {
        let id = self.sockets.next;
        self.sockets.next.0 += 1;
        id
    }

    /// Accepts what has come, as far as a turn goes.
    fn accept_all(&mut self, listener: usize) {
        for _ in 0..TURN_ACCEPTS_MAX {
            let Some(accepted) = self.listeners.get(listener).map(|it| it.accept()) else {
                return;
            };
            match accepted {
                Ok((stream, remote)) => self.accept(stream, remote),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // An error of one connection, or no file is free: the kernel reports the next connection.
                Err(_) => return,
            }
        }
        self.sockets.due.insert(Token(listener));
    }

    fn accept(&mut self, mut stream: TcpStream, remote: SocketAddr) {
        let id = self.next_id();
        let both = Interest::READABLE | Interest::WRITABLE;
        let registry = self.poll.registry();
        if registry
            .register(&mut stream, Token(id.0 as usize), both)
            .is_err()
        {
            return;
        }
        let until = self.now() + GREET_WITHIN;
        self.sockets.newcomers.add(id, stream, remote, until);
        self.look_at_newcomer(id);
    }

    fn look_at_newcomer(&mut self, id: ConnectionId) {
        match self.sockets.newcomers.look(id) {
            AcceptedKind::Unknown | AcceptedKind::Ended => {}
            AcceptedKind::Pages(mut stream, remote) => {
                if self.poll.registry().deregister(&mut stream).is_ok() {
                    self.pages.take(PlainTcpStream::from(stream), remote);
                }
            }
            AcceptedKind::Control(stream, remote) => self.begin_accepted(id, stream, remote),
        }
    }

    fn begin_accepted(&mut self, id: ConnectionId, stream: TcpStream, remote: SocketAddr) {
        let tls = self.credentials.accept();
        let (Ok(tls), Ok(())) = (tls, set_control_options(&stream)) else {
            return;
        };
        if self.sockets.connections.len() >= CONNECTIONS_MAX {
            return;
        }
        self.make_room_for_handshake();
        let tls = TlsSession::Server(tls);
        self.begin(id, stream, remote, (ConnectionOpener::Them, tls));
    }

    /// Drops the oldest accepted connection whose handshake goes on if there are as many as there may be.
    fn make_room_for_handshake(&mut self) {
        let is_greeting = |connection: &ControlConnection| {
            connection.opener == ConnectionOpener::Them
                && matches!(connection.stage, ConnectionStage::Handshake(_))
        };
        let connections = self.sockets.connections.iter();
        let greeting = connections.filter(|(_, connection)| is_greeting(connection));
        let greeting: Vec<ConnectionId> = greeting.map(|(id, _)| *id).collect();
        if greeting.len() >= HANDSHAKES_MAX {
            self.sockets.connections.remove(&greeting[0]);
        }
    }

    fn begin(
        &mut self,
        id: ConnectionId,
        stream: TcpStream,
        remote: SocketAddr,
        (opener, tls): (ConnectionOpener, TlsSession),
    ) {
        let until = self.now() + GREET_WITHIN;
        let connection = ControlConnection::new(stream, remote, opener, tls, until);
        self.sockets.connections.insert(id, connection);
        self.read(id);
    }

    /// Connects to the addresses that look-ups found.
    pub(super) fn connect_found(&mut self) {
        while let Some(found) = self.dialer.take_found() {
            match found.addresses {
                Ok(addresses) => self.connect(found.peer, addresses),
                Err(error) => self.not_reached(found.peer, error),
            }
        }
    }

    fn connect(&mut self, peer: PeerId, addresses: VecDeque<SocketAddr>) {
        let (now, id) = (self.now(), self.next_id());
        let registry = self.poll.registry();
        let outcome = self.dialer.connect(now, id, registry, (peer, addresses));
        self.dialed(id, outcome);
    }

    fn check_dial(&mut self, id: ConnectionId) {
        let now = self.now();
        let outcome = self.dialer.check(now, id, self.poll.registry());
        self.dialed(id, outcome);
    }

    fn dialed(&mut self, id: ConnectionId, outcome: DialOutcome) {
        match outcome {
            DialOutcome::Pending => {}
            DialOutcome::Failed(peer, error) => self.not_reached(peer, error),
            DialOutcome::Connected(DialedSocket {
                peer,
                stream,
                remote,
            }) => {
                let Some(name) = self.tables.members.name(peer) else {
                    return;
                };
                match self.credentials.connect(&name) {
                    Ok(tls) => {
                        let tls = TlsSession::Client(tls);
                        self.begin(id, stream, remote, (ConnectionOpener::Us(peer), tls));
                    }
                    Err(error) => self.not_reached(peer, io::Error::other(error)),
                }
            }
        }
    }

    /// Gives a connection a turn to bring what it has, and sends what waits. If there may be more, it is due again.
    fn read(&mut self, id: ConnectionId) {
        let Some(connection) = self.sockets.connections.get_mut(&id) else {
            return;
        };
        let turn = connection.read_turn();
        if let Some(peer) = connection.newly_known() {
            self.greet(id, &peer);
        }
        let heard = turn.lines.into_iter().map(|line| LendingInput::Heard {
            connection: id,
            line,
        });
        self.inputs.extend(heard);
        if turn.bytes > 0 {
            self.inputs.push_back(LendingInput::Received {
                connection: id,
                bytes: turn.bytes,
            });
        }
        self.settle();
        match turn.progress {
            Ok(ReadProgress::Some) => self.sockets.make_due(id),
            Ok(ReadProgress::Blocked) => {}
            Err(end) => return self.connection_over(id, end),
        }
        self.flush(id);
    }

    fn flush(&mut self, id: ConnectionId) {
        let now = self.now();
        let Some(connection) = self.sockets.connections.get_mut(&id) else {
            return;
        };
        if let Err(end) = connection.flush() {
            self.connection_over(id, end);
        } else if connection.is_done(now) {
            self.expire(id);
        }
    }

    /// Tells the node who is at the other end, unless it was denied since the handshake began.
    fn greet(&mut self, id: ConnectionId, known: &ConnectedPeer) {
        if self.credentials.denies(&known.fingerprint) {
            let fingerprint = known.fingerprint;
            let refusal = PeerRefusal::Denied { fingerprint };
            return self.turn_away(id, ConnectionEnd::Refused(refusal));
        }
        let mut nonce = [0; 32];
        if self.store.random.fill(&mut nonce).is_err() {
            return self.turn_away(id, ConnectionEnd::Closed);
        }
        let peer = self.tables.node.read().peer_named(&known.identity.node);
        if let Some(peer) = peer {
            self.sockets.unreachable.remove(&peer);
            // Another certificate of a peer that was denied by an old one.
            if self.sockets.denied.remove(&peer).is_some() {
                self.inputs.push_back(LendingInput::Allow { peer });
            }
        }
        let (name, nonce) = (known.identity.node.clone(), SessionNonce(nonce));
        let opener = self.sockets.connections.get(&id).map(|it| it.opener);
        self.inputs.push_back(match opener {
            Some(ConnectionOpener::Us(_)) => LendingInput::Connected {
                connection: id,
                name,
                nonce,
            },
            _ => LendingInput::Accepted {
                connection: id,
                name,
                nonce,
            },
        });
    }

    /// Ends a connection of which the node was never told. If this node called, it calls again later.
    fn turn_away(&mut self, id: ConnectionId, end: ConnectionEnd) {
        let connection = self.sockets.connections.get(&id);
        if let Some(ConnectionOpener::Us(peer)) = connection.map(|it| it.opener) {
            self.inputs.push_back(LendingInput::ConnectFailed { peer });
        }
        self.connection_over(id, end);
    }

    /// Ends a connection, and tells the node and the log as far as they must know.
    pub(super) fn connection_over(&mut self, id: ConnectionId, end: ConnectionEnd) {
        if let ConnectionEnd::Garbled(error) = end {
            return self.garbled(id, error);
        }
        let Some(connection) = self.sockets.connections.remove(&id) else {
            return;
        };
        let was_greeted = !matches!(connection.stage, ConnectionStage::Handshake(_));
        if was_greeted {
            self.inputs
                .push_back(LendingInput::Ended { connection: id });
        }
        let called = match connection.opener {
            ConnectionOpener::Us(peer) if !was_greeted => Some(peer),
            _ => None,
        };
        match (end, called) {
            (ConnectionEnd::Refused(refusal), called) => {
                self.refused(&connection, refusal);
                let failed = called.map(|peer| LendingInput::ConnectFailed { peer });
                self.inputs.extend(failed);
            }
            (ConnectionEnd::Broken(error), Some(peer)) => self.not_reached(peer, error),
            (_, Some(peer)) => self.not_reached(peer, io::ErrorKind::ConnectionAborted.into()),
            (_, None) => {}
        }
    }

    /// Lets the node shut a peer out that sent what is no line. It says goodbye if this is the peer's connection.
    fn garbled(&mut self, id: ConnectionId, error: ControlError) {
        let Some(party) = self.sockets.connections.get(&id).map(|it| self.party(it)) else {
            return;
        };
        if self.count_refusal(&party, GARBLED) == RefusalNews::First {
            self.observer.observe(PeerNotice::Garbled { party, error });
        }
        self.inputs
            .push_back(LendingInput::Garbled { connection: id });
        self.settle();
        let connection = self.sockets.connections.get(&id);
        let is_closing =
            connection.is_some_and(|it| matches!(it.stage, ConnectionStage::Closing(_)));
        if !is_closing {
            self.connection_over(id, ConnectionEnd::Closed);
        }
    }

    /// Whom a connection is with, as refusals are counted.
    fn party(&self, connection: &ControlConnection) -> RefusedParty {
        let called = match connection.opener {
            ConnectionOpener::Us(peer) => self.tables.members.name(peer),
            ConnectionOpener::Them => None,
        };
        match called {
            Some(name) => RefusedParty::Member(name),
            None => RefusedParty::Address(connection.remote.ip()),
        }
    }

    fn count_refusal(&self, party: &RefusedParty, cause: &'static str) -> RefusalNews {
        self.tables.refusals.lock().count(party.clone(), cause)
    }

    /// Counts a refusal, and logs the first of its party and cause.
    fn refused(&mut self, connection: &ControlConnection, refusal: PeerRefusal) {
        let party = self.party(connection);
        let news = self.count_refusal(&party, refusal.label());
        if news == RefusalNews::First {
            self.observer
                .observe(PeerNotice::Refused { party, refusal });
        }
    }

    /// Ends what took too long.
    pub(super) fn expire_sockets(&mut self, now: Duration) {
        self.sockets.newcomers.expire(now);
        for id in self.dialer.late(now) {
            self.check_dial(id);
        }
        let connections = self.sockets.connections.iter();
        let done = connections.filter(|(_, connection)| connection.is_done(now));
        for id in done.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.expire(id);
        }
    }

    /// Ends a connection that is closed, or whose handshake took too long.
    fn expire(&mut self, id: ConnectionId) {
        let is_closing = |connection: &ControlConnection| {
            matches!(connection.stage, ConnectionStage::Closing(_))
        };
        if self.sockets.connections.get(&id).is_some_and(is_closing) {
            self.sockets.connections.remove(&id);
        } else {
            let late = ConnectionEnd::Broken(io::ErrorKind::TimedOut.into());
            self.connection_over(id, late);
        }
    }
}
