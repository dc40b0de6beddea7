//! Checks that a function is one thought on one screen, and a file is one noun.

use super::complaint::Complaint;
use super::source::{BuiltFor, Source, Token, TokenKind};

/// The most lines of a function, from its `fn` to its last bracket.
const FUNCTION_LINES_MAX: usize = 70;

/// The most lines of a test, which may hold a long conversation.
const TEST_LINES_MAX: usize = 120;

/// The most lines of a file before its tests.
const FILE_LINES_MAX: usize = 800;

/// Finds functions and files that are too long.
pub(crate) fn check(source: &Source) -> Vec<Complaint> {
    let mut complaints = long_functions(source);
    if source.lines > FILE_LINES_MAX {
        let what = format!(
            "{} lines before the tests, {FILE_LINES_MAX} at most",
            source.lines
        );
        complaints.push(Complaint::new(
            &source.path,
            1,
            what,
            "split it by state, one noun a file",
        ));
    }
    complaints
}

fn long_functions(source: &Source) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (n, token) in source.tokens.iter().enumerate() {
        let is_function = token.kind == TokenKind::Word && token.text == "fn";
        let name = source
            .tokens
            .get(n + 1)
            .filter(|name| name.kind == TokenKind::Word);
        let (true, Some(name)) = (is_function, name) else {
            continue;
        };
        let Some(end) = last_line(&source.tokens[n..]) else {
            continue;
        };
        let lines = end + 1 - token.line;
        let most = if token.built_for == BuiltFor::Tests {
            TEST_LINES_MAX
        } else {
            FUNCTION_LINES_MAX
        };
        if lines > most {
            let what = format!("`{}` has {lines} lines, {most} at most", name.text);
            complaints.push(Complaint::new(
                &source.path,
                token.line,
                what,
                "make each thought of it a function",
            ));
        }
    }
    complaints
}

/// The line on which the function that starts here ends. `None` for one without a body.
fn last_line(tokens: &[Token]) -> Option<usize> {
    let mut depth = 0usize;
    let mut in_body = false;
    for token in tokens.iter().filter(|token| token.kind == TokenKind::Sign) {
        match token.text.as_str() {
            ";" if depth == 0 => return None,
            "{" | "(" | "[" => {
                in_body |= depth == 0 && token.text == "{";
                depth += 1;
            }
            "}" | ")" | "]" => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if in_body && depth == 0 {
            return Some(token.line);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn complaints(text: String) -> Vec<Complaint> {
        check(&Source::parse(Path::new("crates/host/src/a.rs"), text).expect("it is Rust"))
    }

    fn function(lines: usize) -> String {
        format!(
            "trait T {{ fn none(&self) -> [u8; 4]; }}\nfn long(a: [u8; 3]) {{\n{}}}\n",
            "b();\n".repeat(lines - 2)
        )
    }

    #[test]
    fn a_function_may_have_seventy_lines_and_no_more() {
        assert!(complaints(function(70)).is_empty());
        let complaints = complaints(function(71));
        assert_eq!(complaints.len(), 1);
        assert_eq!(complaints[0].line, 2);
        assert!(complaints[0].what.starts_with("`long` has 71 lines"));
    }

    #[test]
    fn a_file_is_measured_without_its_tests() {
        let constants = "const A: u8 = 1;\n".repeat(800);
        let tests = "#[cfg(test)]\nmod tests { fn a() {} }\n";
        assert!(complaints(format!("{constants}{tests}")).is_empty());
        assert_eq!(
            complaints(format!("{constants}const B: u8 = 1;\n{tests}")).len(),
            1
        );
    }
}
