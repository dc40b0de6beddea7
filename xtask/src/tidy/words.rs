//! Checks names against words that say nothing.

use std::path::Path;

use super::complaint::Complaint;
use super::source::{Source, TokenKind};

/// Words that must not be part of a name.
const BANNED: [&str; 13] = [
    "util", "utils", "common", "helper", "helpers", "misc", "data", "info", "context", "handler",
    "handlers", "manager", "managers",
];

/// Words that say too little when they stand alone.
const TOO_BARE: [&str; 4] = ["cache", "caches", "server", "servers"];

/// The folder of the Memory Manager.
const HOME_OF_TARGETS: &str = "crates/host/src/manager";

/// The file that declares it.
const HOME_DOOR: &str = "crates/host/src/lib.rs";

/// The name after one of these words is the project's own.
const DEFINING: [&str; 10] = [
    "fn",
    "struct",
    "enum",
    "trait",
    "mod",
    "type",
    "const",
    "static",
    "union",
    "macro_rules",
];

/// Marks of unfinished work. They are written in pieces, so that this file contains none.
const LEFTOVERS: [&str; 3] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];

const INSTEAD: &str = "find the word in the glossary of ARCHITECTURE.md that says what it is";

/// Checks the names that a file defines.
pub(crate) fn in_names(source: &Source) -> Vec<Complaint> {
    if source.path.starts_with(HOME_OF_TARGETS) {
        return Vec::new();
    }
    let mut complaints = Vec::new();
    for pair in source.tokens.windows(2) {
        let [before, name] = pair else { continue };
        let defines = before.kind == TokenKind::Word && DEFINING.contains(&before.text.as_str());
        if !defines || name.kind != TokenKind::Word {
            continue;
        }
        let is_home = source.path == Path::new(HOME_DOOR) && name.text == "manager";
        if let Some(word) = banned_in(&name.text).filter(|_| !is_home) {
            let what = format!("`{}`: the word `{word}` says nothing", name.text);
            complaints.push(Complaint::new(&source.path, name.line, what, INSTEAD));
        }
    }
    complaints
}

/// Checks the names of a file and its folders.
pub(crate) fn in_file_name(path: &Path) -> Vec<Complaint> {
    if path.starts_with(HOME_OF_TARGETS) {
        return Vec::new();
    }
    let parts = path
        .components()
        .filter_map(|part| part.as_os_str().to_str());
    let stems = parts.map(|part| part.split_once('.').map_or(part, |(stem, _)| stem));
    let words = stems.filter_map(banned_in);
    let complain = |word| {
        let what = format!("the word `{word}` in a file's name says nothing");
        Complaint::new(path, 1, what, INSTEAD)
    };
    words.map(complain).collect()
}

/// Finds marks of unfinished work in a file of any kind.
pub(crate) fn leftovers(path: &Path, text: &str) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let mut words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        if let Some(mark) = words.find(|word| LEFTOVERS.contains(word)) {
            let what = format!("`{mark}` is unfinished work");
            complaints.push(Complaint::new(
                path,
                n + 1,
                what,
                "finish it, or leave it out",
            ));
        }
    }
    complaints
}

fn banned_in(name: &str) -> Option<String> {
    let words = words_of(name);
    if let [only] = &words[..]
        && TOO_BARE.contains(&only.as_str())
    {
        return Some(only.clone());
    }
    words
        .into_iter()
        .find(|word| BANNED.contains(&word.as_str()))
}

/// The words of a name in snake, camel or kebab case.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for letter in name.chars() {
        let is_gap = matches!(letter, '_' | '-' | '#');
        if is_gap || (was_lower && letter.is_uppercase()) {
            words.push(String::new());
        }
        if !is_gap && let Some(word) = words.last_mut() {
            word.extend(letter.to_lowercase());
        }
        was_lower = letter.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str) -> usize {
        let path = Path::new("crates/host/src/a.rs");
        in_names(&Source::parse(path, text.into()).expect("it is Rust")).len()
    }

    #[test]
    fn names_split_into_words() {
        assert_eq!(words_of("BadDataChunk"), ["bad", "data", "chunk"]);
        assert_eq!(words_of("r#type_of"), ["r", "type", "of"]);
        assert_eq!(words_of("HOST_NAME"), ["host", "name"]);
    }

    #[test]
    fn our_names_must_say_something() {
        assert_eq!(named("struct PageData;"), 1);
        assert_eq!(named("fn handler() {}"), 1);
        assert_eq!(named("mod server {}"), 1);
        assert_eq!(named("fn server_address() {}"), 0);
        assert_eq!(named("fn database() {}"), 0);
    }

    #[test]
    fn names_of_others_may_be_used() {
        assert_eq!(
            named("fn a() { tracing::info!(data = 1); Context::new(); }"),
            0
        );
    }

    #[test]
    fn file_names_count() {
        assert_eq!(in_file_name(Path::new("crates/host/src/util.rs")).len(), 1);
        assert_eq!(
            in_file_name(Path::new("crates/host/src/manager/mod.rs")).len(),
            0
        );
        assert_eq!(in_file_name(Path::new("crates/host/src/disk.rs")).len(), 0);
    }

    #[test]
    fn unfinished_work_is_found_in_any_file() {
        let text = format!("a\n# {}: later\n", LEFTOVERS[0]);
        let complaints = leftovers(Path::new("test"), &text);
        assert_eq!(complaints.len(), 1);
        assert_eq!(complaints[0].line, 2);
        assert!(leftovers(Path::new("test"), "mktemp XXXXXX").is_empty());
    }
}
