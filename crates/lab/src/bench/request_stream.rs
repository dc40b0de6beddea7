//! Requests written out in advance, so that sending costs the generator one system call per batch.

use std::ops::Range;

use sublet_sim::rng::{SimRng, Zipf};

use super::keyspace::Keyspace;
use super::shuffle::shuffled;

const STORED: &[u8] = b"STORED\r\n";

/// The longest stream: its bytes come from memory in order, but they must fit.
const BYTES_MAX: usize = 64 << 20;
const REQUESTS_MAX: usize = 1 << 18;

/// A mix of requests, in per cent of gets. The rest are sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestMix {
    /// Gets in a hundred requests.
    pub(super) gets_percent: u8,
}

impl RequestMix {
    /// Gets only.
    pub(super) const GET: RequestMix = RequestMix { gets_percent: 100 };
    /// Sets only.
    pub(super) const SET: RequestMix = RequestMix { gets_percent: 0 };
}

impl std::fmt::Display for RequestMix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.gets_percent {
            100 => f.pad("get"),
            0 => f.pad("set"),
            gets => write!(f, "{gets}/{}", 100 - gets),
        }
    }
}

/// Why a mix was not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no mix: write get, set, or gets and sets in per cent such as 90/10")]
pub(crate) struct RequestMixError(String);

impl std::str::FromStr for RequestMix {
    type Err = RequestMixError;

