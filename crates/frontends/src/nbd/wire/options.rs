//! The bytes of haggling: greeting, options, and the replies to them.

use super::Front;
use crate::block::{REQUEST_BYTES_MAX, Shape};
use crate::nbd::queue::Queue;

const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;

/// Bytes of the flags that a client answers a greeting with.
pub(crate) const CLIENT_FLAGS_BYTES: usize = 4;

/// Bytes of an option before its own.
pub(crate) const OPTION_HEAD_BYTES: usize = 16;

/// The most bytes of an option's own. Beyond it they are skipped.
pub(crate) const OPTION_BYTES_MAX: u32 = 64 << 10;

/// The most bytes of an export's name.
pub(crate) const NAME_BYTES_MAX: usize = 4096;

/// Bytes that small requests are best made of.
const PREFERRED_BYTES: u32 = 4096;

/// Zeroes that end the answer to an export name, unless the client spares itself them.
const PADDING: [u8; 124] = [0; 124];

/// What server and client say of themselves.
pub mod handshake {
    /// Options may be haggled over.
    pub(crate) const FIXED_NEWSTYLE: u16 = 1 << 0;
    /// The answer to an export name need not end in zeroes.
    pub const NO_ZEROES: u16 = 1 << 1;
}

/// What a disk can do, as the client is told.
pub mod transmission {
    /// Always set.
    pub const HAS_FLAGS: u16 = 1 << 0;
    /// Nobody may write.
    pub(crate) const READ_ONLY: u16 = 1 << 1;
    /// FLUSH is there.
    pub(crate) const SEND_FLUSH: u16 = 1 << 2;
    /// The FUA flag is there.
    pub(crate) const SEND_FUA: u16 = 1 << 3;
    /// TRIM is there.
    pub(crate) const SEND_TRIM: u16 = 1 << 5;
    /// WRITE_ZEROES is there.
    pub(crate) const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// The DF flag is there.
    pub(crate) const SEND_DF: u16 = 1 << 7;
    /// All connections see the same disk, and a flush of one is a flush for all.
    pub(crate) const CAN_MULTI_CONN: u16 = 1 << 8;
    /// CACHE is there.
    pub(crate) const SEND_CACHE: u16 = 1 << 10;
    /// The FAST_ZERO flag is there.
    pub(crate) const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Kinds of replies to an option.
pub mod rep {
    /// Yes, or the end of a list.
    pub(crate) const ACK: u32 = 1;
    /// An export of a list.
    pub(crate) const EXPORT: u32 = 2;
    /// Something about an export.
    pub(crate) const ABOUT: u32 = 3;
    /// A metadata context.
    pub(crate) const CONTEXTS: u32 = 4;
    /// The option is unknown.
    pub(crate) const ERR_UNSUP: u32 = 1 << 31 | 1;
    /// The option is not granted.
    pub(crate) const ERR_POLICY: u32 = 1 << 31 | 2;
    /// The option makes no sense.
    pub(crate) const ERR_INVALID: u32 = 1 << 31 | 3;
    /// TLS first.
    pub(crate) const ERR_TLS_REQD: u32 = 1 << 31 | 5;
    /// There is no such export.
    pub(crate) const ERR_UNKNOWN: u32 = 1 << 31 | 6;
    /// The option is too long.
    pub(crate) const ERR_TOO_BIG: u32 = 1 << 31 | 9;
}

/// Kinds of information about an export.
mod item {
    pub(super) const EXPORT: u16 = 0;
    pub(super) const NAME: u16 = 1;
    pub(super) const BLOCK_SIZE: u16 = 3;
}

/// What an option asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Serve this export, or hang up.
    ExportName,
    /// Hang up.
    Abort,
    /// Which exports are there?
    List,
    /// Go on in TLS.
    StartTls,
    /// Tell about an export.
    Info,
    /// Serve this export.
    Go,
    /// Replies in chunks.
    StructuredReply,
    /// Which metadata contexts are there?
    ListMetaContext,
    /// These metadata contexts.
    SetMetaContext,
    /// Something else.
    Unknown,
}

impl Verb {
    fn of(number: u32) -> Verb {
        match number {
            1 => Verb::ExportName,
            2 => Verb::Abort,
            3 => Verb::List,
            5 => Verb::StartTls,
            6 => Verb::Info,
            7 => Verb::Go,
            8 => Verb::StructuredReply,
            9 => Verb::ListMetaContext,
            10 => Verb::SetMetaContext,
            _ => Verb::Unknown,
        }
    }
}

/// The front of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OptionHead {
    /// What it asks for.
    pub verb: Verb,
    /// Its number, which replies repeat.
    pub number: u32,
    /// Bytes of its own.
    pub len: u32,
}

impl OptionHead {
    /// Reads an option's head; none where the magic is wrong.
    pub(crate) fn of(bytes: &[u8; OPTION_HEAD_BYTES]) -> Option<OptionHead> {
        let mut front = Front(bytes);
        if front.u64()? != OPTION_MAGIC {
            return None;
        }
        let number = front.u32()?;
        Some(OptionHead {
            verb: Verb::of(number),
            number,
            len: front.u32()?,
        })
    }
}

/// What INFO and GO say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish<'a> {
    /// Which export.
    pub name: &'a str,
    /// Its name is wanted back.
    pub wants_name: bool,
    /// Its block sizes are wanted.
    pub wants_block_sizes: bool,
}

