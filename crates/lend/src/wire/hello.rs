//! The hello: what a data connection opens with.
//!
//! ```text
//! 0       4         6       7   8      24            32        40           48      80
//! | magic | version | class | 0 | node | incarnation | session | connection | proof |
//! ```

use super::fields::{field, put};
use super::limits::WIRE_VERSION;

/// Bytes of a hello.
pub const HELLO_BYTES: usize = 80;

/// Bytes of a proof.
pub const PROOF_BYTES: usize = 32;

/// Bytes of a hello before its proof.
pub(super) const PROVEN_BYTES: usize = HELLO_BYTES - PROOF_BYTES;

const MAGIC: [u8; 4] = *b"SBLD";

const VERSION_AT: usize = 4;
const CLASS_AT: usize = 6;
const RESERVED_AT: usize = 7;
const NODE_AT: usize = 8;
const INCARNATION_AT: usize = 24;
const SESSION_AT: usize = 32;
const CONNECTION_AT: usize = 40;

/// What a data connection carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionClass {
    /// Reads and their answers.
    Read,
    /// Writes and their answers.
    Write,
}

impl ConnectionClass {
    fn code(self) -> u8 {
        match self {
            ConnectionClass::Read => 1,
            ConnectionClass::Write => 2,
        }
    }

    fn of(code: u8) -> Option<ConnectionClass> {
        let all = [ConnectionClass::Read, ConnectionClass::Write];
        all.into_iter().find(|class| class.code() == code)
    }
}

/// Who opens a data connection, and for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionHello {
    /// What the connection carries.
    pub class: ConnectionClass,
    /// The borrower, which opens the connection.
    pub node: u128,
    /// The borrower's incarnation.
    pub incarnation: u64,
    /// The control session that the connection belongs to.
    pub session: u64,
    /// The number of the connection in its session, from 1. No two connections of a borrower's session share one.
    pub connection: u64,
}

/// A hello together with its proof: the bytes on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HelloMessage {
    /// Who opens the connection, and for what.
    pub hello: ConnectionHello,
    /// That the opener knows the session's secret.
    pub proof: [u8; PROOF_BYTES],
}

/// Why bytes are no hello of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HelloError {
    /// The bytes end too early.
    #[error("a hello has {HELLO_BYTES} bytes, and {0} came; close the connection")]
    Truncated(usize),
    /// The peer speaks another protocol.
    #[error("a data connection opens with SBLD, not with {}; point only sublet's peers at this address", .0.escape_ascii())]
    Magic([u8; 4]),
    /// The peer speaks another version.
    #[error(
        "the peer opens with version {0} of the wire, and this daemon speaks {WIRE_VERSION}; upgrade the older one"
    )]
    Version(u16),
    /// The class is unknown.
    #[error("class {0} is neither 1 (reads) nor 2 (writes); close the connection")]
    Class(u8),
    /// The reserved byte is not zero.
    #[error("the reserved byte of a hello is {0}, not 0; close the connection")]
    Reserved(u8),
}

impl ConnectionHello {
    /// The bytes that the proof covers.
    pub(super) fn proven_bytes(&self) -> [u8; PROVEN_BYTES] {
        let mut bytes = [0; PROVEN_BYTES];
        put(&mut bytes, 0, MAGIC);
        put(&mut bytes, VERSION_AT, WIRE_VERSION.to_le_bytes());
        put(&mut bytes, CLASS_AT, [self.class.code()]);
        put(&mut bytes, NODE_AT, self.node.to_le_bytes());
        put(&mut bytes, INCARNATION_AT, self.incarnation.to_le_bytes());
        put(&mut bytes, SESSION_AT, self.session.to_le_bytes());
        put(&mut bytes, CONNECTION_AT, self.connection.to_le_bytes());
        bytes
    }
}

impl HelloMessage {
    /// The bytes on the wire.
    pub fn encode(&self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        put(&mut bytes, 0, self.hello.proven_bytes());
        put(&mut bytes, PROVEN_BYTES, self.proof);
        bytes
    }

