//! What two daemons say to each other on their control connection: lines of JSON, version 1.
//!
//! A newer peer may add fields and kinds of messages. An older one ignores both, and counts the kinds.

mod bodies;
mod cluster_bodies;
mod error;
mod line;
mod line_reader;
mod message;
mod version;
mod view_bodies;

pub use bodies::{
    Addresses, BlockCount, Borrow, Bye, ByeReason, Claim, ControlHello, CountError, End, Grant,
    GrantLimit, HeldCounts, LeaseAudit, LeaseEnd, LendReport, NoticeMillis, Ping, Pong,
    RecallNotice, RecalledRanges, ReturnedRanges,
};
pub use cluster_bodies::{BorrowAdvice, ClusterReport, MemberNames, MembersUpdate, PairCounts};
pub use error::ControlError;
pub use line::{decode_line, encode_line};
pub use line_reader::LineReader;
pub use message::{ControlLine, ControlMessage};
pub use version::{VERSION_RANGE, Version, VersionRange};
pub use view_bodies::{
    ListUpTo, ShortText, ViewAdvice, ViewAlarm, ViewNode, ViewPart, ViewQuery, ViewState,
};

/// The most bytes of a line, with its end. No message of this version needs half as many.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// The most blocks of a number in a message. An arena has no more.
pub const BLOCKS_MAX: u32 = 1 << 20;

/// The most leases between a borrower and a lender.
pub const LEASES_PER_PEER_MAX: usize = 16;

/// The most nodes that a report names as borrowers, and as lenders.
pub const PAIRS_MAX: usize = 128;

/// The most names of a list in a message.
pub const MEMBER_NAMES_MAX: usize = 192;

/// The most nodes in a part of a leader's view.
pub const VIEW_NODES_MAX: usize = 32;

/// The most pieces of advice in it.
pub const VIEW_ADVICE_MAX: usize = 24;

/// The most alarms in it.
pub const VIEW_ALARMS_MAX: usize = 16;

/// The most bytes of a text in a leader's view.
pub const VIEW_TEXT_BYTES_MAX: usize = 512;

/// The most addresses of a node.
pub const ADDRESSES_MAX: usize = 16;

/// The most bytes of an address: a host name has 253, a port 6, and a scheme the rest.
pub const ADDRESS_BYTES_MAX: usize = 272;

/// The longest notice of a recall, in milliseconds: an hour.
pub const NOTICE_MILLIS_MAX: u32 = 3_600_000;
