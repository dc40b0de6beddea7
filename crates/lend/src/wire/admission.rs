//! Which data connections a lender lets into a control session.

use super::hello::{ConnectionClass, HelloMessage};
use super::limits::CONNECTIONS_MAX;
use super::newest_write::NewestWrite;
use super::session_keys::{ConnectionKeys, SessionKeys, WrongProof};

/// The borrower's end of a control session, as the control connection made it known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionPeer {
    /// The borrower.
    pub node: u128,
    /// The borrower's incarnation.
    pub incarnation: u64,
    /// The control session.
    pub session: u64,
}

/// Why a data connection is not let in. Close it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdmissionError {
    /// The hello names another session, node or incarnation.
    #[error("the hello is of node {:032x}, incarnation {}, session {}, which is not the peer of this session; connect anew", .0.node, .0.incarnation, .0.session)]
    OtherPeer(SessionPeer),
    /// The proof is wrong.
    #[error(transparent)]
    Proof(#[from] WrongProof),
    /// The connection's number was used before, or is older than the window.
    #[error("data connection {0} of the session was opened before; open one with a higher number")]
    Replayed(u64),
    /// The peer has as many connections as it may have.
    #[error("the peer has {CONNECTIONS_MAX} data connections; close one first")]
    TooMany,
}

/// The data connections of one control session, at the lender.
#[derive(Debug)]
pub struct SessionAdmission {
    keys: SessionKeys,
    peer: SessionPeer,
    numbers: NumberWindow,
    open: usize,
    newest_write: NewestWrite,
}

impl SessionAdmission {
    /// A session without a data connection.
    pub fn new(keys: SessionKeys, peer: SessionPeer) -> SessionAdmission {
        SessionAdmission {
            keys,
            peer,
            numbers: NumberWindow::default(),
            open: 0,
            newest_write: NewestWrite::default(),
        }
    }

    /// Lets a connection in and counts it as open. Returns the keys of its codes.
    ///
    /// Connections that are opened together may arrive in any order. So a number is fresh if it is above all others,
    /// or if it is unused and among the last 512.
    ///
    /// # Errors
    ///
    /// The hello is not the peer's, was used before, or would open too many. Nothing changes.
    pub fn admit(&mut self, message: &HelloMessage) -> Result<ConnectionKeys, AdmissionError> {
        let hello = &message.hello;
        let peer = SessionPeer {
            node: hello.node,
            incarnation: hello.incarnation,
            session: hello.session,
        };
        if peer != self.peer {
            return Err(AdmissionError::OtherPeer(peer));
        }
        self.keys.check(message)?;
        if !self.numbers.is_fresh(hello.connection) {
            return Err(AdmissionError::Replayed(hello.connection));
        }
        if self.open >= CONNECTIONS_MAX {
            return Err(AdmissionError::TooMany);
        }
        self.numbers.mark_used(hello.connection);
        self.open += 1;
        if hello.class == ConnectionClass::Write {
            self.newest_write.admit(hello.connection);
        }
        Ok(self.keys.connection_keys(hello))
    }

    /// Counts a connection that was let in as closed.
    pub fn release(&mut self) {
        debug_assert!(self.open > 0, "more connections closed than were let in");
        self.open = self.open.saturating_sub(1);
    }

    /// Which of its write connections counts.
    pub fn newest_write(&self) -> NewestWrite {
        self.newest_write.clone()
    }

    /// The number of open connections.
    pub fn open(&self) -> usize {
        self.open
    }
}

/// How many numbers a window remembers. As many connections as there may be can come in any order.
const WINDOW: u64 = 512;

const _: () = assert!(CONNECTIONS_MAX as u64 <= WINDOW);

/// The numbers that were used, of the last [`WINDOW`] up to the highest. Number 0 counts as used.
#[derive(Clone, Copy, Debug)]
struct NumberWindow {
    highest: u64,
    /// A bit for each number of the window, at the number's remainder.
    used: [u64; (WINDOW / WORD) as usize],
}

/// Bits of a word.
const WORD: u64 = u64::BITS as u64;

/// Where the bit of a number is: its word, and its mask in that.
fn place(number: u64) -> (usize, u64) {
    let place = number % WINDOW;
    ((place / WORD) as usize, 1 << (place % WORD))
}

impl Default for NumberWindow {
    fn default() -> NumberWindow {
        let mut window = NumberWindow {
            highest: 0,
            used: Default::default(),
        };
        window.set(0);
        window
    }
}

impl NumberWindow {
    fn is_fresh(&self, number: u64) -> bool {
        match self.highest.checked_sub(number) {
            None => true,
            Some(below) => below < WINDOW && !self.has(number),
        }
    }

