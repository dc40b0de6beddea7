//! One connection to an endpoint, in clear text or by TLS.

use std::io;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use sublet_tls::tls_fault;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::store::StoreError;

use super::endpoint::{Endpoint, EndpointScheme};
use super::tls::EtcdTls;

/// The sending half of a connection. A task of the runtime has the rest.
pub(super) type RequestSender = SendRequest<Full<Bytes>>;

/// The stream below HTTP.
trait GatewayStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> GatewayStream for S {}

/// Connects. The caller limits the time.
pub(super) async fn connect(
    endpoint: &Endpoint,
    tls: Option<&EtcdTls>,
) -> Result<RequestSender, StoreError> {
    let stream = connect_stream(endpoint, tls)
        .await
        .map_err(|source| broken(endpoint, source))?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| broken(endpoint, io::Error::other(error)))?;
    // Its error comes out of the call that is in flight.
    tokio::spawn(connection);
    Ok(sender)
}

async fn connect_stream(
    endpoint: &Endpoint,
    tls: Option<&EtcdTls>,
) -> io::Result<Box<dyn GatewayStream>> {
    let stream = TcpStream::connect((endpoint.host(), endpoint.port())).await?;
    stream.set_nodelay(true)?;
    match (endpoint.scheme(), tls) {
        (EndpointScheme::Http, _) => Ok(Box::new(stream)),
        (EndpointScheme::Https, Some(tls)) => {
            let name = ServerName::try_from(endpoint.host().to_owned());
            let name = name.map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
            let connector = TlsConnector::from(tls.config.clone());
            Ok(Box::new(connector.connect(name, stream).await?))
        }
        // The settings were checked.
        (EndpointScheme::Https, None) => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Explains why a connection failed. The other side refuses this node's certificate only after the handshake.
pub(super) fn broken(endpoint: &Endpoint, source: io::Error) -> StoreError {
    let endpoint = endpoint.clone();
    match tls_fault(&source) {
        Some(fault) => StoreError::Tls {
            endpoint,
            source: Box::new(fault.clone()),
        },
        None => StoreError::Unreachable { endpoint, source },
    }
}
