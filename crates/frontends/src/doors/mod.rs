//! Where connections come in, whatever they speak: sockets that listen, and TLS in front of them.

mod acceptor;
mod listen;
mod nobody;
mod places;
pub(crate) mod socket;
mod socket_file;
mod tls;

pub(crate) use self::acceptor::{Acceptor, Bell, Door};
pub(crate) use self::listen::tcp_name;
pub use self::listen::{Endpoint, ListenError, Listener, Transport, bind, bind_one};
pub use self::places::{Full, GaveWay, Lobby, Place, SILENCE_MAX, WhenFull};
pub use self::socket_file::{SocketFile, SocketFileError};
pub(crate) use self::tls::TlsStream;
pub use self::tls::{ClientCertificate, Tls, TlsError, TlsFigures, TlsSettings, TlsVersion};
