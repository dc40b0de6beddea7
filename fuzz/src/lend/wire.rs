//! A peer that sends arbitrary bytes over a data connection of lending, whole and in pieces.
//!
//! Most inputs are forged under the right keys. So they pass the codes, and what lies behind is tested too.

use sublet_lend::wire::{
    Answer, AnswerEvent, BorrowerChannel, ConnectionClass, ConnectionHello, ConnectionKeys,
    HEAD_BYTES, HELLO_BYTES, HelloReader, LenderChannel, MacKey, MessageMac, MessageTag,
    PAGE_BYTES, PAGES_MAX, PageRange, PageSet, PageSpan, RANGE_BYTES, REQUEST_BYTES_MAX, RangeList,
    RequestEvent, SessionAdmission, SessionKeys, SessionNonces, SessionPeer,
};

use crate::Pieces;

/// The lender's incarnation.
const INCARNATION: u64 = 7;

/// The lease of the borrower's requests.
const LEASE: u32 = 3;

/// The most requests that wait when answers come.
const ASKED_MAX: u32 = 8;

/// What an input's control byte asks to be put right.
mod repair {
    pub(super) const TAG: u8 = 1 << 0;
    pub(super) const LENGTH: u8 = 1 << 1;
    pub(super) const INCARNATION: u8 = 1 << 2;
    pub(super) const LEASE: u8 = 1 << 3;
    pub(super) const CODE: u8 = 1 << 4;
}

/// Feeds bytes as a hello, whole and cut. It is what its bytes say, or refused for the same reason.
pub fn hello(seed: u32, input: &[u8]) {
    let receive = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let mut reader = HelloReader::default();
        for mut piece in pieces {
            match reader.receive(&mut piece) {
                Ok(None) => assert!(piece.is_empty(), "it wants more, and leaves some"),
                outcome => return Some(outcome),
            }
        }
        None
    };
    let whole = receive(&mut std::iter::once(input));
    let cut = receive(&mut Pieces { seed, rest: input });
    assert_eq!(whole, cut, "cutting the hello changed it");
    if let Some(Ok(Some(message))) = whole {
        assert_eq!(message.encode(), input[..HELLO_BYTES]);
        admit(message.hello);
    }
}

/// Lets the opener in with a good proof, and not twice.
fn admit(hello: ConnectionHello) {
    let nonces = SessionNonces {
        connector: [1; 32],
        acceptor: [2; 32],
    };
    let keys = SessionKeys::new(&[3; 32], nonces);
    let peer = SessionPeer {
        node: hello.node,
        incarnation: hello.incarnation,
        session: hello.session,
    };
    let proven = keys.prove(hello);
    let mut session = SessionAdmission::new(keys, peer);
    let is_let_in = session.admit(&proven).is_ok();
    assert_eq!(is_let_in, hello.connection != 0);
    assert!(session.admit(&proven).is_err(), "a hello was replayed");
}

/// Feeds requests to a lender, whole and cut. The same requests and pages must come. The lowest bit of the seed chooses
/// the class.
pub fn requests(seed: u32, input: &[u8]) {
    let class = class_of(seed);
    let bytes = forge(input, &keys().to_lender);
    let whole = run_lender(class, std::iter::once(&bytes[..]));
    let rest = &bytes[..];
    let cut = run_lender(class, Pieces { seed, rest });
    assert_eq!(whole, cut, "cutting the input changed what was asked");
}

/// Feeds answers to a borrower that asked, whole and cut. The same answers and pages must come. The lowest bit of the
/// seed chooses the class, the next ones the number of requests.
pub fn answers(seed: u32, input: &[u8]) {
    let class = class_of(seed);
    let bytes = forge(input, &keys().to_borrower);
    let asked = seed / 2 % (ASKED_MAX + 1);
    let whole = run_borrower(class, asked, std::iter::once(&bytes[..]));
    let rest = &bytes[..];
    let cut = run_borrower(class, asked, Pieces { seed, rest });
    assert_eq!(whole, cut, "cutting the input changed what was answered");
}

fn class_of(seed: u32) -> ConnectionClass {
    match seed % 2 {
        0 => ConnectionClass::Read,
        _ => ConnectionClass::Write,
    }
}

fn keys() -> ConnectionKeys {
    ConnectionKeys {
        to_lender: MacKey::new([1; 16]),
        to_borrower: MacKey::new([2; 16]),
    }
}

