//! Listeners of all protocols: sockets that listen, the limits of their connections, and TLS in front of them.

mod acceptor;
mod connection_limit;
mod listener;
mod reject_all_clients;
pub(crate) mod socket;
mod socket_file;
mod tls;

pub(crate) use self::acceptor::{Acceptor, AcceptorHandle, ServedListener};
pub use self::connection_limit::{
    ConnectionLimitReached, ConnectionLimiter, ConnectionPermit, PeerDisplaced, SILENCE_MAX,
    WhenFull,
};
pub(crate) use self::listener::tcp_name;
pub use self::listener::{Endpoint, ListenError, Listener, Transport, bind, bind_one};
pub use self::socket_file::{SocketFile, SocketFileError};
pub(crate) use self::tls::TlsStream;
pub use self::tls::{
    ClientCertificateDemand, TlsCertificates, TlsError, TlsFigures, TlsSettings, TlsVersion,
};
