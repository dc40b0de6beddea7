//! Feeds bytes to a memcached session as a connection would, whole and in pieces, and compares the replies.

pub mod etcd;
pub mod lend;
pub mod nbd;
pub mod ring;
pub mod saves;
pub mod traces;
pub mod virtio;

use std::sync::Arc;

use sublet_frontends::memcached::instance::{CertsRefused, Instance, LimitRefused, ClientControls};
use sublet_frontends::memcached::metrics::CpuTime;
use sublet_frontends::memcached::passwords::Passwords;
use sublet_frontends::memcached::session::{LoopAction, REPLY_HIGH_WATER, Session};
use sublet_frontends::memcached::settings::{Protocol, Settings};
use sublet_frontends::tenancy::{Clock, Ledger, StoreHandle, Tenancy};
use sublet_store::{Store, StoreSettings};
use sublet_types::{Bytes, TenantId, TenantSettings, Weight};

/// The largest item of these sessions. It is small, so that inputs reach it.
const ITEM_MAX: u64 = 1024;

/// After this many calls of `advance` for one piece of input, the session is in an endless loop.
const TURNS_MAX: usize = 10_000;

/// A difference that the passing of a second explains does not occur this many times in a row.
const TRIES: usize = 4;

/// How a connection ended, and all replies that it got.
#[derive(Debug, PartialEq, Eq)]
struct SessionTranscript {
    replies: Vec<u8>,
    ended: bool,
}

/// A longer line closes the connection, unless it came at once. So cutting it may legitimately make a difference.
const LINE_MAX: usize = 2048;

/// Runs `input` whole, and cut by `seed`. The replies must be the same.
pub fn whole_and_in_pieces(settings: &Settings, seed: u32, input: &[u8]) {
    let has_endless_line = input
        .split(|&byte| byte == b'\n')
        .any(|line| line.len() >= LINE_MAX);
    if settings.protocol != Protocol::Binary && has_endless_line {
        run_session(settings, Pieces { seed, rest: input });
        return;
    }
    for attempt in 1..=TRIES {
        let whole = run_session(settings, std::iter::once(input));
        let pieces = run_session(settings, Pieces { seed, rest: input });
        if whole == pieces
            || [&whole, &pieces]
                .iter()
                .any(|transcript| differs_by_right(&transcript.replies))
        {
            return;
        }
        if attempt == TRIES {
            let shown =
                |transcript: &SessionTranscript| transcript.replies.escape_ascii().to_string();
            assert_eq!(
                shown(&whole),
                shown(&pieces),
                "cutting the input changed the replies"
            );
            assert_eq!(
                whole.ended, pieces.ended,
                "cutting the input changed the end"
            );
        }
    }
}

/// Settings of a session for these tests.
pub fn settings() -> Settings {
    Settings {
        item_max: ITEM_MAX,
        shutdown: true,
        ..Settings::default()
    }
}

/// Whether replies may legitimately differ. Statistics contain times, the process and counts of reads, and a dump must
/// not be pipelined.
fn differs_by_right(replies: &[u8]) -> bool {
    let names = [&b"STAT "[..], b"\x81\x10", b"ts=", b"cannot pipeline"];
    names
        .iter()
        .any(|name| replies.windows(name.len()).any(|window| window == *name))
}

fn run_session<'a>(
    settings: &Settings,
    pieces: impl Iterator<Item = &'a [u8]>,
) -> SessionTranscript {
    let (instance, tenancy) = node(settings);
    let peer = instance.connections.enter(
        7,
        "tcp:127.0.0.1:1".to_owned(),
        Some("tcp:127.0.0.1:2".to_owned()),
        tenancy.clock().now(),
    );
    let mut session = Session::new(instance, peer);
    let mut transcript = SessionTranscript {
        replies: Vec::new(),
        ended: false,
    };
    let mut unread = Vec::new();
    for piece in pieces {
        unread.extend_from_slice(piece);
        transcript.ended =
            advance_session(&mut session, &tenancy, &mut unread, &mut transcript.replies);
        if transcript.ended {
            break;
        }
    }
    transcript
}

/// Lets the session process `unread` until it wants more. Returns whether it closed, or only watches from here on.
fn advance_session(
    session: &mut Session,
    tenancy: &Tenancy,
    unread: &mut Vec<u8>,
    replies: &mut Vec<u8>,
) -> bool {
    for _ in 0..TURNS_MAX {
        let mut out = Vec::new();
        let advance = session.advance(unread, &mut out, tenancy);
        assert!(
            advance.consumed <= unread.len(),
            "more was consumed than there was"
        );
        assert!(
            out.len() <= REPLY_HIGH_WATER + 2 * ITEM_MAX as usize + 4096,
            "replies without bound"
        );
        unread.drain(..advance.consumed);
        replies.append(&mut out);
        match advance.next {
            LoopAction::Read { wanted } => {
                assert!(wanted > 0, "it waits for nothing");
                return false;
            }
            LoopAction::Write | LoopAction::Yield | LoopAction::SwitchTenant(_) => {}
            LoopAction::Watch | LoopAction::Close | LoopAction::Shutdown(_) => return true,
        }
    }
    panic!("it goes in circles");
}

fn node(settings: &Settings) -> (Arc<Instance>, Tenancy) {
    let store = Store::new(StoreSettings {
        capacity: Bytes(64 << 20),
        limit: Bytes(64 << 20),
        item_max: Bytes(ITEM_MAX),
        seed: 1,
        evicts: true,
        pages: sublet_store::PageSettings::default(),
    })
    .expect("an address range for the store");
    let tenant = store
        .add_tenant(TenantSettings {
            name: "default".parse().expect("a name"),
            weight: Weight::default(),
            floor: None,
            ceiling: None,
        })
        .expect("the first tenant");
    let clock = Clock::start();
    let store_handle =
        StoreHandle::new(&store, clock, &Arc::new(Ledger::default())).expect("the first worker");
    let instance = Instance::new(
        settings.clone(),
        Box::new(PermissiveHost),
        Passwords::default(),
    );
    (Arc::new(instance), store_handle.open(tenant))
}

/// A process that grants everything.
struct PermissiveHost;

impl ClientControls for PermissiveHost {
    fn limit_memory(&self, _: TenantId, _: Bytes) -> Result<(), LimitRefused> {
        Ok(())
    }

    fn memory_limit(&self, _: TenantId) -> Bytes {
        Bytes(64 << 20)
    }

    fn refresh_certs(&self) -> Result<(), CertsRefused> {
        Err(CertsRefused::NoTls)
    }

    fn cpu_time(&self) -> CpuTime {
        CpuTime::default()
    }
}

/// An input cut into pieces by a seed: often one byte, sometimes many.
struct Pieces<'a> {
    seed: u32,
    rest: &'a [u8],
}

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        // xorshift. A seed of 0 cuts into single bytes.
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 17;
        self.seed ^= self.seed << 5;
        let size = 1 + (self.seed % 64) as usize;
        let (piece, rest) = self.rest.split_at(size.min(self.rest.len()));
        self.rest = rest;
        Some(piece)
    }
}

/// The seed at the front of a fuzzer's input, and the rest of the input.
pub fn seed_of(input: &[u8]) -> (u32, &[u8]) {
    match input.split_first_chunk::<4>() {
        Some((seed, rest)) => (u32::from_le_bytes(*seed), rest),
        None => (0, input),
    }
}
