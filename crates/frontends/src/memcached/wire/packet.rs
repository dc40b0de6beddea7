//! Bytes of the binary protocol.
//!
//! ```text
//! 0     1       2-3         4            5         6-7                8-11         12-15   16-23  24…
//! magic opcode  key length  extra length data type (status in reply)  body length  opaque  cas    extras, key, value
//! ```

use super::super::map::KEY_MAX;
use super::super::verbs::{Direction, Mode, Stored};

/// The first byte of a request.
pub(in crate::memcached) const REQUEST_MAGIC: u8 = 0x80;

const REPLY_MAGIC: u8 = 0x81;

/// Bytes of a head.
const HEAD: usize = 24;

/// The largest body, bytes.
const BODY_MAX: usize = 1 << 30;

/// What begins like no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::memcached) struct BadMagic;

/// Bytes of the head, the extras and the key of the request that `input` begins with; as far as they are known.
pub(in crate::memcached) fn head_len(input: &[u8]) -> Result<usize, BadMagic> {
    if input.first().is_some_and(|&magic| magic != REQUEST_MAGIC) {
        return Err(BadMagic);
    }
    let Some(head) = input.get(..HEAD) else {
        return Ok(HEAD);
    };
    let packet = Packet::parse(head);
    Ok(match packet.bounds() {
        Ok(()) => HEAD + packet.extras_len + packet.key_len,
        Err(_) => HEAD,
    })
}

/// A request without its value.
#[derive(Clone, Debug)]
pub(in crate::memcached) struct Packet<'a> {
    pub(in crate::memcached) opcode: u8,
    pub(in crate::memcached) cas: u64,
    opaque: [u8; 4],
    key_len: usize,
    extras_len: usize,
    body_len: usize,
    rest: &'a [u8],
}

impl<'a> Packet<'a> {
    /// The request of these bytes: at least a head.
    pub(in crate::memcached) fn parse(head: &'a [u8]) -> Packet<'a> {
        let (head, rest) = head.split_at(HEAD);
        Packet {
            opcode: head[1],
            key_len: usize::from(u16::from_be_bytes(array(&head[2..]))),
            extras_len: head[4].into(),
            body_len: u32::from_be_bytes(array(&head[8..])) as usize,
            opaque: array(&head[12..]),
            cas: u64::from_be_bytes(array(&head[16..])),
            rest,
        }
    }

    /// The same without extras, key and value: enough to reply later.
    pub(in crate::memcached) fn bare(&self) -> Packet<'static> {
        Packet {
            opcode: self.opcode,
            cas: self.cas,
            opaque: self.opaque,
            key_len: 0,
            extras_len: 0,
            body_len: 0,
            rest: &[],
        }
    }

    /// Whether the lengths agree with each other.
    pub(in crate::memcached) fn bounds(&self) -> Result<(), Status> {
        if self.key_len + self.extras_len > self.body_len {
            return Err(Status::UnknownCommand);
        }
        match self.body_len > BODY_MAX {
            true => Err(Status::InvalidArguments),
            false => Ok(()),
        }
    }

    /// Whether the key is one that can be stored, or there is none.
    pub(in crate::memcached) fn key_fits(&self) -> bool {
        self.key_len <= KEY_MAX
    }

    /// The key.
    pub(in crate::memcached) fn key(&self) -> &'a [u8] {
        &self.rest[self.extras_len..]
    }

    /// The 32 bits at `offset` of the extras.
    pub(in crate::memcached) fn extra_32(&self, offset: usize) -> u32 {
        u32::from_be_bytes(array(&self.rest[offset..]))
    }

    /// The 64 bits at `offset` of the extras.
    pub(in crate::memcached) fn extra_64(&self, offset: usize) -> u64 {
        u64::from_be_bytes(array(&self.rest[offset..]))
    }

    /// Bytes of the extras.
    pub(in crate::memcached) fn extras_len(&self) -> usize {
        self.extras_len
    }

    /// Bytes behind the key.
    pub(in crate::memcached) fn value_len(&self) -> usize {
        self.body_len - self.key_len - self.extras_len
    }

    /// The cas unique that the client saw, if any.
    pub(in crate::memcached) fn compare(&self) -> Option<u64> {
        Some(self.cas).filter(|&cas| cas != 0)
    }

    /// Appends the head of a reply; extras, key and value follow by the caller.
    pub(in crate::memcached) fn reply(
        &self,
        extras: usize,
        key: usize,
        value: usize,
        cas: u64,
        out: &mut Vec<u8>,
    ) {
        self.head(Status::Success, [extras, key, value], cas, out);
    }

    /// Appends an error with its text.
    pub(in crate::memcached) fn fail(&self, status: Status, out: &mut Vec<u8>) {
        let text = status.text();
        self.head(status, [0, 0, text.len()], 0, out);
        out.extend_from_slice(text);
    }

    /// Appends a miss whose body is the key.
    pub(in crate::memcached) fn miss_with_key(&self, out: &mut Vec<u8>) {
        self.head(Status::NotFound, [0, self.key_len, 0], 0, out);
        out.extend_from_slice(self.key());
    }

    fn head(&self, status: Status, [extras, key, value]: [usize; 3], cas: u64, out: &mut Vec<u8>) {
        let mut head = [0; HEAD];
        head[0] = REPLY_MAGIC;
        head[1] = self.opcode;
        head[2..4].copy_from_slice(&(key as u16).to_be_bytes());
        head[4] = extras as u8;
        head[6..8].copy_from_slice(&(status as u16).to_be_bytes());
        head[8..12].copy_from_slice(&((extras + key + value) as u32).to_be_bytes());
        head[12..16].copy_from_slice(&self.opaque);
        head[16..].copy_from_slice(&cas.to_be_bytes());
        out.extend_from_slice(&head);
    }
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[..N]);
    array
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(in crate::memcached) enum Status {
    Success = 0x00,
    NotFound = 0x01,
    Exists = 0x02,
    TooLarge = 0x03,
    InvalidArguments = 0x04,
    NotStored = 0x05,
    NotANumber = 0x06,
    AuthFailure = 0x20,
    UnknownCommand = 0x81,
    OutOfMemory = 0x82,
}

