//! Both ends of a data connection, whatever happens between them.

use std::collections::VecDeque;

use proptest::prelude::*;
use proptest::sample::Index;
use sublet_lend::wire::{
    ANSWER_BYTES, Answer, AnswerEvent, AnswerRefused, BorrowerChannel, ConnectionClass,
    ConnectionKeys, HEAD_BYTES, HelloMessage, HelloReader, LenderChannel, MAC_BYTES, MacKey,
    MessageHead, MessageKind, MessageMac, MessageStatus, MessageTag, PAGE_BYTES, PAGES_MAX,
    PageRange, PageSet, READS_IN_FLIGHT_MAX, REQUEST_BYTES_MAX, RangeError, RangeList,
    RequestError, RequestEvent, UNSENT_BYTES_MAX, WRITES_IN_FLIGHT_MAX, WireError, WrongTag,
};

const INCARNATION: u64 = 0x1_0000_0007;

const LEASE: u32 = 3;

fn keys() -> ConnectionKeys {
    ConnectionKeys {
        to_lender: MacKey::new([1; 16]),
        to_borrower: MacKey::new([2; 16]),
    }
}

fn ends(class: ConnectionClass) -> (BorrowerChannel, LenderChannel) {
    (
        BorrowerChannel::new(class, keys(), INCARNATION),
        LenderChannel::new(class, keys(), INCARNATION),
    )
}

fn list(of: &[(u32, u16, u16)]) -> RangeList {
    let mut list = RangeList::default();
    for (index, place, count) in of {
        let range = PageRange::new(*index, *place, *count).expect("a range within its block");
        list.push(range).expect("room for the range");
    }
    list
}

/// A page whose bytes say which it is.
fn page(seed: usize) -> Vec<u8> {
    (0..PAGE_BYTES).map(|n| (n * 7 + seed * 31) as u8).collect()
}

/// Lists of one to four ranges.
fn lists() -> impl Strategy<Value = Vec<(u32, u16, u16)>> {
    prop::collection::vec((any::<u32>(), 0u16..496, 1u16..=16), 1..=4)
}

/// Numbers of bytes that arrive at once: small and large ones.
fn cuts() -> impl Strategy<Value = Vec<usize>> {
    let sizes = prop_oneof![1usize..4, 1usize..64, 1usize..9000];
    prop::collection::vec(sizes, 1..40)
}

