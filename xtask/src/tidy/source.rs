//! A Rust file as tokens, so that comments and strings cannot be mistaken for code.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::unreadable::Unreadable;

/// A Rust file, with its tests separate from the rest.
pub(crate) struct Source {
    /// The path relative to the workspace.
    pub(crate) path: PathBuf,
    /// The number of lines before the tests at its end.
    pub(crate) lines: usize,
    /// Its tokens in order. Groups are opened and closed by their brackets.
    pub(crate) tokens: Vec<Token>,
}

/// A word, a sign or a literal.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) line: usize,
    pub(crate) kind: TokenKind,
    /// What it is built for.
    pub(crate) built_for: BuiltFor,
}

/// What a token is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BuiltFor {
    /// The product, and with it the tests.
    Product,
    /// Tests only.
    Tests,
}

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// An identifier or keyword.
    Word,
    /// Punctuation, or a bracket.
    Sign,
    /// A string, character or number.
    Literal,
}

impl Source {
    /// Reads `text`, the content of `path`.
    pub(crate) fn parse(path: &Path, text: String) -> Result<Source, Unreadable> {
        let stream = TokenStream::from_str(&text)
            .map_err(|error| Unreadable::NotRust(path.to_path_buf(), error))?;
        let is_test = path
            .components()
            .any(|part| part.as_os_str() == "tests" || part.as_os_str() == "benches")
            || path.file_stem().is_some_and(|stem| stem == "tests");
        let built_for = match is_test {
            true => BuiltFor::Tests,
            false => BuiltFor::Product,
        };
        let mut tokens = Vec::new();
        flatten(stream, built_for, &mut tokens);
        let lines_all = text.lines().count();
        let lines = if is_test {
            lines_all
        } else {
            first_test(&text).unwrap_or(lines_all)
        };
        Ok(Source {
            path: path.to_path_buf(),
            lines,
            tokens,
        })
    }

    /// The files and folders of the modules that it declares for tests only, as `#[cfg(test)] mod name;`.
    fn test_modules(&self) -> Vec<PathBuf> {
        let stem = self.path.file_stem().unwrap_or_default();
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let is_face = stem == "mod" || stem == "lib" || stem == "main";
        let folder = match is_face {
            true => folder.to_path_buf(),
            false => folder.join(stem),
        };
        let declared = self.tokens.windows(3).filter(|three| {
            let texts = (three[0].text.as_str(), three[2].text.as_str());
            texts == ("mod", ";") && three[0].built_for == BuiltFor::Tests
        });
        let names = declared.map(|three| &three[1].text);
        let places = names.flat_map(|name| [folder.join(name), folder.join(format!("{name}.rs"))]);
        places.collect()
    }

    /// The tokens that are built into the product.
    pub(crate) fn product(&self) -> Vec<&Token> {
        self.tokens
            .iter()
            .filter(|token| token.built_for == BuiltFor::Product)
            .collect()
    }

    /// The lines where the product names `path`, which is two words with `::` between them. The form `first::{…,
    /// second}` counts too.
    pub(crate) fn places_of(&self, first: &str, second: &str) -> Vec<usize> {
        let product = self.product();
        let words: Vec<_> = product.iter().filter(|token| token.text != ":").collect();
        let starts = (0..words.len()).filter(|&n| words[n].text == first);
        let ends = starts.filter_map(|n| named_after(&words[n + 1..], second));
        ends.collect()
    }

    /// The lines where `word` stands between the brackets of a call of `name`.
    pub(crate) fn places_of_call(&self, name: &str, word: &str) -> Vec<usize> {
        let calls = self.tokens.windows(2).enumerate();
        let calls = calls.filter(|(_, pair)| pair[0].text == name && pair[1].text == "(");
        let arguments = |n: usize| {
            self.tokens[n + 2..]
                .iter()
                .take_while(|token| token.text != ")")
        };
        let named = calls.flat_map(|(n, _)| arguments(n).filter(|token| token.text == word));
        named.map(|token| token.line).collect()
    }
}

/// Takes the files of modules that are declared for tests only out of the product.
pub(crate) fn mark_test_modules(sources: &mut [Source]) {
    let tests: Vec<PathBuf> = sources.iter().flat_map(Source::test_modules).collect();
    let is_test = |path: &Path| tests.iter().any(|test| path.starts_with(test));
    for source in sources.iter_mut().filter(|source| is_test(&source.path)) {
        for token in &mut source.tokens {
            token.built_for = BuiltFor::Tests;
        }
    }
}

/// The line of `wanted`, if these tokens begin with it or with a list that contains it.
fn named_after(tokens: &[&&Token], wanted: &str) -> Option<usize> {
    let mut depth = 0usize;
    let mut starts = true;
    for token in tokens {
        match token.text.as_str() {
            "{" => depth += 1,
            "}" => depth = depth.checked_sub(1)?,
            "," => starts = true,
            word if starts && depth <= 1 && word == wanted => return Some(token.line),
            _ => starts = false,
        }
        if depth == 0 {
            return None;
        }
    }
    None
}

/// The line of the first test module.
fn first_test(text: &str) -> Option<usize> {
    text.lines()
        .position(|line| line.trim_start().starts_with("#[cfg(test)]"))
}

