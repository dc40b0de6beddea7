//! Endpoints in the syntax of memcached's `-l`: `host`, `host:port`, `[v6]:port` or `notls:host:port`. Commas or
//! semicolons separate them.

use crate::listeners::{Endpoint, Transport};

/// Why a list of addresses is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointsError {
    /// The list is empty.
    #[error("-l names no address")]
    Empty,
    /// The address has `notls:` or a similar prefix, but `-Z` is not set.
    #[error("-l {0}: this prefix needs TLS; add -Z")]
    OnlyWithTls(&'static str),
    /// The port is not a valid number.
    #[error("-l {0}: the port is not a number between 1 and 65535")]
    BadPort(String),
    /// A `[` has no `]`.
    #[error("-l {0}: an address in brackets looks like [::1] or [::1]:11211")]
    BadBrackets(String),
}

/// Parses a list of addresses. Addresses without a port get `port`; with 0 the kernel chooses.
pub fn parse_endpoints(
    list: &str,
    port: u16,
    transport: Transport,
) -> Result<Vec<Endpoint>, EndpointsError> {
    let written = list.split([',', ';']).filter(|one| !one.is_empty());
    let endpoints: Vec<Endpoint> = written
        .map(|one| parse_one(one, port, transport))
        .collect::<Result<_, _>>()?;
    match endpoints.is_empty() {
        true => Err(EndpointsError::Empty),
        false => Ok(endpoints),
    }
}

fn parse_one(
    written: &str,
    default_port: u16,
    default_transport: Transport,
) -> Result<Endpoint, EndpointsError> {
    let (transport, address) = split_transport(written, default_transport)?;
    let (host, port) = split_port(address)?;
    Ok(Endpoint::Tcp {
        host: (host != "*" && !host.is_empty()).then(|| host.to_owned()),
        port: port.unwrap_or(default_port),
        transport,
    })
}

fn split_transport(written: &str, default: Transport) -> Result<(Transport, &str), EndpointsError> {
    const PREFIXES: [(&str, Transport); 3] = [
        ("notls:", Transport::Plain),
        ("btls:", Transport::TlsAnyone),
        ("mtls:", Transport::TlsMutual),
    ];
    for (prefix, transport) in PREFIXES {
        if let Some(address) = written.strip_prefix(prefix) {
            return match default {
                Transport::Plain => Err(EndpointsError::OnlyWithTls(prefix)),
                _ => Ok((transport, address)),
            };
        }
    }
    Ok((default, written))
}

/// Splits off the port. A bare address with more than one colon is IPv6 without a port.
fn split_port(address: &str) -> Result<(&str, Option<u16>), EndpointsError> {
    if let Some(bracketed) = address.strip_prefix('[') {
        let (host, rest) = bracketed
            .split_once(']')
            .ok_or_else(|| EndpointsError::BadBrackets(address.to_owned()))?;
        return match rest.strip_prefix(':') {
            Some(port) => Ok((host, Some(parse_port(address, port)?))),
            None if rest.is_empty() => Ok((host, None)),
            None => Err(EndpointsError::BadBrackets(address.to_owned())),
        };
    }
    match address.split_once(':') {
        Some((host, port)) if !port.contains(':') => Ok((host, Some(parse_port(address, port)?))),
        _ => Ok((address, None)),
    }
}

fn parse_port(address: &str, port: &str) -> Result<u16, EndpointsError> {
    match port.parse() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(EndpointsError::BadPort(address.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: Option<&str>, port: u16, transport: Transport) -> Endpoint {
        Endpoint::Tcp {
            host: host.map(str::to_owned),
            port,
            transport,
        }
    }

    #[test]
    fn addresses_are_read_as_memcached_reads_them() {
        use Transport::{Plain, Tls, TlsMutual};
        let cases = [
            ("127.0.0.1", Plain, vec![tcp(Some("127.0.0.1"), 7, Plain)]),
            (
                "localhost:99",
                Plain,
                vec![tcp(Some("localhost"), 99, Plain)],
            ),
            ("::1", Plain, vec![tcp(Some("::1"), 7, Plain)]),
            ("[::1]", Plain, vec![tcp(Some("::1"), 7, Plain)]),
            ("[::1]:99", Plain, vec![tcp(Some("::1"), 99, Plain)]),
            ("*:99", Plain, vec![tcp(None, 99, Plain)]),
            (
                "127.0.0.1:1;127.0.0.2,",
                Plain,
                vec![
                    tcp(Some("127.0.0.1"), 1, Plain),
                    tcp(Some("127.0.0.2"), 7, Plain),
                ],
            ),
            (
                "notls:a:1,b:2,mtls:c:3",
                Tls,
                vec![
                    tcp(Some("a"), 1, Plain),
                    tcp(Some("b"), 2, Tls),
                    tcp(Some("c"), 3, TlsMutual),
                ],
            ),
        ];
        for (written, transport, endpoints) in cases {
            assert_eq!(
                parse_endpoints(written, 7, transport),
                Ok(endpoints),
                "{written}"
            );
        }
    }

    #[test]
    fn wrong_addresses_are_named() {
        let parse = |written| parse_endpoints(written, 7, Transport::Plain);
        assert_eq!(parse(","), Err(EndpointsError::Empty));
        assert_eq!(
            parse("notls:a:1"),
            Err(EndpointsError::OnlyWithTls("notls:"))
        );
        for bad in ["a:b", "a:0", "a:70000", "a:-1"] {
            assert_eq!(parse(bad), Err(EndpointsError::BadPort(bad.into())));
        }
        for bad in ["[::1", "[::1]x"] {
            assert_eq!(parse(bad), Err(EndpointsError::BadBrackets(bad.into())));
        }
    }
}