    fn from_str(text: &str) -> Result<RequestMix, RequestMixError> {
        let percent = |text: &str| text.parse::<u8>().ok().filter(|p| *p <= 100);
        let read = match text {
            "get" => Some(RequestMix::GET),
            "set" => Some(RequestMix::SET),
            _ => text.split_once('/').and_then(|(gets, sets)| {
                let gets_percent = percent(gets)?;
                (gets_percent + percent(sets)? == 100).then_some(RequestMix { gets_percent })
            }),
        };
        read.ok_or_else(|| RequestMixError(text.to_owned()))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RequestKind {
    Get,
    Set,
}

struct StreamRequest {
    kind: RequestKind,
    key: u32,
    /// Where its bytes end in the stream.
    end: usize,
}

/// Requests in a row, and the reply that each is to get.
pub(super) struct RequestStream<'k> {
    keyspace: &'k Keyspace,
    hit_bytes: usize,
    bytes: Vec<u8>,
    requests: Vec<StreamRequest>,
}

/// A batch that got a wrong reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a wrong reply: expected {expected:?}, received {received:?}")]
pub(crate) struct WrongReply {
    expected: String,
    received: String,
}

impl WrongReply {
    /// An error for `received` in place of `expected`.
    pub(super) fn new(expected: &[u8], received: &[u8]) -> WrongReply {
        WrongReply {
            expected: shown(expected),
            received: shown(received),
        }
    }
}

impl<'k> RequestStream<'k> {
    fn empty(keyspace: &'k Keyspace) -> RequestStream<'k> {
        RequestStream {
            hit_bytes: keyspace.hit_bytes(),
            keyspace,
            bytes: Vec::new(),
            requests: Vec::new(),
        }
    }

    /// A stream that sets each key of `keys`, in order.
    pub(super) fn filling(keyspace: &'k Keyspace, keys: Range<u32>) -> RequestStream<'k> {
        let mut stream = RequestStream::empty(keyspace);
        keys.for_each(|key| stream.push(RequestKind::Set, key));
        stream
    }

    /// How many sets of this keyspace fit into one stream.
    pub(super) fn filling_max(keyspace: &Keyspace) -> u32 {
        (BYTES_MAX / keyspace.item_bytes()).clamp(64, REQUESTS_MAX) as u32
    }

    /// A mix over keys 0 to `keys - 1`, drawn by Zipf's law. It has a whole number of batches of `pipeline` requests.
    pub(super) fn mixed(
        keyspace: &'k Keyspace,
        keys: u32,
        mix: RequestMix,
        alpha: f64,
        pipeline: usize,
    ) -> RequestStream<'k> {
        let mut rng = SimRng::seeded(0x5eed);
        let zipf = Zipf::of(u64::from(keys), alpha);
        let places = shuffled(keys as usize, &mut rng);
        let mut stream = RequestStream::empty(keyspace);
        while stream.has_room() || !stream.requests.len().is_multiple_of(pipeline) {
            let key = places[zipf.draw(&mut rng) as usize];
            let is_get = rng.below(100) < u64::from(mix.gets_percent);
            stream.push(
                if is_get {
                    RequestKind::Get
                } else {
                    RequestKind::Set
                },
                key,
            );
        }
        stream
    }

    fn has_room(&self) -> bool {
        self.requests.len() < REQUESTS_MAX && self.bytes.len() < BYTES_MAX
    }

    fn push(&mut self, kind: RequestKind, key: u32) {
        match kind {
            RequestKind::Get => self.keyspace.put_get(key, &mut self.bytes),
            RequestKind::Set => self.keyspace.put_set(key, &mut self.bytes),
        }
        let end = self.bytes.len();
        self.requests.push(StreamRequest { kind, key, end });
    }

    /// The number of requests.
    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    /// The bytes of a batch.
    pub(super) fn bytes(&self, batch: Range<usize>) -> &[u8] {
        let from = match batch.start {
            0 => 0,
            first => self.requests[first - 1].end,
        };
        let to = batch
            .end
            .checked_sub(1)
            .map_or(0, |last| self.requests[last].end);
        &self.bytes[from..to]
    }

    /// Bytes of the reply to a batch.
    pub(super) fn reply_bytes(&self, batch: Range<usize>) -> usize {
        let requests = &self.requests[batch];
        requests.iter().map(|r| self.answer_bytes(r.kind)).sum()
    }

    fn answer_bytes(&self, kind: RequestKind) -> usize {
        match kind {
            RequestKind::Get => self.hit_bytes,
            RequestKind::Set => STORED.len(),
        }
    }

    /// Checks the beginning and the end of every reply, and all of reply number `whole`.
    pub(super) fn check(
        &self,
        batch: Range<usize>,
        reply: &[u8],
        whole: usize,
    ) -> Result<(), WrongReply> {
        let mut at = 0;
        for (place, request) in self.requests[batch].iter().enumerate() {
            let answer = &reply[at..at + self.answer_bytes(request.kind)];
            let fits = match request.kind {
                RequestKind::Get => {
                    answer.starts_with(b"VALUE ") && answer.ends_with(b"\r\nEND\r\n")
                }
                RequestKind::Set => answer == STORED,
            };
            if !fits || (place == whole && answer != self.answer(request)) {
                return Err(WrongReply::new(&self.answer(request), answer));
            }
            at += answer.len();
        }
        Ok(())
    }

    fn answer(&self, request: &StreamRequest) -> Vec<u8> {
        let mut answer = Vec::with_capacity(self.hit_bytes);
        match request.kind {
            RequestKind::Get => self.keyspace.put_hit(request.key, &mut answer),
            RequestKind::Set => answer.extend_from_slice(STORED),
        }
        answer
    }
}

/// The first bytes, for a message.
pub(super) fn shown(bytes: &[u8]) -> String {
    const SHOWN_MAX: usize = 60;
    let start = &bytes[..bytes.len().min(SHOWN_MAX)];
    start.escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_checked_against_its_own_keys() -> Result<(), WrongReply> {
        let keys = Keyspace::new(12, 3);
        let stream = RequestStream::filling(&keys, 0..4);
        assert_eq!(stream.reply_bytes(1..3), 16);
        stream.check(1..3, b"STORED\r\nSTORED\r\n", 0)?;
        let refused = stream.check(1..3, b"STORED\r\nSTOLEN\r\n", 0);
        assert!(refused.is_err());
        let mut set = Vec::new();
        keys.put_set(3, &mut set);
        assert_eq!(stream.bytes(3..4), set);
        Ok(())
    }

    #[test]
    fn a_hit_with_another_key_s_value_is_found_out() -> Result<(), WrongReply> {
        let keys = Keyspace::new(12, 20);
        let stream = RequestStream::mixed(&keys, 1, RequestMix::GET, 0.0, 16);
        let (mut right, mut wrong) = (Vec::new(), Vec::new());
        keys.put_hit(0, &mut right);
        keys.put_hit(1, &mut wrong);
        stream.check(0..1, &right, 0)?;
        assert!(stream.check(0..1, &wrong, 0).is_err());
        Ok(())
    }

    #[test]
    fn mixes_are_written_in_per_cent() {
        assert_eq!("get".parse(), Ok(RequestMix::GET));
        assert_eq!("90/10".parse(), Ok(RequestMix { gets_percent: 90 }));
        assert!("90/20".parse::<RequestMix>().is_err());
        assert_eq!(RequestMix { gets_percent: 90 }.to_string(), "90/10");
    }
}
