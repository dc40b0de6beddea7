//! What a control session's secret is good for: proofs of data connections, and the keys of their codes.
//!
//! The secret comes from the TLS exporter of the control connection, so only its two ends know it. Everything here is
//! HMAC-SHA256 under the secret. A label without a common prefix says what the output is for. All fields behind it have
//! fixed lengths, so no two inputs are written alike.

use std::fmt;

use aws_lc_rs::{constant_time, hmac};

use super::hello::{ConnectionHello, HelloMessage, PROOF_BYTES};

/// Bytes of a session's secret.
pub const SECRET_BYTES: usize = 32;

/// Bytes of a nonce of the control connection.
pub const SESSION_NONCE_BYTES: usize = 32;

/// Bytes of a key of AEGIS-128L.
pub const MAC_KEY_BYTES: usize = 16;

const PROOF_LABEL: &[u8] = b"sublet lending 1, proof of a data connection\0";
const TO_LENDER_LABEL: &[u8] = b"sublet lending 1, MAC key from borrower to lender\0";
const TO_BORROWER_LABEL: &[u8] = b"sublet lending 1, MAC key from lender to borrower\0";

/// The nonces that both ends of a control connection drew for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionNonces {
    /// The nonce of the end that connected.
    pub connector: [u8; SESSION_NONCE_BYTES],
    /// The nonce of the end that accepted.
    pub acceptor: [u8; SESSION_NONCE_BYTES],
}

/// The key of the codes of one data connection in one direction.
#[derive(Clone, PartialEq, Eq)]
pub struct MacKey([u8; MAC_KEY_BYTES]);

impl MacKey {
    /// A key of these bytes.
    pub fn new(bytes: [u8; MAC_KEY_BYTES]) -> MacKey {
        MacKey(bytes)
    }

    pub(super) fn bytes(&self) -> &[u8; MAC_KEY_BYTES] {
        &self.0
    }
}

impl fmt::Debug for MacKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MacKey(hidden)")
    }
}

/// The keys of the codes of one data connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionKeys {
    /// The key of requests.
    pub to_lender: MacKey,
    /// The key of answers.
    pub to_borrower: MacKey,
}

/// A hello's proof was made without the session's secret, or for another hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the proof of the data connection does not belong to this session and hello; close the connection"
)]
pub struct WrongProof;

/// The secret and the nonces of a control session.
#[derive(Clone)]
pub struct SessionKeys {
    secret: hmac::Key,
    nonces: SessionNonces,
}

impl fmt::Debug for SessionKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKeys(hidden)")
    }
}

impl SessionKeys {
    /// The keys of the session with this secret and these nonces. Both ends must pass the same.
    pub fn new(secret: &[u8; SECRET_BYTES], nonces: SessionNonces) -> SessionKeys {
        SessionKeys {
            secret: hmac::Key::new(hmac::HMAC_SHA256, secret),
            nonces,
        }
    }

    /// Adds the proof to a hello.
    pub fn prove(&self, hello: ConnectionHello) -> HelloMessage {
        HelloMessage {
            hello,
            proof: self.derive(PROOF_LABEL, &hello),
        }
    }

    /// Checks a hello's proof. The time that it takes does not depend on the proof.
    ///
    /// # Errors
    ///
    /// The opener does not know the secret, or the hello was changed.
    pub fn check(&self, message: &HelloMessage) -> Result<(), WrongProof> {
        let expected = self.derive(PROOF_LABEL, &message.hello);
        constant_time::verify_slices_are_equal(&expected, &message.proof).map_err(|_| WrongProof)
    }

    /// The keys of the data connection that opens with `hello`. They depend on every field of it.
    pub fn connection_keys(&self, hello: &ConnectionHello) -> ConnectionKeys {
        let key = |label| {
            let derived = self.derive(label, hello);
            let (key, _) = derived
                .split_first_chunk()
                .expect("a digest is longer than a key");
            MacKey(*key)
        };
        ConnectionKeys {
            to_lender: key(TO_LENDER_LABEL),
            to_borrower: key(TO_BORROWER_LABEL),
        }
    }