    /// Reads a hello from the front of `bytes`. Its proof is not yet checked.
    ///
    /// # Errors
    ///
    /// The first field that is wrong, even if later bytes are missing.
    pub fn decode(bytes: &[u8]) -> Result<HelloMessage, HelloError> {
        refuse_early(bytes)?;
        let Some(bytes) = bytes.first_chunk::<HELLO_BYTES>() else {
            return Err(HelloError::Truncated(bytes.len()));
        };
        let [code] = field(bytes, CLASS_AT);
        let class = ConnectionClass::of(code).ok_or(HelloError::Class(code))?;
        Ok(HelloMessage {
            hello: ConnectionHello {
                class,
                node: u128::from_le_bytes(field(bytes, NODE_AT)),
                incarnation: u64::from_le_bytes(field(bytes, INCARNATION_AT)),
                session: u64::from_le_bytes(field(bytes, SESSION_AT)),
                connection: u64::from_le_bytes(field(bytes, CONNECTION_AT)),
            },
            proof: field(bytes, PROVEN_BYTES),
        })
    }
}

/// Checks the fields that have come so far.
fn refuse_early(bytes: &[u8]) -> Result<(), HelloError> {
    if let Some(magic) = bytes.first_chunk::<4>()
        && *magic != MAGIC
    {
        return Err(HelloError::Magic(*magic));
    }
    if bytes.len() >= CLASS_AT {
        let version = u16::from_le_bytes(field(bytes, VERSION_AT));
        if version != WIRE_VERSION {
            return Err(HelloError::Version(version));
        }
    }
    match bytes.get(CLASS_AT) {
        Some(code) if ConnectionClass::of(*code).is_none() => return Err(HelloError::Class(*code)),
        _ => {}
    }
    match bytes.get(RESERVED_AT) {
        Some(reserved) if *reserved != 0 => Err(HelloError::Reserved(*reserved)),
        _ => Ok(()),
    }
}

/// Collects a hello from however many bytes arrive at once.
#[derive(Clone, Debug)]
pub struct HelloReader {
    bytes: [u8; HELLO_BYTES],
    filled: usize,
}

impl Default for HelloReader {
    fn default() -> HelloReader {
        HelloReader {
            bytes: [0; HELLO_BYTES],
            filled: 0,
        }
    }
}

impl HelloReader {
    /// Takes bytes from the front of `input`, at most those of the hello. `None` if more must come.
    ///
    /// # Errors
    ///
    /// A field is wrong, and the connection must be closed. A wrong field is refused before the rest comes.
    pub fn receive(&mut self, input: &mut &[u8]) -> Result<Option<HelloMessage>, HelloError> {
        let (taken, rest) = input.split_at(input.len().min(HELLO_BYTES - self.filled));
        self.bytes[self.filled..][..taken.len()].copy_from_slice(taken);
        self.filled += taken.len();
        *input = rest;
        match HelloMessage::decode(&self.bytes[..self.filled]) {
            Ok(message) => Ok(Some(message)),
            Err(HelloError::Truncated(_)) => Ok(None),
            Err(wrong) => Err(wrong),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> HelloMessage {
        HelloMessage {
            hello: ConnectionHello {
                class: ConnectionClass::Write,
                node: 1 << 100,
                incarnation: 2,
                session: 3,
                connection: 4,
            },
            proof: [0xab; PROOF_BYTES],
        }
    }

    fn with(at: usize, value: u8) -> Result<HelloMessage, HelloError> {
        let mut bytes = message().encode();
        bytes[at] = value;
        HelloMessage::decode(&bytes)
    }

    #[test]
    fn each_wrong_field_has_its_error() {
        assert_eq!(with(3, b'X'), Err(HelloError::Magic(*b"SBLX")));
        assert_eq!(with(VERSION_AT, 2), Err(HelloError::Version(2)));
        assert_eq!(with(VERSION_AT + 1, 1), Err(HelloError::Version(257)));
        assert_eq!(with(CLASS_AT, 0), Err(HelloError::Class(0)));
        assert_eq!(with(CLASS_AT, 3), Err(HelloError::Class(3)));
        assert_eq!(with(RESERVED_AT, 1), Err(HelloError::Reserved(1)));
        assert_eq!(with(CLASS_AT, 2), Ok(message()));
    }

    #[test]
    fn every_shorter_hello_is_truncated() {
        let bytes = message().encode();
        for len in 0..HELLO_BYTES {
            let truncated = Err(HelloError::Truncated(len));
            assert_eq!(HelloMessage::decode(&bytes[..len]), truncated);
        }
    }

    #[test]
    fn a_stranger_is_refused_at_its_first_bytes() {
        let mut reader = HelloReader::default();
        let mut first = &b"GE"[..];
        assert_eq!(reader.receive(&mut first), Ok(None));
        let mut rest = &b"T / HTTP/1.1\r\n"[..];
        let refused = reader.receive(&mut rest);
        assert_eq!(refused, Err(HelloError::Magic(*b"GET ")));
    }
}
