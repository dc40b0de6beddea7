//! Checks that a newcomer can guess what each type is, and that no two public types of a crate share a name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::complaint::Complaint;
use super::source::{BuiltFor, Source, Token, TokenKind};

/// Words that tell a newcomer nothing if they are the whole name of a type, and the field's word for each.
const RIDDLES: [(&str, &str); 46] = [
    ("Aside", "say what is set aside"),
    ("Audience", "Listeners"),
    ("Bed", "say what rests there"),
    ("Clearing", "say what is cleared"),
    ("Deed", "Operation"),
    ("Desk", "say what is asked for there"),
    ("Doorman", "Admission"),
    ("Dues", "ShardDebt"),
    ("Ear", "Listener or Observer"),
    ("Face", "Instance"),
    ("Farewell", "Shutdown"),
    ("Figures", "say the figures of what"),
    ("Floor", "say whose"),
    ("Ground", "Reason"),
    ("Hands", "Tasks"),
    ("Haste", "Priority"),
    ("Hurry", "Priority"),
    ("Lack", "Shortage"),
    ("Led", "say what was found"),
    ("Lent", "say what is borrowed"),
    ("Moves", "say what moves"),
    ("No", "say what is refused"),
    ("Opened", "say what is open"),
    ("Parting", "Shutdown"),
    ("Place", "say the place of what"),
    ("Places", "say the places of what"),
    ("Pledge", "Reservation"),
    ("Pond", "Pool"),
    ("Post", "Mailbox"),
    ("Rich", "say who has to spare"),
    ("Ring", "say the ring of what"),
    ("Rooms", "say what has room"),
    ("Rota", "RoundRobin"),
    ("Running", "say what runs"),
    ("Seat", "Permit"),
    ("Shelf", "say what it keeps"),
    ("Shelved", "say what it keeps"),
    ("Spread", "say the spread of what"),
    ("Standing", "State"),
    ("Step", "say the step of what"),
    ("Terms", "say what is agreed"),
    ("Tried", "Attempt"),
    ("Turn", "say whose, or of what"),
    ("Veil", "TlsStream"),
    ("Verb", "Command or Operation"),
    ("Went", "Outcome"),
];

/// Words that one place alone may have as the name of a type: the path begins so.
const HOMES: [(&str, &[&str]); 6] = [
    (
        "Event",
        &[
            "crates/client/src/messages/",
            "crates/host/src/observe/events/",
        ],
    ),
    ("Judge", &["crates/sim/src/judges"]),
    ("Pages", &["crates/types/src/"]),
    ("Slot", &["crates/store/src/items/"]),
    ("Spill", &["crates/store/src/api.rs"]),
    ("Stage", &["crates/host/src/disk/stage/"]),
];

/// The folders of the protocols in `frontends`.
const PROTOCOLS: [&str; 4] = ["memcached", "nbd", "ring", "vhost_user"];

