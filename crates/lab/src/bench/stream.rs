//! Requests written out in advance, so that sending costs the generator one system call a batch.

use std::ops::Range;

use sublet_sim::chance::{Chance, Zipf};

use super::keyspace::Keyspace;
use super::shuffle::shuffled;

const STORED: &[u8] = b"STORED\r\n";

/// A stream is at most this long: its bytes come from memory in order, but they must fit.
const BYTES_MAX: usize = 64 << 20;
const REQUESTS_MAX: usize = 1 << 18;

/// What is asked, in per cent of gets; the rest are sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mix {
    /// Gets in a hundred requests.
    pub(super) gets_percent: u8,
}

impl Mix {
    /// Gets only.
    pub(super) const GET: Mix = Mix { gets_percent: 100 };
    /// Sets only.
    pub(super) const SET: Mix = Mix { gets_percent: 0 };
}

impl std::fmt::Display for Mix {
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
pub(crate) struct MixError(String);

impl std::str::FromStr for Mix {
    type Err = MixError;

    fn from_str(text: &str) -> Result<Mix, MixError> {
        let percent = |text: &str| text.parse::<u8>().ok().filter(|p| *p <= 100);
        let read = match text {
            "get" => Some(Mix::GET),
            "set" => Some(Mix::SET),
            _ => text.split_once('/').and_then(|(gets, sets)| {
                let gets_percent = percent(gets)?;
                (gets_percent + percent(sets)? == 100).then_some(Mix { gets_percent })
            }),
        };
        read.ok_or_else(|| MixError(text.to_owned()))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Get,
    Set,
}

struct Request {
    kind: Kind,
    key: u32,
    /// Where its bytes end in the stream.
    end: usize,
}

/// Requests in a row, and what each is to be answered with.
pub(super) struct Stream<'k> {
    keyspace: &'k Keyspace,
    hit_bytes: usize,
    bytes: Vec<u8>,
    requests: Vec<Request>,
}

/// A batch that was not answered as it should have been.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a wrong reply: expected {expected:?}, received {received:?}")]
pub(crate) struct WrongReply {
    expected: String,
    received: String,
}

impl WrongReply {
    /// `received` came where `expected` was due.
    pub(super) fn new(expected: &[u8], received: &[u8]) -> WrongReply {
        WrongReply {
            expected: shown(expected),
            received: shown(received),
        }
    }
}

impl<'k> Stream<'k> {
    fn empty(keyspace: &'k Keyspace) -> Stream<'k> {
        Stream {
            hit_bytes: keyspace.hit_bytes(),
            keyspace,
            bytes: Vec::new(),
            requests: Vec::new(),
        }
    }

    /// Sets of each key of `keys`, in order.
    pub(super) fn filling(keyspace: &'k Keyspace, keys: Range<u32>) -> Stream<'k> {
        let mut stream = Stream::empty(keyspace);
        keys.for_each(|key| stream.push(Kind::Set, key));
        stream
    }

    /// How many sets of this keyspace one stream holds.
    pub(super) fn filling_max(keyspace: &Keyspace) -> u32 {
        (BYTES_MAX / keyspace.item_bytes()).clamp(64, REQUESTS_MAX) as u32
    }

    /// A mix over keys 0 to `keys - 1`, asked for by Zipf's law; a whole number of batches of
    /// `pipeline` requests.
    pub(super) fn mixed(
        keyspace: &'k Keyspace,
        keys: u32,
        mix: Mix,
        alpha: f64,
        pipeline: usize,
    ) -> Stream<'k> {
        let mut chance = Chance::seeded(0x5eed);
        let zipf = Zipf::of(u64::from(keys), alpha);
        let places = shuffled(keys as usize, &mut chance);
        let mut stream = Stream::empty(keyspace);
        while stream.has_room() || !stream.requests.len().is_multiple_of(pipeline) {
            let key = places[zipf.draw(&mut chance) as usize];
            let is_get = chance.below(100) < u64::from(mix.gets_percent);
            stream.push(if is_get { Kind::Get } else { Kind::Set }, key);
        }
        stream
    }

    fn has_room(&self) -> bool {
        self.requests.len() < REQUESTS_MAX && self.bytes.len() < BYTES_MAX
    }

    fn push(&mut self, kind: Kind, key: u32) {
        match kind {
            Kind::Get => self.keyspace.put_get(key, &mut self.bytes),
            Kind::Set => self.keyspace.put_set(key, &mut self.bytes),
        }
        let end = self.bytes.len();
        self.requests.push(Request { kind, key, end });
    }

    /// Requests in it.
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

    /// Bytes that a batch is answered with.
    pub(super) fn reply_bytes(&self, batch: Range<usize>) -> usize {
        let requests = &self.requests[batch];
        requests.iter().map(|r| self.answer_bytes(r.kind)).sum()
    }

    fn answer_bytes(&self, kind: Kind) -> usize {
        match kind {
            Kind::Get => self.hit_bytes,
            Kind::Set => STORED.len(),
        }
    }

    /// Looks at the beginning and the end of every answer, and at all of number `whole`.
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
                Kind::Get => answer.starts_with(b"VALUE ") && answer.ends_with(b"\r\nEND\r\n"),
                Kind::Set => answer == STORED,
            };
            if !fits || (place == whole && answer != self.answer(request)) {
                return Err(WrongReply::new(&self.answer(request), answer));
            }
            at += answer.len();
        }
        Ok(())
    }

    fn answer(&self, request: &Request) -> Vec<u8> {
        let mut answer = Vec::with_capacity(self.hit_bytes);
        match request.kind {
            Kind::Get => self.keyspace.put_hit(request.key, &mut answer),
            Kind::Set => answer.extend_from_slice(STORED),
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
        let stream = Stream::filling(&keys, 0..4);
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
        let stream = Stream::mixed(&keys, 1, Mix::GET, 0.0, 16);
        let (mut right, mut wrong) = (Vec::new(), Vec::new());
        keys.put_hit(0, &mut right);
        keys.put_hit(1, &mut wrong);
        stream.check(0..1, &right, 0)?;
        assert!(stream.check(0..1, &wrong, 0).is_err());
        Ok(())
    }

    #[test]
    fn mixes_are_written_in_per_cent() {
        assert_eq!("get".parse(), Ok(Mix::GET));
        assert_eq!("90/10".parse(), Ok(Mix { gets_percent: 90 }));
        assert!("90/20".parse::<Mix>().is_err());
        assert_eq!(Mix { gets_percent: 90 }.to_string(), "90/10");
    }
}
