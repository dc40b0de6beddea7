//! SASL with its only mechanism here, PLAIN (RFC 4616).

use super::request::{BinaryRequest, value};
use crate::memcached::outcome::{RequestBody, RequestOutcome};
use crate::memcached::passwords::Login;
use crate::memcached::wire::packet::{BinaryCommand, ResponseStatus};

const MECHANISM: &[u8] = b"PLAIN";

/// The longest name of a mechanism that is read, in bytes.
const MECHANISM_MAX: usize = 32;

/// The longest user and password that are read, in bytes.
const TOKEN_MAX: usize = 16 << 10;

/// Returns whether a client may run this command before it authenticates.
pub(super) fn needs_no_login(verb: BinaryCommand) -> bool {
    matches!(
        verb,
        BinaryCommand::SaslList
            | BinaryCommand::SaslAuth
            | BinaryCommand::SaslStep
            | BinaryCommand::Version
    )
}

impl BinaryRequest<'_> {
    /// Lists the mechanisms. A client that asks for them begins a new login and counts as unknown until then.
    pub(super) fn list_mechanisms(&self, out: &mut Vec<u8>) -> RequestOutcome {
        if !self.caller.instance.settings.sasl {
            return self.fail(ResponseStatus::UnknownCommand, out);
        }
        self.reply_text(MECHANISM, out);
        RequestOutcome::Deauthenticated { body: 0 }
    }

    pub(super) fn authenticate(&self, after: RequestBody<'_>, out: &mut Vec<u8>) -> RequestOutcome {
        let body = self.packet.value_len();
        let refusal = match self.caller.instance.settings.sasl {
            false => Some(ResponseStatus::UnknownCommand),
            true if self.packet.key().len() > MECHANISM_MAX => {
                Some(ResponseStatus::InvalidArguments)
            }
            true if body > TOKEN_MAX => Some(ResponseStatus::OutOfMemory),
            true => None,
        };
        match (refusal, after) {
            (Some(ResponseStatus::UnknownCommand), _) => {
                self.swallow(ResponseStatus::UnknownCommand, out)
            }
            (Some(status), _) => self.deauthenticate(status, out),
            (None, RequestBody::NoMemory) => self.deauthenticate(ResponseStatus::OutOfMemory, out),
            (None, RequestBody::Input(after)) => match value(self.packet, after) {
                Err(awaits) => awaits,
                Ok(token) => self.check_login(token, out),
            },
        }
    }

    /// Refuses a second step, because PLAIN has none.
    pub(super) fn step(&self, after: RequestBody<'_>, out: &mut Vec<u8>) -> RequestOutcome {
        let _ = after;
        if !self.caller.instance.settings.sasl {
            return self.swallow(ResponseStatus::UnknownCommand, out);
        }
        self.caller.counters().auth_cmds.bump();
        self.caller.counters().auth_errors.bump();
        self.deauthenticate(ResponseStatus::AuthFailure, out)
    }

    fn swallow(&self, status: ResponseStatus, out: &mut Vec<u8>) -> RequestOutcome {
        self.packet.fail(status, out);
        RequestOutcome::Swallow {
            body: self.packet.value_len(),
        }
    }

    /// Replies to a failed login. The client counts as unknown from now on, even if it logged in before on this
    /// connection.
    fn deauthenticate(&self, status: ResponseStatus, out: &mut Vec<u8>) -> RequestOutcome {
        self.packet.fail(status, out);
        RequestOutcome::Deauthenticated {
            body: self.packet.value_len(),
        }
    }

    fn check_login(&self, token: &[u8], out: &mut Vec<u8>) -> RequestOutcome {
        self.caller.counters().auth_cmds.bump();
        let login = plain(token).filter(|_| self.packet.key() == MECHANISM);
        match login.and_then(|login| self.caller.instance.authenticate(&login)) {
            Some(tenant) => {
                self.reply_text(b"Authenticated", out);
                let body = token.len();
                RequestOutcome::Authenticated { body, tenant }
            }
            None => {
                self.caller.counters().auth_errors.bump();
                self.deauthenticate(ResponseStatus::AuthFailure, out)
            }
        }
    }
}

/// Parses `[authorization id] NUL user NUL password`.
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
