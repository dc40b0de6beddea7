//! Every byte that daemon and client share. All numbers are little-endian.
//!
//! The daemon makes one memory file per connection, and both sides map all of it:
//!
//! ```text
//!        0 ┌──────────────────────────┐
//!          │ header                   │ one page
//!     4096 ├──────────────────────────┤
//!          │ submission queue         │ `entries` × 64 bytes
//!          ├──────────────────────────┤
//!          │ completion queue         │ `entries` × 32 bytes
//!          ├──────────────────────────┤ up to a whole page
//!          │ page slots               │ `page_slots` × 4096 bytes
//!          └──────────────────────────┘
//! ```
//!
//! The header. Each index has two cache lines of its own, because processors fetch lines in pairs:
//!
//! ```text
//!        0  magic "SUBLETRG"      8  version u32         12  entries u32     16  page_slots u32
//!       20  zero u32             24  ring_bytes u64
//!      128  sq_tail u32     the client's: entries submitted so far
//!      256  sq_head u32     the daemon's: entries taken so far
//!      384  cq_tail u32     the daemon's: completions written so far
//!      512  cq_head u32     the client's: completions taken so far
//!      640  client_sleeps u32   1: the client wants the doorbell rung
//!      768  daemon_sleeps u32   1: the daemon wants the doorbell rung
//! ```
//!
//! Indices count without end and wrap at 2³². An entry's place is its number modulo `entries`, a power of two. A client
//! has at most `entries` submissions under way, so the completion queue never overflows.
//!
//! A submission, 64 bytes:
//!
//! ```text
//!        0  opcode u16      2  flags u16       4  count u32        8  token u64
//!       16  pool: slot u32 and generation u32                     24  object u64
//!       32  index u32      36  page_slot u32                      40  shared name, 16 bytes
//!       56  zero u64
//! ```
//!
//! | opcode | verb | uses |
//! | --- | --- | --- |
//! | 1 | put | pool, object, `count` indices from `index` on, as many page slots from `page_slot` on |
//! | 2 | get | the same |
//! | 3 | flush_page | pool, object, `count` indices from `index` on |
//! | 4 | flush_object | pool, object |
//! | 5 | create a pool | flags: 1 persistent, 2 shared, 4 keeping; the shared name |
//! | 6 | destroy a pool | pool |
//!
//! A completion, 32 bytes:
//!
//! ```text
//!        0  token u64       8  opcode u16     10  outcome u16     12  zero u32
//!       16  first u64      24  second u64
//! ```
//!
//! `token` and `opcode` are those of the submission, even if the opcode is unknown. `outcome` is 0, a [`Refusal`] or a
//! [`Fault`].
//!
//! - For a put, bit n of `first` says that page n of the run was stored. Bit n of `second` says that it replaced
//!   another.
//! - For a get, bit n of `first` says that page n hit.
//! - For a new pool, `first` is its handle: the slot in the low half, the generation in the high half.
//!
//! Doorbells: an end that is about to sleep sets its word, looks at the queue once more, and sleeps. An end that has
//! moved a tail changes the other end's word from 1 to 0, and rings only if the word was 1. The client rings by an
//! eventfd, which the daemon only polls. The daemon rings by a byte on the connection's socket, because a client could
//! make a write to a shared eventfd block.

use sublet_types::{PAGE_BYTES, PoolFlags, PoolId, SharedName};

/// The first bytes of a ring.
pub const MAGIC: [u8; 8] = *b"SUBLETRG";
/// The version of everything that this module describes.
pub const VERSION: u32 = 1;
/// The most submissions that a ring may hold.
pub const ENTRIES_MAX: u32 = 4096;
/// The most page slots that a ring may have: 256 MiB.
pub const PAGE_SLOTS_MAX: u32 = 1 << 16;
/// The most pages of one entry, with one bit of a completion for each.
pub const RUN_PAGES_MAX: u32 = 64;

/// Bytes of a page and of a page slot.
pub const SLOT_BYTES: usize = PAGE_BYTES as usize;
/// Bytes of the header.
pub const HEADER_BYTES: usize = 4096;
/// Bytes of a submission.
pub const SUBMISSION_BYTES: usize = 64;
/// Bytes of a completion.
pub const COMPLETION_BYTES: usize = 32;

