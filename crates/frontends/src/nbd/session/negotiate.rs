//! Haggling: what comes before the first request. Bytes in, bytes out; it opens nothing and waits for nothing.

use std::sync::Arc;

use crate::block::Disk;
use crate::nbd::map::Exports;
use crate::nbd::queue::Queue;
use crate::nbd::wire::options::{
    self, CLIENT_FLAGS_BYTES, Contexts, Facts, OPTION_BYTES_MAX, OPTION_HEAD_BYTES, OptionHead,
    Verb, Wish, handshake, rep,
};
use crate::nbd::wire::replies::ALLOCATION_ID;
use crate::nbd::wire::requests::Terms;

/// The one metadata context that is known here.
const ALLOCATION: &str = "base:allocation";

/// Its namespace.
const NAMESPACE: &str = "base:";

/// How TLS stands on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tls {
    /// Its listener has none.
    Absent,
    /// It must come first.
    Required,
    /// It is spoken.
    Spoken,
}

/// What happens next.
pub enum Next {
    /// It wants more bytes than it got.
    Read,
    /// Replies should be sent before it goes on.
    Write,
    /// Once all is sent, TLS begins. What the client said already beyond this option is no secret and is not believed.
    Tls,
    /// Requests follow, for this disk.
    Serve(Arc<dyn Disk>, Terms),
    /// It is over once all is sent.
    Close,
    /// It is over: what came is not NBD.
    Garbage,
}

/// What a call took and what happens next.
pub struct Advance {
    /// Bytes of the input that are done with.
    pub consumed: usize,
    /// See there.
    pub next: Next,
}

/// A connection that has not chosen its disk yet.
pub struct Haggling {
    tls: Tls,
    flags: Option<ClientFlags>,
    structured: bool,
    /// The disk for which base:allocation was chosen.
    extents_of: Option<String>,
    /// Bytes of an option that is too long.
    skips: u32,
    /// Clients that asked for a disk that is not there.
    pub(in crate::nbd) unknown_exports: u64,
}

/// What a client said of itself.
#[derive(Clone, Copy, Debug)]
struct ClientFlags {
    spares_zeroes: bool,
}

impl Haggling {
    /// Says hello to a client.
    pub fn new(tls: Tls, out: &mut Queue) -> Haggling {
        options::greet(out);
        Haggling {
            tls,
            flags: None,
            structured: false,
            extents_of: None,
            skips: 0,
            unknown_exports: 0,
        }
    }

    /// TLS is spoken from here on.
    pub fn begin_tls(&mut self) {
        self.tls = Tls::Spoken;
    }

    /// Hears what the client says, one option at most.
    pub fn advance(&mut self, input: &[u8], exports: &Exports, out: &mut Queue) -> Advance {
        let skipped = input.len().min(self.skips as usize);
        self.skips -= skipped as u32;
        let rest = &input[skipped..];
        let Advance { consumed, next } = match self.flags {
            None => self.hear_flags(rest),
            Some(flags) => self.hear_option(rest, flags, exports, out),
        };
        Advance {
            consumed: skipped + consumed,
            next,
        }
    }

    fn hear_flags(&mut self, input: &[u8]) -> Advance {
        let Some(bytes) = input.first_chunk::<CLIENT_FLAGS_BYTES>() else {
            return wait();
        };
        const KNOWN: u32 = (handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES) as u32;
        let flags = u32::from_be_bytes(*bytes);
        self.flags = Some(ClientFlags {
            spares_zeroes: flags & u32::from(handshake::NO_ZEROES) != 0,
        });
        Advance {
            consumed: CLIENT_FLAGS_BYTES,
            next: match flags & !KNOWN {
                0 => Next::Write,
                _ => Next::Garbage,
            },
        }
    }

    fn hear_option(
        &mut self,
        input: &[u8],
        flags: ClientFlags,
        exports: &Exports,
        out: &mut Queue,
    ) -> Advance {
        let Some((head, rest)) = input.split_first_chunk::<OPTION_HEAD_BYTES>() else {
            return wait();
        };
        let Some(head) = OptionHead::of(head) else {
            return Advance {
                consumed: OPTION_HEAD_BYTES,
                next: Next::Garbage,
            };
        };
        if head.len > OPTION_BYTES_MAX {
            return self.skip(&head, out);
        }
        let Some(own) = rest.get(..head.len as usize) else {
            return wait();
        };
        Advance {
            consumed: OPTION_HEAD_BYTES + own.len(),
            next: self.answer(&head, own, flags, exports, out),
        }
    }

    fn skip(&mut self, head: &OptionHead, out: &mut Queue) -> Advance {
        self.skips = head.len;
        refuse(out, head, rep::ERR_TOO_BIG, "the option is too long");
        Advance {
            consumed: OPTION_HEAD_BYTES,
            next: match head.verb {
                Verb::ExportName => Next::Garbage,
                _ => Next::Write,
            },
        }
    }

