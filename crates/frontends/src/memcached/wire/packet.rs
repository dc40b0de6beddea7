//! Bytes of the binary protocol.
//!
//! ```text
//! 0     1       2-3         4            5         6-7                8-11         12-15   16-23  24…
//! magic opcode  key length  extra length data type (status in reply)  body length  opaque  cas    extras, key, value
//! ```

use super::super::map::KEY_MAX;
use super::super::verbs::{Direction, StoreMode, StoreOutcome};

/// The first byte of a request.
pub(in crate::memcached) const REQUEST_MAGIC: u8 = 0x80;

const REPLY_MAGIC: u8 = 0x81;

/// The length of a head, in bytes.
const HEAD: usize = 24;

/// The largest body, in bytes.
const BODY_MAX: usize = 1 << 30;

/// The input begins with no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::memcached) struct BadMagic;

/// Returns how many bytes the head, the extras and the key take in the request at the start of `input`, as far as they
/// are known.
pub(in crate::memcached) fn head_len(input: &[u8]) -> Result<usize, BadMagic> {
    if input.first().is_some_and(|&magic| magic != REQUEST_MAGIC) {
        return Err(BadMagic);
    }
    let Some(head) = input.get(..HEAD) else {
        return Ok(HEAD);
    };
    let packet = Packet::parse(head);
    Ok(match packet.check_lengths() {
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
    /// Parses a request from at least a head.
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

    /// Returns the request without extras, key and value, which is enough for a later reply.
    pub(in crate::memcached) fn head_only(&self) -> Packet<'static> {
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

    /// Checks that the lengths agree with each other.
    pub(in crate::memcached) fn check_lengths(&self) -> Result<(), ResponseStatus> {
        if self.key_len + self.extras_len > self.body_len {
            return Err(ResponseStatus::UnknownCommand);
        }
        match self.body_len > BODY_MAX {
            true => Err(ResponseStatus::InvalidArguments),
            false => Ok(()),
        }
    }

    /// Returns whether the key can be stored, or there is none.
    pub(in crate::memcached) fn key_fits(&self) -> bool {
        self.key_len <= KEY_MAX
    }

    /// Returns the key.
    pub(in crate::memcached) fn key(&self) -> &'a [u8] {
        &self.rest[self.extras_len..]
    }

    /// Returns the 32 bits at `offset` of the extras.
    pub(in crate::memcached) fn extra_32(&self, offset: usize) -> u32 {
        u32::from_be_bytes(array(&self.rest[offset..]))
    }

    /// Returns the 64 bits at `offset` of the extras.
    pub(in crate::memcached) fn extra_64(&self, offset: usize) -> u64 {
        u64::from_be_bytes(array(&self.rest[offset..]))
    }

    /// Returns the length of the extras.
    pub(in crate::memcached) fn extras_len(&self) -> usize {
        self.extras_len
    }

    /// Returns the length of the part behind the key.
    pub(in crate::memcached) fn value_len(&self) -> usize {
        self.body_len - self.key_len - self.extras_len
    }

    /// Returns the cas unique that the client saw, if any.
    pub(in crate::memcached) fn compare(&self) -> Option<u64> {
        Some(self.cas).filter(|&cas| cas != 0)
    }

    /// Appends the head of a reply. The caller appends extras, key and value.
    pub(in crate::memcached) fn reply(
        &self,
        extras: usize,
        key: usize,
        value: usize,
        cas: u64,
        out: &mut Vec<u8>,
    ) {
        self.head(ResponseStatus::Success, [extras, key, value], cas, out);
    }

    /// Appends an error with its text.
    pub(in crate::memcached) fn fail(&self, status: ResponseStatus, out: &mut Vec<u8>) {
        let text = status.text();
        self.head(status, [0, 0, text.len()], 0, out);
        out.extend_from_slice(text);
    }

    /// Appends a miss whose body is the key.
    pub(in crate::memcached) fn miss_with_key(&self, out: &mut Vec<u8>) {
        self.head(ResponseStatus::NotFound, [0, self.key_len, 0], 0, out);
        out.extend_from_slice(self.key());
    }

    fn head(
        &self,
        status: ResponseStatus,
        [extras, key, value]: [usize; 3],
        cas: u64,
        out: &mut Vec<u8>,
    ) {
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

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(in crate::memcached) enum ResponseStatus {
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

impl ResponseStatus {
    fn text(self) -> &'static [u8] {
        match self {
            ResponseStatus::Success => b"",
            ResponseStatus::NotFound => b"Not found",
            ResponseStatus::Exists => b"Data exists for key.",
            ResponseStatus::TooLarge => b"Too large.",
            ResponseStatus::InvalidArguments => b"Invalid arguments",
            ResponseStatus::NotStored => b"Not stored.",
            ResponseStatus::NotANumber => b"Non-numeric server-side value for incr or decr",
            ResponseStatus::AuthFailure => b"Auth failure.",
            ResponseStatus::UnknownCommand => b"Unknown command",
            ResponseStatus::OutOfMemory => b"Out of memory",
        }
    }
}

impl From<StoreOutcome> for ResponseStatus {
    fn from(stored: StoreOutcome) -> ResponseStatus {
        match stored {
            StoreOutcome::Done { .. } => ResponseStatus::Success,
            StoreOutcome::ConditionUnmet => ResponseStatus::NotStored,
            StoreOutcome::Exists => ResponseStatus::Exists,
            StoreOutcome::NotFound => ResponseStatus::NotFound,
            StoreOutcome::TooLarge => ResponseStatus::TooLarge,
            StoreOutcome::NoMemory => ResponseStatus::OutOfMemory,
        }
    }
}

/// Whether the plain outcome gets a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::memcached) enum Quiet {
    No,
    Yes,
}

/// What a fetch returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::memcached) struct GetOptions {
    pub(in crate::memcached) key: bool,
    pub(in crate::memcached) value: bool,
    pub(in crate::memcached) touches: bool,
}

/// The command of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::memcached) enum BinaryCommand {
    Get(GetOptions),
    Store(StoreMode),
    Concatenate(StoreMode),
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

impl BinaryCommand {
    /// Returns whether a request has the lengths that this command needs.
    pub(in crate::memcached) fn fits(self, packet: &Packet<'_>) -> bool {
        let (extras, key, value) = (
            packet.extras_len,
            packet.key_len > 0,
            packet.value_len() > 0,
        );
        match self {
            BinaryCommand::Get(GetOptions { touches: true, .. }) => extras == 4 && key && !value,
            BinaryCommand::Get(_) | BinaryCommand::Delete => extras == 0 && key && !value,
            BinaryCommand::Store(_) => extras == 8 && key,
            BinaryCommand::Concatenate(_) => extras == 0 && key,
            BinaryCommand::Count(_) => extras == 20 && key && !value,
            BinaryCommand::Flush => matches!(extras, 0 | 4) && !key && !value,
            BinaryCommand::Stat => extras == 0,
            BinaryCommand::Noop
            | BinaryCommand::Version
            | BinaryCommand::Quit
            | BinaryCommand::SaslList => extras == 0 && !key && !value,
            BinaryCommand::SaslAuth | BinaryCommand::SaslStep => extras == 0 && key,
        }
    }
}

/// A command, and whether its plain outcome gets a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::memcached) struct Opcode {
    pub(in crate::memcached) command: BinaryCommand,
    pub(in crate::memcached) quiet: Quiet,
}

