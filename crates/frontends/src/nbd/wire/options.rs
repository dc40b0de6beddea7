//! The bytes of the negotiation: greeting, options, and replies to options.

use super::BigEndianReader;
use super::replies::ReplyFormat;
use crate::block_device::{DiskShape, REQUEST_BYTES_MAX};
use crate::nbd::socket_buffer::SocketBuffer;

const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;

/// Bytes of the flags in a client's answer to the greeting.
pub(crate) const CLIENT_FLAGS_BYTES: usize = 4;

/// Bytes of an option's header.
pub(crate) const OPTION_HEADER_BYTES: usize = 16;

/// The longest payload of an option. The session skips a longer one.
pub(crate) const OPTION_BYTES_MAX: u32 = 64 << 10;

/// The most bytes of an export's name.
pub(crate) const NAME_BYTES_MAX: usize = 4096;

/// The block size that small requests should use.
const PREFERRED_BYTES: u32 = 4096;

/// Zeroes that end the answer to EXPORT_NAME, unless the client set NO_ZEROES.
const PADDING_BYTES: [u8; 124] = [0; 124];

/// How the answer to EXPORT_NAME ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Padding {
    /// 124 zero bytes follow.
    Zeroes,
    /// Nothing follows, because the client set NO_ZEROES.
    Omitted,
}

/// The flags that server and client exchange in the handshake.
pub mod handshake {
    /// The server negotiates options.
    pub(crate) const FIXED_NEWSTYLE: u16 = 1 << 0;
    /// The answer to EXPORT_NAME need not end in zeroes.
    pub const NO_ZEROES: u16 = 1 << 1;
}

/// The transmission flags, which tell a client what a disk can do.
pub mod transmission {
    /// This flag is always set.
    pub const HAS_FLAGS: u16 = 1 << 0;
    /// The disk is read-only.
    pub(crate) const READ_ONLY: u16 = 1 << 1;
    /// The disk accepts FLUSH.
    pub(crate) const SEND_FLUSH: u16 = 1 << 2;
    /// The disk accepts the FUA flag.
    pub(crate) const SEND_FUA: u16 = 1 << 3;
    /// The disk accepts TRIM.
    pub(crate) const SEND_TRIM: u16 = 1 << 5;
    /// The disk accepts WRITE_ZEROES.
    pub(crate) const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// The disk accepts the DF flag.
    pub(crate) const SEND_DF: u16 = 1 << 7;
    /// All connections see the same disk, and a flush on one connection holds for all.
    pub(crate) const CAN_MULTI_CONN: u16 = 1 << 8;
    /// The disk accepts CACHE.
    pub(crate) const SEND_CACHE: u16 = 1 << 10;
    /// The disk accepts the FAST_ZERO flag.
    pub(crate) const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// The types of replies to an option.
pub mod rep {
    /// The server agrees, or a list ends.
    pub(crate) const ACK: u32 = 1;
    /// One export of a list.
    pub(crate) const EXPORT: u32 = 2;
    /// One fact about an export.
    pub(crate) const ABOUT: u32 = 3;
    /// A metadata context.
    pub(crate) const CONTEXTS: u32 = 4;
    /// The option is unknown.
    pub(crate) const ERR_UNSUP: u32 = 1 << 31 | 1;
    /// The server does not grant the option.
    pub(crate) const ERR_POLICY: u32 = 1 << 31 | 2;
    /// The option makes no sense.
    pub(crate) const ERR_INVALID: u32 = 1 << 31 | 3;
    /// The server wants TLS first.
    pub(crate) const ERR_TLS_REQD: u32 = 1 << 31 | 5;
    /// There is no such export.
    pub(crate) const ERR_UNKNOWN: u32 = 1 << 31 | 6;
    /// The option is too long.
    pub(crate) const ERR_TOO_BIG: u32 = 1 << 31 | 9;
}

/// Kinds of information about an export.
mod export_item {
    pub(super) const EXPORT: u16 = 0;
    pub(super) const NAME: u16 = 1;
    pub(super) const BLOCK_SIZE: u16 = 3;
}

/// What an option asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionType {
    /// Serve this export, or close the connection.
    ExportName,
    /// Close the connection.
    Abort,
    /// List the exports.
    List,
    /// Begin TLS.
    StartTls,
    /// Describe an export.
    Info,
    /// Serve this export.
    Go,
    /// Use structured replies.
    StructuredReply,
    /// List the metadata contexts.
    ListMetaContext,
    /// Select these metadata contexts.
    SetMetaContext,
    /// An option that this server does not know.
    Unknown,
}

impl OptionType {
    fn of(number: u32) -> OptionType {
        match number {
            1 => OptionType::ExportName,
            2 => OptionType::Abort,
            3 => OptionType::List,
            5 => OptionType::StartTls,
            6 => OptionType::Info,
            7 => OptionType::Go,
            8 => OptionType::StructuredReply,
            9 => OptionType::ListMetaContext,
            10 => OptionType::SetMetaContext,
            _ => OptionType::Unknown,
        }
    }
}

/// The header of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OptionHeader {
    /// Which option it is.
    pub option_type: OptionType,
    /// The option's number, which replies repeat.
    pub number: u32,
    /// Bytes of the payload.
    pub len: u32,
}

impl OptionHeader {
    /// Reads an option's header. `None` if the magic is wrong.
    pub(crate) fn of(bytes: &[u8; OPTION_HEADER_BYTES]) -> Option<OptionHeader> {
        let mut reader = BigEndianReader(bytes);
        if reader.u64()? != OPTION_MAGIC {
            return None;
        }
        let number = reader.u32()?;
        Some(OptionHeader {
            option_type: OptionType::of(number),
            number,
            len: reader.u32()?,
        })
    }
}

