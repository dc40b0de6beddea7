//! A client of etcd's JSON gateway: HTTP/1.1 with JSON, which every member of etcd 3.4 or later serves.
//!
//! A call goes to the endpoint that answered last. If the fault is the endpoint's, the next one is tried. All calls may
//! be made twice: a lease that nobody heard of ends by itself, and the others ask for a state, not for a change.
//!
//! Users are known by tokens. A member forgets them when it is restarted, and after some minutes. Then the client asks
//! for a new one, and makes the call once more.
//!
//! Certificates and the password may be renewed while the client works. It connects anew with them.

mod client;
mod client_watch;
mod connection;
mod connection_pool;
mod connections;
mod endpoint;
mod exchange;
mod gateway_watch;
mod line_reader;
mod settings;
mod tls;
mod token;

pub use self::client::GatewayClient;
pub use self::client_watch::ClientWatch;
pub use self::endpoint::{Endpoint, EndpointError, EndpointScheme};
pub use self::line_reader::{LINE_BYTES_MAX, LineReader, LineTooLong};
pub use self::settings::{
    CallTimes, ENDPOINTS_MAX, EtcdUser, GatewaySettings, GatewaySettingsError, PasswordError,
    RenewedCredentials, read_password,
};
pub use self::tls::{CertificateFiles, EtcdTls, TlsFiles, TlsFilesError};
