//! Listening sockets, and the endpoints that people name for them.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use socket2::{Domain, Protocol, Socket, Type};

use super::socket_file::{SocketFile, SocketFileError};

/// How bytes travel between a client and its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// As they are.
    Plain,
    /// In TLS, as the settings say.
    Tls,
    /// In TLS. The daemon asks the client for no certificate, whatever the settings say (`btls:`).
    TlsAnyone,
    /// In TLS. The daemon requires a certificate of the client (`mtls:`).
    TlsMutual,
}

/// One address to listen at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A TCP port.
    Tcp {
        /// The name or address; every address of the machine if `None`.
        host: Option<String>,
        /// The port; 0 lets the kernel choose.
        port: u16,
        /// How bytes travel.
        transport: Transport,
    },
    /// A Unix socket.
    Unix {
        /// Its file.
        path: PathBuf,
        /// The file's mode.
        mode: u32,
    },
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp {
                host: None, port, ..
            } => write!(f, "TCP port {port}"),
            Endpoint::Tcp {
                host: Some(host),
                port,
                ..
            } => write!(f, "{host}, TCP port {port}"),
            Endpoint::Unix { path, .. } => write!(f, "Unix socket {}", path.display()),
        }
    }
}

/// Why the daemon cannot listen at an endpoint.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The name resolves to no address.
    #[error("cannot listen at {endpoint}: the name resolves to no address: {source}")]
    NoAddress {
        /// The endpoint.
        endpoint: Endpoint,
        /// What the resolver said.
        source: io::Error,
    },
    /// The kernel refused.
    #[error("cannot listen at {endpoint}: {source}")]
    Refused {
        /// The endpoint.
        endpoint: Endpoint,
        /// The kernel's error.
        source: io::Error,
    },
    /// Something that is no socket has the path.
    #[error("cannot listen at {0}: the path exists and is no socket; remove it or choose another")]
    NotASocket(Endpoint),
    /// Another process, or a part of this one, listens there.
    #[error(
        "cannot listen at {0}: another process, or a part of this one, listens there already; stop it or choose another"
    )]
    Taken(Endpoint),
}

/// A socket that listens.
#[derive(Debug)]
pub struct Listener {
    pub(crate) socket: OwnedFd,
    pub(crate) address: String,
    pub(crate) transport: Transport,
    bound: BoundSocket,
}

#[derive(Debug)]
enum BoundSocket {
    Tcp(SocketAddr),
    /// The value removes the file when it is dropped.
    Unix(#[expect(dead_code, reason = "kept for what it does when it is dropped")] SocketFile),
}

impl Listener {
    /// Returns the address, as `tcp:127.0.0.1:11211`, `tcp6:[::1]:11211` or `unix:/path`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the TCP address, if the listener has one.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        match self.bound {
            BoundSocket::Tcp(address) => Some(address),
            BoundSocket::Unix(_) => None,
        }
    }

    /// Returns the socket itself, which never blocks. Returns `None` if it is a Unix socket, and closes that.
    pub fn into_tcp(self) -> Option<TcpListener> {
        self.tcp_address().map(|_| TcpListener::from(self.socket))
    }
}

/// Listens at every endpoint. If one fails, it listens at none.
pub fn bind(endpoints: &[Endpoint], backlog: u32) -> Result<Vec<Listener>, ListenError> {
    let mut listeners = Vec::new();
    for endpoint in endpoints {
        match endpoint {
            Endpoint::Tcp {
                host,
                port,
                transport,
            } => listeners.extend(bind_tcp(
                endpoint,
                host.as_deref(),
                *port,
                *transport,
                backlog,
            )?),
            Endpoint::Unix { path, mode } => {
                listeners.push(bind_unix(endpoint, path, *mode, backlog)?);
            }
        }
    }
    Ok(listeners)
}

/// Listens at one endpoint with one socket. If a name has several addresses, it takes the first.
pub fn bind_one(endpoint: &Endpoint, backlog: u32) -> Result<Listener, ListenError> {
    let bound = bind(std::slice::from_ref(endpoint), backlog)?;
    let first = bound.into_iter().next();
    first.ok_or_else(|| listen_error(endpoint, io::ErrorKind::AddrNotAvailable.into()))
}

fn bind_tcp(
    endpoint: &Endpoint,
    host: Option<&str>,
    port: u16,
    transport: Transport,
    backlog: u32,
) -> Result<Vec<Listener>, ListenError> {
    let addresses = resolve(endpoint, host, port)?;
    let mut listeners = Vec::new();
    let mut absent = None;
    for address in addresses {
        match listen_tcp(address, backlog) {
            Ok((socket, bound)) => listeners.push(Listener {
                socket,
                address: tcp_name(bound),
                transport,
                bound: BoundSocket::Tcp(bound),
            }),
            Err(error) if is_absent_family(&error) => absent = Some(error),
            Err(source) => return Err(listen_error(endpoint, source)),
        }
    }
    match absent {
        Some(source) if listeners.is_empty() => Err(listen_error(endpoint, source)),
        _ => Ok(listeners),
    }
}

