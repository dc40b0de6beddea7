//! The connections to etcd with one set of credentials, and the token of the user.
//!
//! Fresh credentials get connections of their own. What began over the old ones ends over them.

use std::sync::Arc;

use hyper::body::Bytes;

use crate::answers::{AnswerFault, FaultKind, GatewayFault, decode_token};
use crate::questions;
use crate::store::{StoreError, WatchEnd};

use super::connection_pool::ConnectionPool;
use super::exchange::{GatewayAnswer, GatewayCall, GatewayRequest, exchange, refusal};
use super::gateway_watch::GatewayWatch;
use super::settings::{CallTimes, EtcdUser, GatewaySettings, RenewedCredentials};
use super::tls::EtcdTls;
use super::token::{CallToken, UserTokens};

/// The status of an answer whose stream has an error in it.
const STREAM_STATUS: u16 = 200;

/// An answer, or an error that stands in it.
pub(super) type Decoded<T> = Result<Result<T, GatewayFault>, AnswerFault>;

/// The connections to all endpoints with one set of credentials.
pub(super) struct GatewayConnections {
    pools: Vec<ConnectionPool>,
    tls: Option<EtcdTls>,
    tokens: Option<Arc<UserTokens>>,
    times: CallTimes,
}

impl GatewayConnections {
    /// No connection yet. The settings were checked.
    pub(super) fn new(settings: GatewaySettings) -> GatewayConnections {
        let endpoints = settings.endpoints.into_iter();
        GatewayConnections {
            pools: endpoints.map(ConnectionPool::new).collect(),
            tls: settings.tls,
            tokens: settings.user.map(|user| Arc::new(UserTokens::new(user))),
            times: settings.times,
        }
    }

    /// No connection yet, to the same endpoints. What was not read anew stays. A token lasts as long as its password, for
    /// etcd takes long to make one.
    pub(super) fn renewed(&self, fresh: RenewedCredentials) -> GatewayConnections {
        let endpoints = self.pools.iter().map(|pool| pool.endpoint.clone());
        let tokens = self.tokens.clone().map(|tokens| match fresh.password {
            Some(password) if password != tokens.user.password => {
                let name = tokens.user.name.clone();
                Arc::new(UserTokens::new(EtcdUser { name, password }))
            }
            _ => tokens,
        });
        GatewayConnections {
            pools: endpoints.map(ConnectionPool::new).collect(),
            tls: fresh.tls.or_else(|| self.tls.clone()),
            tokens,
            times: self.times,
        }
    }

    /// The number of endpoints.
    pub(super) fn endpoints(&self) -> usize {
        self.pools.len()
    }

    /// Makes a call at an endpoint. If the token is refused, it makes the call once more with a new one.
    pub(super) async fn call_at<T>(
        &self,
        endpoint: usize,
        call: &GatewayCall,
        decode: &impl Fn(&[u8]) -> Decoded<T>,
    ) -> Result<T, StoreError> {
        let pool = &self.pools[endpoint];
        let token = self.token(pool).await?;
        let outcome = self.call_with(pool, call, &token, decode).await;
        match (&outcome, &self.tokens) {
            (Err(error), Some(tokens)) if is_of_token(error) => {
                tokens.forget(&token).await;
                let fresh = self.token(pool).await?;
                self.call_with(pool, call, &fresh, decode).await
            }
            _ => outcome,
        }
    }

    async fn call_with<T>(
        &self,
        pool: &ConnectionPool,
        call: &GatewayCall,
        token: &CallToken,
        decode: &impl Fn(&[u8]) -> Decoded<T>,
    ) -> Result<T, StoreError> {
        let request = GatewayRequest {
            path: call.path,
            body: call.body.clone(),
            token: token.as_str(),
            limit: call.limit,
        };
        let answer = match exchange(pool, self.tls.as_ref(), &request).await? {
            GatewayAnswer::Body(answer) => answer,
            GatewayAnswer::Fault { status, fault } => {
                return Err(refusal(&pool.endpoint, status, fault));
            }
        };
        match decode(&answer) {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(fault)) => Err(refusal(&pool.endpoint, STREAM_STATUS, fault)),
            Err(fault) => Err(StoreError::Garbled {
                endpoint: pool.endpoint.clone(),
                fault,
            }),
        }
    }

    /// Returns the token to send, and asks this endpoint for one if none is known.
    async fn token(&self, pool: &ConnectionPool) -> Result<CallToken, StoreError> {
        let Some(tokens) = &self.tokens else {
            return Ok(CallToken::None);
        };
        let mut known = tokens.known.lock().await;
        if let Some(token) = &*known {
            return Ok(token.clone());
        }
        let fresh = self.log_in(pool, &tokens.user).await?;
        *known = Some(fresh.clone());
        Ok(fresh)
    }

    async fn log_in(
        &self,
        pool: &ConnectionPool,
        user: &EtcdUser,
    ) -> Result<CallToken, StoreError> {
        let body = questions::authenticate(&user.name, &user.password);
        let request = GatewayRequest {
            path: "/v3/auth/authenticate",
            body: Bytes::copy_from_slice(&body),
            token: None,
            limit: self.times.login,
        };
        let endpoint = pool.endpoint.clone();
        match exchange(pool, self.tls.as_ref(), &request).await? {
            GatewayAnswer::Body(answer) => match decode_token(&answer) {
                Ok(token) => Ok(CallToken::Token(token.into())),
                Err(fault) => Err(StoreError::Garbled { endpoint, fault }),
            },
            GatewayAnswer::Fault { status, fault } => match fault.kind() {
                // etcd has no users yet, or no more. It refuses the first call without a token once it has.
                FaultKind::NoAuthentication => Ok(CallToken::None),
                FaultKind::Unavailable => Err(refusal(&endpoint, status, fault)),
                _ => Err(StoreError::LoginRefused {
                    endpoint,
                    user: user.name.clone(),
                    message: fault.message,
                }),
            },
        }
    }

    /// Opens a watch at an endpoint. If the token is refused, it tries once more with a new one. etcd 3.4 calls a token
    /// that it does not know a lack of permission there.
    pub(super) async fn watch_at(
        &self,
        endpoint: usize,
        question: &Bytes,
    ) -> Result<GatewayWatch, WatchEnd> {
        let pool = &self.pools[endpoint];
        let token = self.token(pool).await.map_err(WatchEnd::Cut)?;
        let outcome = self.watch_with(pool, question, &token).await;
        match (&outcome, &self.tokens) {
            (Err(WatchEnd::Cut(error)), Some(tokens))
                if is_of_token(error) || matches!(error, StoreError::Denied { .. }) =>
            {
                tokens.forget(&token).await;
                let fresh = self.token(pool).await.map_err(WatchEnd::Cut)?;
                self.watch_with(pool, question, &fresh).await
            }
            _ => outcome,
        }
    }

    async fn watch_with(
        &self,
        pool: &ConnectionPool,
        question: &Bytes,
        token: &CallToken,
    ) -> Result<GatewayWatch, WatchEnd> {
        let request = GatewayRequest {
            path: "/v3/watch",
            body: question.clone(),
            token: token.as_str(),
            limit: self.times.call,
        };
        let tls = self.tls.as_ref();
        GatewayWatch::open(&pool.endpoint, tls, &request, self.times.silence).await
    }
}

/// Returns whether a new token may help.
fn is_of_token(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::TokenRefused { .. } | StoreError::NoUser { .. }
    )
}
