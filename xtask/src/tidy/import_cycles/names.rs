//! The names in a file: its `use` lines, its inline paths, and its definitions.

use std::collections::{BTreeMap, BTreeSet};

use super::super::source::{BuiltFor, Source, Token, TokenKind};

/// A module or an item. It has each name from the crate's root on.
pub(super) type NamePath = Vec<String>;

/// The names of one file, without those of its tests.
#[derive(Debug, Default)]
pub(super) struct FileNames {
    /// The names that `use` brings.
    pub(super) uses: Vec<UseLine>,
    /// Paths of two names or more outside `use`.
    pub(super) paths: Vec<PathUse>,
    /// Words that may be a name in scope, by module, each with the first line where it stands outside `use`.
    pub(super) words: BTreeMap<(NamePath, String), usize>,
    /// The defined names, by module.
    pub(super) defined: BTreeSet<(NamePath, String)>,
    /// The module of the file, and the modules written within it.
    pub(super) modules: BTreeSet<NamePath>,
    /// Modules in separate files that are built for tests only.
    pub(super) for_tests: BTreeSet<NamePath>,
}

/// A path as it is written.
#[derive(Debug)]
pub(super) struct PathUse {
    /// The module in which it stands.
    pub(super) within: NamePath,
    pub(super) words: Vec<String>,
    pub(super) line: usize,
}

/// A name, or all names of a module, brought by `use`.
#[derive(Debug)]
pub(super) struct UseLine {
    pub(super) named: PathUse,
    /// Its name here. `None` for all names of a module.
    pub(super) alias: Option<String>,
    /// Who may take it from here.
    pub(super) scope: UseScope,
}

/// Who may name what a `use` line brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UseScope {
    /// This module only.
    Private,
    /// Other modules too.
    Reexported,
}

/// Words after which a name is defined.
const DEFINING: [&str; 10] = [
    "fn",
    "struct",
    "enum",
    "trait",
    "type",
    "const",
    "static",
    "union",
    "mod",
    "macro_rules",
];

impl FileNames {
    /// Reads a file whose module is `module`.
    pub(super) fn read(source: &Source, module: &[String]) -> FileNames {
        let mut names = FileNames::default();
        names.modules.insert(module.to_vec());
        names.for_tests = modules_for_tests(source, module);
        let tokens = source.product();
        let mut reader = NameReader {
            tokens: &tokens,
            n: 0,
            module: module.to_vec(),
            depth: 0,
            opened: Vec::new(),
            names,
        };
        while reader.n < tokens.len() {
            reader.step();
        }
        reader.names
    }
}

fn modules_for_tests(source: &Source, module: &[String]) -> BTreeSet<NamePath> {
    let is_declared = |words: &&[Token]| {
        words[0].built_for == BuiltFor::Tests && words[0].text == "mod" && words[2].text == ";"
    };
    let declared = source.tokens.windows(3).filter(is_declared);
    let inside = |words: &[Token]| child(module, &words[1].text);
    declared.map(inside).collect()
}

/// The path of `name` in `module`.
pub(super) fn child(module: &[String], name: &str) -> NamePath {
    let mut path = module.to_vec();
    path.push(name.to_owned());
    path
}

struct NameReader<'a> {
    tokens: &'a [&'a Token],
    /// The index of the next token.
    n: usize,
    module: NamePath,
    depth: usize,
    /// The depths at which modules within the file were opened.
    opened: Vec<usize>,
    names: FileNames,
}

