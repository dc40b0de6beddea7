//! Why a call to a store failed.

use std::io;
use std::time::Duration;

use crate::answers::AnswerFault;
use crate::gateway::Endpoint;

/// Why a call to a store failed. A call that was sent may have taken effect all the same.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no connection to the endpoint, or it broke.
    #[error(
        "no etcd answers at {endpoint}: {source}; check the address, and whether etcd runs there"
    )]
    Unreachable {
        /// The endpoint.
        endpoint: Endpoint,
        /// What the system or the connection says.
        source: io::Error,
    },
    /// The endpoint took too long.
    #[error(
        "etcd at {endpoint} did not answer within {limit:?}; it may be overloaded or cut off from the other members"
    )]
    TimedOut {
        /// The endpoint.
        endpoint: Endpoint,
        /// How long an answer may take.
        limit: Duration,
    },
    /// The endpoint's certificate cannot be trusted, or the endpoint does not accept this node's.
    #[error(
        "TLS with etcd at {endpoint} failed: {source}; check the authority, this node's certificate for etcd, and the name in the address"
    )]
    Tls {
        /// The endpoint.
        endpoint: Endpoint,
        /// What TLS says.
        source: Box<rustls::Error>,
    },
    /// The member cannot serve now: it has no leader, or is too busy.
    #[error(
        "etcd at {endpoint} cannot serve now: {message}; see `etcdctl endpoint status --cluster`"
    )]
    Unavailable {
        /// The endpoint.
        endpoint: Endpoint,
        /// What etcd says.
        message: String,
    },
    /// etcd refuses the user and password.
    #[error(
        "etcd at {endpoint} refuses the user {user}: {message}; check the name and the password file"
    )]
    LoginRefused {
        /// The endpoint.
        endpoint: Endpoint,
        /// The user.
        user: String,
        /// What etcd says.
        message: String,
    },
    /// etcd wants a user, and none is configured.
    #[error("etcd at {endpoint} wants a user and a password, and this node's settings name none")]
    NoUser {
        /// The endpoint.
        endpoint: Endpoint,
    },
    /// etcd does not know the token. It is old, or the member was restarted.
    #[error("etcd at {endpoint} does not accept a new token: {message}")]
    TokenRefused {
        /// The endpoint.
        endpoint: Endpoint,
        /// What etcd says.
        message: String,
    },
    /// The user may not do that.
    #[error(
        "etcd at {endpoint} does not permit that: {message}; grant the user's role readwrite on the cluster's prefix"
    )]
    Denied {
        /// The endpoint.
        endpoint: Endpoint,
        /// What etcd says.
        message: String,
    },
    /// The lease has ended.
    #[error("the lease has ended")]
    LeaseGone,
    /// etcd refuses for another reason.
    #[error(
        "etcd at {endpoint} refuses (HTTP status {status}): {message}; {}",
        remedy(.message)
    )]
    Refused {
        /// The endpoint.
        endpoint: Endpoint,
        /// The HTTP status.
        status: u16,
        /// What etcd says.
        message: String,
    },
    /// The answer is none of etcd's gateway.
    #[error("what answers at {endpoint} does not speak as etcd's JSON gateway does: {fault}")]
    Garbled {
        /// The endpoint.
        endpoint: Endpoint,
        /// What is wrong with it.
        fault: AnswerFault,
    },
}

/// What to do about a refusal of which etcd says no more than this.
fn remedy(message: &str) -> &'static str {
    match message.contains("CommonName") {
        true => {
            "with --client-cert-auth, the certificate for etcd must be one without a common name"
        }
        false => "the gateway of etcd 3.4 or later is needed",
    }
}

/// Whether another endpoint may do what one did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultScope {
    /// The fault is this endpoint's.
    Endpoint,
    /// All endpoints would answer so.
    Cluster,
}

impl StoreError {
    /// Returns whose fault it is.
    pub(crate) fn scope(&self) -> FaultScope {
        match self {
            StoreError::Unreachable { .. }
            | StoreError::TimedOut { .. }
            | StoreError::Tls { .. }
            | StoreError::Unavailable { .. }
            | StoreError::TokenRefused { .. }
            | StoreError::Garbled { .. } => FaultScope::Endpoint,
            StoreError::LoginRefused { .. }
            | StoreError::NoUser { .. }
            | StoreError::Denied { .. }
            | StoreError::LeaseGone
            | StoreError::Refused { .. } => FaultScope::Cluster,
        }
    }
}
