//! SASL with the one mechanism that clients use here: PLAIN (RFC 4616).

use super::request::{Request, value};
use crate::memcached::outcome::{After, Ran};
use crate::memcached::passwords::Login;
use crate::memcached::wire::packet::{Status, Verb};

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
    /// Whoever asks begins to log in anew, and is nobody until then.
    pub(super) fn list_mechanisms(&self, out: &mut Vec<u8>) -> Ran {
        if !self.caller.instance.settings.sasl {
            return self.fail(Status::UnknownCommand, out);
        }
        self.say(MECHANISM, out);
        Ran::Disown { body: 0 }
    }

    pub(super) fn authenticate(&self, after: After<'_>, out: &mut Vec<u8>) -> Ran {
        let body = self.packet.value_len();
        let refusal = match self.caller.instance.settings.sasl {
            false => Some(Status::UnknownCommand),
            true if self.packet.key().len() > MECHANISM_MAX => Some(Status::InvalidArguments),
            true if body > TOKEN_MAX => Some(Status::OutOfMemory),
            true => None,
        };
        match (refusal, after) {
            (Some(Status::UnknownCommand), _) => self.swallow(Status::UnknownCommand, out),
            (Some(status), _) => self.disown(status, out),
            (None, After::NoMemory) => self.disown(Status::OutOfMemory, out),
            (None, After::Input(after)) => match value(self.packet, after) {
                Err(awaits) => awaits,
                Ok(token) => self.check(token, out),
            },
        }
    }

    /// PLAIN has no second step.
    pub(super) fn step(&self, after: After<'_>, out: &mut Vec<u8>) -> Ran {
        let _ = after;
        if !self.caller.instance.settings.sasl {
            return self.swallow(Status::UnknownCommand, out);
        }
        self.caller.counters().auth_cmds.bump();
        self.caller.counters().auth_errors.bump();
        self.disown(Status::AuthFailure, out)
    }

    fn swallow(&self, status: Status, out: &mut Vec<u8>) -> Ran {
        self.packet.fail(status, out);
        Ran::Swallow {
            body: self.packet.value_len(),
        }
    }

    /// A login that failed: its client is nobody, also where somebody logged in before on this connection.
    fn disown(&self, status: Status, out: &mut Vec<u8>) -> Ran {
        self.packet.fail(status, out);
        Ran::Disown {
            body: self.packet.value_len(),
        }
    }

    fn check(&self, token: &[u8], out: &mut Vec<u8>) -> Ran {
        self.caller.counters().auth_cmds.bump();
        let login = plain(token).filter(|_| self.packet.key() == MECHANISM);
        match login.and_then(|login| self.caller.instance.admit(&login)) {
            Some(tenant) => {
                self.say(b"Authenticated", out);
                let after = token.len();
                Ran::Admit { after, tenant }
            }
            None => {
                self.caller.counters().auth_errors.bump();
                self.disown(Status::AuthFailure, out)
            }
        }
    }
}

/// `[authorization id] NUL user NUL password`.
fn plain(token: &[u8]) -> Option<Login<'_>> {
    let mut parts = token.splitn(3, |&byte| byte == 0);
    let (acts_as, user, password) = (parts.next()?, parts.next()?, parts.next()?);
    Some(Login {
        acts_as,
        ..Login::of(user, password)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_has_three_parts() {
        assert_eq!(plain(b"\0user\0pass"), Some(Login::of(b"user", b"pass")));
        let acting = Login {
            acts_as: b"other",
            ..Login::of(b"user", b"a\0b")
        };
        assert_eq!(plain(b"other\0user\0a\0b"), Some(acting));
        assert_eq!(plain(b"user\0pass"), None);
    }
}