/// Where each index and word of the header is.
pub mod at {
    /// Entries that the client has submitted.
    pub const SQ_TAIL: usize = 128;
    /// Entries that the daemon has taken.
    pub const SQ_HEAD: usize = 256;
    /// Completions that the daemon has written.
    pub const CQ_TAIL: usize = 384;
    /// Completions that the client has taken.
    pub const CQ_HEAD: usize = 512;
    /// Whether the client sleeps.
    pub const CLIENT_SLEEPS: usize = 640;
    /// Whether the daemon sleeps.
    pub const DAEMON_SLEEPS: usize = 768;
}

/// The size of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    entries: u32,
    page_slots: u32,
}

/// Why a ring cannot have that shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// The number is no power of two, or too large.
    #[error("a ring has a power of two of entries, {ENTRIES_MAX} at most, not {0}")]
    Entries(u32),
    /// The number is zero, or too large.
    #[error("a ring has 1 to {PAGE_SLOTS_MAX} page slots, not {0}")]
    PageSlots(u32),
}

impl Shape {
    /// A ring of `entries`, a power of two, and `page_slots`.
    pub const fn new(entries: u32, page_slots: u32) -> Result<Shape, ShapeError> {
        if !entries.is_power_of_two() || entries > ENTRIES_MAX {
            return Err(ShapeError::Entries(entries));
        }
        if page_slots == 0 || page_slots > PAGE_SLOTS_MAX {
            return Err(ShapeError::PageSlots(page_slots));
        }
        Ok(Shape {
            entries,
            page_slots,
        })
    }

    /// The largest shape that fits into both.
    pub fn within(self, most: Shape) -> Shape {
        Shape {
            entries: self.entries.min(most.entries),
            page_slots: self.page_slots.min(most.page_slots),
        }
    }

    /// How many submissions, and how many completions, the ring holds.
    pub const fn entries(self) -> u32 {
        self.entries
    }

    /// How many page slots the ring has.
    pub const fn page_slots(self) -> u32 {
        self.page_slots
    }

    /// Bytes of the whole ring.
    pub const fn bytes(self) -> usize {
        self.pages_at() + self.page_slots as usize * SLOT_BYTES
    }

    /// The offset of the submission of this number.
    pub const fn submission_at(self, number: u32) -> usize {
        HEADER_BYTES + self.place(number) * SUBMISSION_BYTES
    }

    /// The offset of the completion of this number.
    pub const fn completion_at(self, number: u32) -> usize {
        let queue = HEADER_BYTES + self.entries as usize * SUBMISSION_BYTES;
        queue + self.place(number) * COMPLETION_BYTES
    }

    /// The offset of a page slot.
    pub const fn slot_at(self, slot: u32) -> usize {
        self.pages_at() + slot as usize * SLOT_BYTES
    }

    /// Returns whether the ring has `count` page slots from `first` on.
    pub const fn has_slots(self, first: u32, count: u32) -> bool {
        first < self.page_slots && count <= self.page_slots - first
    }

    const fn place(self, number: u32) -> usize {
        (number & (self.entries - 1)) as usize
    }

    const fn pages_at(self) -> usize {
        let queues = self.entries as usize * (SUBMISSION_BYTES + COMPLETION_BYTES);
        (HEADER_BYTES + queues).next_multiple_of(SLOT_BYTES)
    }

    /// The first bytes of the header of a ring of this shape.
    pub fn preamble(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.entries.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.page_slots.to_le_bytes());
        bytes[24..32].copy_from_slice(&(self.bytes() as u64).to_le_bytes());
        bytes
    }
}

/// What a submission asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Opcode {
    /// Stores pages.
    Put = 1,
    /// Fetches pages.
    Get = 2,
    /// Flushes pages.
    FlushPage = 3,
    /// Flushes all pages of an object.
    FlushObject = 4,
    /// Makes a pool, or joins a shared one.
    CreatePool = 5,
    /// Destroys a pool and everything in it.
    DestroyPool = 6,
}