/// How types of one name lie apart, so that a reader never has two of them before him.
enum Apart {
    /// At most one in the folder of each protocol.
    ByProtocol,
    /// Each in a file of its own below this folder of the crate's `src`.
    ByFile(&'static str),
}

/// A name that several public types of a crate may have.
struct SharedName {
    of: &'static str,
    name: &'static str,
    apart: Apart,
}

const fn by_protocol(name: &'static str) -> SharedName {
    SharedName {
        of: "frontends",
        name,
        apart: Apart::ByProtocol,
    }
}

const fn by_file(of: &'static str, name: &'static str, folder: &'static str) -> SharedName {
    SharedName {
        of,
        name,
        apart: Apart::ByFile(folder),
    }
}

/// Each protocol has these parts. Each subcommand has its arguments, and each workload its part of a scenario.
const SHARED: [SharedName; 12] = [
    by_protocol("AcceptedSocket"),
    by_protocol("Advance"),
    by_protocol("Connection"),
    by_protocol("Group"),
    by_protocol("LoopAction"),
    by_protocol("Message"),
    by_protocol("Session"),
    by_protocol("Settings"),
    by_protocol("Worker"),
    by_file("lab", "Args", ""),
    by_file("sublet", "Args", ""),
    by_file("sim", "Spec", "workload"),
];

impl Apart {
    /// Returns whether these types lie apart so.
    fn holds(&self, types: &[PublicType<'_>]) -> bool {
        let paths: Vec<&Path> = types
            .iter()
            .map(|twin| below_src(&twin.source.path))
            .collect();
        match self {
            Apart::ByProtocol => {
                let count =
                    |name: &&str| paths.iter().filter(|path| path.starts_with(name)).count();
                let counts: Vec<usize> = PROTOCOLS.iter().map(count).collect();
                let apart = counts.iter().all(|count| *count <= 1);
                apart && counts.iter().sum::<usize>() == types.len()
            }
            Apart::ByFile(folder) => {
                let files: BTreeSet<&&Path> = paths.iter().collect();
                files.len() == types.len() && paths.iter().all(|path| path.starts_with(folder))
            }
        }
    }
}

/// A file's path below the `src` of its crate.
fn below_src(path: &Path) -> &Path {
    let mut parts = path.components();
    let _ = parts.by_ref().find(|part| part.as_os_str() == "src");
    parts.as_path()
}

/// The keywords before the name of a type.
const DEFINING: [&str; 5] = ["struct", "enum", "trait", "type", "union"];

/// A type that is visible outside its file.
struct PublicType<'a> {
    source: &'a Source,
    line: usize,
}

/// Finds types whose whole name tells nothing.
pub(crate) fn riddles(source: &Source) -> Vec<Complaint> {
    let defined = definitions(&source.tokens);
    let riddle = |name: &&Token| RIDDLES.iter().find(|(riddle, _)| *riddle == name.text);
    let complain = |name: &Token| {
        let (word, instead) = riddle(&name)?;
        let what = format!("`{word}` tells a newcomer nothing");
        Some(Complaint::new(&source.path, name.line, what, *instead))
    };
    let astray = |name: &Token| {
        let (word, homes) = HOMES.iter().find(|(word, _)| *word == name.text)?;
        let is_home = homes
            .iter()
            .any(|home| source.path.to_string_lossy().starts_with(home));
        let what = format!(
            "`{word}` is the name of another thing, in {}",
            homes.join(" and ")
        );
        (!is_home).then(|| Complaint::new(&source.path, name.line, what, "say of what it is"))
    };
    let complaints = defined.map(|(_, name)| complain(name).or_else(|| astray(name)));
    complaints.flatten().collect()
}

/// Finds public types of one crate that share a name.
pub(crate) fn twins(sources: &[Source]) -> Vec<Complaint> {
    let mut named: BTreeMap<(&str, &str), Vec<PublicType<'_>>> = BTreeMap::new();
    for source in sources {
        let Some(name_of_crate) = crate_of(&source.path) else {
            continue;
        };
        for (before, name) in definitions(&source.tokens) {
            if name.built_for == BuiltFor::Product && is_public(before) {
                let line = name.line;
                let types = named.entry((name_of_crate, &name.text)).or_default();
                types.push(PublicType { source, line });
            }
        }
    }
    let shared = |(of, name): &(&str, &str), types: &[PublicType<'_>]| {
        let row = SHARED.iter().find(|row| (row.of, row.name) == (*of, *name));
        row.is_some_and(|row| row.apart.holds(types))
    };
    let twins = named
        .iter()
        .filter(|(key, types)| types.len() > 1 && !shared(key, types));
    twins
        .flat_map(|((_, name), types)| complaints_of(name, types))
        .collect()
}

/// Complains about rows of the list of shared names that no longer match anything.
pub(crate) fn idle_rows(sources: &[Source]) -> Vec<Complaint> {
    let count = |of: &str, wanted: &str| {
        let files = sources
            .iter()
            .filter(|source| crate_of(&source.path) == Some(of));
        let defined = files.flat_map(|source| definitions(&source.tokens));
        defined
            .filter(|(before, name)| {
                name.text == wanted && name.built_for == BuiltFor::Product && is_public(before)
            })
            .count()
    };
    let idle = SHARED.iter().filter(|row| count(row.of, row.name) < 2);
    let complain = |SharedName { of, name, .. }: &SharedName| {
        let what = format!("no two public types of `{of}` are named `{name}`");
        Complaint::new(
            Path::new("xtask/src/tidy/type_names.rs"),
            1,
            what,
            "take the row away",
        )
    };
    idle.map(complain).collect()
}

fn complaints_of(name: &str, types: &[PublicType<'_>]) -> Vec<Complaint> {
    let first = &types[0];
    let complain = |twin: &PublicType<'_>| {
        let what = format!(
            "`{name}` is also a type of {}:{}",
            first.source.path.display(),
            first.line
        );
        Complaint::new(
            &twin.source.path,
            twin.line,
            what,
            "say of each what it is of",
        )
    };
    types[1..].iter().map(complain).collect()
}

/// Each name of a type, with the tokens before its keyword.
fn definitions(tokens: &[Token]) -> impl Iterator<Item = (&[Token], &Token)> {
    let defines = |n: &usize| {
        let keyword = &tokens[*n];
        let is_keyword =
            keyword.kind == TokenKind::Word && DEFINING.contains(&keyword.text.as_str());
        is_keyword
            && tokens
                .get(n + 1)
                .is_some_and(|name| name.kind == TokenKind::Word)
    };
    let keywords = (0..tokens.len()).filter(defines);
    keywords.map(|n| (&tokens[..n], &tokens[n + 1]))
}

/// Returns whether the tokens before a keyword end with `pub`, also with a scope.
pub(super) fn is_public(before: &[Token]) -> bool {
    let mut back = before.iter().rev().map(|token| token.text.as_str());
    let mut next = back.next();
    while matches!(next, Some("unsafe" | "const" | "async" | "extern"))
        || next.is_some_and(|text| text.starts_with('"'))
    {
        next = back.next();
    }
    if next == Some(")") {
        let _ = back.by_ref().find(|text| *text == "(");
        next = back.next();
    }
    next == Some("pub")
}

/// The crate's folder of a file that is built into the product.
fn crate_of(path: &Path) -> Option<&str> {
    let mut parts = path
        .components()
        .filter_map(|part| part.as_os_str().to_str());
    match (parts.next()?, parts.next()?, parts.next()) {
        ("crates", name, Some("src")) => Some(name),
        ("xtask", "src", _) => Some("xtask"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source::parse(Path::new(path), text.into()).expect("it is Rust")
    }

    #[test]
    fn a_riddle_is_refused_as_a_whole_name_only() {
        let complaints = |text| riddles(&source("crates/host/src/a.rs", text)).len();
        assert_eq!(complaints("struct Pledge;"), 1);
        assert_eq!(complaints("enum Went { A }"), 1);
        assert_eq!(
            complaints("struct WentAway; fn pledge() { Pledge::new() }"),
            0
        );
    }

    #[test]
    fn two_public_types_of_a_crate_do_not_share_a_name() {
        let a = source("crates/host/src/a.rs", "pub(crate) struct Job;");
        let b = source("crates/host/src/b.rs", "pub enum Job {}");
        let private = source("crates/host/src/c.rs", "struct Job;");
        let test = source(
            "crates/host/src/d.rs",
            "#[cfg(test)]\nmod tests { pub struct Job; }",
        );
        let elsewhere = source("crates/store/src/a.rs", "pub struct Job;");
        let found = twins(&[a, b, private, test, elsewhere]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, Path::new("crates/host/src/b.rs"));
        assert!(
            found[0].what.contains("crates/host/src/a.rs:1"),
            "{}",
            found[0].what
        );
    }

    #[test]
    fn a_word_with_a_home_is_refused_elsewhere() {
        let complaints = |path| riddles(&source(path, "pub struct Judge;")).len();
        assert_eq!(complaints("crates/sim/src/judges.rs"), 0);
        assert_eq!(complaints("crates/store/src/items/table/mod.rs"), 1);
    }

    #[test]
    fn protocols_share_a_name_once_each() {
        let worker = |path| source(path, "pub(crate) struct Worker;");
        let nbd = "crates/frontends/src/nbd/serve/worker.rs";
        let ring = "crates/frontends/src/ring/serve/worker.rs";
        assert_eq!(twins(&[worker(nbd), worker(ring)]), []);
        let second = "crates/frontends/src/ring/other.rs";
        assert_eq!(twins(&[worker(nbd), worker(ring), worker(second)]).len(), 2);
        let elsewhere = "crates/frontends/src/serving/worker.rs";
        assert_eq!(twins(&[worker(nbd), worker(elsewhere)]).len(), 1);
    }

    #[test]
    fn a_row_that_accepts_nothing_is_named() {
        assert_eq!(idle_rows(&[]).len(), SHARED.len());
    }
}
