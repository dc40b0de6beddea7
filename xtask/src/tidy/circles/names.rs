//! What a file names: its `use` lines, its inline paths, and what it defines.

use std::collections::{BTreeMap, BTreeSet};

use super::super::source::{Kind, Source, Token};

/// A module or an item, each name from the crate's root on.
pub(super) type Path = Vec<String>;

/// The names of one file, its tests left out.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// What `use` brings.
    pub(super) uses: Vec<Use>,
    /// Paths of two names or more elsewhere.
    pub(super) paths: Vec<Named>,
    /// Words that may be a name in scope, by module, each with the first line where it stands outside `use`.
    pub(super) words: BTreeMap<(Path, String), usize>,
    /// What is defined, by module.
    pub(super) defined: BTreeSet<(Path, String)>,
    /// The module of the file, and those written within it.
    pub(super) modules: BTreeSet<Path>,
    /// Modules in files of their own that are built for tests only.
    pub(super) for_tests: BTreeSet<Path>,
}

/// A path as it is written.
#[derive(Debug)]
pub(super) struct Named {
    /// The module where it stands.
    pub(super) within: Path,
    pub(super) words: Vec<String>,
    pub(super) line: usize,
}

/// A name, or all names of a module, brought by `use`.
#[derive(Debug)]
pub(super) struct Use {
    pub(super) named: Named,
    /// What it is called here; `None` for all names of a module.
    pub(super) alias: Option<String>,
    /// Whether other modules may take it from here.
    pub(super) is_public: bool,
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

impl Names {
    /// Reads a file whose module is `module`.
    pub(super) fn read(source: &Source, module: &[String]) -> Names {
        let mut names = Names::default();
        names.modules.insert(module.to_vec());
        names.for_tests = modules_for_tests(source, module);
        let tokens = source.product();
        let mut reader = Reader {
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

fn modules_for_tests(source: &Source, module: &[String]) -> BTreeSet<Path> {
    let is_declared =
        |words: &&[Token]| words[0].is_test && words[0].text == "mod" && words[2].text == ";";
    let declared = source.tokens.windows(3).filter(is_declared);
    let inside = |words: &[Token]| child(module, &words[1].text);
    declared.map(inside).collect()
}

/// The path of `name` in `module`.
pub(super) fn child(module: &[String], name: &str) -> Path {
    let mut path = module.to_vec();
    path.push(name.to_owned());
    path
}

struct Reader<'a> {
    tokens: &'a [&'a Token],
    /// The token that is read next.
    n: usize,
    module: Path,
    depth: usize,
    /// The depths at which modules within the file were opened.
    opened: Vec<usize>,
    names: Names,
}

impl Reader<'_> {
    fn text(&self, n: usize) -> &str {
        self.tokens.get(n).map_or("", |token| token.text.as_str())
    }

    fn is_word(&self, n: usize) -> bool {
        self.tokens.get(n).is_some_and(|t| t.kind == Kind::Word)
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

    /// Enters a module that is written within the file; the bracket is read next.
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
            self.names.paths.push(Named {
                within: self.module.clone(),
                words,
                line,
            });
        }
    }

    fn read_use(&mut self) {
        let is_public = self.n > 0 && matches!(self.text(self.n - 1), "pub" | ")");
        self.n += 1;
        self.read_tree(&mut Vec::new(), is_public);
    }

    /// Reads what stands after the names `before` of a `use`, to its comma, bracket or semicolon.
    fn read_tree(&mut self, before: &mut Vec<String>, is_public: bool) {
        let length = before.len();
        let mut line = self.tokens.get(self.n).map_or(0, |token| token.line);
        loop {
            match self.text(self.n) {
                "{" => return self.read_list(before, length, is_public),
                "*" => {
                    self.bring(before, None, line, is_public);
                    self.n += 1;
                    break;
                }
                ":" => self.n += 1,
                "as" => {
                    let alias = self.text(self.n + 1).to_owned();
                    self.bring(before, Some(alias), line, is_public);
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
                    self.bring(before, alias, line, is_public);
                    break;
                }
            }
        }
        before.truncate(length);
    }

    fn read_list(&mut self, before: &mut Vec<String>, length: usize, is_public: bool) {
        self.n += 1;
        while self.n < self.tokens.len() && self.text(self.n) != "}" {
            if self.text(self.n) == "," {
                self.n += 1;
            } else {
                self.read_tree(before, is_public);
            }
        }
        self.n += 1;
        before.truncate(length);
    }

    fn bring(&mut self, words: &[String], alias: Option<String>, line: usize, is_public: bool) {
        // `a::{self, b}` brings `a`.
        let is_itself = words.len() > 1 && words.last().is_some_and(|word| word == "self");
        let words = &words[..words.len() - usize::from(is_itself)];
        self.names.uses.push(Use {
            named: Named {
                within: self.module.clone(),
                words: words.to_vec(),
                line,
            },
            alias,
            is_public,
        });
    }
}
