//! The negotiation, which comes before the first request. Bytes go in and bytes go out. It opens nothing and waits for
//! nothing.

use std::sync::Arc;

use crate::block_device::Disk;
use crate::nbd::map::Exports;
use crate::nbd::socket_buffer::SocketBuffer;
use crate::nbd::wire::options::{
    self, CLIENT_FLAGS_BYTES, ExportDescription, ExportQuery, MetaContextsQuery, OPTION_BYTES_MAX,
    OPTION_HEADER_BYTES, OptionHeader, OptionType, Padding, handshake, rep,
};
use crate::nbd::wire::replies::{ALLOCATION_ID, ReplyFormat};
use crate::nbd::wire::requests::NegotiatedOptions;

/// The one metadata context that this server knows.
const ALLOCATION: &str = "base:allocation";

/// The namespace of that context.
const NAMESPACE: &str = "base:";

/// Where a connection stands with TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsState {
    /// The listener has no TLS.
    Absent,
    /// The client must begin TLS first.
    Required,
    /// The connection speaks TLS.
    Active,
}

/// What the connection does next.
pub enum NegotiationAction {
    /// Read: the negotiation wants more bytes.
    Read,
    /// Send replies before the negotiation goes on.
    Write,
    /// Begin TLS after everything is sent. The daemon does not trust bytes that the client sent after this option
    /// without TLS.
    Tls,
    /// Serve requests for this disk.
    Serve(Arc<dyn Disk>, NegotiatedOptions),
    /// Close the connection after everything is sent.
    Close,
    /// Close the connection, because the bytes are not NBD.
    ProtocolError,
}

/// How many bytes a call consumed, and what the connection does next.
pub struct NegotiationAdvance {
    /// How many bytes of the input are consumed.
    pub consumed: usize,
    /// What the connection does next.
    pub next: NegotiationAction,
}

/// The negotiation of a connection that has not chosen its disk yet.
pub struct Negotiation {
    tls: TlsState,
    flags: Option<ClientFlags>,
    reply_format: ReplyFormat,
    /// The disk for which the client selected base:allocation.
    extents_of: Option<String>,
    /// How many bytes of an option's payload are still to be skipped, because it is too long.
    to_skip: u32,
    /// How often the client asked for an unknown disk.
    pub(in crate::nbd) unknown_exports: u64,
}

/// The flags of a client's answer to the greeting.
#[derive(Clone, Copy, Debug)]
struct ClientFlags {
    padding: Padding,
}

impl Negotiation {
    /// Begins a negotiation and writes the greeting.
    pub fn new(tls: TlsState, out: &mut SocketBuffer) -> Negotiation {
        options::write_greeting(out);
        Negotiation {
            tls,
            flags: None,
            reply_format: ReplyFormat::Simple,
            extents_of: None,
            to_skip: 0,
            unknown_exports: 0,
        }
    }

    /// Notes that the connection speaks TLS from here on.
    pub fn begin_tls(&mut self) {
        self.tls = TlsState::Active;
    }

    /// Carries out what the client sent, one option at most.
    pub fn advance(
        &mut self,
        input: &[u8],
        exports: &Exports,
        out: &mut SocketBuffer,
    ) -> NegotiationAdvance {
        let skipped = input.len().min(self.to_skip as usize);
        self.to_skip -= skipped as u32;
        let rest = &input[skipped..];
        let NegotiationAdvance { consumed, next } = match self.flags {
            None => self.receive_client_flags(rest),
            Some(flags) => self.receive_option(rest, flags, exports, out),
        };
        NegotiationAdvance {
            consumed: skipped + consumed,
            next,
        }
    }

    fn receive_client_flags(&mut self, input: &[u8]) -> NegotiationAdvance {
        let Some(bytes) = input.first_chunk::<CLIENT_FLAGS_BYTES>() else {
            return need_more_input();
        };
        const KNOWN: u32 = (handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES) as u32;
        let flags = u32::from_be_bytes(*bytes);
        self.flags = Some(ClientFlags {
            padding: match flags & u32::from(handshake::NO_ZEROES) {
                0 => Padding::Zeroes,
                _ => Padding::Omitted,
            },
        });
        NegotiationAdvance {
            consumed: CLIENT_FLAGS_BYTES,
            next: match flags & !KNOWN {
                0 => NegotiationAction::Write,
                _ => NegotiationAction::ProtocolError,
            },
        }
    }

