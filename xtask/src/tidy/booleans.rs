//! Checks that a call says what it asks for: `open(path, Access::ReadOnly)`, not `open(path, true)`.

use super::complaint::Complaint;
use super::source::{BuiltFor, Source, Token, TokenKind};
use super::type_names::is_public;

/// Functions whose parameters another project's trait prescribes.
const PRESCRIBED: [&str; 1] = ["record_bool"];

/// Finds boolean parameters of functions that are visible outside their file, and of trait functions.
pub(crate) fn check(source: &Source) -> Vec<Complaint> {
    let tokens = &source.tokens;
    let is_function = |n: &usize| {
        tokens[*n].kind == TokenKind::Word
            && tokens[*n].text == "fn"
            && tokens[*n].built_for == BuiltFor::Product
    };
    let mut complaints = Vec::new();
    for n in (0..tokens.len()).filter(is_function) {
        let Some(name) = tokens
            .get(n + 1)
            .filter(|name| name.kind == TokenKind::Word)
        else {
            continue;
        };
        let is_seen = is_public(&tokens[..n]) || in_trait(&tokens[..n]);
        if !is_seen || PRESCRIBED.contains(&name.text.as_str()) {
            continue;
        }
        for parameter in booleans(&tokens[n + 2..]) {
            let what = format!("`{}` takes the boolean `{parameter}`", name.text);
            complaints.push(Complaint::new(
                &source.path,
                name.line,
                what,
                "make it an enum whose variants say what each asks for",
            ));
        }
    }
    complaints
}

/// Types of a parameter that is a boolean, their tokens without gaps.
const BOOLEANS: [&str; 4] = ["bool", "&bool", "&mutbool", "Option<bool>"];

/// The names of the boolean parameters of the function whose name comes before these tokens.
fn booleans(after_name: &[Token]) -> Vec<&str> {
    let Some(open) = parameters_begin(after_name) else {
        return Vec::new();
    };
    let mut depth = 0usize;
    let mut names = Vec::new();
    let mut parameter: Vec<&Token> = Vec::new();
    for token in &after_name[open..] {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        let ends = depth == 0 || (depth == 1 && token.text == ",");
        if ends {
            names.extend(boolean(&parameter));
            parameter.clear();
        } else if depth > 1 || token.text != "(" {
            parameter.push(token);
        }
        if depth == 0 {
            break;
        }
    }
    names
}

/// Where the brackets of the parameters begin: behind those of the generic parameters, which may hold a `Fn(…)`.
fn parameters_begin(after_name: &[Token]) -> Option<usize> {
    let mut angles = 0usize;
    let mut before = "";
    for (n, token) in after_name.iter().enumerate() {
        match token.text.as_str() {
            "<" => angles += 1,
            ">" if before != "-" => angles = angles.saturating_sub(1),
            "(" if angles == 0 => return Some(n),
            "{" | ";" if angles == 0 => return None,
            _ => {}
        }
        before = &token.text;
    }
    None
}

/// The name of a parameter, if it is a boolean.
fn boolean<'a>(parameter: &[&'a Token]) -> Option<&'a str> {
    let colon = parameter.iter().position(|token| token.text == ":")?;
    let name = parameter[..colon].last()?;
    let kind: String = parameter[colon + 1..]
        .iter()
        .map(|token| token.text.as_str())
        .collect();
    BOOLEANS.contains(&kind.as_str()).then_some(&name.text)
}

/// Returns whether the innermost open bracket is that of a trait's definition.
fn in_trait(before: &[Token]) -> bool {
    let mut depth = 0usize;
    for (n, token) in before.iter().enumerate().rev() {
        match token.text.as_str() {
            "}" | ")" | "]" => depth += 1,
            "{" if depth == 0 => {
                let head = before[..n]
                    .iter()
                    .rev()
                    .take_while(|token| !matches!(token.text.as_str(), ";" | "}" | "{"));
                return head.into_iter().any(|token| token.text == "trait");
            }
            "{" | "(" | "[" => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn complaints(text: &str) -> usize {
        check(&Source::parse(Path::new("crates/host/src/a.rs"), text.into()).expect("it is Rust"))
            .len()
    }

    #[test]
    fn a_boolean_that_others_must_pass_is_refused() {
        assert_eq!(
            complaints("pub fn open(path: &Path, read_only: bool) {}"),
            1
        );
        assert_eq!(
            complaints("pub(super) const fn two<T>(a: bool, b: bool) {}"),
            2
        );
        assert_eq!(complaints("pub fn a<F: Fn(u8) -> u8>(f: F, b: bool) {}"), 1);
        assert_eq!(
            complaints("pub fn a(b: &mut bool, c: Option<bool>, d: &bool) {}"),
            3
        );
        assert_eq!(
            complaints("trait Disk { fn write(&self, at: u64, lasting: bool); }"),
            1
        );
    }

    #[test]
    fn what_one_file_says_to_itself_is_its_own() {
        assert_eq!(complaints("fn open(read_only: bool) {}"), 0);
        assert_eq!(
            complaints("impl Disk for A { fn write(&self, lasting: bool) {} }"),
            0
        );
        assert_eq!(
            complaints(
                "pub fn each(f: impl Fn(bool), flags: [bool; 2]) -> bool { let a: bool = b; a }"
            ),
            0
        );
        assert_eq!(
            complaints("#[cfg(test)]\nmod tests { pub fn a(b: bool) {} }"),
            0
        );
    }
}