impl Opcode {
    /// Returns the meaning of an opcode's byte, if it is in use.
    pub(in crate::memcached) fn of(byte: u8) -> Option<Opcode> {
        use Quiet::{No, Yes};
        let get = |key, value, touches| {
            BinaryCommand::Get(GetOptions {
                key,
                value,
                touches,
            })
        };
        let (verb, quiet) = match byte {
            0x00 => (get(false, true, false), No),
            0x01 => (BinaryCommand::Store(StoreMode::Set), No),
            0x02 => (BinaryCommand::Store(StoreMode::Add), No),
            0x03 => (BinaryCommand::Store(StoreMode::Replace), No),
            0x04 => (BinaryCommand::Delete, No),
            0x05 => (BinaryCommand::Count(Direction::Up), No),
            0x06 => (BinaryCommand::Count(Direction::Down), No),
            0x07 => (BinaryCommand::Quit, No),
            0x08 => (BinaryCommand::Flush, No),
            0x09 => (get(false, true, false), Yes),
            0x0a => (BinaryCommand::Noop, No),
            0x0b => (BinaryCommand::Version, No),
            0x0c => (get(true, true, false), No),
            0x0d => (get(true, true, false), Yes),
            0x0e => (BinaryCommand::Concatenate(StoreMode::Append), No),
            0x0f => (BinaryCommand::Concatenate(StoreMode::Prepend), No),
            0x10 => (BinaryCommand::Stat, No),
            0x11 => (BinaryCommand::Store(StoreMode::Set), Yes),
            0x12 => (BinaryCommand::Store(StoreMode::Add), Yes),
            0x13 => (BinaryCommand::Store(StoreMode::Replace), Yes),
            0x14 => (BinaryCommand::Delete, Yes),
            0x15 => (BinaryCommand::Count(Direction::Up), Yes),
            0x16 => (BinaryCommand::Count(Direction::Down), Yes),
            0x17 => (BinaryCommand::Quit, Yes),
            0x18 => (BinaryCommand::Flush, Yes),
            0x19 => (BinaryCommand::Concatenate(StoreMode::Append), Yes),
            0x1a => (BinaryCommand::Concatenate(StoreMode::Prepend), Yes),
            0x1c => (get(false, false, true), No),
            0x1d => (get(false, true, true), No),
            0x1e => (get(false, true, true), Yes),
            0x20 => (BinaryCommand::SaslList, No),
            0x21 => (BinaryCommand::SaslAuth, No),
            0x22 => (BinaryCommand::SaslStep, No),
            0x23 => (get(true, true, true), No),
            0x24 => (get(true, true, true), Yes),
            _ => return None,
        };
        Some(Opcode {
            command: verb,
            quiet,
        })
    }
}
