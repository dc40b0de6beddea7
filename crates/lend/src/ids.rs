//! Names and numbers by which two daemons speak of each other, of their sessions and of leases.

use std::fmt;

use serde::{Deserialize, Serialize};
pub use sublet_types::{ClusterName, LentBlock, NodeName};

/// Why a text is no hexadecimal number of a fixed length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a hexadecimal number is to have {digits} digits from 0 to 9 and a to f")]
pub struct HexError {
    /// The digits it is to have.
    pub digits: usize,
}

fn bytes_of_hex<const N: usize>(text: &str) -> Result<[u8; N], HexError> {
    let wrong = HexError { digits: 2 * N };
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Ok(byte - b'0'),
        b'a'..=b'f' => Ok(byte - b'a' + 10),
        _ => Err(wrong),
    };
    let text = text.as_bytes();
    if text.len() != 2 * N {
        return Err(wrong);
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Ok(bytes)
}

fn hex_of_bytes(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value)]);
    let digits = bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
    digits.collect()
}

/// One run of a daemon: a random number that it draws at its start. It travels as 16 hexadecimal digits, because
/// readers of JSON keep only 53 bits of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Incarnation(pub u64);

impl TryFrom<String> for Incarnation {
    type Error = HexError;

    fn try_from(text: String) -> Result<Incarnation, HexError> {
        bytes_of_hex(&text).map(|bytes| Incarnation(u64::from_be_bytes(bytes)))
    }
}

impl From<Incarnation> for String {
    fn from(incarnation: Incarnation) -> String {
        hex_of_bytes(&incarnation.0.to_be_bytes())
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// 32 random bytes that one end contributes to a session's keys. They travel as hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionNonce(pub [u8; 32]);

impl TryFrom<String> for SessionNonce {
    type Error = HexError;

    fn try_from(text: String) -> Result<SessionNonce, HexError> {
        bytes_of_hex(&text).map(SessionNonce)
    }
}

impl From<SessionNonce> for String {
    fn from(nonce: SessionNonce) -> String {
        hex_of_bytes(&nonce.0)
    }
}

/// A control session, by the number that one end gave it. The numbers of an incarnation rise, and none comes twice.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct SessionId(pub u64);

/// A lease, by the number that its lender gave it. The numbers of a lender's incarnation rise, and none comes twice.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct LeaseId(pub u32);

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A leader's term. A later leader's is higher.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Term(pub u64);

/// Where a node stands, by the name of its rack. It is written like a node's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RackName(pub NodeName);

/// A peer, by its place in this node's list of members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u16);

impl PeerId {
    /// The place in tables of peers.
    pub(crate) fn slot(self) -> usize {
        usize::from(self.0)
    }
}

/// A control connection, by the number that the host gave it. None comes twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_travel_as_digits() {
        let text = String::from(Incarnation(0x0123_4567_89ab_cdef));
        assert_eq!(text, "0123456789abcdef");
        assert_eq!(
            Incarnation::try_from(text),
            Ok(Incarnation(0x0123_4567_89ab_cdef))
        );
        for wrong in [
            "",
            "0123456789abcde",
            "0123456789ABCDEF",
            "0123456789abcdefg",
            "é123456789abcde",
        ] {
            assert_eq!(
                Incarnation::try_from(wrong.to_owned()),
                Err(HexError { digits: 16 }),
                "{wrong}"
            );
        }
    }
}
