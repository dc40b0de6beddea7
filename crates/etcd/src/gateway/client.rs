//! The client: which endpoint is asked, with which token, and how often.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper::body::Bytes;

use crate::answers::{
    AnswerFault, FaultKind, GatewayFault, decode_campaign, decode_grant, decode_put, decode_range,
    decode_renewal, decode_token,
};
use crate::questions;
use crate::store::{
    ClusterStore, Entry, FaultScope, LeaseGrant, LeaseId, PrefixSnapshot, Renewal, Revision,
    StoreError, Term, WatchEnd,
};

use super::connection_pool::ConnectionPool;
use super::endpoint::Endpoint;
use super::exchange::{GatewayAnswer, GatewayRequest, exchange, refusal};
use super::gateway_watch::GatewayWatch;
use super::settings::{CallTimes, GatewaySettings, GatewaySettingsError};
use super::tls::EtcdTls;
use super::token::{CallToken, UserTokens};

/// The status of an answer whose stream has an error in it.
const STREAM_STATUS: u16 = 200;

/// A client of etcd's JSON gateway. It connects when it is first asked.
pub struct GatewayClient {
    pools: Vec<ConnectionPool>,
    /// The endpoint that answered last.
    current: AtomicUsize,
    /// The endpoint at which the next watch begins. Watches change places, so that none stays at a member that is
    /// half dead.
    next_watch: AtomicUsize,
    tls: Option<EtcdTls>,
    tokens: Option<UserTokens>,
    times: CallTimes,
}

/// What is asked of whichever endpoint answers.
struct GatewayCall {
    path: &'static str,
    body: Bytes,
    limit: Duration,
}

/// An answer, or an error that stands in it.
type Decoded<T> = Result<Result<T, GatewayFault>, AnswerFault>;

impl GatewayClient {
    /// A client with these settings.
    ///
    /// # Errors
    ///
    /// The settings cannot work. The error says what to change.
    pub fn new(settings: GatewaySettings) -> Result<GatewayClient, GatewaySettingsError> {
        settings.check()?;
        let first = (settings.seed % settings.endpoints.len() as u64) as usize;
        Ok(GatewayClient {
            pools: settings
                .endpoints
                .into_iter()
                .map(ConnectionPool::new)
                .collect(),
            current: AtomicUsize::new(first),
            next_watch: AtomicUsize::new(first),
            tls: settings.tls,
            tokens: settings.user.map(UserTokens::new),
            times: settings.times,
        })
    }

    /// Asks for anything else, as operators do.
    #[cfg(test)]
    pub(crate) async fn ask(
        &self,
        path: &'static str,
        question: &serde_json::Value,
    ) -> Result<serde_json::Value, StoreError> {
        let call = self.usual_call(path, question.to_string().into_bytes());
        let parse = |answer: &[u8]| {
            let what = "anything";
            let parsed = serde_json::from_slice(answer);
            parsed
                .map(Ok)
                .map_err(|source| AnswerFault::NotJson { what, source })
        };
        self.call(call, parse).await
    }

    fn usual_call(&self, path: &'static str, body: Vec<u8>) -> GatewayCall {
        let limit = self.times.call;
        let body = body.into();
        GatewayCall { path, body, limit }
    }

    /// The endpoints in the order in which they are tried.
    fn turns_from(&self, first: usize) -> impl Iterator<Item = usize> + use<> {
        let count = self.pools.len();
        (0..count).map(move |turn| (first % count + turn) % count)
    }

    /// Makes a call at one endpoint after the other, until one of them answers for all.
    async fn call<T>(
        &self,
        call: GatewayCall,
        decode: impl Fn(&[u8]) -> Decoded<T>,
    ) -> Result<T, StoreError> {
        let mut last = None;
        for turn in self.turns_from(self.current.load(Ordering::Relaxed)) {
            match self.call_at(&self.pools[turn], &call, &decode).await {
                Err(error) if error.scope() == FaultScope::Endpoint => last = Some(error),
                outcome => {
                    self.current.store(turn, Ordering::Relaxed);
                    return outcome;
                }
            }
        }
        Err(last.unwrap_or_else(no_endpoint))
    }