    fn receive_option(
        &mut self,
        input: &[u8],
        flags: ClientFlags,
        exports: &Exports,
        out: &mut SocketBuffer,
    ) -> NegotiationAdvance {
        let Some((header, rest)) = input.split_first_chunk::<OPTION_HEADER_BYTES>() else {
            return need_more_input();
        };
        let Some(header) = OptionHeader::of(header) else {
            return NegotiationAdvance {
                consumed: OPTION_HEADER_BYTES,
                next: NegotiationAction::ProtocolError,
            };
        };
        if header.len > OPTION_BYTES_MAX {
            return self.reject_too_long(&header, out);
        }
        let Some(payload) = rest.get(..header.len as usize) else {
            return need_more_input();
        };
        NegotiationAdvance {
            consumed: OPTION_HEADER_BYTES + payload.len(),
            next: self.answer(&header, payload, flags, exports, out),
        }
    }

    fn reject_too_long(
        &mut self,
        header: &OptionHeader,
        out: &mut SocketBuffer,
    ) -> NegotiationAdvance {
        self.to_skip = header.len;
        refuse(out, header, rep::ERR_TOO_BIG, "the option is too long");
        NegotiationAdvance {
            consumed: OPTION_HEADER_BYTES,
            next: match header.option_type {
                OptionType::ExportName => NegotiationAction::ProtocolError,
                _ => NegotiationAction::Write,
            },
        }
    }

    fn answer(
        &mut self,
        header: &OptionHeader,
        payload: &[u8],
        flags: ClientFlags,
        exports: &Exports,
        out: &mut SocketBuffer,
    ) -> NegotiationAction {
        let is_before_tls = matches!(header.option_type, OptionType::Abort | OptionType::StartTls);
        if self.tls == TlsState::Required && !is_before_tls {
            return refuse_without_tls(header, out);
        }
        let is_bare = matches!(
            header.option_type,
            OptionType::Abort
                | OptionType::List
                | OptionType::StartTls
                | OptionType::StructuredReply
        );
        if is_bare && !payload.is_empty() && header.option_type != OptionType::Abort {
            return refuse(
                out,
                header,
                rep::ERR_INVALID,
                "this option has nothing of its own",
            );
        }
        match header.option_type {
            OptionType::ExportName => self.answer_export_name(payload, flags, exports, out),
            OptionType::Abort => {
                acknowledge(out, header);
                NegotiationAction::Close
            }
            OptionType::List => list(header, exports, out),
            OptionType::StartTls => self.start_tls(header, out),
            OptionType::Info | OptionType::Go => {
                self.answer_export_query(header, payload, exports, out)
            }
            OptionType::StructuredReply => {
                self.reply_format = ReplyFormat::Structured;
                acknowledge(out, header)
            }
            OptionType::ListMetaContext | OptionType::SetMetaContext => {
                self.answer_meta_contexts(header, payload, exports, out)
            }
            OptionType::Unknown => refuse(out, header, rep::ERR_UNSUP, "the option is unknown"),
        }
    }

    fn start_tls(&mut self, header: &OptionHeader, out: &mut SocketBuffer) -> NegotiationAction {
        match self.tls {
            TlsState::Absent => refuse(out, header, rep::ERR_POLICY, "there is no TLS here"),
            TlsState::Active => refuse(out, header, rep::ERR_INVALID, "TLS is spoken already"),
            TlsState::Required => {
                acknowledge(out, header);
                NegotiationAction::Tls
            }
        }
    }