/// The bytes in pieces of these lengths, over and over.
fn pieces<'a>(mut bytes: &'a [u8], cuts: &'a [usize]) -> impl Iterator<Item = &'a [u8]> {
    let mut cuts = cuts.iter().cycle();
    std::iter::from_fn(move || {
        let cut = (*cuts.next()?).min(bytes.len());
        let (piece, rest) = bytes.split_at(cut);
        bytes = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

/// A message with the right code for whatever stands in it.
fn authentic(key: u8, head: MessageHead, body: &[u8]) -> Vec<u8> {
    let mut bytes = head.encode().to_vec();
    bytes.extend_from_slice(body);
    let code = MessageMac::new(MacKey::new([key; 16])).code(head.tag, &bytes);
    bytes.extend_from_slice(&code);
    bytes
}

fn head(kind: MessageKind, ranges: u16, pages: u16) -> MessageHead {
    MessageHead {
        kind,
        status: MessageStatus::Ok,
        ranges,
        pages,
        tag: MessageTag(1),
        lease: LEASE,
        incarnation_low: INCARNATION as u32,
    }
}

/// The bytes of several reads of one connection.
fn reads(count: usize) -> Vec<Vec<u8>> {
    let (mut borrower, _) = ends(ConnectionClass::Read);
    let of_each = (0..count).map(|n| {
        let mut out = Vec::new();
        let ranges = list(&[(n as u32, 4, 2), (9, 0, 1)]);
        borrower
            .request(LEASE, &ranges, &mut out)
            .expect("room for the request");
        out
    });
    of_each.collect()
}

/// What came of a stretch of bytes at the lender: its requests, and the pages written.
#[derive(Debug, Default, PartialEq)]
struct LenderTranscript {
    requests: Vec<(u64, u32, Vec<PageRange>)>,
    pages: Vec<(u32, u16, Vec<u8>)>,
    answers: Vec<u8>,
}

/// How the bytes of pages reach the lender.
#[derive(Clone, Copy, Debug, PartialEq)]
enum PageRoute {
    /// Out of what `receive` was given.
    ByInput,
    /// Straight to where `missing_pages` says.
    Direct,
}

/// Feeds pieces to the lender, which answers each request.
fn lend<'a>(
    lender: &mut LenderChannel,
    input: impl Iterator<Item = &'a [u8]>,
    answers: &mut VecDeque<Answer>,
    route: PageRoute,
) -> LenderTranscript {
    let mut transcript = LenderTranscript::default();
    for mut piece in input {
        loop {
            let event = lender.receive(&mut piece).expect("good bytes");
            match event {
                RequestEvent::Idle => break,
                RequestEvent::Read(asked) | RequestEvent::WriteBegins(asked) => {
                    let ranges = lender.ranges().ranges().to_vec();
                    transcript.requests.push((asked.tag.0, asked.lease, ranges));
                    if let RequestEvent::WriteBegins(_) = event {
                        let pages = lender.ranges().pages();
                        let empty = pages.map(|page| (page.index, page.place, vec![]));
                        transcript.pages.extend(empty);
                    }
                }
                RequestEvent::PageBytes { page, span, bytes } => {
                    assert_eq!(span.len, bytes.len());
                    put_bytes(&mut transcript, page, span.offset, bytes);
                }
                RequestEvent::WriteComplete(_) => {}
            }
            if matches!(
                event,
                RequestEvent::Read(_) | RequestEvent::WriteComplete(_)
            ) {
                assert!(!lender.wants_input(0));
                let answer = answers.pop_front().expect("an answer for each request");
                let bytes = lender.answer(answer).expect("the request waits");
                transcript.answers.extend_from_slice(&bytes);
                if let RequestEvent::Read(_) = event {
                    let pages = answer.pages().pages().flat_map(page);
                    transcript.answers.extend(pages);
                }
            }
            if route == PageRoute::Direct {
                take_direct(lender, &mut piece, &mut transcript);
            }
        }
    }
    transcript
}

/// Puts bytes at the end of the page of this name that is not full.
fn put_bytes(
    transcript: &mut LenderTranscript,
    page: sublet_lend::wire::LentPage,
    offset: usize,
    bytes: &[u8],
) {
    let is_it = |entry: &&mut (u32, u16, Vec<u8>)| {
        (entry.0, entry.1) == (page.index, page.place) && entry.2.len() < PAGE_BYTES
    };
    let found = transcript.pages.iter_mut().find(is_it);
    let (_, _, content) = found.expect("a page of the write");
    assert_eq!(content.len(), offset);
    content.extend_from_slice(bytes);
}

fn take_direct(lender: &mut LenderChannel, piece: &mut &[u8], transcript: &mut LenderTranscript) {
    let spans: Vec<_> = lender.missing_pages().collect();
    let mut arrived = 0;
    for (page, span) in spans {
        let (bytes, rest) = piece.split_at(span.len.min(piece.len()));
        *piece = rest;
        if !bytes.is_empty() {
            put_bytes(transcript, page, span.offset, bytes);
        }
        arrived += bytes.len();
    }
    assert_eq!(lender.pages_arrived(arrived), Ok(()));
}

/// A tag, the answer with it, and the pages that came with it.
type AnswerWithPages = (u64, Answer, Vec<(usize, Vec<u8>)>);

/// What came of a stretch of bytes at the borrower.
fn borrow<'a>(
    borrower: &mut BorrowerChannel,
    input: impl Iterator<Item = &'a [u8]>,
) -> Vec<AnswerWithPages> {
    let mut answers = Vec::new();
    for mut piece in input {
        loop {
            match borrower.receive(&mut piece).expect("good bytes") {
                AnswerEvent::Idle => break,
                AnswerEvent::Answered { request, answer } => {
                    answers.push((request.tag.0, answer, Vec::new()));
                }
                AnswerEvent::PageBytes {
                    request,
                    span,
                    bytes,
                } => {
                    let (tag, _, pages) = answers.last_mut().expect("an answer came before");
                    assert_eq!((*tag, span.len), (request.tag.0, bytes.len()));
                    if span.offset == 0 {
                        pages.push((span.ordinal, Vec::new()));
                    }
                    let (ordinal, content) = pages.last_mut().expect("the page began");
                    assert_eq!((*ordinal, content.len()), (span.ordinal, span.offset));
                    content.extend_from_slice(bytes);
                }
                AnswerEvent::ReadComplete(request) => {
                    let (tag, answer, pages) = answers.last().expect("an answer came before");
                    assert_eq!((*tag, answer.pages().len()), (request.tag.0, pages.len()));
                }
            }
        }
    }
    answers
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_cut_of_reads_gives_the_same_pages(
        asked in prop::collection::vec((lists(), any::<u64>(), 0..5), 1..5),
        cuts in cuts(),
    ) {
        let (mut borrower, mut lender) = ends(ConnectionClass::Read);
        let (mut sent, mut answers, mut expected) = (Vec::new(), VecDeque::new(), Vec::new());
        for (ranges, bits, outcome) in asked {
            let request = borrower.request(LEASE, &list(&ranges), &mut sent).expect("room");
            let all = PageSet::first(request.pages);
            let answer = match outcome {
                0 => Answer::LeaseGone,
                1 => Answer::Busy,
                _ => Answer::Pages(PageSet(bits & all.0)),
            };
            answers.push_back(answer);
            let ranges = list(&ranges).ranges().to_vec();
            expected.push((request.tag.0, answer, ranges));
        }
        let at_lender = lend(&mut lender, pieces(&sent, &cuts), &mut answers, PageRoute::ByInput);
        let requests = expected.iter().map(|(tag, _, ranges)| (*tag, LEASE, ranges.clone()));
        prop_assert!(at_lender.requests.iter().cloned().eq(requests));
        let got = borrow(&mut borrower, pieces(&at_lender.answers, &cuts));
        prop_assert_eq!(got.len(), expected.len());
        for ((tag, answer, pages), (its_tag, its_answer, _)) in got.into_iter().zip(expected) {
            prop_assert_eq!((tag, answer), (its_tag, its_answer));
            let whole = answer.pages().pages().map(|ordinal| (ordinal, page(ordinal)));
            prop_assert!(pages.into_iter().eq(whole));
        }
    }

    #[test]
    fn any_cut_of_writes_gives_the_same_pages(
        asked in prop::collection::vec(lists(), 1..4),
        cuts in cuts(),
        direct in any::<bool>(),
    ) {
        let (mut borrower, mut lender) = ends(ConnectionClass::Write);
        let (mut sent, mut expected) = (Vec::new(), Vec::new());
        let (mut answers, mut taken) = (VecDeque::new(), Vec::new());
        for ranges in asked {
            let ranges = list(&ranges);
            let request = borrower.request(LEASE, &ranges, &mut sent).expect("room");
            for (n, lent) in ranges.pages().enumerate() {
                sent.extend_from_slice(&page(n));
                expected.push((lent.index, lent.place, page(n)));
            }
            let answer = Answer::Pages(PageSet::first(request.pages));
            answers.push_back(answer);
            taken.push((request.tag.0, answer, Vec::new()));
        }
        let route = if direct { PageRoute::Direct } else { PageRoute::ByInput };
        let at_lender = lend(&mut lender, pieces(&sent, &cuts), &mut answers, route);
        prop_assert_eq!(at_lender.pages, expected);
        prop_assert_eq!(borrow(&mut borrower, pieces(&at_lender.answers, &cuts)), taken);
    }

    #[test]
    fn any_flipped_bit_of_a_request_is_refused(
        ranges in lists(),
        bit in any::<Index>(),
        writes in any::<bool>(),
    ) {
        let class = if writes { ConnectionClass::Write } else { ConnectionClass::Read };
        let (mut borrower, mut lender) = ends(class);
        let mut sent = Vec::new();
        borrower.request(LEASE, &list(&ranges), &mut sent).expect("room");
        let bit = bit.index(sent.len() * 8);
        sent[bit / 8] ^= 1 << (bit % 8);
        let refused = lender.receive(&mut &sent[..]);
        prop_assert!(refused.is_err(), "bit {}: {:?}", bit, refused);
        prop_assert_eq!(lender.receive(&mut &sent[..]), refused);
    }

    #[test]
    fn any_flipped_bit_of_an_answer_is_refused(
        ranges in lists(),
        bits in any::<u64>(),
        bit in 0..ANSWER_BYTES * 8,
        writes in any::<bool>(),
    ) {
        let class = if writes { ConnectionClass::Write } else { ConnectionClass::Read };
        let (mut borrower, mut lender) = ends(class);
        let mut sent = Vec::new();
        let asked = borrower.request(LEASE, &list(&ranges), &mut sent).expect("room");
        lender.receive(&mut &sent[..]).expect("a good request");
        if writes {
            lender.pages_arrived(asked.pages * PAGE_BYTES).expect("as many as asked");
            lender.receive(&mut &[][..]).expect("a complete write");
        }
        let set = PageSet(bits & PageSet::first(asked.pages).0);
        let mut answer = lender.answer(Answer::Pages(set)).expect("the request waits");
        answer[bit / 8] ^= 1 << (bit % 8);
        let refused = borrower.receive(&mut &answer[..]);
        prop_assert!(refused.is_err(), "bit {}: {:?}", bit, refused);
        prop_assert_eq!(borrower.receive(&mut &answer[..]), refused);
    }

    #[test]
    fn hellos_are_the_same_however_they_are_cut(fields in any::<(u128, u64, u64, u64)>(), cuts in cuts()) {
        let (node, incarnation, session, connection) = fields;
        let class = ConnectionClass::Write;
        let hello = sublet_lend::wire::ConnectionHello { class, node, incarnation, session, connection };
        let message = HelloMessage { hello, proof: [9; 32] };
        let mut bytes = message.encode().to_vec();
        bytes.extend_from_slice(b"requests");
        let (mut reader, mut got, mut left) = (HelloReader::default(), None, 0);
        for mut piece in pieces(&bytes, &cuts) {
            if got.is_none() {
                got = reader.receive(&mut piece).expect("a good hello");
            }
            left += piece.len();
        }
        prop_assert_eq!(got, Some(message));
        prop_assert_eq!(left, b"requests".len());
    }

    #[test]
    fn no_bytes_make_a_channel_take_more_than_its_bound(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let (_, mut lender) = ends(ConnectionClass::Write);
        let mut input = &bytes[..];
        let _ = lender.receive(&mut input);
        prop_assert!(bytes.len() - input.len() <= REQUEST_BYTES_MAX);
    }
}

#[test]
fn replayed_skipped_and_reordered_requests_are_refused() {
    let reads = reads(3);
    let wrong = |expected, found| WireError::Tag(WrongTag { expected, found });
    for (order, refused) in [
        (vec![0, 0], wrong(2, 1)),
        (vec![0, 2], wrong(2, 3)),
        (vec![1, 0], wrong(1, 2)),
        (vec![0, 1, 0], wrong(3, 1)),
    ] {
        let (_, mut lender) = ends(ConnectionClass::Read);
        let first_refused = order.iter().find_map(|n| {
            let refused = lender.receive(&mut &reads[*n][..]).err();
            let _ = lender.answer(Answer::Busy);
            refused
        });
        assert_eq!(first_refused, Some(refused), "{order:?}");
    }
}

#[test]
fn replayed_and_unasked_answers_are_refused() {
    let (mut borrower, mut lender) = ends(ConnectionClass::Read);
    let mut sent = Vec::new();
    for _ in 0..2 {
        borrower
            .request(LEASE, &list(&[(1, 2, 3)]), &mut sent)
            .expect("room");
    }
    let mut input = &sent[..];
    let mut answer = || {
        lender.receive(&mut input).expect("a good request");
        lender.answer(Answer::Busy).expect("the request waits")
    };
    let (first, second) = (answer(), answer());
    let (mut skipping, _) = ends(ConnectionClass::Read);
    skipping
        .request(LEASE, &list(&[(1, 2, 3)]), &mut Vec::new())
        .expect("room");
    let wrong = |expected, found| Err(WireError::Tag(WrongTag { expected, found }));
    assert_eq!(skipping.receive(&mut &second[..]), wrong(1, 2));
    assert!(borrower.receive(&mut &first[..]).is_ok());
    assert!(matches!(
        borrower.receive(&mut &[][..]),
        Ok(AnswerEvent::ReadComplete(_))
    ));
    assert_eq!(borrower.receive(&mut &first[..]), wrong(2, 1));
    let (mut idle, _) = ends(ConnectionClass::Read);
    let unasked = Err(WireError::Unasked(MessageTag(1)));
    assert_eq!(idle.receive(&mut &first[..]), unasked);
}

#[test]
fn a_request_is_not_taken_for_an_answer() {
    let same = ConnectionKeys {
        to_lender: MacKey::new([1; 16]),
        to_borrower: MacKey::new([1; 16]),
    };
    let mut borrower = BorrowerChannel::new(ConnectionClass::Read, same, INCARNATION);
    let mut sent = Vec::new();
    let asked = borrower.request(LEASE, &list(&[(1, 2, 3)]), &mut sent);
    asked.expect("room");
    let unexpected = WireError::UnexpectedKind {
        kind: MessageKind::Read,
        class: ConnectionClass::Read,
    };
    assert_eq!(borrower.receive(&mut &sent[..]), Err(unexpected));
}

#[test]
fn messages_under_the_key_of_the_other_direction_are_refused() {
    let request = authentic(2, head(MessageKind::Read, 1, 0), &[0, 0, 0, 0, 0, 0, 1, 0]);
    let (_, mut lender) = ends(ConnectionClass::Read);
    let refused = Err(WireError::Code(MessageTag(1)));
    assert_eq!(lender.receive(&mut &request[..]), refused);
}

#[test]
fn a_borrower_that_lies_with_its_own_key_is_refused() {
    let range = |index: u32, place: u16, count: u16| {
        let mut bytes = index.to_le_bytes().to_vec();
        bytes.extend(place.to_le_bytes());
        bytes.extend(count.to_le_bytes());
        bytes
    };
    let of_range = |nth, source| WireError::Range { nth, source };
    let (index, place, count) = (5, 510, 3);
    let beyond = RangeError::BeyondBlock {
        index,
        place,
        count,
    };
    let two = [range(1, 0, 64), range(1, 64, 1)].concat();
    let read = |ranges| head(MessageKind::Read, ranges, 0);
    let other = MessageHead {
        incarnation_low: 8,
        ..read(1)
    };
    for (head, body, refused) in [
        (read(1), range(index, place, count), of_range(0, beyond)),
        (
            read(2),
            [range(1, 0, 1), range(7, 9, 0)].concat(),
            of_range(1, RangeError::Empty { index: 7, place: 9 }),
        ),
        (read(2), two, of_range(1, RangeError::TooManyPages)),
        (
            other,
            range(1, 0, 1),
            WireError::OtherIncarnation {
                expected: 7,
                found: 8,
            },
        ),
    ] {
        let (_, mut lender) = ends(ConnectionClass::Read);
        let bytes = authentic(1, head, &body);
        assert_eq!(lender.receive(&mut &bytes[..]), Err(refused));
        // The connection is at its end, whatever comes next.
        assert_eq!(lender.receive(&mut &bytes[..]), Err(refused));
    }
    let (_, mut lender) = ends(ConnectionClass::Write);
    let bytes = authentic(1, head(MessageKind::Write, 1, 3), &range(1, 0, 2));
    let (length, named) = (3, 2);
    let refused = Err(WireError::PageCount { length, named });
    assert_eq!(lender.receive(&mut &bytes[..]), refused);
}

#[test]
fn a_lender_that_lies_with_its_own_key_is_refused() {
    let answer = |pages, status, set: u64, lease| {
        let head = MessageHead {
            status,
            lease,
            ..head(MessageKind::Data, 0, pages)
        };
        authentic(2, head, &set.to_le_bytes())
    };
    let ok = MessageStatus::Ok;
    for (bytes, refused) in [
        (
            answer(1, ok, 0b1000, LEASE),
            "the answer names the pages 0b1000",
        ),
        (answer(2, ok, 0b111, LEASE), "room for 2 pages"),
        (
            answer(0, MessageStatus::Busy, 0b1, LEASE),
            "the answer says Busy",
        ),
        (answer(1, ok, 0b1, LEASE + 1), "the answer is about lease 4"),
    ] {
        let (mut borrower, _) = ends(ConnectionClass::Read);
        let asked = borrower.request(LEASE, &list(&[(1, 2, 3)]), &mut Vec::new());
        asked.expect("room");
        let error = borrower
            .receive(&mut &bytes[..])
            .expect_err("the lender lies");
        assert!(error.to_string().contains(refused), "{error}");
        assert_eq!(borrower.receive(&mut &bytes[..]), Err(error));
    }
}

#[test]
fn the_borrower_bounds_its_requests_in_flight() {
    for (class, limit) in [
        (ConnectionClass::Read, READS_IN_FLIGHT_MAX),
        (ConnectionClass::Write, WRITES_IN_FLIGHT_MAX),
    ] {
        let (mut borrower, _) = ends(class);
        let (ranges, mut out) = (list(&[(1, 2, 3)]), Vec::new());
        let none = borrower.request(LEASE, &RangeList::default(), &mut out);
        assert_eq!((none, out.len()), (Err(RequestError::NoPages), 0));
        for _ in 0..limit {
            assert!(borrower.has_room());
            borrower.request(LEASE, &ranges, &mut out).expect("room");
        }
        let written = out.len();
        let full = Err(RequestError::TooManyInFlight(limit));
        assert_eq!(borrower.request(LEASE, &ranges, &mut out), full);
        assert_eq!((borrower.has_room(), out.len()), (false, written));
        // A refused request uses no tag up, and so the lender sees no gap.
        assert_eq!(
            borrower.unanswered().last().map(|last| last.tag.0),
            Some(limit as u64)
        );
    }
}

#[test]
fn a_lender_answers_one_request_at_a_time() {
    let sent = reads(2).concat();
    let (_, mut lender) = ends(ConnectionClass::Read);
    let mut input = &sent[..];
    assert_eq!(
        lender.answer(Answer::Busy),
        Err(AnswerRefused::NothingAsked)
    );
    assert!(lender.wants_input(UNSENT_BYTES_MAX) && !lender.wants_input(UNSENT_BYTES_MAX + 1));
    let received = lender.receive(&mut input);
    assert!(matches!(received, Ok(RequestEvent::Read(_))));
    assert_eq!(lender.receive(&mut input), Ok(RequestEvent::Idle));
    assert_eq!(input.len(), sent.len() / 2);
    let fourth = lender.answer(Answer::Pages(PageSet(0b1000)));
    assert!(matches!(fourth, Err(AnswerRefused::Unsuitable(_))));
    assert!(lender.answer(Answer::Pages(PageSet(0b111))).is_ok());
    let received = lender.receive(&mut input);
    assert!(matches!(received, Ok(RequestEvent::Read(_))));
}

#[test]
fn the_longest_messages_are_within_their_bounds() {
    let ranges: Vec<_> = (0..PAGES_MAX as u32).map(|index| (index, 511, 1)).collect();
    let (mut borrower, mut lender) = ends(ConnectionClass::Read);
    let mut sent = Vec::with_capacity(REQUEST_BYTES_MAX);
    let begins = sent.as_ptr();
    let asked = borrower.request(LEASE, &list(&ranges), &mut sent);
    asked.expect("room");
    assert_eq!(sent.len(), HEAD_BYTES + 64 * 8 + MAC_BYTES);
    assert_eq!(sent.len(), REQUEST_BYTES_MAX);
    assert_eq!(sent.as_ptr(), begins, "the buffer moved");
    assert!(matches!(
        lender.receive(&mut &sent[..]),
        Ok(RequestEvent::Read(_))
    ));
    let all = lender.answer(Answer::Pages(PageSet(u64::MAX)));
    let all = all.expect("the request waits");
    assert!(borrower.receive(&mut &all[..]).is_ok());
    assert_eq!(borrower.missing_pages().count(), PAGES_MAX);
    assert!(borrower.pages_arrived(PAGES_MAX * PAGE_BYTES + 1).is_err());
    // Both ends lie in one piece of memory each, whatever arrives.
    assert!(size_of::<LenderChannel>() < 2048 && size_of::<BorrowerChannel>() < 2048);
}
