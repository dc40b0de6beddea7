//! A server that answers as a test says: right, wrong, late, in pieces, or not at all.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::gateway::{CallTimes, Endpoint, GatewayClient, GatewaySettings};

/// A request that came.
#[derive(Clone, Debug)]
pub(super) struct HeardRequest {
    /// The number of the connection over which it came, in the order in which they came.
    pub(super) connection: usize,
    pub(super) path: String,
    pub(super) question: Value,
    pub(super) head: String,
}

impl HeardRequest {
    /// The value of a header.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let found = lines.find(|(header, _)| header.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value)
    }
}

/// What the server does about a request.
pub(super) enum Reply {
    /// A whole answer.
    Json(u16, String),
    /// These bytes, and the end of the connection.
    Raw(Vec<u8>),
    /// A streamed answer of these pieces. It stays open.
    Stream(Vec<String>),
    /// A streamed answer of these pieces, which ends.
    EndedStream(Vec<String>),
    /// Nothing, for ever.
    Silence,
    /// The end of the connection.
    Hangup,
}

/// A server that answers as a test says.
pub(super) struct FakeGateway {
    pub(super) endpoint: Endpoint,
    heard: Arc<Mutex<Vec<HeardRequest>>>,
}

type Responder = dyn Fn(&HeardRequest) -> Reply + Send + Sync;

impl FakeGateway {
    pub(super) async fn start(
        respond: impl Fn(&HeardRequest) -> Reply + Send + Sync + 'static,
    ) -> FakeGateway {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let heard = Arc::new(Mutex::new(Vec::new()));
        let (respond, log): (Arc<Responder>, _) = (Arc::new(respond), heard.clone());
        tokio::spawn(async move {
            let mut connections = 0;
            while let Ok((stream, _)) = listener.accept().await {
                let connection = FakeConnection {
                    stream,
                    number: connections,
                };
                tokio::spawn(serve(connection, respond.clone(), log.clone()));
                connections += 1;
            }
        });
        let endpoint = format!("http://{address}").parse().expect("an endpoint");
        FakeGateway { endpoint, heard }
    }

    /// All requests that came.
    pub(super) fn heard(&self) -> Vec<HeardRequest> {
        self.heard.lock().expect("no panic").clone()
    }

    /// The paths of all requests that came.
    pub(super) fn paths(&self) -> Vec<String> {
        self.heard().into_iter().map(|heard| heard.path).collect()
    }
}

/// Settings of a client of these servers.
pub(super) fn settings(gateways: &[&FakeGateway]) -> GatewaySettings {
    GatewaySettings {
        endpoints: gateways
            .iter()
            .map(|gateway| gateway.endpoint.clone())
            .collect(),
        tls: None,
        user: None,
        times: CallTimes::default(),
        seed: 0,
    }
}

/// A client of these servers.
pub(super) fn client(gateways: &[&FakeGateway]) -> GatewayClient {
    GatewayClient::new(settings(gateways)).expect("settings that work")
}

struct FakeConnection {
    stream: TcpStream,
    number: usize,
}

async fn serve(
    connection: FakeConnection,
    respond: Arc<Responder>,
    log: Arc<Mutex<Vec<HeardRequest>>>,
) {
    let FakeConnection { mut stream, number } = connection;
    let mut unread = Vec::new();
    while let Some(mut request) = read_request(&mut stream, &mut unread).await {
        request.connection = number;
        let reply = respond(&request);
        log.lock().expect("no panic").push(request);
        let (bytes, goes_on) = match reply {
            Reply::Json(status, body) => {
                let head = format!(
                    "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                    body.len()
                );
                ([head, body].concat().into_bytes(), true)
            }
            Reply::Raw(bytes) => (bytes, false),
            Reply::Stream(pieces) => {
                let _ = stream.write_all(chunked(&pieces).as_bytes()).await;
                std::future::pending().await
            }
            Reply::EndedStream(pieces) => ((chunked(&pieces) + "0\r\n\r\n").into_bytes(), true),
            Reply::Silence => std::future::pending().await,
            Reply::Hangup => return,
        };
        if stream.write_all(&bytes).await.is_err() || !goes_on {
            return;
        }
    }
}

fn chunked(pieces: &[String]) -> String {
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_owned();
    let chunk = |piece: &String| format!("{:x}\r\n{piece}\r\n", piece.len());
    head + &pieces.iter().map(chunk).collect::<String>()
}

async fn read_request(stream: &mut TcpStream, unread: &mut Vec<u8>) -> Option<HeardRequest> {
    loop {
        if let Some((request, length)) = parse_request(unread) {
            unread.drain(..length);
            return Some(request);
        }
        if stream.read_buf(unread).await.ok()? == 0 {
            return None;
        }
    }
}

/// A request that is whole, and its length.
fn parse_request(bytes: &[u8]) -> Option<(HeardRequest, usize)> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8(bytes[..end].to_vec()).expect("a head of ASCII");
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut request = HeardRequest {
        connection: 0,
        path,
        question: Value::Null,
        head,
    };
    let length: usize = request
        .header("content-length")
        .map_or(0, |length| length.parse().expect("a length"));
    let body = bytes[end + 4..].get(..length)?;
    request.question = serde_json::from_slice(body).expect("a question in JSON");
    Some((request, end + 4 + length))
}
