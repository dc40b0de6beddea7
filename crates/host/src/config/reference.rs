//! The table of knobs as pages: a config file to start from, and the reference in the docs.

use std::fmt::Write as _;

use super::knobs::{DAEMON_KNOBS, DISK_KNOBS, Knob, LENDING_KNOBS, TENANT_KNOBS};

/// One line of the table, whatever it sets.
struct KnobRow {
    table: &'static str,
    name: &'static str,
    unit: &'static str,
    default: Option<&'static str>,
    sample: &'static str,
    why: &'static str,
    help: &'static str,
    flag: Option<&'static str>,
}

fn row<W>(knob: &Knob<W>) -> KnobRow {
    let Knob {
        table,
        name,
        unit,
        default,
        sample,
        why,
        help,
        flag,
        ..
    } = *knob;
    KnobRow {
        table,
        name,
        unit,
        default,
        sample,
        why,
        help,
        flag,
    }
}

fn rows() -> Vec<KnobRow> {
    DAEMON_KNOBS
        .iter()
        .map(row)
        .chain(LENDING_KNOBS.iter().map(row))
        .chain(TENANT_KNOBS.iter().map(row))
        .chain(DISK_KNOBS.iter().map(row))
        .collect()
}

const FILE_HEADING: &str = "\
# Configuration of Sublet. A line that begins with # shows what holds when nothing is said, or a
# sample. Amounts are bytes, or text such as \"512MiB\" or \"2GiB\".
# Check a file with `sublet config check FILE`; use it with `sublet serve --config FILE`.
";

/// A commented file that means exactly the same as no file.
pub fn default_file() -> String {
    let mut page = String::from(FILE_HEADING);
    let mut table = "";
    for row in rows() {
        if row.table != table {
            table = row.table;
            let _ = match table {
                // There is no disk until one is named.
                "disks.NAME" => writeln!(page, "\n# [disks.db]"),
                table => writeln!(page, "\n[{}]", table.replace("NAME", "default")),
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
        let comment = if row.name == "listen" && row.table == "tenants.NAME" {
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

This page lists every key of the config file and its option. `sublet generate config-reference` makes it from the
table of knobs. Change that table, not this page.

A config file is TOML. Three commands use it:

- `sublet config default` prints a file to start from.
- `sublet config check FILE` says what is wrong with a file.
- `sublet serve --config FILE` runs the daemon with it.

Without a file the daemon has one tenant, `default`, on `tcp:127.0.0.1:11211`. Amounts are bytes, or text such as
`\"512MiB\"` or `\"2GiB\"`. Units are binary.

You can change settings while the daemon runs (`sublet tenants set`, `sublet disk add`). The daemon keeps these changes
in `live.toml` in the state folder. At the next start it reads them over the config file. `sublet status` shows where
the two differ.

`live.toml` names its version, 2. The daemon also reads version 1, which named none. If the daemon finds a newer
version, it does not start. It names both versions and leaves the file as it is.

The options in the last table belong to `sublet disk add`. All other options belong to `sublet serve`.
";

/// The reference in the docs.
pub fn reference() -> String {
    let mut page = String::from(REFERENCE_HEADING);
    let mut table = "";
    for row in rows() {
        if row.table != table {
            table = row.table;
            let _ = write!(
                page,
                "\n## `[{table}]`\n\n| key | value | default | option | what it does | why that default |\n\
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
