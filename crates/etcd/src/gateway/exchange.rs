//! One request and its answer.

use std::io;
use std::time::Duration;

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response};
use tokio::time::timeout;

use crate::answers::{AnswerFault, FaultKind, GatewayFault, decode_fault};
use crate::store::StoreError;

use super::connection::{RequestSender, broken, connect};
use super::connection_pool::ConnectionPool;
use super::endpoint::Endpoint;
use super::tls::EtcdTls;

/// The largest answer that is read, in bytes: as many keys as are allowed, with records of the usual size.
pub(super) const ANSWER_BYTES_MAX: usize = 32 << 20;

/// The header by which etcd ends a watch at a member that has no leader. Without it such a watch is silent for ever.
const HAS_LEADER: &str = "grpc-metadata-hasleader";

/// What is asked of whichever endpoint answers.
pub(super) struct GatewayCall {
    pub(super) path: &'static str,
    pub(super) body: Bytes,
    /// How long one endpoint may take.
    pub(super) limit: Duration,
}

/// A request to the gateway.
pub(super) struct GatewayRequest<'a> {
    pub(super) path: &'static str,
    pub(super) body: Bytes,
    pub(super) token: Option<&'a str>,
    /// How long the whole exchange may take, with connecting.
    pub(super) limit: Duration,
}

/// What the gateway answers.
pub(super) enum GatewayAnswer {
    /// The body of an answer without error.
    Body(Bytes),
    /// An error.
    Fault {
        /// The HTTP status.
        status: u16,
        /// What etcd says.
        fault: GatewayFault,
    },
}

/// Why there is no answer.
enum ExchangeError {
    /// The connection broke before the whole answer was there.
    Broken(io::Error),
    /// The request or the answer is none.
    Store(StoreError),
}

/// Sends a request over an idle connection or a new one, and reads the whole answer.
pub(super) async fn exchange(
    pool: &ConnectionPool,
    tls: Option<&EtcdTls>,
    request: &GatewayRequest<'_>,
) -> Result<GatewayAnswer, StoreError> {
    let work = async {
        // The other side may close an idle connection at any time, so its fault says nothing about the endpoint.
        if let Some(sender) = pool.take() {
            match exchange_over(pool, sender, request).await {
                Err(ExchangeError::Broken(_)) => {}
                outcome => return outcome.map_err(|error| told(&pool.endpoint, error)),
            }
        }
        let sender = connect(&pool.endpoint, tls).await?;
        let outcome = exchange_over(pool, sender, request).await;
        outcome.map_err(|error| told(&pool.endpoint, error))
    };
    within(&pool.endpoint, request.limit, work).await
}

fn told(endpoint: &Endpoint, error: ExchangeError) -> StoreError {
    match error {
        ExchangeError::Broken(source) => broken(endpoint, source),
        ExchangeError::Store(error) => error,
    }
}

/// Sends a request over a new connection, and returns the answer when its head is there.
pub(super) async fn open_stream(
    endpoint: &Endpoint,
    tls: Option<&EtcdTls>,
    request: &GatewayRequest<'_>,
) -> Result<OpenStream, StoreError> {
    let mut sender = connect(endpoint, tls).await?;
    let sent = sender.send_request(http_request(endpoint, request)?).await;
    let response = sent.map_err(|error| broken(endpoint, io::Error::other(error)))?;
    if response.status().is_success() {
        let body = response.into_body();
        return Ok(OpenStream { sender, body });
    }
    let status = response.status().as_u16();
    let body = read_body(endpoint, response).await;
    let body = body.map_err(|error| told(endpoint, error))?;
    Err(refusal(endpoint, status, decode_fault(&body)))
}

/// An answer whose body comes as it happens.
pub(super) struct OpenStream {
    /// The connection ends with it.
    pub(super) sender: RequestSender,
    pub(super) body: Incoming,
}

/// Gives up after a while.
pub(super) async fn within<T>(
    endpoint: &Endpoint,
    limit: Duration,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let timed_out = |_| StoreError::TimedOut {
        endpoint: endpoint.clone(),
        limit,
    };
    timeout(limit, work).await.map_err(timed_out)?
}

async fn exchange_over(
    pool: &ConnectionPool,
    mut sender: RequestSender,
    request: &GatewayRequest<'_>,
) -> Result<GatewayAnswer, ExchangeError> {
    let endpoint = &pool.endpoint;
    let sent = http_request(endpoint, request).map_err(ExchangeError::Store)?;
    let lost = |error: hyper::Error| ExchangeError::Broken(io::Error::other(error));
    sender.ready().await.map_err(lost)?;
    let response = sender.send_request(sent).await.map_err(lost)?;
    let status = response.status();
    let body = read_body(endpoint, response).await?;
    pool.give_back(sender);
    Ok(match status.is_success() {
        true => GatewayAnswer::Body(body),
        false => GatewayAnswer::Fault {
            status: status.as_u16(),
            fault: decode_fault(&body),
        },
    })
}

async fn read_body(
    endpoint: &Endpoint,
    response: Response<Incoming>,
) -> Result<Bytes, ExchangeError> {
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX);
    let collected = body.collect().await;
    collected
        .map(|body| body.to_bytes())
        .map_err(|error| match error.is::<LengthLimitError>() {
            true => ExchangeError::Store(StoreError::Garbled {
                endpoint: endpoint.clone(),
                fault: AnswerFault::Long {
                    bytes: ANSWER_BYTES_MAX,
                },
            }),
            false => ExchangeError::Broken(io::Error::other(error)),
        })
}

fn http_request(
    endpoint: &Endpoint,
    request: &GatewayRequest<'_>,
) -> Result<Request<Full<Bytes>>, StoreError> {
    let mut builder = Request::builder()
        .method(Method::POST)
        .uri(request.path)
        .header(header::HOST, endpoint.authority())
        .header(header::CONTENT_TYPE, "application/json")
        .header(HAS_LEADER, "true");
    let garbled = |source: hyper::http::Error| StoreError::Garbled {
        endpoint: endpoint.clone(),
        fault: AnswerFault::NotHttp {
            source: Box::new(source),
        },
    };
    if let Some(token) = request.token {
        let mut value = HeaderValue::from_str(token).map_err(|error| garbled(error.into()))?;
        value.set_sensitive(true);
        builder = builder.header(header::AUTHORIZATION, value);
    }
    builder
        .body(Full::new(request.body.clone()))
        .map_err(garbled)
}

/// Says what an error of the gateway means.
pub(super) fn refusal(endpoint: &Endpoint, status: u16, fault: GatewayFault) -> StoreError {
    let endpoint = endpoint.clone();
    let kind = fault.kind();
    let message = fault.message;
    match kind {
        FaultKind::Token => StoreError::TokenRefused { endpoint, message },
        FaultKind::NoUser => StoreError::NoUser { endpoint },
        FaultKind::Denied => StoreError::Denied { endpoint, message },
        FaultKind::LeaseGone => StoreError::LeaseGone,
        FaultKind::Unavailable => StoreError::Unavailable { endpoint, message },
        // A proxy or a member that starts or ends.
        FaultKind::Other if matches!(status, 502..=504) => {
            StoreError::Unavailable { endpoint, message }
        }
        FaultKind::Login
        | FaultKind::NoAuthentication
        | FaultKind::Compacted
        | FaultKind::Other => StoreError::Refused {
            endpoint,
            status,
            message,
        },
    }
}
