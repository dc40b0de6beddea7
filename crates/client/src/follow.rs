//! Following a daemon's events as they come: server-sent events.

use std::io;
use std::ops::ControlFlow;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::Method;
use hyper::body::Bytes;
use tokio::time::timeout;

use crate::admin::{Admin, CallError, Patience};
use crate::messages::{AskEvents, Event, EventGap};

/// A daemon that says nothing for so long is taken for gone: it says every 15 seconds that it is there.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// What one server-sent event may take: a daemon's are some hundred bytes.
const FRAME_BYTES_MAX: usize = 1 << 20;

/// What comes of following.
#[derive(Clone, Debug, PartialEq)]
pub enum Followed {
    /// Something happened.
    Event(Box<Event>),
    /// What happened is forgotten already.
    Gap(EventGap),
}

impl Admin {
    /// Follows events for as long as `each` says, from those on that `asked` is for, and from now on where it asks for none
    /// before. `asked.after` becomes the place after what came last: who follows again with it goes on there.
    ///
    /// # Errors
    ///
    /// The daemon went away, or says no.
    pub fn follow(
        &self,
        asked: &mut AskEvents,
        mut each: impl FnMut(Followed) -> ControlFlow<()>,
    ) -> Result<(), CallError> {
        self.runtime.block_on(async {
            let path = format!("/v1/events?{}", asked.query());
            let accept = "text/event-stream, application/json";
            let answer = self.exchange(Method::GET, &path, Bytes::new(), accept, Patience::Limited);
            let mut answer = answer.await?;
            if !answer.status().is_success() {
                return self.whole(answer).await.map(drop);
            }
            let mut frames = Frames::default();
            loop {
                let more = timeout(SILENCE_MAX, answer.frame()).await;
                let more = more.map_err(|_| self.unreachable(io::ErrorKind::TimedOut.into()))?;
                let more = match more {
                    Some(Ok(more)) => more,
                    Some(Err(error)) => return Err(self.unreachable(io::Error::other(error))),
                    None => return Err(self.unreachable(io::ErrorKind::UnexpectedEof.into())),
                };
                for frame in frames.add(more.data_ref().map_or(&[][..], |bytes| bytes)) {
                    let garbled = |_| CallError::Garbled(self.door.clone());
                    asked.after = frame.id.clone().or(asked.after.take());
                    let Some(followed) = frame.followed().transpose().map_err(garbled)? else {
                        continue;
                    };
                    if each(followed).is_break() {
                        return Ok(());
                    }
                }
                if frames.is_too_long() {
                    return Err(CallError::Garbled(self.door.clone()));
                }
            }
        })
    }
}

/// One server-sent event.
#[derive(Debug, Default, PartialEq, Eq)]
struct Frame {
    id: Option<String>,
    kind: Option<String>,
    said: String,
}

impl Frame {
    /// What it says, if anything.
    fn followed(&self) -> Option<serde_json::Result<Followed>> {
        if self.said.is_empty() {
            return None;
        }
        Some(match self.kind.as_deref() {
            Some("gap") => serde_json::from_str(&self.said).map(Followed::Gap),
            _ => serde_json::from_str(&self.said).map(|event| Followed::Event(Box::new(event))),
        })
    }
}

/// Bytes that become server-sent events, however they are cut.
#[derive(Debug, Default)]
struct Frames {
    line: Vec<u8>,
    frame: Frame,
}

impl Frames {
    /// Adds bytes; gives back the events that are whole.
    fn add(&mut self, bytes: &[u8]) -> Vec<Frame> {
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
                line => self.frame.take(line),
            }
        }
        whole
    }

    fn is_too_long(&self) -> bool {
        self.line.len() + self.frame.said.len() > FRAME_BYTES_MAX
    }
}

impl Frame {
    /// Takes a line; one that begins with a colon says nothing.
    fn take(&mut self, line: &str) {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.id = Some(value.to_owned()),
            "event" => self.kind = Some(value.to_owned()),
            "data" => self.said.push_str(value),
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
        let frame = |id: Option<&str>, kind: Option<&str>, said: &str| Frame {
            id: id.map(str::to_owned),
            kind: kind.map(str::to_owned),
            said: said.to_owned(),
        };
        let want = [
            frame(Some("7-0"), None, ""),
            frame(None, None, ""),
            frame(Some("7-1"), None, "{\"a\":1}"),
            frame(Some("7-5"), Some("gap"), "{\"lost\":4}"),
        ];
        for size in [1, 2, 3, 7, 1000] {
            let mut frames = Frames::default();
            let all: Vec<Frame> = bytes
                .chunks(size)
                .flat_map(|part| frames.add(part))
                .collect();
            assert_eq!(all, want, "{size} at a time");
        }
        let gap = want[3].followed().expect("it says something");
        let lost = EventGap { lost: Some(4) };
        assert_eq!(gap.expect("JSON"), Followed::Gap(lost));
        assert!(want[0].followed().is_none());
    }
}
