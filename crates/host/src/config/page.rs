//! The table of knobs as pages: a config file to start from, and the reference in the docs.

use std::fmt::Write as _;

use super::knobs::{DAEMON_KNOBS, DISK_KNOBS, Knob, TENANT_KNOBS};

/// One line of the table, whatever it sets.
struct Row {
    room: &'static str,
    name: &'static str,
    unit: &'static str,
    default: Option<&'static str>,
    sample: &'static str,
    why: &'static str,
    help: &'static str,
    flag: Option<&'static str>,
}

fn row<W>(knob: &Knob<W>) -> Row {
    let Knob {
        room,
        name,
        unit,
        default,
        sample,
        why,
        help,
        flag,
        ..
    } = *knob;
    Row {
        room,
        name,
        unit,
        default,
        sample,
        why,
        help,
        flag,
    }
}

fn rows() -> Vec<Row> {
    DAEMON_KNOBS
        .iter()
        .map(row)
        .chain(TENANT_KNOBS.iter().map(row))
        .chain(DISK_KNOBS.iter().map(row))
        .collect()
}

const FILE_HEADING: &str = "\
# Configuration of Sublet. A line that begins with # shows what holds when nothing is said, or a
# sample. Amounts are bytes, or text such as \"512MiB\" or \"2GiB\".
# Check a file with `sublet config check FILE`; use it with `sublet serve --config FILE`.
";

/// A commented file that means exactly what no file means.
pub fn default_file() -> String {
    let mut page = String::from(FILE_HEADING);
    let mut room = "";
    for row in rows() {
        if row.room != room {
            room = row.room;
            let _ = match room {
                // There is no disk until one is named.
                "disks.NAME" => writeln!(page, "\n# [disks.db]"),
                room => writeln!(page, "\n[{}]", room.replace("NAME", "default")),
            };
        }
        let default = row
            .default
            .map_or(String::new(), |default| format!(" Default: {default}."));
        let _ = write!(
            page,
            "\n# {}.\n# Value: {}.{default}\n# Why: {}.\n",
            row.help, row.unit, row.why
        );
        let comment = if row.name == "listen" && row.room == "tenants.NAME" {
            ""
        } else {
            "# "
        };
        let _ = writeln!(
            page,
            "{comment}{} = {}",
            row.name,
            row.default.unwrap_or(row.sample)
        );
    }
    page
}

const REFERENCE_HEADING: &str = "\
# Configuration

Made from the table of knobs by `sublet generate config-reference`; change it there.

A file is TOML. `sublet config default` prints one to start from, `sublet config check FILE` says what
is wrong with one, `sublet serve --config FILE` uses it. Without a file there is one tenant, `default`,
on `tcp:127.0.0.1:11211`. Amounts are bytes, or text such as `\"512MiB\"` or `\"2GiB\"`; units are binary.
What is changed while the daemon runs (`sublet tenants set`, `sublet disk add`) is kept in `live.toml` in the state folder
and read over the file at the next start; `sublet status` shows where the two differ. It says its version, 2; version 1, which said none,
is read, too, and a daemon that finds a newer one does not start, names both, and leaves it as it is. The options in the last
table are those of `sublet disk add`, all others those of `sublet serve`.
";

/// The reference in the docs.
pub fn reference() -> String {
    let mut page = String::from(REFERENCE_HEADING);
    let mut room = "";
    for row in rows() {
        if row.room != room {
            room = row.room;
            let _ = write!(
                page,
                "\n## `[{room}]`\n\n| key | value | default | option | what it does | why that default |\n\
                 | --- | --- | --- | --- | --- | --- |\n"
            );
        }
        let default = row
            .default
            .map_or("–".to_owned(), |default| format!("`{default}`"));
        let flag = row
            .flag
            .map_or("–".to_owned(), |flag| format!("`--{flag}`"));
        let _ = writeln!(
            page,
            "| `{}` | {} | {default} | {flag} | {} | {} |",
            row.name, row.unit, row.help, row.why
        );
    }
    page
}