fn resolve(
    endpoint: &Endpoint,
    host: Option<&str>,
    port: u16,
) -> Result<Vec<SocketAddr>, ListenError> {
    let Some(host) = host else {
        let everywhere = [
            IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        ];
        return Ok(everywhere.map(|ip| SocketAddr::new(ip, port)).to_vec());
    };
    let resolved = (host, port).to_socket_addrs();
    let mut found: Vec<SocketAddr> = resolved
        .map_err(|source| ListenError::NoAddress {
            endpoint: endpoint.clone(),
            source,
        })?
        .collect();
    found.sort();
    found.dedup();
    Ok(found)
}

fn listen_tcp(address: SocketAddr, backlog: u32) -> io::Result<(OwnedFd, SocketAddr)> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM.nonblocking(),
        Some(Protocol::TCP),
    )?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_keepalive(true)?;
    // Connections inherit the option, which saves a system call for each.
    socket.set_tcp_nodelay(true)?;
    socket.bind(&address.into())?;
    socket.listen(backlog_of(backlog))?;
    let bound = socket
        .local_addr()?
        .as_socket()
        .ok_or(io::ErrorKind::Unsupported)?;
    Ok((socket.into(), bound))
}

/// Returns whether the machine lacks the address: it has no IPv6, or it lost an address that a name still has. The
/// other addresses then serve.
fn is_absent_family(error: &io::Error) -> bool {
    const EAFNOSUPPORT: i32 = rustix::io::Errno::AFNOSUPPORT.raw_os_error();
    error.raw_os_error() == Some(EAFNOSUPPORT) || error.kind() == io::ErrorKind::AddrNotAvailable
}

fn backlog_of(backlog: u32) -> i32 {
    i32::try_from(backlog).unwrap_or(i32::MAX)
}

fn bind_unix(
    endpoint: &Endpoint,
    path: &Path,
    mode: u32,
    backlog: u32,
) -> Result<Listener, ListenError> {
    let (socket, file) = SocketFile::listen(path, mode, backlog).map_err(|error| match error {
        SocketFileError::NotASocket => ListenError::NotASocket(endpoint.clone()),
        SocketFileError::Taken => ListenError::Taken(endpoint.clone()),
        SocketFileError::Refused(source) => listen_error(endpoint, source),
    })?;
    Ok(Listener {
        socket,
        address: format!("unix:{}", path.display()),
        transport: Transport::Plain,
        bound: BoundSocket::Unix(file),
    })
}

fn listen_error(endpoint: &Endpoint, source: io::Error) -> ListenError {
    let endpoint = endpoint.clone();
    match source.kind() {
        io::ErrorKind::AddrInUse => ListenError::Taken(endpoint),
        _ => ListenError::Refused { endpoint, source },
    }
}

/// Formats an address as `tcp:1.2.3.4:5` or `tcp6:[::1]:5`.
pub(crate) fn tcp_name(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(v4) => format!("tcp:{v4}"),
        SocketAddr::V6(v6) => format!("tcp6:[{}]:{}", v6.ip(), v6.port()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unix(path: &Path) -> Endpoint {
        Endpoint::Unix {
            path: path.to_owned(),
            mode: 0o640,
        }
    }

    fn tcp(host: Option<&str>, port: u16) -> Endpoint {
        Endpoint::Tcp {
            host: host.map(str::to_owned),
            port,
            transport: Transport::Plain,
        }
    }

    #[test]
    fn an_occupied_path_is_reported() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let live = bind(&[unix(&path)], 8).expect("a socket");
        assert_eq!(live[0].address(), format!("unix:{}", path.display()));
        let second = bind(&[unix(&path)], 8);
        assert!(matches!(second, Err(ListenError::Taken(_))), "{second:?}");
        drop(live);
        std::fs::write(&path, "letters").expect("a file");
        let refused = bind(&[unix(&path)], 8);
        assert!(matches!(refused, Err(ListenError::NotASocket(_))));
    }

    #[test]
    fn a_taken_port_and_a_wrong_name_are_refused() {
        let first = bind(&[tcp(Some("127.0.0.1"), 0)], 8).expect("any port");
        let port = first[0].tcp_address().expect("tcp").port();
        let second = bind(&[tcp(Some("127.0.0.1"), port)], 8);
        assert!(matches!(second, Err(ListenError::Taken(_))), "{second:?}");
        let wrong = bind(&[tcp(Some("no such name"), 0)], 8);
        assert!(matches!(wrong, Err(ListenError::NoAddress { .. })));
    }
}