/// The payload of INFO and GO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportQuery<'a> {
    /// The export's name.
    pub name: &'a str,
    /// Whether the client wants the name back.
    pub wants_name: bool,
    /// Whether the client wants the block sizes.
    pub wants_block_sizes: bool,
}

impl<'a> ExportQuery<'a> {
    /// Reads the payload of INFO or GO. `None` if it makes no sense.
    pub fn of(bytes: &'a [u8]) -> Option<ExportQuery<'a>> {
        let mut reader = BigEndianReader(bytes);
        let mut query = ExportQuery {
            name: checked_name(reader.text()?)?,
            wants_name: false,
            wants_block_sizes: false,
        };
        for _ in 0..reader.u16()? {
            match reader.u16()? {
                export_item::NAME => query.wants_name = true,
                export_item::BLOCK_SIZE => query.wants_block_sizes = true,
                _ => {}
            }
        }
        reader.is_empty().then_some(query)
    }
}

/// The payload of LIST_META_CONTEXT and SET_META_CONTEXT.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MetaContextsQuery<'a> {
    /// The export's name.
    pub name: &'a str,
    queries: u32,
    rest: BigEndianReader<'a>,
}

impl<'a> MetaContextsQuery<'a> {
    /// Reads such a payload. `None` if it makes no sense.
    pub(crate) fn of(bytes: &'a [u8]) -> Option<MetaContextsQuery<'a>> {
        let mut reader = BigEndianReader(bytes);
        let contexts = MetaContextsQuery {
            name: checked_name(reader.text()?)?,
            queries: reader.u32()?,
            rest: reader,
        };
        for _ in 0..contexts.queries {
            reader.text()?;
        }
        reader.is_empty().then_some(contexts)
    }

    /// Returns whether the client names no context.
    pub(crate) fn asks_for_all(&self) -> bool {
        self.queries == 0
    }

    /// The contexts that the client names.
    pub(crate) fn queries(&self) -> impl Iterator<Item = &'a str> {
        let mut rest = self.rest;
        (0..self.queries).map_while(move |_| rest.text())
    }
}

/// The text, if it may be an export's name.
pub(crate) fn checked_name(text: &str) -> Option<&str> {
    (text.len() <= NAME_BYTES_MAX && !text.contains('\0')).then_some(text)
}

/// Writes the server's greeting.
pub fn write_greeting(out: &mut SocketBuffer) {
    out.push(&INIT_MAGIC.to_be_bytes());
    out.push(&OPTION_MAGIC.to_be_bytes());
    out.push(&(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES).to_be_bytes());
}

/// Writes a reply to the option of that number.
pub fn reply(out: &mut SocketBuffer, number: u32, kind: u32, parts: &[&[u8]]) {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    out.push(&OPTION_REPLY_MAGIC.to_be_bytes());
    out.push(&number.to_be_bytes());
    out.push(&kind.to_be_bytes());
    out.push(&(len as u32).to_be_bytes());
    parts.iter().for_each(|part| out.push(part));
}

/// Writes one export of a list.
pub(crate) fn reply_export(out: &mut SocketBuffer, number: u32, name: &str) {
    let len = (name.len() as u32).to_be_bytes();
    reply(out, number, rep::EXPORT, &[&len, name.as_bytes()]);
}

/// Writes one metadata context.
pub(crate) fn reply_contexts(out: &mut SocketBuffer, number: u32, id: u32, name: &str) {
    reply(
        out,
        number,
        rep::CONTEXTS,
        &[&id.to_be_bytes(), name.as_bytes()],
    );
}

/// Writes everything that a query asks about an export.
pub(crate) fn reply_export_description(
    out: &mut SocketBuffer,
    number: u32,
    query: &ExportQuery<'_>,
    name: &str,
    description: ExportDescription,
) {
    let kind = export_item::EXPORT.to_be_bytes();
    reply(out, number, rep::ABOUT, &[&kind, &description.bytes()]);
    if query.wants_name {
        let kind = export_item::NAME.to_be_bytes();
        reply(out, number, rep::ABOUT, &[&kind, name.as_bytes()]);
    }
    if query.wants_block_sizes {
        let kind = export_item::BLOCK_SIZE.to_be_bytes();
        let [min, max] = [1_u32, REQUEST_BYTES_MAX].map(u32::to_be_bytes);
        let preferred = PREFERRED_BYTES.to_be_bytes();
        reply(out, number, rep::ABOUT, &[&kind, &min, &preferred, &max]);
    }
}

/// Answers EXPORT_NAME. Requests follow from here on.
pub(crate) fn answer_export_name(
    out: &mut SocketBuffer,
    description: ExportDescription,
    padding: Padding,
) {
    out.push(&description.bytes());
    if padding == Padding::Zeroes {
        out.push(&PADDING_BYTES);
    }
}

/// The size and the abilities of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExportDescription {
    /// The size in bytes.
    pub size: u64,
    /// The flags of [`transmission`].
    pub flags: u16,
}

impl ExportDescription {
    /// The size and abilities of a disk, for a client that gets its replies in `format`.
    pub(crate) fn of(shape: &DiskShape, format: ReplyFormat) -> ExportDescription {
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
        if format == ReplyFormat::Structured {
            flags |= SEND_DF;
        }
        ExportDescription {
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
