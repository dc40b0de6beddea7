//! The token by which etcd knows the node's user.

use std::sync::Arc;

use tokio::sync::Mutex;
use zeroize::Zeroizing;

use super::settings::EtcdUser;

/// What a call says about its user.
#[derive(Clone)]
pub(super) enum CallToken {
    /// Nothing: there is no user, or etcd has no users.
    None,
    /// This token.
    Token(Arc<Zeroizing<String>>),
}

/// The user, and the token if one is known. Calls that need a new one wait for the first that asks for it.
pub(super) struct UserTokens {
    pub(super) user: EtcdUser,
    pub(super) known: Mutex<Option<CallToken>>,
}

impl CallToken {
    pub(super) fn as_str(&self) -> Option<&str> {
        match self {
            CallToken::None => None,
            CallToken::Token(token) => Some(token.as_str()),
        }
    }

    /// Returns whether both are the same, not only alike.
    fn is(&self, other: &CallToken) -> bool {
        match (self, other) {
            (CallToken::None, CallToken::None) => true,
            (CallToken::Token(one), CallToken::Token(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl UserTokens {
    pub(super) fn new(user: EtcdUser) -> UserTokens {
        UserTokens {
            user,
            known: Mutex::new(None),
        }
    }

    /// Forgets a token that was refused, unless another call has a newer one already.
    pub(super) async fn forget(&self, refused: &CallToken) {
        let mut known = self.known.lock().await;
        if known.as_ref().is_some_and(|known| known.is(refused)) {
            *known = None;
        }
    }
}