    fn mark_used(&mut self, number: u64) {
        if number > self.highest {
            // Each takes the place of one that falls out of the window.
            for new in (self.highest + 1..=number).take(WINDOW as usize) {
                let (word, mask) = place(new);
                self.used[word] &= !mask;
            }
            self.highest = number;
        }
        if self.highest - number < WINDOW {
            self.set(number);
        }
    }

    fn has(&self, number: u64) -> bool {
        let (word, mask) = place(number);
        self.used[word] & mask != 0
    }

    fn set(&mut self, number: u64) {
        let (word, mask) = place(number);
        self.used[word] |= mask;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::wire::hello::ConnectionHello;
    use crate::wire::session_keys::SessionNonces;
    use proptest::prelude::*;

    const PEER: SessionPeer = SessionPeer {
        node: 5,
        incarnation: 6,
        session: 7,
    };

    fn keys() -> SessionKeys {
        let nonces = SessionNonces {
            connector: [1; 32],
            acceptor: [2; 32],
        };
        SessionKeys::new(&[3; 32], nonces)
    }

    fn message(connection: u64) -> HelloMessage {
        keys().prove(ConnectionHello {
            class: ConnectionClass::Read,
            node: PEER.node,
            incarnation: PEER.incarnation,
            session: PEER.session,
            connection,
        })
    }

    #[test]
    fn a_replayed_hello_is_refused() {
        let mut session = SessionAdmission::new(keys(), PEER);
        let expected = keys().connection_keys(&message(1).hello);
        assert_eq!(session.admit(&message(1)), Ok(expected));
        session.release();
        let replayed = Err(AdmissionError::Replayed(1));
        assert_eq!(session.admit(&message(1)), replayed);
        assert_eq!(session.open(), 0);
    }

    #[test]
    fn a_hello_of_somebody_else_is_refused() {
        let mut session = SessionAdmission::new(keys(), PEER);
        let mut forged = message(1);
        forged.proof[0] ^= 1;
        assert_eq!(
            session.admit(&forged),
            Err(AdmissionError::Proof(WrongProof))
        );
        for other in [
            SessionPeer { node: 4, ..PEER },
            SessionPeer {
                incarnation: 5,
                ..PEER
            },
            SessionPeer { session: 8, ..PEER },
        ] {
            let proven = keys().prove(ConnectionHello {
                node: other.node,
                incarnation: other.incarnation,
                session: other.session,
                ..message(1).hello
            });
            assert_eq!(
                session.admit(&proven),
                Err(AdmissionError::OtherPeer(other))
            );
        }
        // A refused hello uses no number up.
        assert!(session.admit(&message(1)).is_ok());
    }

    #[test]
    fn each_disk_of_a_peer_has_a_connection_and_the_peer_320_at_most() {
        let mut session = SessionAdmission::new(keys(), PEER);
        // A host's threads connect at the same time when their lender comes back. The last may be the first here.
        for connection in (1..=320).rev() {
            assert!(session.admit(&message(connection)).is_ok());
        }
        assert_eq!(session.admit(&message(321)), Err(AdmissionError::TooMany));
        session.release();
        assert!(session.admit(&message(321)).is_ok());
    }

    #[test]
    fn only_the_newest_write_connection_counts() {
        let mut session = SessionAdmission::new(keys(), PEER);
        let newest = session.newest_write();
        let of_class = |class, connection| {
            keys().prove(ConnectionHello {
                class,
                ..message(connection).hello
            })
        };
        let (read, write) = (ConnectionClass::Read, ConnectionClass::Write);
        for (class, connection, gone) in [
            (write, 2, vec![1]),
            (read, 5, vec![1]),
            (write, 4, vec![1, 2, 3]),
            // It was opened before the other, and comes later.
            (write, 3, vec![1, 2, 3]),
        ] {
            assert!(session.admit(&of_class(class, connection)).is_ok());
            let is_gone = (1..9).filter(|connection| newest.is_after(*connection));
            assert_eq!(is_gone.collect::<Vec<u64>>(), gone);
        }
        // Who is not let in replaces nobody.
        let mut forged = of_class(write, 8);
        forged.proof[0] ^= 1;
        assert!(session.admit(&forged).is_err());
        assert!(!newest.is_after(4));
    }

    proptest! {
        #[test]
        fn a_number_is_let_in_once_and_never_when_it_is_old(
            numbers in prop::collection::vec(prop_oneof![8 => 0u64..2000, 1 => any::<u64>()], 1..1000),
        ) {
            let (mut window, mut used) = (NumberWindow::default(), BTreeSet::from([0]));
            for number in numbers {
                let highest = *used.last().expect("0 is used");
                let is_recent = number > highest || highest - number < 512;
                let fresh = is_recent && !used.contains(&number);
                prop_assert_eq!(window.is_fresh(number), fresh);
                if fresh {
                    window.mark_used(number);
                    used.insert(number);
                }
            }
        }
    }
}