impl Opcode {
    /// The opcode of this number.
    pub fn of(number: u16) -> Option<Opcode> {
        Some(match number {
            1 => Opcode::Put,
            2 => Opcode::Get,
            3 => Opcode::FlushPage,
            4 => Opcode::FlushObject,
            5 => Opcode::CreatePool,
            6 => Opcode::DestroyPool,
            _ => return None,
        })
    }
}

/// A submission as it lies in the ring, with nothing checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Submission {
    /// What the client asks for; see [`Opcode`].
    pub opcode: u16,
    /// Flags of a new pool; see [`flag_bits`].
    pub flags: u16,
    /// How many pages the run has.
    pub count: u32,
    /// Returned in the completion.
    pub token: u64,
    /// The pool's handle.
    pub pool: u64,
    /// The object.
    pub object: u64,
    /// The run's first index.
    pub index: u32,
    /// The run's first page slot.
    pub page_slot: u32,
    /// A shared pool's name; zero for none.
    pub shared: u128,
    /// Must be zero.
    pub reserved: u64,
}

impl Submission {
    /// The bytes of the submission in the ring.
    pub fn to_bytes(&self) -> [u8; SUBMISSION_BYTES] {
        let mut bytes = [0; SUBMISSION_BYTES];
        bytes[0..2].copy_from_slice(&self.opcode.to_le_bytes());
        bytes[2..4].copy_from_slice(&self.flags.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.count.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.token.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.pool.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.object.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.index.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.page_slot.to_le_bytes());
        bytes[40..56].copy_from_slice(&self.shared.to_le_bytes());
        bytes[56..64].copy_from_slice(&self.reserved.to_le_bytes());
        bytes
    }

    /// Parses a submission.
    pub fn of(bytes: &[u8; SUBMISSION_BYTES]) -> Submission {
        Submission {
            opcode: u16::from_le_bytes(part(bytes, 0)),
            flags: u16::from_le_bytes(part(bytes, 2)),
            count: u32::from_le_bytes(part(bytes, 4)),
            token: u64::from_le_bytes(part(bytes, 8)),
            pool: u64::from_le_bytes(part(bytes, 16)),
            object: u64::from_le_bytes(part(bytes, 24)),
            index: u32::from_le_bytes(part(bytes, 32)),
            page_slot: u32::from_le_bytes(part(bytes, 36)),
            shared: u128::from_le_bytes(part(bytes, 40)),
            reserved: u64::from_le_bytes(part(bytes, 56)),
        }
    }
}

/// A completion as it lies in the ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// The submission's token.
    pub token: u64,
    /// The submission's opcode.
    pub opcode: u16,
    /// The outcome; see [`Outcome`].
    pub outcome: u16,
    /// Bits of the pages that were stored or hit, or a new pool's handle.
    pub first: u64,
    /// Bits of the pages that replaced others.
    pub second: u64,
}

impl Completion {
    /// The bytes of the completion in the ring.
    pub fn to_bytes(&self) -> [u8; COMPLETION_BYTES] {
        let mut bytes = [0; COMPLETION_BYTES];
        bytes[0..8].copy_from_slice(&self.token.to_le_bytes());
        bytes[8..10].copy_from_slice(&self.opcode.to_le_bytes());
        bytes[10..12].copy_from_slice(&self.outcome.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.first.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.second.to_le_bytes());
        bytes
    }

    /// Parses a completion.
    pub fn of(bytes: &[u8; COMPLETION_BYTES]) -> Completion {
        Completion {
            token: u64::from_le_bytes(part(bytes, 0)),
            opcode: u16::from_le_bytes(part(bytes, 8)),
            outcome: u16::from_le_bytes(part(bytes, 10)),
            first: u64::from_le_bytes(part(bytes, 16)),
            second: u64::from_le_bytes(part(bytes, 24)),
        }
    }
}

/// `N` bytes from `at` on. Every call gives both as constants that are within `bytes`.
fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&bytes[at..at + N]);
    part
}

/// The handle of a pool as one number.
pub fn handle_of(pool: PoolId) -> u64 {
    u64::from(pool.slot) | u64::from(pool.generation) << 32
}

