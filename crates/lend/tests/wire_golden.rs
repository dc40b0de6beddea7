//! The bytes of version 1, written out by another implementation of HMAC-SHA256 and AEGIS-128L. Each file is decoded
//! and encoded again, byte for byte.

use sublet_lend::wire::{
    Answer, AnswerEvent, BorrowerChannel, ConnectionClass, ConnectionHello, ConnectionKeys,
    HelloError, HelloMessage, HelloReader, LenderChannel, MacKey, MessageTag, PAGE_BYTES,
    PageRange, PageRequest, PageSet, RangeList, RequestEvent, SessionKeys, SessionNonces,
};

/// The lender's incarnation. Messages carry its low half.
const INCARNATION: u64 = 0x8899_aabb_ccdd_eeff;

const LEASE: u32 = 0x0a0b_0c0d;

/// The bytes of a golden file: lines of hexadecimal digits, and comments that begin with `#`.
fn bytes_of(text: &str) -> Vec<u8> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let digits = lines.flat_map(str::split_whitespace);
    digits
        .map(|pair| u8::from_str_radix(pair, 16).expect("two hexadecimal digits"))
        .collect()
}

macro_rules! golden {
    ($name:literal) => {
        bytes_of(include_str!(concat!("golden/", $name, ".hex")))
    };
}

fn session() -> SessionKeys {
    let mut secret = [0; 32];
    (0..).zip(&mut secret).for_each(|(n, byte)| *byte = n);
    let nonces = SessionNonces {
        connector: [0x11; 32],
        acceptor: [0x22; 32],
    };
    SessionKeys::new(&secret, nonces)
}

fn hello(class: ConnectionClass) -> ConnectionHello {
    ConnectionHello {
        class,
        node: 0x0f0e_0d0c_0b0a_0908_0706_0504_0302_0100,
        incarnation: 0x1716_1514_1312_1110,
        session: 0x1f1e_1d1c_1b1a_1918,
        connection: match class {
            ConnectionClass::Read => 1,
            ConnectionClass::Write => 2,
        },
    }
}

fn keys(class: ConnectionClass) -> ConnectionKeys {
    session().connection_keys(&hello(class))
}

fn lender(class: ConnectionClass) -> LenderChannel {
    LenderChannel::new(class, keys(class), INCARNATION)
}

fn borrower(class: ConnectionClass) -> BorrowerChannel {
    BorrowerChannel::new(class, keys(class), INCARNATION)
}

fn ranges(of: &[(u32, u16, u16)]) -> RangeList {
    let mut list = RangeList::default();
    for (index, place, count) in of {
        let range = PageRange::new(*index, *place, *count).expect("a range within its block");
        list.push(range).expect("room for the range");
    }
    list
}

fn request(tag: u64, pages: usize) -> PageRequest {
    PageRequest {
        tag: MessageTag(tag),
        lease: LEASE,
        pages,
    }
}

#[test]
fn hellos_are_as_written() {
    for (class, bytes) in [
        (ConnectionClass::Read, golden!("hello-read")),
        (ConnectionClass::Write, golden!("hello-write")),
    ] {
        let message = HelloMessage::decode(&bytes).expect("a hello of version 1");
        assert_eq!(message.hello, hello(class));
        assert_eq!(session().check(&message), Ok(()));
        assert_eq!(message, session().prove(hello(class)));
        assert_eq!(message.encode()[..], bytes);
    }
}

#[test]
fn a_peer_of_version_2_is_refused_by_its_version() {
    let bytes = golden!("hello-version-2");
    let refused = HelloMessage::decode(&bytes);
    assert_eq!(refused, Err(HelloError::Version(2)));
    let said = HelloError::Version(2).to_string();
    assert!(
        said.contains("version 2") && said.contains("speaks 1"),
        "{said}"
    );
    // It is refused at the version, before the rest of its hello comes, which may be longer than ours.
    let mut reader = HelloReader::default();
    assert_eq!(reader.receive(&mut &bytes[..5]), Ok(None));
    assert_eq!(
        reader.receive(&mut &bytes[5..6]),
        Err(HelloError::Version(2))
    );
}

