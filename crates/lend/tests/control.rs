//! Control lines: their golden bytes, what is refused, and how they are cut.

use proptest::prelude::*;
use sublet_lend::control::{
    ClusterReport, ControlError, ControlLine, ControlMessage, GrantLimit, LINE_BYTES_MAX,
    LineReader, MemberNames, MembersUpdate, PairCounts, decode_line, encode_line,
};
use sublet_policy::placement::{AdviceReason, ShortageReason};

const GOLDEN: &str = include_str!("golden/control.jsonl");

fn message(line: &str) -> ControlMessage {
    match decode_line(line.as_bytes()) {
        Ok(ControlLine::Message(message)) => message,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn golden_lines_decode_and_encode_to_the_same_bytes() {
    let mut again = Vec::new();
    let mut kinds = std::collections::BTreeSet::new();
    for line in GOLDEN.lines() {
        let message = message(line);
        kinds.insert(message.kind());
        encode_line(&message, &mut again);
    }
    assert_eq!(String::from_utf8(again).expect("text"), GOLDEN);
    assert_eq!(kinds.len(), 19, "{kinds:?}");
}

#[test]
fn fields_and_kinds_of_a_newer_peer_are_ignored() {
    let newer = r#"{"rack":{"a":[1,null]},"blocks":20,"kind":"borrow","hurry":1e3}"#;
    assert_eq!(message(newer), message(r#"{"kind":"borrow","blocks":20}"#));
    let unknown = decode_line(br#"{"kind":"vote","term":3}"#);
    assert_eq!(unknown.expect("a line"), ControlLine::UnknownKind);
    let newer = r#"{"kind":"advise","term":1,"borrower":"b","lender":"a","blocks":5,"why":{"reason":"moon","tide":[1]},
        "shortage":{"shortage":"sun"}}"#;
    let ControlMessage::Advise(advice) = message(newer) else {
        panic!("no advice");
    };
    assert_eq!(advice.why, AdviceReason::Other);
    assert_eq!(advice.shortage, Some(ShortageReason::Other));
    let ControlMessage::Grant(grant) =
        message(r#"{"kind":"grant","lease":1,"first":0,"count":0,"limit":"moon"}"#)
    else {
        panic!("no grant");
    };
    assert_eq!(grant.limit, Some(GrantLimit::Other));
}

#[test]
fn wrong_lines_are_refused_with_what_is_wrong() {
    let ranges = |n: usize| {
        let ranges: Vec<String> = (0..n).map(|n| format!("[{},1]", 2 * n)).collect();
        format!(
            r#"{{"kind":"return","lease":1,"ranges":[{}]}}"#,
            ranges.join(",")
        )
    };
    assert!(decode_line(ranges(1024).as_bytes()).is_ok());
    let lent = |n: usize| {
        let lent: Vec<String> = (0..n).map(|n| format!(r#""n{n}":1"#)).collect();
        format!(
            r#"{{"kind":"cluster_report","total":1,"free":1,"lendable":1,"wanted":0,"lent":{{{}}}}}"#,
            lent.join(",")
        )
    };
    assert!(decode_line(lent(128).as_bytes()).is_ok());
    let members = |n: usize| {
        let names: Vec<String> = (0..n).map(|n| format!(r#""n{n}""#)).collect();
        format!(
            r#"{{"kind":"members","term":1,"from":0,"to":1,"absent":[{}]}}"#,
            names.join(",")
        )
    };
    assert!(decode_line(members(192).as_bytes()).is_ok());
    let view = |n: usize| {
        let node = r#"{"name":"a","state":"moon","for_millis":0,"total":0,"free":0,"lendable":0,"wanted":0,"lent":0,"borrowed":0}"#;
        format!(
            r#"{{"kind":"view","term":1,"nodes":[{}]}}"#,
            vec![node; n].join(",")
        )
    };
    assert!(decode_line(view(32).as_bytes()).is_ok());
    for (line, what) in [
        ("", "no JSON object"),
        ("[]", "no JSON object"),
        (r#"{"blocks":1}"#, "`kind`"),
        (r#"{"kind":7}"#, "no JSON object"),
        (r#"{"kind":"borrow"}"#, "the key `blocks` is missing"),
        (
            r#"{"kind":"borrow","blocks":1048577}"#,
            "1048577 blocks; 1048576 are the most",
        ),
        (r#"{"kind":"borrow","blocks":-1}"#, "not below zero"),
        (r#"{"kind":"borrow","blocks":1.5}"#, "whole number"),
        (r#"{"kind":"borrow","blocks":1,"blocks":2}"#, "there twice"),
        (
            r#"{"kind":"recall","blocks":1,"within_ms":3600001}"#,
            "3600000 are the most",
        ),
        (
            r#"{"kind":"return","lease":1,"ranges":[[4294967295,1]]}"#,
            "beyond the largest",
        ),
        (
            r#"{"kind":"return","lease":1,"ranges":[[3,0]]}"#,
            "is empty",
        ),
        (
            r#"{"kind":"return","lease":1,"ranges":[[3,2],[4,1]]}"#,
            "ranges rise",
        ),
        (&ranges(1025), "1024 are the most"),
        (&lent(129), "129 nodes; 128 are the most"),
        (&members(193), "193 names; 192 are the most"),
        (&view(33), "33 entries; 32 are the most"),
        (
            r#"{"kind":"advise","term":1,"borrower":"b b","lender":"a","blocks":5,"why":{"reason":"moon"}}"#,
            "is no name for a node",
        ),
        (
            r#"{"kind":"advise","term":1,"borrower":"b","lender":"a","blocks":5}"#,
            "the key `why` is missing",
        ),
        (
            r#"{"kind":"return","lease":4294967296,"ranges":[]}"#,
            "lease",
        ),
        (r#"{"kind":"ping","tag":1,"held":{"x":1}}"#, "`ping`"),
        (
            r#"{"kind":"ping","tag":1,"held":{"1":1,"2":1,"3":1,"4":1,"5":1,"6":1,"7":1,"8":1,"9":1,"10":1,"11":1,"12":1,"13":1,"14":1,"15":1,"16":1,"17":1}}"#,
            "17 leases; 16 are the most",
        ),
    ] {
        let error = decode_line(line.as_bytes()).expect_err(line).to_string();
        let is_said = error.contains(what) || (what == "lease" && error.contains("`return`"));
        assert!(is_said, "{line}: {error}");
    }
    let hello = GOLDEN.lines().next().expect("a hello");
    for (from, to) in [
        ("[1,1]", "[2,1]"),
        ("[1,1]", "[0,1]"),
        ("\"default\"", "\"de fault\""),
        ("\"0123456789abcdef\"", "\"123456789abcdef\""),
        ("\"tcp:10.0.0.1:7171\"", &format!("\"{}\"", "a".repeat(273))),
    ] {
        let wrong = hello.replace(from, to);
        assert!(
            matches!(
                decode_line(wrong.as_bytes()),
                Err(ControlError::Body { kind: "hello", .. })
            ),
            "{wrong}"
        );
    }
}

#[test]
fn the_longest_report_and_list_fit_a_line() {
    let name = |n: usize| format!("{n:064}").parse().expect("a name");
    let counts = |first: usize| (first..first + 500).map(|n| (name(n), 1_048_576 - n as u32));
    let (lent, left_off) = PairCounts::largest(counts(0));
    assert_eq!((lent.iter().count(), left_off), (128, 372));
    assert!(lent.iter().all(|(_, blocks)| blocks > 1_048_576 - 128));
    let report = ClusterReport {
        borrowed: PairCounts::largest(counts(1000)).0,
        lent,
        ..ClusterReport::default()
    };
    let names = |first: usize| {
        let names: std::collections::BTreeSet<_> = (first..first + 192).map(name).collect();
        MemberNames::try_from(names).expect("as many as there may be")
    };
    let update = MembersUpdate {
        absent: names(0),
        back: names(1000),
        ..MembersUpdate::default()
    };
    for message in [
        ControlMessage::ClusterReport(Box::new(report)),
        ControlMessage::Members(Box::new(update)),
    ] {
        let mut line = Vec::new();
        encode_line(&message, &mut line);
        assert!(line.len() <= LINE_BYTES_MAX / 2, "{} bytes", line.len());
    }
}

#[test]
fn depth_and_length_have_ends() {
    let deep = format!(r#"{{"kind":"leave","x":{}}}"#, "[".repeat(30_000));
    assert!(decode_line(deep.as_bytes()).is_err());
    let line = |bytes: usize| {
        let frame = r#"{"kind":"leave","x":""}"#;
        let line = frame.replace(
            "\"\"",
            &format!("\"{}\"", "a".repeat(bytes - frame.len() - 1)),
        );
        format!("{line}\n")
    };
    for cut in [1, 1000, LINE_BYTES_MAX] {
        let fits = line(LINE_BYTES_MAX);
        assert_eq!(fits.len(), LINE_BYTES_MAX);
        assert_eq!(lines_of(fits.as_bytes(), cut).expect("it fits").len(), 1);
        assert!(matches!(
            lines_of(line(LINE_BYTES_MAX + 1).as_bytes(), cut),
            Err(ControlError::Long)
        ));
    }
}

/// All lines of `input`, which arrives in pieces of `cut` bytes.
fn lines_of(input: &[u8], cut: usize) -> Result<Vec<ControlLine>, ControlError> {
    let mut reader = LineReader::default();
    let mut lines = Vec::new();
    for mut piece in input.chunks(cut) {
        while let Some(line) = reader.read(&mut piece)? {
            lines.push(line);
        }
    }
    Ok(lines)
}

proptest! {
    #[test]
    fn any_cut_gives_the_same_lines(cut in 1usize..200) {
        let whole = lines_of(GOLDEN.as_bytes(), GOLDEN.len()).expect("golden");
        prop_assert_eq!(whole.len(), GOLDEN.lines().count());
        prop_assert_eq!(lines_of(GOLDEN.as_bytes(), cut).expect("golden"), whole);
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = lines_of(&bytes, 7);
    }
}
