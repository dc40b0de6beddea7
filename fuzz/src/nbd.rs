//! A client that says what it likes to an NBD listener, whole and in pieces.

use std::sync::Arc;

use sublet_frontends::block::{Desk, Disk, Request, Shape};
use sublet_frontends::nbd::wire::requests::{HEAD_BYTES, Head, Terms};
use sublet_frontends::nbd::{Exports, Haggling, HagglingNext, HagglingTls, Queue};
use sublet_frontends::tenancy::Doorman;
use sublet_types::TenantId;

use crate::Pieces;

/// The most bytes of replies to one piece of a few thousand bytes: an option has 16 at least, and there are two disks.
const REPLIES_MAX: usize = 1 << 20;

/// Runs `input` whole and cut by `seed`; what is said and done must be the same. The seed's lowest bits choose how TLS
/// stands.
pub fn whole_and_in_pieces(seed: u32, input: &[u8]) {
    let tls = [
        HagglingTls::Absent,
        HagglingTls::Required,
        HagglingTls::Spoken,
    ][seed as usize % 3];
    let whole = hear(tls, std::iter::once(input));
    let pieces = hear(tls, Pieces { seed, rest: input });
    assert_eq!(whole, pieces, "cutting the input changed what was said");
}

/// All that a client is told, and what became of its requests.
#[derive(Debug, Default, PartialEq, Eq)]
struct Heard {
    replies: Vec<u8>,
    done: Vec<String>,
    ended: bool,
}

/// How far a conversation has come.
enum Stage {
    Haggling(Haggling),
    Asking {
        shape: Shape,
        terms: Terms,
        payload: usize,
    },
}

fn hear<'a>(tls: HagglingTls, pieces: impl Iterator<Item = &'a [u8]>) -> Heard {
    let exports = Exports::default();
    for (name, read_only) in [("a", false), ("fixed", true)] {
        let disk = Idle { name, read_only };
        exports.add(Arc::new(disk)).expect("room for two");
    }
    let (mut heard, mut out, mut unread) = (Heard::default(), Queue::default(), Vec::new());
    let mut stage = Stage::Haggling(Haggling::new(tls, &mut out));
    drain(&mut out, &mut heard);
    for piece in pieces {
        unread.extend_from_slice(piece);
        while !heard.ended && step(&mut stage, &exports, &mut unread, &mut out, &mut heard) {}
        assert!(out.len() <= REPLIES_MAX, "replies without bound");
        drain(&mut out, &mut heard);
    }
    heard
}

fn drain(out: &mut Queue, heard: &mut Heard) {
    heard.replies.extend_from_slice(out.waiting());
    out.finish(out.len());
}

/// One option or request; says whether there may be another in what is left.
fn step(
    stage: &mut Stage,
    exports: &Exports,
    unread: &mut Vec<u8>,
    out: &mut Queue,
    heard: &mut Heard,
) -> bool {
    match stage {
        Stage::Haggling(haggling) => {
            let advance = haggling.advance(unread, exports, out);
            assert!(
                advance.consumed <= unread.len(),
                "more was consumed than there was"
            );
            unread.drain(..advance.consumed);
            match advance.next {
                HagglingNext::Read => return false,
                HagglingNext::Write => assert!(advance.consumed > 0, "it goes in circles"),
                HagglingNext::Tls => haggling.begin_tls(),
                HagglingNext::Close | HagglingNext::Garbage => heard.ended = true,
                HagglingNext::Serve(disk, terms) => {
                    let (shape, payload) = (disk.shape(), 0);
                    *stage = Stage::Asking {
                        shape,
                        terms,
                        payload,
                    };
                }
            }
            true
        }
        Stage::Asking {
            shape,
            terms,
            payload,
        } => {
            let skipped = unread.len().min(*payload);
            unread.drain(..skipped);
            *payload -= skipped;
            let Some(head) = unread.first_chunk::<HEAD_BYTES>().filter(|_| *payload == 0) else {
                return false;
            };
            match Head::of(head) {
                None => heard.ended = true,
                Some(head) => {
                    *payload = head.payload() as usize;
                    ask(&head, terms, shape, heard);
                }
            }
            unread.drain(..HEAD_BYTES);
            true
        }
    }
}

fn ask(head: &Head, terms: &Terms, shape: &Shape, heard: &mut Heard) {
    let asked = head.ask(terms, shape);
    if let Ok(ask) = asked
        && let Some(verb) = ask.verb()
    {
        assert!(
            shape.check(head.at, u64::from(head.len)).is_ok(),
            "{verb:?} beyond the end"
        );
    }
    heard.done.push(format!("{} {asked:?}", head.cookie));
}

/// A disk that nobody ever reaches.
struct Idle {
    name: &'static str,
    read_only: bool,
}

impl Disk for Idle {
    fn name(&self) -> &str {
        self.name
    }

    fn tenant(&self) -> TenantId {
        TenantId(0)
    }

    fn shape(&self) -> Shape {
        Shape {
            bytes: 1 << 20,
            read_only: self.read_only,
            trims: true,
        }
    }

    fn desk(self: Arc<Self>, _: &Doorman) -> Box<dyn Desk> {
        Box::new(Nothing)
    }

    fn start(&self, _: Request) {}
}

/// Has nothing in memory.
struct Nothing;

impl Desk for Nothing {
    fn read(&self, _: u64, _: &mut [u8]) -> bool {
        false
    }

    fn write(&self, _: u64, _: &[u8], _: bool) -> bool {
        false
    }

    fn trim(&self, _: u64, _: u64) -> bool {
        false
    }

    fn flush(&self) -> bool {
        false
    }
}