    /// HMAC-SHA256(secret, label ‖ hello before its proof ‖ connector's nonce ‖ acceptor's nonce).
    fn derive(&self, label: &[u8], hello: &ConnectionHello) -> [u8; PROOF_BYTES] {
        let mut mac = hmac::Context::with_key(&self.secret);
        mac.update(label);
        mac.update(&hello.proven_bytes());
        mac.update(&self.nonces.connector);
        mac.update(&self.nonces.acceptor);
        let digest = mac.sign();
        digest.as_ref().try_into().expect("SHA-256 gives 32 bytes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::hello::ConnectionClass;

    const NONCES: SessionNonces = SessionNonces {
        connector: [1; SESSION_NONCE_BYTES],
        acceptor: [2; SESSION_NONCE_BYTES],
    };

    fn hello() -> ConnectionHello {
        ConnectionHello {
            class: ConnectionClass::Read,
            node: 5,
            incarnation: 6,
            session: 7,
            connection: 8,
        }
    }

    /// The hello with another value of each field.
    fn others() -> [ConnectionHello; 5] {
        let (mut class, mut node, mut incarnation, mut session, mut connection) =
            (hello(), hello(), hello(), hello(), hello());
        class.class = ConnectionClass::Write;
        node.node += 1;
        incarnation.incarnation += 1;
        session.session += 1;
        connection.connection += 1;
        [class, node, incarnation, session, connection]
    }

    #[test]
    fn a_proof_holds_for_its_session_and_hello_only() {
        let keys = SessionKeys::new(&[3; SECRET_BYTES], NONCES);
        let message = keys.prove(hello());
        assert_eq!(keys.check(&message), Ok(()));
        for hello in others() {
            let proof = message.proof;
            assert_eq!(keys.check(&HelloMessage { hello, proof }), Err(WrongProof));
        }
        for bit in 0..PROOF_BYTES * 8 {
            let mut changed = message;
            changed.proof[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(keys.check(&changed), Err(WrongProof));
        }
    }

    #[test]
    fn another_secret_or_nonce_makes_another_session() {
        let message = SessionKeys::new(&[3; SECRET_BYTES], NONCES).prove(hello());
        let (mut connector, mut acceptor, swapped) = (
            NONCES,
            NONCES,
            SessionNonces {
                connector: NONCES.acceptor,
                acceptor: NONCES.connector,
            },
        );
        connector.connector[31] ^= 1;
        acceptor.acceptor[0] ^= 1;
        for nonces in [connector, acceptor, swapped] {
            let keys = SessionKeys::new(&[3; SECRET_BYTES], nonces);
            assert_eq!(keys.check(&message), Err(WrongProof));
        }
        let keys = SessionKeys::new(&[4; SECRET_BYTES], NONCES);
        assert_eq!(keys.check(&message), Err(WrongProof));
    }

    #[test]
    fn no_two_keys_are_alike() {
        let keys = SessionKeys::new(&[3; SECRET_BYTES], NONCES);
        let mut all = Vec::new();
        for hello in others().into_iter().chain([hello()]) {
            let ConnectionKeys {
                to_lender,
                to_borrower,
            } = keys.connection_keys(&hello);
            let proof = keys.prove(hello).proof;
            let proof_front = *proof.first_chunk().expect("32 bytes");
            all.extend([to_lender.0, to_borrower.0, proof_front]);
        }
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn secrets_are_not_shown() {
        let keys = SessionKeys::new(&[3; SECRET_BYTES], NONCES);
        let shown = format!("{keys:?} {:?}", keys.connection_keys(&hello()));
        assert!(!shown.contains('3') && shown.contains("hidden"), "{shown}");
    }
}
