//! The client: which endpoint is asked, and over whose connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper::body::Bytes;
use tokio::sync::watch;

#[cfg(test)]
use crate::answers::AnswerFault;
use crate::answers::{decode_campaign, decode_grant, decode_put, decode_range, decode_renewal};
use crate::questions;
use crate::store::{
    ClusterStore, Entry, FaultScope, LeaseGrant, LeaseId, PrefixSnapshot, Renewal, Revision,
    StoreError, Term, WatchEnd,
};

use super::client_watch::ClientWatch;
use super::connections::{Decoded, GatewayConnections};
use super::endpoint::Endpoint;
use super::exchange::GatewayCall;
use super::settings::{CallTimes, GatewaySettings, GatewaySettingsError, RenewedCredentials};

/// A client of etcd's JSON gateway. It connects when it is first asked.
pub struct GatewayClient {
    /// Others take their place when credentials are renewed.
    connections: watch::Sender<Arc<GatewayConnections>>,
    /// The endpoint that answered last.
    current: AtomicUsize,
    /// The endpoint at which the next watch begins. Watches change places, so that none stays at a member that is
    /// half dead.
    next_watch: AtomicUsize,
    times: CallTimes,
}

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
            current: AtomicUsize::new(first),
            next_watch: AtomicUsize::new(first),
            times: settings.times,
            connections: watch::Sender::new(Arc::new(GatewayConnections::new(settings))),
        })
    }

    /// Makes all later calls over new connections, with these credentials, and ends open watches. Calls in flight end as
    /// they began.
    pub fn renew_credentials(&self, fresh: RenewedCredentials) {
        self.connections
            .send_modify(|connections| *connections = Arc::new(connections.renewed(fresh)));
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

    /// Makes a call at one endpoint after the other, until one of them answers for all.
    async fn call<T>(
        &self,
        call: GatewayCall,
        decode: impl Fn(&[u8]) -> Decoded<T>,
    ) -> Result<T, StoreError> {
        let connections = Arc::clone(&self.connections.borrow());
        let first = self.current.load(Ordering::Relaxed);
        let mut last = None;
        for turn in turns(connections.endpoints(), first) {
            match connections.call_at(turn, &call, &decode).await {
                Err(error) if error.scope() == FaultScope::Endpoint => last = Some(error),
                outcome => {
                    self.current.store(turn, Ordering::Relaxed);
                    return outcome;
                }
            }
        }
        Err(last.unwrap_or_else(no_endpoint))
    }
}

impl ClusterStore for GatewayClient {
    type Watch = ClientWatch;

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

    async fn watch(&self, prefix: &str, from: Revision) -> Result<ClientWatch, WatchEnd> {
        let question = Bytes::from(questions::watch(prefix, from));
        let mut renewals = self.connections.subscribe();
        let connections = Arc::clone(&renewals.borrow_and_update());
        let first = self.next_watch.fetch_add(1, Ordering::Relaxed);
        let mut last = None;
        for turn in turns(connections.endpoints(), first) {
            match connections.watch_at(turn, &question).await {
                Err(WatchEnd::Cut(error)) if error.scope() == FaultScope::Endpoint => {
                    last = Some(error);
                }
                outcome => return outcome.map(|watch| ClientWatch::new(watch, renewals)),
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

/// The endpoints in the order in which they are tried.
fn turns(endpoints: usize, first: usize) -> impl Iterator<Item = usize> {
    (0..endpoints).map(move |turn| (first % endpoints + turn) % endpoints)
}

/// The settings have at least one endpoint, so each call has been tried at one.
fn no_endpoint() -> StoreError {
    StoreError::Unreachable {
        endpoint: Endpoint::default(),
        source: std::io::ErrorKind::AddrNotAvailable.into(),
    }
}