/// The pool of a handle, whether or not there is such a pool.
pub fn pool_of(handle: u64) -> PoolId {
    PoolId {
        slot: handle as u32,
        generation: (handle >> 32) as u32,
    }
}

const PERSISTENT: u16 = 1;
const SHARED: u16 = 2;
const KEEPING: u16 = 4;

/// A pool's flags as bits.
pub fn flag_bits(flags: PoolFlags) -> u16 {
    let bit = |is_set, bit| if is_set { bit } else { 0 };
    bit(flags.persistent, PERSISTENT) | bit(flags.shared, SHARED) | bit(flags.keeping, KEEPING)
}

/// The flags of these bits. `None` if a bit is unknown.
pub fn flags_of(bits: u16) -> Option<PoolFlags> {
    if bits & !(PERSISTENT | SHARED | KEEPING) != 0 {
        return None;
    }
    Some(PoolFlags {
        persistent: bits & PERSISTENT != 0,
        shared: bits & SHARED != 0,
        keeping: bits & KEEPING != 0,
    })
}

/// A shared name as it lies in an entry. Zero stands for no name.
pub fn shared_bits(shared: Option<SharedName>) -> u128 {
    shared.map_or(0, |name| name.0)
}

macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident { $($number:literal $variant:ident: $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
        #[repr(u16)]
        #[non_exhaustive]
        pub enum $name {
            $(#[doc = $text] #[error($text)] $variant = $number,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: &[$name] = &[$($name::$variant,)*];

            /// The one of this number.
            pub fn of(number: u16) -> Option<$name> {
                match number {
                    $($number => Some($name::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

numbered! {
    /// Why the daemon did not do something that made sense.
    Refusal {
        1 NoMemory: "there is no memory for it now",
        2 AtTarget: "the tenant holds all that it may hold now",
        3 Frozen: "the tenant is frozen",
        4 NotPermitted: "the tenant may not use the shared pool of that name; `shared` and `sharers` in the daemon's config permit it",
        5 NoSpill: "persistent pools need a folder on disk: set `spill` for this listener in the daemon's config",
        6 TooManyPools: "no more pools can be made here: destroy one first",
        7 Failed: "the disk behind a persistent pool failed",
        8 SpillFull: "the file behind a persistent pool is full",
        9 PoolEnded: "the daemon has ended the pool: make another",
        10 NoTenant: "the daemon does not serve this tenant any more",
    }
}

numbered! {
    /// Why a submission made no sense.
    Fault {
        64 Opcode: "no verb has that opcode",
        65 Pool: "this connection has no pool with that handle",
        66 PageSlots: "the run names page slots that the ring does not have",
        67 Run: "a run has 1 to 64 pages and ends at index 2³² − 1 at the latest",
        68 Flags: "a flag is unknown, or the verb takes none",
        69 FlagsTogether: "a pool cannot be both shared and persistent",
        70 SharedName: "a shared pool needs a name, and only a shared pool has one",
        71 Reserved: "a field that must be zero is not",
    }
}

/// The outcome of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The submission was carried out.
    Done,
    /// The submission made sense, but was not carried out.
    Refused(Refusal),
    /// The submission made no sense.
    Faulty(Fault),
}

impl Outcome {
    /// The outcome's number in a completion.
    pub fn number(self) -> u16 {
        match self {
            Outcome::Done => 0,
            Outcome::Refused(refusal) => refusal as u16,
            Outcome::Faulty(fault) => fault as u16,
        }
    }

    /// The outcome of this number. `None` if this version does not know it.
    pub fn of(number: u16) -> Option<Outcome> {
        match number {
            0 => Some(Outcome::Done),
            _ => Refusal::of(number)
                .map(Outcome::Refused)
                .or_else(|| Fault::of(number).map(Outcome::Faulty)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = match Shape::new(8, 3) {
        Ok(shape) => shape,
        Err(_) => panic!("a fine shape"),
    };

    #[test]
    fn a_submission_has_these_bytes() {
        let submission = Submission {
            opcode: Opcode::Put as u16,
            flags: 0x0403,
            count: 0x0807_0605,
            token: 0x1716_1514_1312_1110,
            pool: 0x2726_2524_2322_2120,
            object: 0x3736_3534_3332_3130,
            index: 0x4342_4140,
            page_slot: 0x5352_5150,
            shared: 0x6f6e_6d6c_6b6a_6968_6766_6564_6362_6160,
            reserved: 0x7776_7574_7372_7170,
        };
        let mut golden = vec![1, 0, 3, 4, 5, 6, 7, 8];
        for start in [0x10, 0x20, 0x30] {
            golden.extend(start..start + 8);
        }
        for start in [0x40, 0x50] {
            golden.extend(start..start + 4);
        }
        golden.extend(0x60..0x70);
        golden.extend(0x70..0x78);
        assert_eq!(submission.to_bytes().to_vec(), golden);
        assert_eq!(Submission::of(&submission.to_bytes()), submission);
    }

    #[test]
    fn a_completion_has_these_bytes() {
        let completion = Completion {
            token: 0x0807_0605_0403_0201,
            opcode: 0x0a09,
            outcome: 0x0c0b,
            first: 0x1716_1514_1312_1110,
            second: 0x2726_2524_2322_2120,
        };
        let mut golden: Vec<u8> = (1..=12).collect();
        golden.extend([0; 4]);
        golden.extend(0x10..0x18);
        golden.extend(0x20..0x28);
        assert_eq!(completion.to_bytes().to_vec(), golden);
        assert_eq!(Completion::of(&completion.to_bytes()), completion);
    }

    #[test]
    fn a_header_has_these_bytes() {
        let golden = [
            &b"SUBLETRG"[..],
            &[1, 0, 0, 0],
            &[8, 0, 0, 0],
            &[3, 0, 0, 0],
            &[0, 0, 0, 0],
            &[0, 80, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(SHAPE.preamble().to_vec(), golden.concat());
    }

    #[test]
    fn parts_of_a_ring_follow_each_other() {
        assert_eq!(SHAPE.submission_at(0), 4096);
        assert_eq!(SHAPE.submission_at(8), 4096, "places come round");
        assert_eq!(SHAPE.completion_at(u32::MAX), 4096 + 8 * 64 + 7 * 32);
        assert_eq!(SHAPE.slot_at(0), 8192);
        assert_eq!(SHAPE.bytes(), SHAPE.slot_at(3));
        assert!(SHAPE.has_slots(0, 3) && SHAPE.has_slots(2, 1));
        assert!(!SHAPE.has_slots(0, 4) && !SHAPE.has_slots(3, 0));
        assert!(!SHAPE.has_slots(2, u32::MAX) && !SHAPE.has_slots(u32::MAX, u32::MAX));
    }

    #[test]
    fn shapes_have_bounds() {
        for wrong in [0, 3, ENTRIES_MAX * 2, u32::MAX] {
            assert_eq!(Shape::new(wrong, 1), Err(ShapeError::Entries(wrong)));
        }
        for wrong in [0, PAGE_SLOTS_MAX + 1, u32::MAX] {
            assert_eq!(Shape::new(1, wrong), Err(ShapeError::PageSlots(wrong)));
        }
    }

    #[test]
    fn numbers_of_outcomes_stand_for_one_thing_each() {
        let refusals = Refusal::ALL.iter().map(|r| Outcome::Refused(*r));
        let faults = Fault::ALL.iter().map(|f| Outcome::Faulty(*f));
        for outcome in refusals.chain(faults).chain([Outcome::Done]) {
            assert_eq!(Outcome::of(outcome.number()), Some(outcome));
        }
        assert_eq!(Outcome::of(u16::MAX), None);
    }

    #[test]
    fn flags_and_handles_survive_the_way() {
        for bits in 0..8 {
            let flags = flags_of(bits).expect("known bits");
            assert_eq!(flag_bits(flags), bits);
        }
        assert_eq!(flags_of(8), None);
        let pool = PoolId {
            slot: 0x0403_0201,
            generation: 0x0807_0605,
        };
        assert_eq!(handle_of(pool), 0x0807_0605_0403_0201);
        assert_eq!(pool_of(handle_of(pool)), pool);
    }
}
