//! Where a member of etcd listens for clients.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// The port of etcd's clients.
const PORT: u16 = 2379;

/// Where a member of etcd listens for clients: `https://HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    scheme: EndpointScheme,
    host: String,
    port: u16,
}

/// How an endpoint is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndpointScheme {
    /// In clear text.
    Http,
    /// By TLS.
    Https,
}

/// Why a text is no endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no address of etcd; write https://HOST:PORT or http://HOST:PORT, and nothing behind it"
)]
pub struct EndpointError(pub String);

impl Endpoint {
    /// How it is spoken to.
    pub fn scheme(&self) -> EndpointScheme {
        self.scheme
    }

    /// Its host name or address, an IPv6 address without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns whether only this host can hear what is said to it.
    pub fn is_loopback(&self) -> bool {
        let address = self.host.parse::<IpAddr>();
        self.host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }

    /// What stands behind the scheme.
    pub(super) fn authority(&self) -> String {
        match self.host.parse::<Ipv6Addr>() {
            Ok(address) => format!("[{address}]:{}", self.port),
            Err(_) => format!("{}:{}", self.host, self.port),
        }
    }
}

/// The endpoint of an etcd on this host with its default settings.
impl Default for Endpoint {
    fn default() -> Endpoint {
        Endpoint {
            scheme: EndpointScheme::Http,
            host: "127.0.0.1".to_owned(),
            port: PORT,
        }
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Endpoint, EndpointError> {
        let wrong = || EndpointError(text.to_owned());
        let (scheme, rest) = match text.split_once("://") {
            Some(("http", rest)) => (EndpointScheme::Http, rest),
            Some(("https", rest)) => (EndpointScheme::Https, rest),
            _ => return Err(wrong()),
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = host_and_port(authority).ok_or_else(wrong)?;
        Ok(Endpoint { scheme, host, port })
    }
}

fn host_and_port(authority: &str) -> Option<(String, u16)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, behind) = rest.split_once(']')?;
            host.parse::<Ipv6Addr>().ok()?;
            match behind {
                "" => (host, None),
                behind => (host, Some(behind.strip_prefix(':')?)),
            }
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | ':');
    let is_host = !host.is_empty() && host.chars().all(fits);
    let port = port.map_or(Some(PORT), |port| port.parse().ok());
    port.filter(|port| is_host && *port != 0)
        .map(|port| (host.to_owned(), port))
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.scheme {
            EndpointScheme::Http => "http",
            EndpointScheme::Https => "https",
        };
        write!(f, "{scheme}://{}", self.authority())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_shown_as_it_is_written() {
        for (text, shown) in [
            ("https://etcd-1.example:2379", "https://etcd-1.example:2379"),
            ("http://10.0.0.1:1/", "http://10.0.0.1:1"),
            ("https://[::1]:2380", "https://[::1]:2380"),
            ("https://etcd", "https://etcd:2379"),
            ("http://[fe80::1]", "http://[fe80::1]:2379"),
        ] {
            let endpoint: Endpoint = text.parse().expect(text);
            assert_eq!(endpoint.to_string(), shown);
            assert_eq!(shown.parse(), Ok(endpoint));
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "etcd:2379",
            "ftp://etcd:1",
            "https://",
            "https://:1",
            "https://a:0",
            "https://a:b",
            "https://a:65536",
            "https://a/v3",
            "https://u:p@a:1",
            "https://a b:1",
            "https://[::1",
            "https://[a]:1",
            "https://::1:2379",
            "https://a?b",
            "https://a\r\nb:1",
        ] {
            assert!(text.parse::<Endpoint>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn only_this_host_hears_a_loopback_address() {
        let is_loopback = |text: &str| text.parse::<Endpoint>().expect(text).is_loopback();
        assert!(
            ["http://localhost:1", "http://127.9.0.1:1", "http://[::1]:1"]
                .into_iter()
                .all(is_loopback)
        );
        assert!(!is_loopback("http://10.0.0.1:1") && !is_loopback("http://localhost.example:1"));
    }
}
