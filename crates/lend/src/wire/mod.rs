//! The wire of a data connection between a borrower and a lender, version 1. All numbers are little-endian.
//!
//! ```text
//!                       borrower                            lender
//! every connection      hello, proof                  ───►
//! read connection       Read: head, ranges, code      ───►
//!                                                     ◄───  Data: head, set, code, pages of the set
//! write connection      Write: head, ranges, code, pages ──►
//!                                                     ◄───  Done: head, set, code
//! ```
//!
//! A lender answers the requests of a connection in their order. Codes cover all but the bytes of pages, which the
//! borrower seals. Nothing here reads a socket: both ends take whatever bytes arrived, and say what they mean.

mod admission;
mod answer;
mod borrower_channel;
mod fields;
mod head;
mod hello;
mod in_flight;
mod lender_channel;
mod limits;
mod message_mac;
mod message_reader;
mod newest_write;
mod page_request;
mod page_set;
mod page_stream;
mod range;
mod sequence;
mod session_keys;
mod wire_error;

pub use self::admission::{AdmissionError, SessionAdmission, SessionPeer};
pub use self::answer::{Answer, AnswerError};
pub use self::borrower_channel::{AnswerEvent, BorrowerChannel, RequestError};
pub use self::head::{HeadError, MessageHead, MessageKind, MessageStatus, MessageTag};
pub use self::hello::{
    ConnectionClass, ConnectionHello, HELLO_BYTES, HelloError, HelloMessage, HelloReader,
    PROOF_BYTES,
};
pub use self::lender_channel::{AnswerRefused, LenderChannel, RequestEvent};
pub use self::limits::{
    ANSWER_BYTES, BLOCK_PAGES, CONNECTIONS_MAX, HEAD_BYTES, MAC_BYTES, MESSAGE_BYTES_MAX,
    PAGE_BYTES, PAGES_MAX, RANGE_BYTES, RANGES_MAX, READS_IN_FLIGHT_MAX, REQUEST_BYTES_MAX,
    UNSENT_BYTES_MAX, WIRE_VERSION, WRITES_IN_FLIGHT_MAX,
};
pub use self::message_mac::MessageMac;
pub use self::newest_write::NewestWrite;
pub use self::page_request::PageRequest;
pub use self::page_set::PageSet;
pub use self::page_stream::{ExcessPageBytes, PageSpan};
pub use self::range::{LentPage, PageRange, RangeError, RangeList};
pub use self::sequence::{ReplayGuard, TagSequencer, WrongTag};
pub use self::session_keys::{
    ConnectionKeys, MAC_KEY_BYTES, MacKey, SECRET_BYTES, SESSION_NONCE_BYTES, SessionKeys,
    SessionNonces, WrongProof,
};
pub use self::wire_error::WireError;