#[test]
fn keys_are_as_written() {
    let bytes = golden!("keys");
    let written: Vec<MacKey> = bytes
        .chunks_exact(16)
        .map(|key| MacKey::new(key.try_into().expect("16 bytes")))
        .collect();
    let (reads, writes) = (keys(ConnectionClass::Read), keys(ConnectionClass::Write));
    let derived = [
        reads.to_lender,
        reads.to_borrower,
        writes.to_lender,
        writes.to_borrower,
    ];
    assert_eq!(written, derived);
}

#[test]
fn reads_and_their_answers_are_as_written() {
    let class = ConnectionClass::Read;
    let (mut borrower, mut lender) = (borrower(class), lender(class));
    let first = [(0x0102_0304, 511, 1), (5, 0, 3)];
    let conversation: [(&[_], Answer, Vec<u8>, Vec<u8>); 2] = [
        (
            &first,
            Answer::Pages(PageSet(0b1010)),
            golden!("read"),
            golden!("read-answer"),
        ),
        (
            &[(7, 8, 1)],
            Answer::LeaseGone,
            golden!("read-second"),
            golden!("read-answer-lease-gone"),
        ),
    ];
    for (tag, (asked, answer, read, data)) in (1..).zip(conversation) {
        let asked = ranges(asked);
        let request = request(tag, asked.page_count());
        let mut sent = Vec::new();
        let written = borrower.request(LEASE, &asked, &mut sent);
        assert_eq!((written, &sent), (Ok(request), &read));
        let received = lender.receive(&mut &read[..]);
        assert_eq!(received, Ok(RequestEvent::Read(request)));
        assert_eq!(lender.ranges().ranges(), asked.ranges());
        assert_eq!(lender.answer(answer).expect("the request waits")[..], data);
        let received = borrower.receive(&mut &data[..]);
        assert_eq!(received, Ok(AnswerEvent::Answered { request, answer }));
        let missing = answer.pages().len() * PAGE_BYTES;
        assert_eq!(borrower.pages_arrived(missing), Ok(()));
        let complete = Ok(AnswerEvent::ReadComplete(request));
        assert_eq!(borrower.receive(&mut &[][..]), complete);
    }
}

#[test]
fn writes_and_their_answers_are_as_written() {
    let class = ConnectionClass::Write;
    let (mut borrower, mut lender) = (borrower(class), lender(class));
    let asked = ranges(&[(9, 100, 2)]);
    let taken = Answer::Pages(PageSet(0b11));
    let conversation = [
        (taken, golden!("write"), golden!("write-answer")),
        (
            Answer::Busy,
            golden!("write-second"),
            golden!("write-answer-busy"),
        ),
        (
            Answer::Refused,
            golden!("write-third"),
            golden!("write-answer-refused"),
        ),
    ];
    for (tag, (answer, write, done)) in (1..).zip(conversation) {
        let request = request(tag, 2);
        let mut sent = Vec::new();
        let written = borrower.request(LEASE, &asked, &mut sent);
        assert_eq!((written, &sent), (Ok(request), &write));
        let received = lender.receive(&mut &write[..]);
        assert_eq!(received, Ok(RequestEvent::WriteBegins(request)));
        assert_eq!(lender.ranges().ranges(), asked.ranges());
        assert_eq!(lender.pages_arrived(2 * PAGE_BYTES), Ok(()));
        let complete = Ok(RequestEvent::WriteComplete(request));
        assert_eq!(lender.receive(&mut &[][..]), complete);
        assert_eq!(lender.answer(answer).expect("the request waits")[..], done);
        let received = borrower.receive(&mut &done[..]);
        assert_eq!(received, Ok(AnswerEvent::Answered { request, answer }));
    }
    assert_eq!(borrower.unanswered().count(), 0);
}