/// Makes messages of the input: for each a control byte, a head and what the head says of ranges. The control byte says
/// what is put right.
fn forge(input: &[u8], key: &MacKey) -> Vec<u8> {
    let (mut bytes, mut rest, mut tag) = (Vec::new(), input, 1);
    while let Some((control, after)) = rest.split_first()
        && let Some((head, after)) = after.split_first_chunk::<HEAD_BYTES>()
    {
        let mut head = *head;
        let is_request = head[4] % 2 == 1;
        let body_len = match is_request {
            true => usize::from(head[6]) % (PAGES_MAX + 2) * RANGE_BYTES,
            false => 8,
        };
        let (body, after) = after.split_at(body_len.min(after.len()));
        rest = after;
        let pages = usize::from(head[0]) % (PAGES_MAX + 2);
        let length = (body_len + 16 + pages * PAGE_BYTES) as u32;
        mend(&mut head, *control, tag, length);
        let begins = bytes.len();
        bytes.extend_from_slice(&head);
        bytes.extend_from_slice(body);
        if control & repair::CODE != 0 {
            let tag = MessageTag(u64::from_le_bytes(head[8..16].try_into().expect("8 bytes")));
            let code = MessageMac::new(key.clone()).code(tag, &bytes[begins..]);
            bytes.extend_from_slice(&code);
        }
        if control & repair::LENGTH != 0 {
            bytes.resize(bytes.len() + pages * PAGE_BYTES, *control);
        }
        tag += 1;
    }
    bytes.extend_from_slice(rest);
    bytes
}

fn mend(head: &mut [u8; HEAD_BYTES], control: u8, tag: u64, length: u32) {
    let mut put = |what: u8, at: usize, value: &[u8]| {
        if control & what != 0 {
            head[at..at + value.len()].copy_from_slice(value);
        }
    };
    put(repair::LENGTH, 0, &length.to_le_bytes());
    put(repair::TAG, 8, &tag.to_le_bytes());
    put(repair::LEASE, 16, &LEASE.to_le_bytes());
    put(repair::INCARNATION, 20, &(INCARNATION as u32).to_le_bytes());
}

/// What came of a direction's bytes: a line for each event, and the bytes of pages.
#[derive(Debug, Default, PartialEq, Eq)]
struct WireTranscript {
    events: Vec<String>,
    page_bytes: usize,
}

impl WireTranscript {
    /// Takes a stretch of a page, which must go on where the last one ended.
    fn take_page_bytes(&mut self, span: PageSpan, bytes: &[u8]) {
        assert_eq!(span.len, bytes.len());
        assert!(span.len > 0 && span.offset + span.len <= PAGE_BYTES);
        assert_eq!(span.offset, self.page_bytes % PAGE_BYTES);
        self.page_bytes += bytes.len();
    }
}

fn run_lender<'a>(
    class: ConnectionClass,
    pieces: impl Iterator<Item = &'a [u8]>,
) -> WireTranscript {
    let mut lender = LenderChannel::new(class, keys(), INCARNATION);
    let mut transcript = WireTranscript::default();
    for mut piece in pieces {
        loop {
            let before = piece.len();
            match lender.receive(&mut piece) {
                Ok(RequestEvent::Idle) => break,
                Ok(RequestEvent::PageBytes { page, span, bytes }) => {
                    assert_eq!(lender.ranges().page_at(span.ordinal), Some(page));
                    transcript.take_page_bytes(span, bytes);
                }
                Ok(event) => {
                    assert_lists_sound(lender.ranges());
                    let line = format!("{event:?} {:?}", lender.ranges().ranges());
                    transcript.events.push(line);
                    let _ = lender.answer(Answer::Pages(PageSet(1)));
                }
                Err(error) => {
                    transcript.events.push(error.to_string());
                    return transcript;
                }
            }
            assert!(before - piece.len() <= REQUEST_BYTES_MAX.max(PAGE_BYTES));
        }
        assert!(piece.is_empty(), "it rests, and leaves some");
    }
    transcript
}

fn assert_lists_sound(list: &RangeList) {
    assert!((1..=PAGES_MAX).contains(&list.page_count()));
    assert_eq!(list.pages().count(), list.page_count());
    assert!(list.pages().all(|page| page.place < 512));
}

fn run_borrower<'a>(
    class: ConnectionClass,
    asked: u32,
    pieces: impl Iterator<Item = &'a [u8]>,
) -> WireTranscript {
    let mut borrower = BorrowerChannel::new(class, keys(), INCARNATION);
    for n in 0..asked {
        let mut ranges = RangeList::default();
        let range = PageRange::new(n, 3, 1 + 9 * n as u16).expect("a range within its block");
        ranges.push(range).expect("64 pages at most");
        borrower
            .request(LEASE, &ranges, &mut Vec::new())
            .expect("8 requests may wait");
    }
    let mut transcript = WireTranscript::default();
    for mut piece in pieces {
        loop {
            match borrower.receive(&mut piece) {
                Ok(AnswerEvent::Idle) => break,
                Ok(AnswerEvent::PageBytes {
                    request,
                    span,
                    bytes,
                }) => {
                    assert!(
                        span.ordinal < request.pages,
                        "a page that was not asked for"
                    );
                    transcript.take_page_bytes(span, bytes);
                }
                Ok(event) => transcript.events.push(format!("{event:?}")),
                Err(error) => {
                    transcript.events.push(error.to_string());
                    return transcript;
                }
            }
        }
        assert!(piece.is_empty(), "it rests, and leaves some");
    }
    transcript
}
