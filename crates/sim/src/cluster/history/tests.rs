use super::*;
use crate::cluster::verdict::ClusterJudge;

/// Pools of every promise.
const POOLS: &str = r#"
{"kind": "pool", "pool": "a/disk", "promise": "disk"}
{"kind": "pool", "pool": "a/taking", "promise": "taking"}
{"kind": "pool", "pool": "a/keeping", "promise": "keeping"}
{"kind": "pool", "pool": "a/persistent", "promise": "persistent"}
"#;

/// The first line after those of the pools.
const FIRST: u64 = 6;

fn write(pool: &str, began: u64, ended: u64, version: u32) -> String {
    line(
        "write",
        pool,
        began,
        &format!(r#""ended": {ended}, "wrote": [{version}]"#),
    )
}

fn read(pool: &str, began: u64, ended: u64, found: &str) -> String {
    line(
        "read",
        pool,
        began,
        &format!(r#""ended": {ended}, "found": [{found}]"#),
    )
}

fn flush(pool: &str, began: u64, ended: u64) -> String {
    line(
        "flush",
        pool,
        began,
        &format!(r#""ended": {ended}, "pages": 1"#),
    )
}

fn line(kind: &str, pool: &str, began: u64, more: &str) -> String {
    format!(
        r#"{{"kind": "{kind}", "client": "c", "pool": "a/{pool}", "page": 7, "began": {began}, {more}}}"#
    )
}

fn history_of(lines: &[String]) -> Result<History, HistoryError> {
    let mut history = History::default();
    let text = format!("{POOLS}{}", lines.join("\n"));
    history.read("h.jsonl", text.as_bytes()).map(|()| history)
}

/// Which judge objects first, and to which of the lines, from 0.
fn verdict(lines: &[String]) -> Option<(ClusterJudge, u64)> {
    let report = history_of(lines).expect("a history").judge();
    let violation = report.violation?;
    assert_eq!(violation.file, "h.jsonl");
    Some((violation.judge, violation.line - FIRST))
}

#[test]
fn what_was_written_last_comes_back() {
    let lines = [
        read("disk", 1, 2, "0"),
        write("disk", 3, 4, 1),
        read("disk", 5, 6, "1"),
        read("taking", 1, 2, "null"),
        write("taking", 3, 4, 1),
        read("taking", 5, 6, "1"),
        read("taking", 7, 8, "null"),
        write("keeping", 1, 2, 1),
        read("keeping", 3, 4, "1"),
        read("keeping", 5, 6, "1"),
        read("keeping", 7, 8, "null"),
        write("persistent", 1, 2, 1),
        read("persistent", 3, 4, "1"),
        flush("persistent", 5, 6),
        read("persistent", 7, 8, "null"),
    ];
    let report = history_of(&lines).expect("a history").judge();
    assert_eq!(report.violation, None);
    let counts = (
        report.clients,
        report.pools,
        report.calls,
        report.made,
        report.read,
        report.hits,
    );
    assert_eq!(counts, (1, 4, 15, 5, 10, 6));
}

#[test]
fn a_stale_page_is_told() {
    for pool in ["disk", "taking", "keeping", "persistent"] {
        let lines = [
            write(pool, 1, 2, 1),
            write(pool, 3, 4, 2),
            read(pool, 5, 6, "1"),
        ];
        assert_eq!(verdict(&lines), Some((ClusterJudge::Content, 2)), "{pool}");
    }
}

#[test]
fn a_page_that_was_gone_is_told() {
    let refused = line("write", "keeping", 3, r#""ended": 4, "wrote": [null]"#);
    let ends = [
        ("taking", read("taking", 3, 4, "1")),
        ("taking", read("taking", 3, 4, "null")),
        ("keeping", read("keeping", 3, 4, "null")),
        ("persistent", flush("persistent", 3, 4)),
        ("keeping", refused),
    ];
    for (pool, gone) in ends {
        let lines = [write(pool, 1, 2, 1), gone, read(pool, 5, 6, "1")];
        assert_eq!(
            verdict(&lines),
            Some((ClusterJudge::Content, 2)),
            "{}",
            lines[1]
        );
    }
}

#[test]
fn another_page_and_bytes_that_nobody_wrote_are_told() {
    for found in [
        r#"{"pool": "b/disk", "page": 7, "version": 1}"#,
        r#""damaged""#,
    ] {
        for pool in ["disk", "taking", "keeping", "persistent"] {
            let lines = [write(pool, 1, 2, 1), read(pool, 3, 4, found)];
            assert_eq!(
                verdict(&lines),
                Some((ClusterJudge::Content, 1)),
                "{pool} {found}"
            );
        }
    }
}

#[test]
fn a_persistent_page_and_one_of_a_disk_are_told_if_they_are_lost() {
    for pool in ["disk", "persistent"] {
        let lines = [write(pool, 1, 2, 1), read(pool, 3, 4, "null")];
        assert_eq!(verdict(&lines), Some((ClusterJudge::Lost, 1)), "{pool}");
    }
}

#[test]
fn a_read_that_overlaps_a_write_may_see_either() {
    for found in ["1", "2"] {
        let during = [
            write("disk", 1, 2, 1),
            write("disk", 5, 8, 2),
            read("disk", 6, 7, found),
        ];
        assert_eq!(verdict(&during), None);
        let around = [
            write("disk", 1, 2, 1),
            read("disk", 4, 9, found),
            write("disk", 5, 8, 2),
        ];
        assert_eq!(verdict(&around), None);
    }
    let before = [
        write("disk", 1, 2, 1),
        read("disk", 3, 4, "2"),
        write("disk", 5, 8, 2),
    ];
    assert_eq!(verdict(&before), Some((ClusterJudge::Content, 1)));
    let after = [
        write("disk", 1, 2, 1),
        write("disk", 5, 8, 2),
        read("disk", 9, 10, "1"),
    ];
    assert_eq!(verdict(&after), Some((ClusterJudge::Content, 2)));
    let older = [
        write("disk", 1, 2, 1),
        write("disk", 5, 8, 2),
        read("disk", 6, 7, "0"),
    ];
    assert_eq!(verdict(&older), Some((ClusterJudge::Content, 2)));
}

#[test]
fn a_write_without_an_answer_may_have_happened_or_not() {
    let unanswered = |pool| line("write", pool, 3, r#""ended": null, "wrote": [2]"#);
    for (pool, found) in [
        ("disk", "1"),
        ("disk", "2"),
        ("persistent", "2"),
        ("persistent", "null"),
    ] {
        let lines = [
            write(pool, 1, 2, 1),
            unanswered(pool),
            read(pool, 5, 6, found),
        ];
        assert_eq!(verdict(&lines), None, "{pool} {found}");
    }
    let lost = [
        write("disk", 1, 2, 1),
        unanswered("disk"),
        read("disk", 5, 6, "null"),
    ];
    assert_eq!(verdict(&lost), Some((ClusterJudge::Lost, 2)));
}

#[test]
fn files_of_several_clients_are_one_history() {
    let mut history = History::default();
    let texts = [
        format!("{POOLS}{}", read("disk", 5, 6, "0")),
        format!("{POOLS}{}", write("disk", 1, 2, 1)),
    ];
    for (name, text) in ["reader", "writer"].into_iter().zip(&texts) {
        history.read(name, text.as_bytes()).expect("a history");
    }
    let violation = history.judge().violation.expect("a violation");
    assert_eq!(
        violation.to_string(),
        "reader:6: content: client c found version 0 at page 7 of a/disk, which was version 1"
    );
}

#[test]
fn wrong_lines_are_told_with_their_place() {
    let wrongs = [
        ("{", "no line of a history"),
        (r#"{"kind": "erase"}"#, "unknown variant `erase`"),
        (
            r#"{"kind": "pool", "pool": "a/disk", "promise": "disk", "x": 1}"#,
            "unknown field `x`",
        ),
        (
            r#"{"kind": "pool", "pool": "a/disk", "promise": "keeping"}"#,
            "another promise",
        ),
        (&read("other", 1, 2, "0"), "\"a/other\" is not declared"),
        (&read("disk", 2, 1, "0"), "ends before it begins"),
        (&read("disk", 1, 2, "true"), "a version, null"),
        (&read("disk", 1, 2, ""), "not 0"),
        (
            &read("disk", 1, 2, "0").replace("\"page\": 7", "\"page\": 99999999"),
            "below 16777216",
        ),
    ];
    for (wrong, told) in wrongs {
        let error = history_of(&[read("disk", 1, 2, "0"), wrong.to_owned()])
            .expect_err("it makes no sense");
        let error = error.to_string();
        assert!(
            error.starts_with("h.jsonl:7: ") && error.contains(told),
            "{error}"
        );
    }
}
