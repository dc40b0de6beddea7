//! Actions of the node on connections and sessions. Those on the store go there.

use std::net::SocketAddr;

use sublet_lend::control::ControlMessage;
use sublet_lend::ids::{ConnectionId, PeerId};
use sublet_lend::node::{LendingAction, LendingEvent, LendingInput};
use sublet_lend::wire::{SessionKeys, SessionNonces};
use zeroize::Zeroizing;

use super::super::connection::{ConnectionEnd, ConnectionOpener, ControlConnection};
use super::super::notices::PeerNotice;
use super::super::sessions::{PeerSession, SessionFacts};
use super::ControlThread;
use super::sockets::CLOSE_WITHIN;

impl ControlThread {
    /// Carries out an action.
    pub(super) fn perform(&mut self, action: LendingAction) {
        match action {
            LendingAction::Connect { peer } => self.call(peer),
            LendingAction::Send {
                connection,
                message,
            } => self.send(connection, &message),
            LendingAction::Close { connection } => self.close(connection),
            LendingAction::OpenSession {
                peer,
                connection,
                incarnation,
                ours,
                theirs,
                our_nonce,
                their_nonce,
                ..
            } => {
                let Some(name) = self.tables.members.name(peer) else {
                    return;
                };
                let address = self.page_address(peer, connection);
                let nonces = [our_nonce.0, their_nonce.0];
                let facts = address.map(|address| SessionFacts {
                    peer,
                    name,
                    incarnation,
                    ours,
                    theirs,
                    address,
                    opened_at: self.now(),
                });
                self.open_session(connection, facts, nonces);
            }
            LendingAction::CloseSession { ours, .. } => {
                self.tables.sessions.close(ours);
                self.pages.end_session(ours);
            }
            LendingAction::Log(LendingEvent { peer, change }) => {
                if let Some(name) = self.tables.members.name(peer) {
                    self.observer.observe(PeerNotice::Changed { name, change });
                }
            }
            LendingAction::LogStranger { name } => {
                self.observer.observe(PeerNotice::Stranger { name });
            }
            LendingAction::Left => self.observer.observe(PeerNotice::Left),
            for_store => self.inputs.extend(self.store.perform(for_store)),
        }
    }

    fn call(&mut self, peer: PeerId) {
        let Some(member) = self.tables.members.get(peer) else {
            return;
        };
        if member.port == 0 {
            // It listens nowhere, so it calls this node if it needs it.
            return self.inputs.push_back(LendingInput::ConnectFailed { peer });
        }
        if let Err(error) = self.dialer.look_up(peer, &member.host, member.port) {
            self.not_reached(peer, error);
        }
    }

    fn send(&mut self, id: ConnectionId, message: &ControlMessage) {
        let Some(connection) = self.sockets.connections.get_mut(&id) else {
            return;
        };
        if let Err(end) = connection.send(message) {
            self.connection_over(id, end);
        }
    }

    fn close(&mut self, id: ConnectionId) {
        let until = self.now() + CLOSE_WITHIN;
        let Some(connection) = self.sockets.connections.get_mut(&id) else {
            return;
        };
        connection.begin_close(until);
        if connection.flush().is_err() || connection.is_done(until - CLOSE_WITHIN) {
            self.sockets.connections.remove(&id);
        }
    }

    /// Where a peer accepts connections that carry pages: where it was met, at the port of its settings.
    fn page_address(&self, peer: PeerId, id: ConnectionId) -> Option<SocketAddr> {
        let connection = self.sockets.connections.get(&id)?;
        let port = self.tables.members.get(peer)?.port;
        Some(match connection.opener {
            ConnectionOpener::Us(_) => connection.remote,
            ConnectionOpener::Them => {
                // A link-local address is worth nothing without its scope.
                let mut address = connection.remote;
                address.set_port(port);
                address
            }
        })
    }

    /// Lets other threads open connections for a session. The end that called is the connector, whoever borrows.
    fn open_session(
        &mut self,
        id: ConnectionId,
        facts: Option<SessionFacts>,
        [ours, theirs]: [[u8; 32]; 2],
    ) {
        let connection = self.sockets.connections.get(&id);
        let secret = connection.and_then(ControlConnection::secret);
        let (Some(connection), Some(secret), Some(facts)) = (connection, secret, facts) else {
            return self.connection_over(id, ConnectionEnd::Closed);
        };
        let secret = Zeroizing::new(secret);
        let (connector, acceptor) = match connection.opener {
            ConnectionOpener::Us(_) => (ours, theirs),
            ConnectionOpener::Them => (theirs, ours),
        };
        let nonces = SessionNonces {
            connector,
            acceptor,
        };
        let keys = SessionKeys::new(&secret, nonces);
        let session = PeerSession::new(facts, self.own, keys);
        self.tables.sessions.open(session);
    }

    /// Tells the node that a member was not reached, and the log once.
    pub(super) fn not_reached(&mut self, peer: PeerId, error: std::io::Error) {
        self.inputs.push_back(LendingInput::ConnectFailed { peer });
        let Some(name) = self.tables.members.name(peer) else {
            return;
        };
        if self.sockets.unreachable.insert(peer) {
            self.observer
                .observe(PeerNotice::Unreachable { name, error });
        }
    }
}