impl<'a> Wish<'a> {
    /// Reads what INFO and GO say; none if it makes no sense.
    pub fn of(bytes: &'a [u8]) -> Option<Wish<'a>> {
        let mut front = Front(bytes);
        let mut wish = Wish {
            name: name_of(front.text()?)?,
            wants_name: false,
            wants_block_sizes: false,
        };
        for _ in 0..front.u16()? {
            match front.u16()? {
                item::NAME => wish.wants_name = true,
                item::BLOCK_SIZE => wish.wants_block_sizes = true,
                _ => {}
            }
        }
        front.is_empty().then_some(wish)
    }
}

/// What LIST_META_CONTEXT and SET_META_CONTEXT say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contexts<'a> {
    /// Of which export.
    pub name: &'a str,
    queries: u32,
    rest: Front<'a>,
}

impl<'a> Contexts<'a> {
    /// Reads such an option; none if it makes no sense.
    pub(crate) fn of(bytes: &'a [u8]) -> Option<Contexts<'a>> {
        let mut front = Front(bytes);
        let contexts = Contexts {
            name: name_of(front.text()?)?,
            queries: front.u32()?,
            rest: front,
        };
        for _ in 0..contexts.queries {
            front.text()?;
        }
        front.is_empty().then_some(contexts)
    }

    /// Whether nothing in particular is asked for.
    pub(crate) fn is_open(&self) -> bool {
        self.queries == 0
    }

    /// What is asked for.
    pub(crate) fn queries(&self) -> impl Iterator<Item = &'a str> {
        let mut rest = self.rest;
        (0..self.queries).map_while(move |_| rest.text())
    }
}

/// A name that may be one.
pub(crate) fn name_of(text: &str) -> Option<&str> {
    (text.len() <= NAME_BYTES_MAX && !text.contains('\0')).then_some(text)
}

/// Says hello.
pub fn greet(out: &mut Queue) {
    out.push(&INIT_MAGIC.to_be_bytes());
    out.push(&OPTION_MAGIC.to_be_bytes());
    out.push(&(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES).to_be_bytes());
}

/// Replies to the option of that number.
pub fn reply(out: &mut Queue, number: u32, kind: u32, parts: &[&[u8]]) {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    out.push(&OPTION_REPLY_MAGIC.to_be_bytes());
    out.push(&number.to_be_bytes());
    out.push(&kind.to_be_bytes());
    out.push(&(len as u32).to_be_bytes());
    parts.iter().for_each(|part| out.push(part));
}

/// An export of a list.
pub(crate) fn reply_export(out: &mut Queue, number: u32, name: &str) {
    let len = (name.len() as u32).to_be_bytes();
    reply(out, number, rep::EXPORT, &[&len, name.as_bytes()]);
}

/// A metadata context.
pub(crate) fn reply_contexts(out: &mut Queue, number: u32, id: u32, name: &str) {
    reply(
        out,
        number,
        rep::CONTEXTS,
        &[&id.to_be_bytes(), name.as_bytes()],
    );
}

/// All that a wish wants to know of an export.
pub(crate) fn reply_export_facts(
    out: &mut Queue,
    number: u32,
    wish: &Wish<'_>,
    name: &str,
    facts: Facts,
) {
    let kind = item::EXPORT.to_be_bytes();
    reply(out, number, rep::ABOUT, &[&kind, &facts.bytes()]);
    if wish.wants_name {
        let kind = item::NAME.to_be_bytes();
        reply(out, number, rep::ABOUT, &[&kind, name.as_bytes()]);
    }
    if wish.wants_block_sizes {
        let kind = item::BLOCK_SIZE.to_be_bytes();
        let [min, max] = [1_u32, REQUEST_BYTES_MAX].map(u32::to_be_bytes);
        let preferred = PREFERRED_BYTES.to_be_bytes();
        reply(out, number, rep::ABOUT, &[&kind, &min, &preferred, &max]);
    }
}

/// Answers an export name: from here on there are requests.
pub(crate) fn answer_export_name(out: &mut Queue, facts: Facts, is_padded: bool) {
    out.push(&facts.bytes());
    if is_padded {
        out.push(&PADDING);
    }
}

/// Size and abilities of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Bytes.
    pub size: u64,
    /// Of [`transmission`].
    pub flags: u16,
}

impl Facts {
    /// Those of a disk. `structured`: replies may come in chunks.
    pub(crate) fn of(shape: &Shape, structured: bool) -> Facts {
        use transmission::{
            CAN_MULTI_CONN, HAS_FLAGS, READ_ONLY, SEND_CACHE, SEND_DF, SEND_FAST_ZERO, SEND_FLUSH,
            SEND_FUA, SEND_TRIM, SEND_WRITE_ZEROES,
        };
        let mut flags = HAS_FLAGS | SEND_FLUSH | SEND_FUA | CAN_MULTI_CONN | SEND_CACHE;
        flags |= match shape.read_only {
            true => READ_ONLY,
            false => SEND_WRITE_ZEROES | SEND_FAST_ZERO,
        };
        if shape.trims && !shape.read_only {
            flags |= SEND_TRIM;
        }
        if structured {
            flags |= SEND_DF;
        }
        Facts {
            size: shape.bytes,
            flags,
        }
    }

    fn bytes(self) -> [u8; 10] {
        let mut bytes = [0; 10];
        bytes[..8].copy_from_slice(&self.size.to_be_bytes());
        bytes[8..].copy_from_slice(&self.flags.to_be_bytes());
        bytes
    }
}
