//! Feeds bytes to a memcached session as a connection would, whole and in pieces, and compares the replies.

pub mod nbd;
pub mod ring;
pub mod saves;
pub mod traces;
pub mod virtio;

use std::sync::Arc;

use sublet_frontends::memcached::instance::{CertsRefused, Host, Instance, LimitRefused};
use sublet_frontends::memcached::metrics::CpuTime;
use sublet_frontends::memcached::passwords::Passwords;
use sublet_frontends::memcached::session::{Next, REPLY_HIGH_WATER, Session};
use sublet_frontends::memcached::settings::{Protocol, Settings};
use sublet_frontends::tenancy::{Clock, Doorman, Ledger, Tenancy};
use sublet_store::{Store, StoreSettings};
use sublet_types::{Bytes, TenantId, TenantSettings, Weight};

/// Largest item of these sessions: small, so that inputs reach it.
const ITEM_MAX: u64 = 1024;

/// Calls of `advance` for one piece of input, after which it goes in circles.
const TURNS_MAX: usize = 10_000;

/// A difference that a second's passing explains does not come back so often in a row.
const TRIES: usize = 4;

/// How a connection ended, and all that it was told.
#[derive(Debug, PartialEq, Eq)]
struct Heard {
    replies: Vec<u8>,
    ended: bool,
}

/// A line that is longer closes the connection, unless it came at once: cutting it makes a difference by right.
const LINE_MAX: usize = 2048;

/// Runs `input` whole and cut by `seed`; the replies must be the same.
pub fn whole_and_in_pieces(settings: &Settings, seed: u32, input: &[u8]) {
    let has_endless_line = input
        .split(|&byte| byte == b'\n')
        .any(|line| line.len() >= LINE_MAX);
    if settings.protocol != Protocol::Binary && has_endless_line {
        hear(settings, Pieces { seed, rest: input });
        return;
    }
    for attempt in 1..=TRIES {
        let whole = hear(settings, std::iter::once(input));
        let pieces = hear(settings, Pieces { seed, rest: input });
        if whole == pieces
            || [&whole, &pieces]
                .iter()
                .any(|heard| differs_by_right(&heard.replies))
        {
            return;
        }
        if attempt == TRIES {
            let shown = |heard: &Heard| heard.replies.escape_ascii().to_string();
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

/// Statistics name times, process and counts of reads, and a dump must not be pipelined: these differ by right.
fn differs_by_right(replies: &[u8]) -> bool {
    let names = [&b"STAT "[..], b"\x81\x10", b"ts=", b"cannot pipeline"];
    names
        .iter()
        .any(|name| replies.windows(name.len()).any(|window| window == *name))
}

fn hear<'a>(settings: &Settings, pieces: impl Iterator<Item = &'a [u8]>) -> Heard {
    let (instance, tenancy) = node(settings);
    let peer = instance.connections.enter(
        7,
        "tcp:127.0.0.1:1".to_owned(),
        Some("tcp:127.0.0.1:2".to_owned()),
        tenancy.clock().now(),
    );
    let mut session = Session::new(instance, peer);
    let mut heard = Heard {
        replies: Vec::new(),
        ended: false,
    };
    let mut unread = Vec::new();
    for piece in pieces {
        unread.extend_from_slice(piece);
        heard.ended = take(&mut session, &tenancy, &mut unread, &mut heard.replies);
        if heard.ended {
            break;
        }
    }
    heard
}

/// Lets the session have `unread` until it wants more; whether it closed, or only watches from here on.
fn take(
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
            Next::Read { wanted } => {
                assert!(wanted > 0, "it waits for nothing");
                return false;
            }
            Next::Write | Next::Yield | Next::Become(_) => {}
            Next::Watch | Next::Close | Next::Shutdown { .. } => return true,
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
    let doorman =
        Doorman::new(&store, clock, &Arc::new(Ledger::default())).expect("the first worker");
    let instance = Instance::new(settings.clone(), Box::new(Nobody), Passwords::default());
    (Arc::new(instance), doorman.open(tenant))
}

/// A process that grants everything.
struct Nobody;

impl Host for Nobody {
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
        // xorshift; a seed of 0 cuts into single bytes.
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 17;
        self.seed ^= self.seed << 5;
        let size = 1 + (self.seed % 64) as usize;
        let (piece, rest) = self.rest.split_at(size.min(self.rest.len()));
        self.rest = rest;
        Some(piece)
    }
}

/// The seed at the front of a fuzzer's input, and what follows it.
pub fn seed_of(input: &[u8]) -> (u32, &[u8]) {
    match input.split_first_chunk::<4>() {
        Some((seed, rest)) => (u32::from_le_bytes(*seed), rest),
        None => (0, input),
    }
}