    /// EXPORT_NAME has no error reply, so a failure closes the connection without a reason.
    fn answer_export_name(
        &mut self,
        payload: &[u8],
        flags: ClientFlags,
        exports: &Exports,
        out: &mut SocketBuffer,
    ) -> NegotiationAction {
        let name = std::str::from_utf8(payload)
            .ok()
            .and_then(options::checked_name);
        let Some(Ok(disk)) = name.map(|name| exports.find(name)) else {
            self.unknown_exports += 1;
            return NegotiationAction::Close;
        };
        let description = ExportDescription::of(&disk.shape(), self.reply_format);
        options::answer_export_name(out, description, flags.padding);
        self.begin_transmission(disk)
    }

    fn answer_export_query(
        &mut self,
        header: &OptionHeader,
        payload: &[u8],
        exports: &Exports,
        out: &mut SocketBuffer,
    ) -> NegotiationAction {
        let Some(query) = ExportQuery::of(payload) else {
            return refuse(
                out,
                header,
                rep::ERR_INVALID,
                "a name, a count and kinds of information",
            );
        };
        let disk = match exports.find(query.name) {
            Ok(disk) => disk,
            Err(none) => {
                self.unknown_exports += 1;
                return refuse(out, header, rep::ERR_UNKNOWN, &none.to_string());
            }
        };
        let description = ExportDescription::of(&disk.shape(), self.reply_format);
        options::reply_export_description(out, header.number, &query, disk.name(), description);
        let next = acknowledge(out, header);
        match header.option_type {
            OptionType::Go => self.begin_transmission(disk),
            _ => next,
        }
    }

    fn begin_transmission(&mut self, disk: Arc<dyn Disk>) -> NegotiationAction {
        let negotiated = NegotiatedOptions {
            reply_format: self.reply_format,
            extents: self.extents_of.as_deref() == Some(disk.name()),
        };
        NegotiationAction::Serve(disk, negotiated)
    }

    fn answer_meta_contexts(
        &mut self,
        header: &OptionHeader,
        payload: &[u8],
        exports: &Exports,
        out: &mut SocketBuffer,
    ) -> NegotiationAction {
        let sets = header.option_type == OptionType::SetMetaContext;
        if sets {
            self.extents_of = None;
        }
        if self.reply_format == ReplyFormat::Simple {
            return refuse(out, header, rep::ERR_INVALID, "structured replies first");
        }
        let Some(query) = MetaContextsQuery::of(payload) else {
            return refuse(out, header, rep::ERR_INVALID, "a name, a count and queries");
        };
        let disk = match exports.find(query.name) {
            Ok(disk) => disk,
            Err(none) => return refuse(out, header, rep::ERR_UNKNOWN, &none.to_string()),
        };
        let is_meant = |query: &str| query == ALLOCATION || (!sets && query == NAMESPACE);
        if query.queries().any(is_meant) || (!sets && query.asks_for_all()) {
            let id = if sets { ALLOCATION_ID } else { 0 };
            options::reply_contexts(out, header.number, id, ALLOCATION);
            self.extents_of = sets
                .then(|| disk.name().to_owned())
                .or(self.extents_of.take());
        }
        acknowledge(out, header)
    }
}

fn need_more_input() -> NegotiationAdvance {
    NegotiationAdvance {
        consumed: 0,
        next: NegotiationAction::Read,
    }
}

fn refuse_without_tls(header: &OptionHeader, out: &mut SocketBuffer) -> NegotiationAction {
    match header.option_type {
        OptionType::ExportName => NegotiationAction::Close,
        _ => refuse(
            out,
            header,
            rep::ERR_TLS_REQD,
            "this listener wants TLS first",
        ),
    }
}

fn list(header: &OptionHeader, exports: &Exports, out: &mut SocketBuffer) -> NegotiationAction {
    for name in exports.names() {
        options::reply_export(out, header.number, &name);
    }
    acknowledge(out, header)
}

fn acknowledge(out: &mut SocketBuffer, header: &OptionHeader) -> NegotiationAction {
    options::reply(out, header.number, rep::ACK, &[]);
    NegotiationAction::Write
}

fn refuse(
    out: &mut SocketBuffer,
    header: &OptionHeader,
    kind: u32,
    why: &str,
) -> NegotiationAction {
    options::reply(out, header.number, kind, &[why.as_bytes()]);
    NegotiationAction::Write
}