fn flatten(stream: TokenStream, built_for: BuiltFor, tokens: &mut Vec<Token>) {
    let mut gate = TestGate::default();
    for tree in stream {
        let built_for = match gate.is_open() {
            true => BuiltFor::Tests,
            false => built_for,
        };
        match &tree {
            TokenTree::Group(group) => {
                let (open, close) = brackets(group.delimiter());
                push(
                    tokens,
                    open,
                    group.span_open().start().line,
                    TokenKind::Sign,
                    built_for,
                );
                flatten(group.stream(), built_for, tokens);
                push(
                    tokens,
                    close,
                    group.span_close().end().line,
                    TokenKind::Sign,
                    built_for,
                );
            }
            TokenTree::Ident(word) => {
                push(
                    tokens,
                    &word.to_string(),
                    word.span().start().line,
                    TokenKind::Word,
                    built_for,
                );
            }
            TokenTree::Punct(sign) => {
                push(
                    tokens,
                    &sign.as_char().to_string(),
                    sign.span().start().line,
                    TokenKind::Sign,
                    built_for,
                );
            }
            TokenTree::Literal(literal) => {
                push(
                    tokens,
                    &literal.to_string(),
                    literal.span().start().line,
                    TokenKind::Literal,
                    built_for,
                );
            }
        }
        gate.pass(&tree);
    }
}

fn push(tokens: &mut Vec<Token>, text: &str, line: usize, kind: TokenKind, built_for: BuiltFor) {
    tokens.push(Token {
        text: text.to_owned(),
        line,
        kind,
        built_for,
    });
}

fn brackets(delimiter: Delimiter) -> (&'static str, &'static str) {
    match delimiter {
        Delimiter::Parenthesis => ("(", ")"),
        Delimiter::Brace => ("{", "}"),
        Delimiter::Bracket => ("[", "]"),
        Delimiter::None => ("", ""),
    }
}

/// A gate that is open from `#[cfg(test)]` or `#[test]` to the end of the item that follows.
#[derive(Default)]
struct TestGate {
    open: bool,
    after_hash: bool,
}

impl TestGate {
    fn is_open(&self) -> bool {
        self.open
    }

    fn pass(&mut self, tree: &TokenTree) {
        match tree {
            TokenTree::Group(group)
                if self.after_hash && group.delimiter() == Delimiter::Bracket =>
            {
                let attribute = group.stream().to_string().replace(' ', "");
                self.open |= attribute == "test"
                    || attribute.starts_with("cfg(test)")
                    || attribute.starts_with("cfg(all(test");
            }
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => self.open = false,
            TokenTree::Punct(sign) if sign.as_char() == ';' => self.open = false,
            _ => {}
        }
        self.after_hash = matches!(tree, TokenTree::Punct(sign) if sign.as_char() == '#');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::parse(Path::new("crates/store/src/a.rs"), text.into()).expect("it is Rust")
    }

    #[test]
    fn words_in_strings_and_comments_are_no_code() {
        let source = source("// unsafe\nfn a() { b(\"unsafe\"); }");
        assert!(source.tokens.iter().all(|token| token.text != "unsafe"));
    }

    #[test]
    fn what_is_gated_by_test_is_apart() {
        let source = source(
            "fn a() {}\n#[cfg(test)]\nmod tests { fn b() {} }\nfn c() {}\n#[test]\nfn d() {}\nfn e() {}",
        );
        let words: Vec<_> = source
            .product()
            .iter()
            .map(|token| token.text.clone())
            .collect();
        for kept in ["a", "c", "e"] {
            assert!(words.contains(&kept.to_owned()), "{kept} was lost");
        }
        for apart in ["b", "d", "tests"] {
            assert!(
                !words.contains(&apart.to_owned()),
                "{apart} is no part of the product"
            );
        }
    }

    #[test]
    fn a_file_that_is_declared_for_tests_is_none_of_the_product() {
        let parse =
            |path: &str, text: &str| Source::parse(Path::new(path), text.into()).expect("Rust");
        let mut sources = [
            parse(
                "crates/host/src/lib.rs",
                "#[cfg(test)]\nmod waits;\nmod disk;",
            ),
            parse("crates/host/src/waits.rs", "pub fn a() {}"),
            parse("crates/host/src/disk.rs", "#[cfg(test)] mod deep;"),
            parse("crates/host/src/disk/deep/inner.rs", "pub fn b() {}"),
        ];
        mark_test_modules(&mut sources);
        let products = sources.each_ref().map(|source| source.product().is_empty());
        assert_eq!(products, [false, true, false, true]);
    }

    #[test]
    fn a_gated_use_ends_at_its_semicolon() {
        let source = source("#[cfg(test)]\nuse a::b;\nfn c() {}");
        let words: Vec<_> = source
            .product()
            .iter()
            .map(|token| token.text.clone())
            .collect();
        assert!(words.contains(&"c".to_owned()) && !words.contains(&"b".to_owned()));
    }

    #[test]
    fn places_of_a_path_are_its_lines() {
        let source =
            source("fn a() {\n  std::fs::read(1);\n  Instant::now();\n  std::io::fs();\n}");
        assert_eq!(source.places_of("std", "fs"), [2]);
        assert_eq!(source.places_of("Instant", "now"), [3]);
        assert!(source.places_of("std", "net").is_empty());
    }

    #[test]
    fn a_path_is_found_in_a_list_of_uses() {
        let source =
            source("use std::{\n  collections::{BTreeMap, net},\n  fs::{self, File},\n};\nuse io;");
        assert_eq!(source.places_of("std", "fs"), [3]);
        assert!(source.places_of("std", "net").is_empty());
        assert!(source.places_of("std", "io").is_empty());
    }

    #[test]
    fn lines_are_counted_up_to_the_tests() {
        assert_eq!(source("fn a() {}\n\n#[cfg(test)]\nmod tests {}\n").lines, 2);
        assert_eq!(source("fn a() {}\n").lines, 1);
    }
}
