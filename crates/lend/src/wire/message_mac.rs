//! The authentication code of a message: AEGIS-128L-MAC over all that comes before it.

use aegis::aegis128l::Aegis128LMac;

use super::fields::put;
use super::head::MessageTag;
use super::limits::MAC_BYTES;
use super::session_keys::MacKey;

/// Bytes of a nonce of AEGIS-128L.
const NONCE_BYTES: usize = 16;

/// Makes and checks the codes of one data connection in one direction.
///
/// The nonce is the message's tag. So a key must see each tag once, which `TagSequencer` and `ReplayGuard` uphold.
#[derive(Clone, Debug)]
pub struct MessageMac {
    key: MacKey,
}

impl MessageMac {
    /// Codes under this key.
    pub fn new(key: MacKey) -> MessageMac {
        MessageMac { key }
    }

    /// The code of the message `tag`, whose head and ranges, or head and set of pages, are `covered`.
    pub fn code(&self, tag: MessageTag, covered: &[u8]) -> [u8; MAC_BYTES] {
        self.state(tag, covered).finalize()
    }

    /// Returns whether `code` is that of the message. The time that it takes does not depend on the code.
    pub fn verifies(&self, tag: MessageTag, covered: &[u8], code: &[u8; MAC_BYTES]) -> bool {
        self.state(tag, covered).verify(code).is_ok()
    }

    fn state(&self, tag: MessageTag, covered: &[u8]) -> Aegis128LMac<MAC_BYTES> {
        let mut nonce = [0; NONCE_BYTES];
        put(&mut nonce, 0, tag.0.to_le_bytes());
        let mut state = Aegis128LMac::new_with_nonce(self.key.bytes(), &nonce);
        state.update(covered);
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_depends_on_key_tag_and_every_bit() {
        let mac = MessageMac::new(MacKey::new([1; 16]));
        let covered = [7; 40];
        let code = mac.code(MessageTag(9), &covered);
        assert!(mac.verifies(MessageTag(9), &covered, &code));
        assert!(!mac.verifies(MessageTag(8), &covered, &code));
        assert!(!mac.verifies(MessageTag(9), &covered[1..], &code));
        let other = MessageMac::new(MacKey::new([2; 16]));
        assert!(!other.verifies(MessageTag(9), &covered, &code));
        for bit in 0..covered.len() * 8 {
            let mut changed = covered;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(!mac.verifies(MessageTag(9), &changed, &code));
        }
    }
}
