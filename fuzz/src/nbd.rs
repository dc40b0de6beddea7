//! A client that sends arbitrary bytes to an NBD listener, whole and in pieces.

use std::sync::Arc;

use sublet_frontends::block_device::{Disk, DiskFastPath, DiskRequest, DiskShape, Fua};
use sublet_frontends::nbd::wire::requests::{HEADER_BYTES, NegotiatedOptions, RequestHeader};
use sublet_frontends::nbd::{Exports, Negotiation, NegotiationAction, SocketBuffer, TlsState};
use sublet_frontends::tenancy::StoreHandle;
use sublet_types::TenantId;

use crate::Pieces;

/// The most bytes of replies to one piece of a few thousand bytes. An option has at least 16 bytes, and there are two
/// disks.
const REPLIES_MAX: usize = 1 << 20;

/// Runs `input` whole, and cut by `seed`. The replies and requests must be the same. The lowest bits of the seed choose
/// the state of TLS.
pub fn whole_and_in_pieces(seed: u32, input: &[u8]) {
    let tls = [TlsState::Absent, TlsState::Required, TlsState::Active][seed as usize % 3];
    let whole = run_conversation(tls, std::iter::once(input));
    let pieces = run_conversation(tls, Pieces { seed, rest: input });
    assert_eq!(whole, pieces, "cutting the input changed what was said");
}

/// All replies that a client got, and what happened to its requests.
#[derive(Debug, Default, PartialEq, Eq)]
struct NbdTranscript {
    replies: Vec<u8>,
    done: Vec<String>,
    ended: bool,
}

/// The phase of a conversation.
enum ConversationPhase {
    Negotiation(Negotiation),
    Asking {
        shape: DiskShape,
        terms: NegotiatedOptions,
        payload: usize,
    },
}

fn run_conversation<'a>(tls: TlsState, pieces: impl Iterator<Item = &'a [u8]>) -> NbdTranscript {
    let exports = Exports::default();
    for (name, read_only) in [("a", false), ("fixed", true)] {
        let disk = UnreachedDisk { name, read_only };
        exports.add(Arc::new(disk)).expect("room for two");
    }
    let (mut transcript, mut out, mut unread) = (
        NbdTranscript::default(),
        SocketBuffer::default(),
        Vec::new(),
    );
    let mut stage = ConversationPhase::Negotiation(Negotiation::new(tls, &mut out));
    drain(&mut out, &mut transcript);
    for piece in pieces {
        unread.extend_from_slice(piece);
        while !transcript.ended
            && step(&mut stage, &exports, &mut unread, &mut out, &mut transcript)
        {}
        assert!(out.len() <= REPLIES_MAX, "replies without bound");
        drain(&mut out, &mut transcript);
    }
    transcript
}

fn drain(out: &mut SocketBuffer, transcript: &mut NbdTranscript) {
    transcript.replies.extend_from_slice(out.waiting());
    out.consume(out.len());
}

/// Processes one option or request. Returns whether there may be another in the rest of the input.
fn step(
    stage: &mut ConversationPhase,
    exports: &Exports,
    unread: &mut Vec<u8>,
    out: &mut SocketBuffer,
    transcript: &mut NbdTranscript,
) -> bool {
    match stage {
        ConversationPhase::Negotiation(negotiation) => {
            let advance = negotiation.advance(unread, exports, out);
            assert!(
                advance.consumed <= unread.len(),
                "more was consumed than there was"
            );
            unread.drain(..advance.consumed);
            match advance.next {
                NegotiationAction::Read => return false,
                NegotiationAction::Write => assert!(advance.consumed > 0, "it goes in circles"),
                NegotiationAction::Tls => negotiation.begin_tls(),
                NegotiationAction::Close | NegotiationAction::ProtocolError => {
                    transcript.ended = true
                }
                NegotiationAction::Serve(disk, terms) => {
                    let (shape, payload) = (disk.shape(), 0);
                    *stage = ConversationPhase::Asking {
                        shape,
                        terms,
                        payload,
                    };
                }
            }
            true
        }
        ConversationPhase::Asking {
            shape,
            terms,
            payload,
        } => {
            let skipped = unread.len().min(*payload);
            unread.drain(..skipped);
            *payload -= skipped;
            let Some(head) = unread
                .first_chunk::<HEADER_BYTES>()
                .filter(|_| *payload == 0)
            else {
                return false;
            };
            match RequestHeader::of(head) {
                None => transcript.ended = true,
                Some(head) => {
                    *payload = head.payload_len() as usize;
                    record_request(&head, terms, shape, transcript);
                }
            }
            unread.drain(..HEADER_BYTES);
            true
        }
    }
}

fn record_request(
    head: &RequestHeader,
    terms: &NegotiatedOptions,
    shape: &DiskShape,
    transcript: &mut NbdTranscript,
) {
    let asked = head.validate(terms, shape);
    if let Ok(ask) = asked
        && let Some(verb) = ask.disk_operation()
    {
        assert!(
            shape.check(head.at, u64::from(head.len)).is_ok(),
            "{verb:?} beyond the end"
        );
    }
    transcript.done.push(format!("{} {asked:?}", head.cookie));
}

/// A disk that no request ever reaches.
struct UnreachedDisk {
    name: &'static str,
    read_only: bool,
}

impl Disk for UnreachedDisk {
    fn name(&self) -> &str {
        self.name
    }

    fn tenant(&self) -> TenantId {
        TenantId(0)
    }

    fn shape(&self) -> DiskShape {
        DiskShape {
            bytes: 1 << 20,
            read_only: self.read_only,
            trims: true,
        }
    }

    fn fast_path(self: Arc<Self>, _: &StoreHandle) -> Box<dyn DiskFastPath> {
        Box::new(EmptyMemory)
    }

    fn submit(&self, _: DiskRequest) {}
}

/// A memory without any page.
struct EmptyMemory;

impl DiskFastPath for EmptyMemory {
    fn read(&self, _: u64, _: &mut [u8]) -> bool {
        false
    }

    fn write(&self, _: u64, _: &[u8], _: Fua) -> bool {
        false
    }

    fn trim(&self, _: u64, _: u64) -> bool {
        false
    }

    fn flush(&self) -> bool {
        false
    }
}