    fn answer(
        &mut self,
        head: &OptionHead,
        own: &[u8],
        flags: ClientFlags,
        exports: &Exports,
        out: &mut Queue,
    ) -> Next {
        let is_before_tls = matches!(head.verb, Verb::Abort | Verb::StartTls);
        if self.tls == Tls::Required && !is_before_tls {
            return need_tls(head, out);
        }
        let is_bare = matches!(
            head.verb,
            Verb::Abort | Verb::List | Verb::StartTls | Verb::StructuredReply
        );
        if is_bare && !own.is_empty() && head.verb != Verb::Abort {
            return refuse(
                out,
                head,
                rep::ERR_INVALID,
                "this option has nothing of its own",
            );
        }
        match head.verb {
            Verb::ExportName => self.enter_by_name(own, flags, exports, out),
            Verb::Abort => {
                acknowledge(out, head);
                Next::Close
            }
            Verb::List => list(head, exports, out),
            Verb::StartTls => self.start_tls(head, out),
            Verb::Info | Verb::Go => self.tell_or_enter(head, own, exports, out),
            Verb::StructuredReply => {
                self.structured = true;
                acknowledge(out, head)
            }
            Verb::ListMetaContext | Verb::SetMetaContext => self.contexts(head, own, exports, out),
            Verb::Unknown => refuse(out, head, rep::ERR_UNSUP, "the option is unknown"),
        }
    }

    fn start_tls(&mut self, head: &OptionHead, out: &mut Queue) -> Next {
        match self.tls {
            Tls::Absent => refuse(out, head, rep::ERR_POLICY, "there is no TLS here"),
            Tls::Spoken => refuse(out, head, rep::ERR_INVALID, "TLS is spoken already"),
            Tls::Required => {
                acknowledge(out, head);
                Next::Tls
            }
        }
    }

    /// An old client cannot be told why not.
    fn enter_by_name(
        &mut self,
        own: &[u8],
        flags: ClientFlags,
        exports: &Exports,
        out: &mut Queue,
    ) -> Next {
        let name = std::str::from_utf8(own).ok().and_then(options::name_of);
        let Some(Ok(disk)) = name.map(|name| exports.find(name)) else {
            self.unknown_exports += 1;
            return Next::Close;
        };
        let facts = Facts::of(&disk.shape(), self.structured);
        options::answer_export_name(out, facts, !flags.spares_zeroes);
        self.enter(disk)
    }

    fn tell_or_enter(
        &mut self,
        head: &OptionHead,
        own: &[u8],
        exports: &Exports,
        out: &mut Queue,
    ) -> Next {
        let Some(wish) = Wish::of(own) else {
            return refuse(
                out,
                head,
                rep::ERR_INVALID,
                "a name, a count and kinds of information",
            );
        };
        let disk = match exports.find(wish.name) {
            Ok(disk) => disk,
            Err(none) => {
                self.unknown_exports += 1;
                return refuse(out, head, rep::ERR_UNKNOWN, &none.to_string());
            }
        };
        let facts = Facts::of(&disk.shape(), self.structured);
        options::reply_export_facts(out, head.number, &wish, disk.name(), facts);
        let next = acknowledge(out, head);
        match head.verb {
            Verb::Go => self.enter(disk),
            _ => next,
        }
    }

    fn enter(&mut self, disk: Arc<dyn Disk>) -> Next {
        let terms = Terms {
            structured: self.structured,
            extents: self.extents_of.as_deref() == Some(disk.name()),
        };
        Next::Serve(disk, terms)
    }

    fn contexts(
        &mut self,
        head: &OptionHead,
        own: &[u8],
        exports: &Exports,
        out: &mut Queue,
    ) -> Next {
        let sets = head.verb == Verb::SetMetaContext;
        if sets {
            self.extents_of = None;
        }
        if !self.structured {
            return refuse(out, head, rep::ERR_INVALID, "structured replies first");
        }
        let Some(contexts) = Contexts::of(own) else {
            return refuse(out, head, rep::ERR_INVALID, "a name, a count and queries");
        };
        let disk = match exports.find(contexts.name) {
            Ok(disk) => disk,
            Err(none) => return refuse(out, head, rep::ERR_UNKNOWN, &none.to_string()),
        };
        let is_meant = |query: &str| query == ALLOCATION || (!sets && query == NAMESPACE);
        if contexts.queries().any(is_meant) || (!sets && contexts.is_open()) {
            let id = if sets { ALLOCATION_ID } else { 0 };
            options::reply_contexts(out, head.number, id, ALLOCATION);
            self.extents_of = sets
                .then(|| disk.name().to_owned())
                .or(self.extents_of.take());
        }
        acknowledge(out, head)
    }
}

fn wait() -> Advance {
    Advance {
        consumed: 0,
        next: Next::Read,
    }
}

fn need_tls(head: &OptionHead, out: &mut Queue) -> Next {
    match head.verb {
        Verb::ExportName => Next::Close,
        _ => refuse(
            out,
            head,
            rep::ERR_TLS_REQD,
            "this listener wants TLS first",
        ),
    }
}

fn list(head: &OptionHead, exports: &Exports, out: &mut Queue) -> Next {
    for name in exports.names() {
        options::reply_export(out, head.number, &name);
    }
    acknowledge(out, head)
}

fn acknowledge(out: &mut Queue, head: &OptionHead) -> Next {
    options::reply(out, head.number, rep::ACK, &[]);
    Next::Write
}

fn refuse(out: &mut Queue, head: &OptionHead, kind: u32, why: &str) -> Next {
    options::reply(out, head.number, kind, &[why.as_bytes()]);
    Next::Write
}
