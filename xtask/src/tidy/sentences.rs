//! The lengths of the sentences of a Markdown page.

/// A sentence of prose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sentence {
    /// The line on which its paragraph begins, from 1.
    pub(super) line: usize,
    /// The number of words. A piece of code counts as one.
    pub(super) words: usize,
}

/// A stretch of prose without a break: a paragraph, a list item or a table cell.
struct Stretch {
    line: usize,
    text: String,
}

/// The sentences of a page, without its code, headings and link targets. Pieces of fewer than three words do not count.
pub(super) fn of_markdown(text: &str) -> Vec<Sentence> {
    let stretches = stretches_of(text);
    let sentences = stretches.iter().flat_map(|stretch| {
        let counts = counts(&plain(&stretch.text));
        counts.into_iter().map(|words| Sentence {
            line: stretch.line,
            words,
        })
    });
    sentences.filter(|sentence| sentence.words > 2).collect()
}

/// The sentences of a comment's text.
pub(super) fn of_comment(line: usize, text: &str) -> Vec<Sentence> {
    let mut sentences = of_markdown(text);
    for sentence in &mut sentences {
        sentence.line += line - 1;
    }
    sentences
}

fn stretches_of(text: &str) -> Vec<Stretch> {
    let mut stretches: Vec<Stretch> = Vec::new();
    let mut in_code = false;
    let mut goes_on = false;
    for (n, line) in text.lines().enumerate() {
        let line_of_text = line.trim();
        if line_of_text.starts_with("```") {
            in_code = !in_code;
            goes_on = false;
        } else if in_code || line_of_text.is_empty() || line_of_text.starts_with('#') {
            goes_on = false;
        } else if line_of_text.starts_with('|') {
            let cells = line_of_text.trim_matches('|').split('|');
            stretches.extend(cells.map(|cell| Stretch {
                line: n + 1,
                text: cell.to_owned(),
            }));
            goes_on = false;
        } else if goes_on && !is_item(line_of_text) {
            if let Some(stretch) = stretches.last_mut() {
                stretch.text.push(' ');
                stretch.text.push_str(line_of_text);
            }
        } else {
            let text = without_mark(line_of_text).to_owned();
            stretches.push(Stretch { line: n + 1, text });
            goes_on = true;
        }
    }
    stretches
}

fn is_item(line: &str) -> bool {
    without_mark(line).len() < line.len()
}

/// A line without the mark of a list item.
fn without_mark(line: &str) -> &str {
    for mark in ["- ", "* "] {
        if let Some(rest) = line.strip_prefix(mark) {
            return rest;
        }
    }
    let digits = line.trim_start_matches(|c: char| c.is_ascii_digit());
    match digits.strip_prefix(". ") {
        Some(rest) if digits.len() < line.len() => rest,
        _ => line,
    }
}

/// The text with `X` for each piece of code, and links without their targets.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for (n, piece) in text.split('`').enumerate() {
        plain.push_str(if n % 2 == 0 { piece } else { "X" });
    }
    let mut without_targets = String::new();
    let mut rest = plain.as_str();
    while let Some(at) = rest.find("](") {
        let (before, target) = rest.split_at(at + 1);
        without_targets.push_str(before);
        rest = target.split_once(')').map_or("", |(_, after)| after);
    }
    without_targets.push_str(rest);
    without_targets
}

/// The number of words of each sentence. A colon or semicolon ends a sentence if a capital or a piece of code comes
/// next.
fn counts(text: &str) -> Vec<usize> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut counts = vec![0];
    for (n, word) in words.iter().enumerate() {
        if let Some(count) = counts.last_mut() {
            *count += 1;
        }
        let bare = word.trim_end_matches(['*', ')', '"']);
        let begins = words
            .get(n + 1)
            .and_then(|next| next.chars().find(|c| !"([*\"".contains(*c)));
        let ends = bare.ends_with(['.', '!', '?'])
            || (bare.ends_with([':', ';']) && begins.is_some_and(char::is_uppercase));
        if ends {
            counts.push(0);
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<usize> {
        of_markdown(text)
            .iter()
            .map(|sentence| sentence.words)
            .collect()
    }

    #[test]
    fn a_sentence_goes_on_over_lines_and_ends_at_its_stop() {
        assert_eq!(words("One two three\nfour. Five six seven eight."), [4, 4]);
        assert_eq!(words("It has three: `a b c` is the first."), [3, 4]);
        assert_eq!(words("It has three parts: The first is this."), [4, 4]);
    }

    #[test]
    fn items_and_cells_stand_alone() {
        assert_eq!(
            words("- one two three\n- four five six\n1. seven eight nine"),
            [3, 3, 3]
        );
        assert_eq!(words("| a b c | d e f g |\n| --- | --- |"), [3, 4]);
    }

    #[test]
    fn code_headings_and_targets_are_no_words() {
        assert_eq!(
            words("# one two three four\n```sh\na b c d e\n```\n"),
            [0usize; 0]
        );
        assert_eq!(words("See [the page](docs/a b c.md) of it."), [5]);
    }
}