    /// Makes a call at an endpoint. If the token is refused, it makes the call once more with a new one.
    async fn call_at<T>(
        &self,
        pool: &ConnectionPool,
        call: &GatewayCall,
        decode: &impl Fn(&[u8]) -> Decoded<T>,
    ) -> Result<T, StoreError> {
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
        let fresh = self.log_in(pool, tokens).await?;
        *known = Some(fresh.clone());
        Ok(fresh)
    }

    async fn log_in(
        &self,
        pool: &ConnectionPool,
        tokens: &UserTokens,
    ) -> Result<CallToken, StoreError> {
        let user = &tokens.user;
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
    async fn watch_at(
        &self,
        pool: &ConnectionPool,
        question: &Bytes,
    ) -> Result<GatewayWatch, WatchEnd> {
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

impl ClusterStore for GatewayClient {
    type Watch = GatewayWatch;

    async fn grant(&self, ttl: Duration) -> Result<LeaseGrant, StoreError> {
        let call = self.usual_call("/v3/lease/grant", questions::grant(ttl));
        self.call(call, |answer| decode_grant(answer).map(Ok)).await
    }

    async fn renew(&self, lease: LeaseId) -> Result<Renewal, StoreError> {
        let call = GatewayCall {
            path: "/v3/lease/keepalive",
            body: questions::lease(lease).into(),
            limit: self.times.renewal,
        };
        let renewed = self
            .call(call, |answer| decode_renewal(lease, answer))
            .await;
        match renewed {
            Err(StoreError::LeaseGone) => Ok(Renewal::Gone),
            renewed => renewed,
        }
    }

    async fn revoke(&self, lease: LeaseId) -> Result<(), StoreError> {
        let call = self.usual_call("/v3/lease/revoke", questions::lease(lease));
        match self.call(call, |_| Ok(Ok(()))).await {
            Err(StoreError::LeaseGone) => Ok(()),
            revoked => revoked,
        }
    }

    async fn put(&self, key: &str, value: &[u8], lease: LeaseId) -> Result<Revision, StoreError> {
        let call = self.usual_call("/v3/kv/put", questions::put(key, value, lease));
        self.call(call, |answer| decode_put(answer).map(Ok)).await
    }

    async fn read(&self, prefix: &str) -> Result<PrefixSnapshot, StoreError> {
        let call = self.usual_call("/v3/kv/range", questions::range(prefix));
        self.call(call, |answer| decode_range(answer).map(Ok)).await
    }

    async fn watch(&self, prefix: &str, from: Revision) -> Result<GatewayWatch, WatchEnd> {
        let question = Bytes::from(questions::watch(prefix, from));
        let mut last = None;
        for turn in self.turns_from(self.next_watch.fetch_add(1, Ordering::Relaxed)) {
            match self.watch_at(&self.pools[turn], &question).await {
                Err(WatchEnd::Cut(error)) if error.scope() == FaultScope::Endpoint => {
                    last = Some(error);
                }
                outcome => return outcome,
            }
        }
        Err(WatchEnd::Cut(last.unwrap_or_else(no_endpoint)))
    }

    async fn campaign(&self, key: &str, value: &[u8], lease: LeaseId) -> Result<Entry, StoreError> {
        let call = self.usual_call("/v3/kv/txn", questions::campaign(key, value, lease));
        self.call(call, |answer| decode_campaign(answer).map(Ok))
            .await
    }

    async fn resign(&self, key: &str, term: Term) -> Result<(), StoreError> {
        let call = self.usual_call("/v3/kv/txn", questions::resign(key, term));
        self.call(call, |_| Ok(Ok(()))).await
    }
}

/// Returns whether a new token may help.
fn is_of_token(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::TokenRefused { .. } | StoreError::NoUser { .. }
    )
}

/// The settings have at least one endpoint, so each call has been tried at one.
fn no_endpoint() -> StoreError {
    StoreError::Unreachable {
        endpoint: Endpoint::default(),
        source: std::io::ErrorKind::AddrNotAvailable.into(),
    }
}
