//! Follows a daemon's events as they happen, as server-sent events.

use std::io;
use std::ops::ControlFlow;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::Method;
use hyper::body::Bytes;
use tokio::time::timeout;

use crate::admin::{Admin, AdminError, AnswerTimeout};
use crate::messages::{Event, EventGap, EventsQuery};

/// How long a daemon may be silent before it counts as gone. A daemon reports every 15 seconds that it is there.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// The most bytes of one server-sent event. A daemon's events have some hundred bytes.
const FRAME_BYTES_MAX: usize = 1 << 20;

/// What a follower receives.
#[derive(Clone, Debug, PartialEq)]
pub enum EventOrGap {
    /// An event.
    Event(Box<Event>),
    /// Events were lost, because the daemon has forgotten them.
    Gap(EventGap),
}

impl Admin {
    /// Follows events for as long as `each` continues. It starts with the events that `query` asks for, or with new
    /// ones if `query` asks for none before. `query.after` becomes the place after the last event, so a later call with
    /// it continues there.
    ///
    /// # Errors
    ///
    /// The daemon has gone, or refuses.
    pub fn follow(
        &self,
        query: &mut EventsQuery,
        mut each: impl FnMut(EventOrGap) -> ControlFlow<()>,
    ) -> Result<(), AdminError> {
        self.runtime.block_on(async {
            let path = format!("/v1/events?{}", query.query());
            let accept = "text/event-stream, application/json";
            let answer = self.send_request(
                Method::GET,
                &path,
                Bytes::new(),
                accept,
                AnswerTimeout::Limited,
            );
            let mut answer = answer.await?;
            if !answer.status().is_success() {
                return self.read_body(answer).await.map(drop);
            }
            let mut frames = SseParser::default();
            loop {
                let more = timeout(SILENCE_MAX, answer.frame()).await;
                let more = more.map_err(|_| self.unreachable(io::ErrorKind::TimedOut.into()))?;
                let more = match more {
                    Some(Ok(more)) => more,
                    Some(Err(error)) => return Err(self.unreachable(io::Error::other(error))),
                    None => return Err(self.unreachable(io::ErrorKind::UnexpectedEof.into())),
                };
                for frame in frames.push(more.data_ref().map_or(&[][..], |bytes| bytes)) {
                    let garbled = |_| AdminError::Garbled(self.endpoint.clone());
                    query.after = frame.id.clone().or(query.after.take());
                    let Some(event_or_gap) = frame.parse().transpose().map_err(garbled)? else {
                        continue;
                    };
                    if each(event_or_gap).is_break() {
                        return Ok(());
                    }
                }
                if frames.is_too_long() {
                    return Err(AdminError::Garbled(self.endpoint.clone()));
                }
            }
        })
    }
}

/// One server-sent event.
#[derive(Debug, Default, PartialEq, Eq)]
struct ServerSentEvent {
    id: Option<String>,
    kind: Option<String>,
    payload: String,
}

impl ServerSentEvent {
    /// Decodes the event. `None` if it has no data.
    fn parse(&self) -> Option<serde_json::Result<EventOrGap>> {
        if self.payload.is_empty() {
            return None;
        }
        Some(match self.kind.as_deref() {
            Some("gap") => serde_json::from_str(&self.payload).map(EventOrGap::Gap),
            _ => {
                serde_json::from_str(&self.payload).map(|event| EventOrGap::Event(Box::new(event)))
            }
        })
    }
}

/// Parses bytes to server-sent events, however the bytes are cut.
#[derive(Debug, Default)]
struct SseParser {
    line: Vec<u8>,
    frame: ServerSentEvent,
}

impl SseParser {
    /// Adds bytes, and returns the events that are complete.
    fn push(&mut self, bytes: &[u8]) -> Vec<ServerSentEvent> {
        let mut whole = Vec::new();
        for byte in bytes {
            if *byte != b'\n' {
                self.line.push(*byte);
                continue;
            }
            let line = std::mem::take(&mut self.line);
            let line = String::from_utf8_lossy(&line);
            match line.trim_end_matches('\r') {
                "" => whole.push(std::mem::take(&mut self.frame)),
                line => self.frame.apply_line(line),
            }
        }
        whole
    }

    fn is_too_long(&self) -> bool {
        self.line.len() + self.frame.payload.len() > FRAME_BYTES_MAX
    }
}

impl ServerSentEvent {
    /// Applies a line. A line that begins with a colon is a comment.
    fn apply_line(&mut self, line: &str) {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.id = Some(value.to_owned()),
            "event" => self.kind = Some(value.to_owned()),
            "data" => self.payload.push_str(value),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_bytes_are_cut_the_events_are_the_same() {
        let bytes = b"id: 7-0\n\n: still here\n\nid: 7-1\ndata: {\"a\":\ndata: 1}\n\nevent: gap\r\nid: 7-5\r\ndata: {\"lost\":4}\r\n\r\n";
        let frame = |id: Option<&str>, kind: Option<&str>, payload: &str| ServerSentEvent {
            id: id.map(str::to_owned),
            kind: kind.map(str::to_owned),
            payload: payload.to_owned(),
        };
        let want = [
            frame(Some("7-0"), None, ""),
            frame(None, None, ""),
            frame(Some("7-1"), None, "{\"a\":1}"),
            frame(Some("7-5"), Some("gap"), "{\"lost\":4}"),
        ];
        for size in [1, 2, 3, 7, 1000] {
            let mut frames = SseParser::default();
            let all: Vec<ServerSentEvent> = bytes
                .chunks(size)
                .flat_map(|part| frames.push(part))
                .collect();
            assert_eq!(all, want, "{size} at a time");
        }
        let gap = want[3].parse().expect("it says something");
        let lost = EventGap { lost: Some(4) };
        assert_eq!(gap.expect("JSON"), EventOrGap::Gap(lost));
        assert!(want[0].parse().is_none());
    }
}
