//! SASL with the one mechanism that clients use here: PLAIN (RFC 4616).

use super::super::session::{After, Ran};
use super::wire::{Status, Verb};
use super::{Request, value};

const MECHANISM: &[u8] = b"PLAIN";

/// The longest name of a mechanism that is read.
const MECHANISM_MAX: usize = 32;

/// The longest user and password that are read, bytes.
const TOKEN_MAX: usize = 16 << 10;

/// Whether a client that has not shown who it is may ask this.
pub(super) fn is_open_to_all(verb: Verb) -> bool {
    matches!(
        verb,
        Verb::SaslList | Verb::SaslAuth | Verb::SaslStep | Verb::Version
    )
}

impl Request<'_> {
    pub(super) fn list_mechanisms(&self, out: &mut Vec<u8>) -> Ran {
        match self.turn.face.settings.sasl {
            true => self.say(MECHANISM, out),
            false => self.fail(Status::UnknownCommand, out),
        }
    }

    pub(super) fn authenticate(&self, after: After<'_>, out: &mut Vec<u8>) -> Ran {
        let body = self.packet.value_len();
        let refusal = match self.turn.face.settings.sasl {
            false => Some(Status::UnknownCommand),
            true if self.packet.key().len() > MECHANISM_MAX => Some(Status::InvalidArguments),
            true if body > TOKEN_MAX => Some(Status::OutOfMemory),
            true => None,
        };
        match (refusal, after) {
            (Some(status), _) => self.swallow(status, out),
            (None, After::NoMemory) => self.swallow(Status::OutOfMemory, out),
            (None, After::Input(after)) => match value(self.packet, after) {
                Err(awaits) => awaits,
                Ok(token) => self.check(token, out),
            },
        }
    }

    /// PLAIN has no second step.
    pub(super) fn step(&self, after: After<'_>, out: &mut Vec<u8>) -> Ran {
        let _ = after;
        if !self.turn.face.settings.sasl {
            return self.swallow(Status::UnknownCommand, out);
        }
        self.turn.counters().auth_cmds.bump();
        self.turn.counters().auth_errors.bump();
        self.swallow(Status::AuthFailure, out)
    }

    fn swallow(&self, status: Status, out: &mut Vec<u8>) -> Ran {
        self.packet.fail(status, out);
        Ran::Swallow {
            body: self.packet.value_len(),
        }
    }

    fn check(&self, token: &[u8], out: &mut Vec<u8>) -> Ran {
        let after = token.len();
        self.turn.counters().auth_cmds.bump();
        let admitted = match self.packet.key() == MECHANISM {
            true => plain(token).and_then(|(user, password)| self.turn.face.admit(user, password)),
            false => None,
        };
        match admitted {
            Some(tenant) => {
                self.say(b"Authenticated", out);
                Ran::Admit { after, tenant }
            }
            None => {
                self.turn.counters().auth_errors.bump();
                self.packet.fail(Status::AuthFailure, out);
                Ran::Done { after }
            }
        }
    }
}

/// `[authorisation id] NUL user NUL password`.
fn plain(token: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut parts = token.splitn(3, |&byte| byte == 0);
    let (_, user, password) = (parts.next()?, parts.next()?, parts.next()?);
    Some((user, password))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_has_three_parts() {
        assert_eq!(
            plain(b"\0user\0pass"),
            Some((b"user".as_slice(), b"pass".as_slice()))
        );
        assert_eq!(
            plain(b"other\0user\0a\0b"),
            Some((b"user".as_slice(), b"a\0b".as_slice()))
        );
        assert_eq!(plain(b"user\0pass"), None);
    }
}