impl Status {
    fn text(self) -> &'static [u8] {
        match self {
            Status::Success => b"",
            Status::NotFound => b"Not found",
            Status::Exists => b"Data exists for key.",
            Status::TooLarge => b"Too large.",
            Status::InvalidArguments => b"Invalid arguments",
            Status::NotStored => b"Not stored.",
            Status::NotANumber => b"Non-numeric server-side value for incr or decr",
            Status::AuthFailure => b"Auth failure.",
            Status::UnknownCommand => b"Unknown command",
            Status::OutOfMemory => b"Out of memory",
        }
    }
}

impl From<Stored> for Status {
    fn from(stored: Stored) -> Status {
        match stored {
            Stored::Done { .. } => Status::Success,
            Stored::Unmet => Status::NotStored,
            Stored::Exists => Status::Exists,
            Stored::NotFound => Status::NotFound,
            Stored::TooLarge => Status::TooLarge,
            Stored::NoMemory => Status::OutOfMemory,
        }
    }
}

/// Whether the plain outcome is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::memcached) enum Quiet {
    No,
    Yes,
}

/// What a fetch returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::memcached) struct Shape {
    pub(in crate::memcached) key: bool,
    pub(in crate::memcached) value: bool,
    pub(in crate::memcached) touches: bool,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::memcached) enum Verb {
    Get(Shape),
    Store(Mode),
    Join(Mode),
    Count(Direction),
    Delete,
    Flush,
    Stat,
    Noop,
    Version,
    Quit,
    SaslList,
    SaslAuth,
    SaslStep,
}

impl Verb {
    /// Whether a request has the lengths that this verb needs.
    pub(in crate::memcached) fn fits(self, packet: &Packet<'_>) -> bool {
        let (extras, key, value) = (
            packet.extras_len,
            packet.key_len > 0,
            packet.value_len() > 0,
        );
        match self {
            Verb::Get(Shape { touches: true, .. }) => extras == 4 && key && !value,
            Verb::Get(_) | Verb::Delete => extras == 0 && key && !value,
            Verb::Store(_) => extras == 8 && key,
            Verb::Join(_) => extras == 0 && key,
            Verb::Count(_) => extras == 20 && key && !value,
            Verb::Flush => matches!(extras, 0 | 4) && !key && !value,
            Verb::Stat => extras == 0,
            Verb::Noop | Verb::Version | Verb::Quit | Verb::SaslList => {
                extras == 0 && !key && !value
            }
            Verb::SaslAuth | Verb::SaslStep => extras == 0 && key,
        }
    }
}

/// A verb, and whether its plain outcome is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::memcached) struct Opcode {
    pub(in crate::memcached) verb: Verb,
    pub(in crate::memcached) quiet: Quiet,
}

impl Opcode {
    /// What the opcode's byte stands for, if it is in use.
    pub(in crate::memcached) fn of(byte: u8) -> Option<Opcode> {
        use Quiet::{No, Yes};
        let get = |key, value, touches| {
            Verb::Get(Shape {
                key,
                value,
                touches,
            })
        };
        let (verb, quiet) = match byte {
            0x00 => (get(false, true, false), No),
            0x01 => (Verb::Store(Mode::Set), No),
            0x02 => (Verb::Store(Mode::Add), No),
            0x03 => (Verb::Store(Mode::Replace), No),
            0x04 => (Verb::Delete, No),
            0x05 => (Verb::Count(Direction::Up), No),
            0x06 => (Verb::Count(Direction::Down), No),
            0x07 => (Verb::Quit, No),
            0x08 => (Verb::Flush, No),
            0x09 => (get(false, true, false), Yes),
            0x0a => (Verb::Noop, No),
            0x0b => (Verb::Version, No),
            0x0c => (get(true, true, false), No),
            0x0d => (get(true, true, false), Yes),
            0x0e => (Verb::Join(Mode::Append), No),
            0x0f => (Verb::Join(Mode::Prepend), No),
            0x10 => (Verb::Stat, No),
            0x11 => (Verb::Store(Mode::Set), Yes),
            0x12 => (Verb::Store(Mode::Add), Yes),
            0x13 => (Verb::Store(Mode::Replace), Yes),
            0x14 => (Verb::Delete, Yes),
            0x15 => (Verb::Count(Direction::Up), Yes),
            0x16 => (Verb::Count(Direction::Down), Yes),
            0x17 => (Verb::Quit, Yes),
            0x18 => (Verb::Flush, Yes),
            0x19 => (Verb::Join(Mode::Append), Yes),
            0x1a => (Verb::Join(Mode::Prepend), Yes),
            0x1c => (get(false, false, true), No),
            0x1d => (get(false, true, true), No),
            0x1e => (get(false, true, true), Yes),
            0x20 => (Verb::SaslList, No),
            0x21 => (Verb::SaslAuth, No),
            0x22 => (Verb::SaslStep, No),
            0x23 => (get(true, true, true), No),
            0x24 => (get(true, true, true), Yes),
            _ => return None,
        };
        Some(Opcode { verb, quiet })
    }
}
