//! A watch: one request whose answer is a stream of messages, a line each.

use std::io;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::timeout;

use crate::answers::{AnswerFault, FaultKind, GatewayFault, WatchMessage, decode_watch};
use crate::store::{Change, Revision, StoreError, StoreWatch, WatchEnd};

use super::connection::{RequestSender, broken};
use super::endpoint::Endpoint;
use super::exchange::{GatewayRequest, open_stream, refusal, within};
use super::line_reader::{LINE_BYTES_MAX, LineReader};
use super::tls::EtcdTls;

/// The status of an answer whose stream has an error in it.
const STREAM_STATUS: u16 = 200;

/// An open watch. Its connection is its own, and ends with it.
pub(super) struct GatewayWatch {
    endpoint: Endpoint,
    opened_at: Revision,
    stream: MessageStream,
    silence_max: Duration,
}

/// The messages of a streamed answer.
struct MessageStream {
    endpoint: Endpoint,
    body: Incoming,
    lines: LineReader,
    _connection: RequestSender,
}

impl GatewayWatch {
    /// Opens a watch, and waits for its first message.
    pub(super) async fn open(
        endpoint: &Endpoint,
        tls: Option<&EtcdTls>,
        request: &GatewayRequest<'_>,
        silence_max: Duration,
    ) -> Result<GatewayWatch, WatchEnd> {
        let work = async {
            let opened = open_stream(endpoint, tls, request).await?;
            let mut stream = MessageStream {
                endpoint: endpoint.clone(),
                body: opened.body,
                lines: LineReader::default(),
                _connection: opened.sender,
            };
            let first = stream.next().await?;
            Ok((stream, first))
        };
        let (stream, first) = within(endpoint, request.limit, work)
            .await
            .map_err(WatchEnd::Cut)?;
        match first {
            WatchMessage::Created(opened_at) => Ok(GatewayWatch {
                endpoint: endpoint.clone(),
                opened_at,
                stream,
                silence_max,
            }),
            WatchMessage::Changes(_) | WatchMessage::Progress => {
                Err(WatchEnd::Cut(StoreError::Garbled {
                    endpoint: endpoint.clone(),
                    fault: AnswerFault::Missing {
                        what: "a watch",
                        missing: "beginning",
                    },
                }))
            }
            over => Err(end_of(endpoint, over)),
        }
    }
}

impl StoreWatch for GatewayWatch {
    fn opened_at(&self) -> Revision {
        self.opened_at
    }

    async fn next(&mut self) -> Result<Vec<Change>, WatchEnd> {
        loop {
            let message = timeout(self.silence_max, self.stream.next()).await;
            let message = message.map_err(|_| WatchEnd::Silent)?;
            match message.map_err(WatchEnd::Cut)? {
                WatchMessage::Changes(changes) => return Ok(changes),
                WatchMessage::Progress | WatchMessage::Created(_) => {}
                over => return Err(end_of(&self.endpoint, over)),
            }
        }
    }
}

/// What a message means that is the last of its watch.
fn end_of(endpoint: &Endpoint, last: WatchMessage) -> WatchEnd {
    let fault = match last {
        WatchMessage::Compacted => return WatchEnd::Compacted,
        WatchMessage::Failed(fault) if fault.kind() == FaultKind::Compacted => {
            return WatchEnd::Compacted;
        }
        WatchMessage::Failed(fault) => fault,
        WatchMessage::Canceled { reason } => GatewayFault {
            code: 0,
            message: reason,
        },
        WatchMessage::Created(_) | WatchMessage::Changes(_) | WatchMessage::Progress => {
            GatewayFault {
                code: 0,
                message: String::new(),
            }
        }
    };
    WatchEnd::Cut(refusal(endpoint, STREAM_STATUS, fault))
}

impl MessageStream {
    /// Waits for the next message.
    async fn next(&mut self) -> Result<WatchMessage, StoreError> {
        loop {
            let garbled = |fault| StoreError::Garbled {
                endpoint: self.endpoint.clone(),
                fault,
            };
            let line = self.lines.next_line().map_err(|_| {
                garbled(AnswerFault::Long {
                    bytes: LINE_BYTES_MAX,
                })
            })?;
            if let Some(line) = line {
                return decode_watch(line).map_err(garbled);
            }
            let ended = |source| broken(&self.endpoint, source);
            let frame = self.body.frame().await;
            let frame = frame.ok_or_else(|| ended(io::ErrorKind::UnexpectedEof.into()))?;
            let frame = frame.map_err(|error| ended(io::Error::other(error)))?;
            self.lines
                .push(frame.data_ref().map_or(&[][..], |bytes| bytes));
        }
    }
}