impl NameReader<'_> {
    fn text(&self, n: usize) -> &str {
        self.tokens.get(n).map_or("", |token| token.text.as_str())
    }

    fn is_word(&self, n: usize) -> bool {
        self.tokens
            .get(n)
            .is_some_and(|t| t.kind == TokenKind::Word)
    }

    fn is_separator(&self, n: usize) -> bool {
        self.text(n) == ":" && self.text(n + 1) == ":"
    }

    fn step(&mut self) {
        match self.text(self.n) {
            "{" => self.depth += 1,
            "}" => self.close(),
            "pub" if self.text(self.n + 1) == "(" => {
                while self.n < self.tokens.len() && self.text(self.n) != ")" {
                    self.n += 1;
                }
            }
            "use" if self.text(self.n + 1) != "<" => return self.read_use(),
            "mod" if self.text(self.n + 2) == "{" => self.open(),
            _ if self.is_word(self.n) => return self.read_word(),
            _ => {}
        }
        self.n += 1;
    }

    /// Enters a module that is written within the file. The bracket is the next token.
    fn open(&mut self) {
        let name = self.text(self.n + 1).to_owned();
        self.module.push(name);
        self.names.modules.insert(self.module.clone());
        self.opened.push(self.depth);
        self.n += 1;
    }

    fn close(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        if self.opened.last() == Some(&self.depth) {
            self.opened.pop();
            self.module.pop();
        }
    }

    /// Reads a word, or the path that begins with it.
    fn read_word(&mut self) {
        let first = self.n;
        let line = self.tokens[first].line;
        let mut words = vec![self.text(first).to_owned()];
        self.n += 1;
        while self.is_separator(self.n) && self.is_word(self.n + 2) {
            words.push(self.text(self.n + 2).to_owned());
            self.n += 3;
        }
        let before = first.checked_sub(1).map_or("", |n| self.text(n));
        let is_later_part = before == ":" && first >= 2 && self.is_separator(first - 2);
        if is_later_part || before == "." {
            return;
        }
        let is_macro = before == "!" && first >= 2 && self.text(first - 2) == "macro_rules";
        if words.len() == 1 && (is_macro || DEFINING.contains(&before)) {
            if self.depth == self.opened.last().map_or(0, |depth| depth + 1) {
                let [word] = &words[..] else { return };
                self.names
                    .defined
                    .insert((self.module.clone(), word.clone()));
            }
            return;
        }
        let is_field = self.text(self.n) == ":" && !self.is_separator(self.n);
        if !is_field {
            let key = (self.module.clone(), words[0].clone());
            self.names.words.entry(key).or_insert(line);
        }
        if words.len() > 1 {
            self.names.paths.push(PathUse {
                within: self.module.clone(),
                words,
                line,
            });
        }
    }

    fn read_use(&mut self) {
        let scope = match self.n > 0 && matches!(self.text(self.n - 1), "pub" | ")") {
            true => UseScope::Reexported,
            false => UseScope::Private,
        };
        self.n += 1;
        self.read_tree(&mut Vec::new(), scope);
    }

    /// Reads what follows the names `before` of a `use`, up to its comma, bracket or semicolon.
    fn read_tree(&mut self, before: &mut Vec<String>, scope: UseScope) {
        let length = before.len();
        let mut line = self.tokens.get(self.n).map_or(0, |token| token.line);
        loop {
            match self.text(self.n) {
                "{" => return self.read_list(before, length, scope),
                "*" => {
                    self.add_use(before, None, line, scope);
                    self.n += 1;
                    break;
                }
                ":" => self.n += 1,
                "as" => {
                    let alias = self.text(self.n + 1).to_owned();
                    self.add_use(before, Some(alias), line, scope);
                    self.n += 2;
                    break;
                }
                _ if self.is_word(self.n) => {
                    line = self.tokens[self.n].line;
                    before.push(self.text(self.n).to_owned());
                    self.n += 1;
                }
                _ => {
                    let alias = before.iter().rev().find(|word| *word != "self").cloned();
                    self.add_use(before, alias, line, scope);
                    break;
                }
            }
        }
        before.truncate(length);
    }

    fn read_list(&mut self, before: &mut Vec<String>, length: usize, scope: UseScope) {
        self.n += 1;
        while self.n < self.tokens.len() && self.text(self.n) != "}" {
            if self.text(self.n) == "," {
                self.n += 1;
            } else {
                self.read_tree(before, scope);
            }
        }
        self.n += 1;
        before.truncate(length);
    }

    fn add_use(&mut self, words: &[String], alias: Option<String>, line: usize, scope: UseScope) {
        // `a::{self, b}` brings `a`.
        let is_itself = words.len() > 1 && words.last().is_some_and(|word| word == "self");
        let words = &words[..words.len() - usize::from(is_itself)];
        self.names.uses.push(UseLine {
            named: PathUse {
                within: self.module.clone(),
                words: words.to_vec(),
                line,
            },
            alias,
            scope,
        });
    }
}
