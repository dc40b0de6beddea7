//! Checks that prose is easy to read: short sentences, and lines that fit a screen.

use std::path::Path;

use super::complaint::Complaint;
use super::sentences::{self, Sentence};

/// The most words of a sentence.
const WORDS_MAX: usize = 40;

/// The most words of a page's median sentence.
const MEDIAN_MAX: usize = 18;

/// A page with fewer sentences has no meaningful median.
const SENTENCES_MIN: usize = 10;

/// The most characters of a line of prose.
const COLUMNS_MAX: usize = 120;

const INSTEAD: &str = "make it two sentences, each of one thought";

/// Finds long sentences and lines in a Markdown page.
pub(crate) fn in_page(path: &Path, text: &str) -> Vec<Complaint> {
    let sentences = sentences::of_markdown(text);
    let mut complaints = long(path, &sentences);
    complaints.extend(median(path, &sentences));
    complaints.extend(wide(path, text));
    complaints
}

/// Finds long sentences in the doc comments of a Rust file.
pub(crate) fn in_comments(path: &Path, text: &str) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let mut comment = String::new();
    let mut begins = 1;
    for (n, line) in text.lines().chain([""]).enumerate() {
        let line = line.trim_start();
        let doc = line
            .strip_prefix("///")
            .or_else(|| line.strip_prefix("//!"));
        if let Some(doc) = doc {
            if comment.is_empty() {
                begins = n + 1;
            }
            comment.push_str(doc);
            comment.push('\n');
        } else if !comment.is_empty() {
            complaints.extend(long(path, &sentences::of_comment(begins, &comment)));
            comment.clear();
        }
    }
    complaints
}

fn long(path: &Path, sentences: &[Sentence]) -> Vec<Complaint> {
    let long = sentences
        .iter()
        .filter(|sentence| sentence.words > WORDS_MAX);
    let complain = |sentence: &Sentence| {
        let what = format!(
            "a sentence of {} words, {WORDS_MAX} at most",
            sentence.words
        );
        Complaint::new(path, sentence.line, what, INSTEAD)
    };
    long.map(complain).collect()
}

fn median(path: &Path, sentences: &[Sentence]) -> Option<Complaint> {
    let mut words: Vec<usize> = sentences.iter().map(|sentence| sentence.words).collect();
    words.sort_unstable();
    let median = *words.get(words.len() / 2)?;
    let is_long = words.len() >= SENTENCES_MIN && median > MEDIAN_MAX;
    let what = format!("the median sentence has {median} words, {MEDIAN_MAX} at most");
    is_long.then(|| Complaint::new(path, 1, what, "make the long ones two"))
}

/// Finds lines of prose that are too wide. Code, tables and lines without a gap cannot be wrapped.
fn wide(path: &Path, text: &str) -> Vec<Complaint> {
    let mut in_code = false;
    let mut complaints = Vec::new();
    for (n, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        let columns = line.chars().count();
        let can_wrap = !in_code && !line.starts_with('|') && line.trim().contains(' ');
        if can_wrap && columns > COLUMNS_MAX {
            let what = format!("{columns} columns, {COLUMNS_MAX} at most");
            complaints.push(Complaint::new(path, n + 1, what, "wrap it"));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Vec<Complaint> {
        in_page(Path::new("docs/a.md"), text)
    }

    #[test]
    fn a_sentence_may_have_forty_words() {
        assert!(page(&format!("{}.", "a ".repeat(39) + "a")).is_empty());
        assert_eq!(page(&format!("{}.", "a ".repeat(40) + "a")).len(), 1);
    }

    #[test]
    fn a_page_of_long_sentences_is_complained_of() {
        let sentence = |words: usize| "a ".repeat(words - 1) + "a.\n";
        assert!(page(&sentence(18).repeat(10)).is_empty());
        assert_eq!(page(&sentence(19).repeat(10)).len(), 1);
        assert!(page(&sentence(19).repeat(9)).is_empty());
    }

    #[test]
    fn prose_is_wrapped_and_tables_are_not() {
        let wide = "ab ".repeat(41);
        assert_eq!(
            page(&wide)
                .iter()
                .filter(|c| c.what.contains("columns"))
                .count(),
            1
        );
        assert!(page(&format!("```\n{wide}\n```\n")).is_empty());
        assert!(page(&format!("| {} |", "ab. ".repeat(41))).is_empty());
    }

    #[test]
    fn a_comment_has_sentences_too() {
        let long = format!("/// {}.\nfn a() {{}}\n", "a ".repeat(40) + "a");
        let found = in_comments(
            Path::new("crates/host/src/a.rs"),
            &format!("//! Fine.\n\n{long}"),
        );
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].line, 3);
    }
}
