//! The modules of a crate, and which file imports which.

use std::collections::BTreeMap;
use std::path::{Component, PathBuf};

use super::super::source::Source;
use super::names::{FileNames, NamePath, PathUse, UseLine, UseScope, child};

/// The most module faces through which a name is followed, from where it is used to where it is defined.
const FACES_MAX: usize = 8;

/// What one file takes from another: the first line where it does, and the text there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Import {
    pub(super) line: usize,
    pub(super) path: String,
}

/// The imports of each file of a crate, by imported file.
pub(super) type Imports = BTreeMap<PathBuf, BTreeMap<PathBuf, Import>>;

/// The files of a crate that are built into the product.
pub(super) struct ModuleTree {
    files: Vec<ModuleFile>,
    /// The file of each module.
    modules: BTreeMap<NamePath, usize>,
}

struct ModuleFile {
    path: PathBuf,
    module: NamePath,
    names: FileNames,
}

/// The crate's folder, and the module that the file is. `None` for a file that belongs to no library or program.
pub(super) fn place(path: &std::path::Path) -> Option<(PathBuf, NamePath)> {
    let parts: Vec<_> = path.components().collect();
    let src = parts
        .iter()
        .position(|part| *part == Component::Normal("src".as_ref()))?;
    let folder = parts[..src].iter().collect();
    let mut module: NamePath = parts[src + 1..]
        .iter()
        .filter_map(|part| part.as_os_str().to_str().map(str::to_owned))
        .collect();
    let name = module.pop()?;
    match name.strip_suffix(".rs")? {
        "mod" => {}
        "lib" | "main" if module.is_empty() => {}
        name => module.push(name.to_owned()),
    }
    let is_test = module.iter().any(|name| name == "tests");
    (!is_test).then_some((folder, module))
}

impl ModuleTree {
    /// The files of one crate.
    pub(super) fn new<'a>(sources: impl IntoIterator<Item = (&'a Source, NamePath)>) -> ModuleTree {
        let read = |(source, module): (&Source, NamePath)| ModuleFile {
            path: source.path.clone(),
            names: FileNames::read(source, &module),
            module,
        };
        let mut files: Vec<ModuleFile> = sources.into_iter().map(read).collect();
        let for_tests: Vec<NamePath> = files
            .iter()
            .flat_map(|file| file.names.for_tests.iter().cloned())
            .collect();
        files.retain(|file| !for_tests.iter().any(|path| file.module.starts_with(path)));
        let all = files.iter().enumerate();
        let modules =
            all.flat_map(|(n, file)| file.names.modules.iter().map(move |m| (m.clone(), n)));
        let modules = modules.collect();
        ModuleTree { files, modules }
    }

    /// Which file imports which. A face that only declares its children and re-exports their names imports none of
    /// them.
    pub(super) fn imports(&self) -> Imports {
        let mut all = Imports::new();
        for file in &self.files {
            let mut found = BTreeMap::new();
            for named in self.names_taken(file) {
                let Some(path) = self.resolved(named) else {
                    continue;
                };
                let import = Import {
                    line: named.line,
                    path: named.words.join("::"),
                };
                self.follow(&path, FACES_MAX, &mut |to| {
                    let to = &self.files[to].path;
                    if *to != file.path {
                        found.entry(to.clone()).or_insert_with(|| import.clone());
                    }
                });
            }
            all.insert(file.path.clone(), found);
        }
        all
    }

    /// Each path of a file that is an import, in the order of lines.
    fn names_taken<'a>(&self, file: &'a ModuleFile) -> Vec<&'a PathUse> {
        let uses = file.names.uses.iter();
        let uses = uses.filter(|one| !self.is_passed_on(file, one));
        let mut taken: Vec<&PathUse> = uses.map(|one| &one.named).collect();
        taken.extend(&file.names.paths);
        taken.sort_by_key(|named| named.line);
        taken
    }

    /// Returns whether a face only re-exports what a child defines.
    fn is_passed_on(&self, file: &ModuleFile, one: &UseLine) -> bool {
        let is_of_a_child = self
            .resolved(&one.named)
            .is_some_and(|path| path.len() > file.module.len() && path.starts_with(&file.module));
        let is_used = one.alias.as_ref().is_some_and(|alias| {
            let key = (one.named.within.clone(), alias.clone());
            file.names.words.contains_key(&key)
        });
        one.scope == UseScope::Reexported && is_of_a_child && !is_used
    }

    /// What a path names, from the crate's root. `None` if it belongs to another crate, or is local.
    fn resolved(&self, named: &PathUse) -> Option<NamePath> {
        self.resolved_in(&named.within, &named.words, FACES_MAX)
    }

    fn resolved_in(&self, within: &[String], words: &[String], faces: usize) -> Option<NamePath> {
        let (first, rest) = words.split_first()?;
        let mut path = match first.as_str() {
            "crate" => NamePath::new(),
            "self" => within.to_vec(),
            "super" => within.split_last()?.1.to_vec(),
            name => {
                let inside = child(within, name);
                match self.is_of(within, name) {
                    true => inside,
                    false => self.brought(within, name, faces.checked_sub(1)?)?,
                }
            }
        };
        for word in rest {
            match word.as_str() {
                "super" => drop(path.pop()),
                _ => path.push(word.clone()),
            }
        }
        Some(path)
    }

    /// What `name` stands for by a `use` of the module.
    fn brought(&self, within: &[String], name: &str, faces: usize) -> Option<NamePath> {
        let file = &self.files[*self.modules.get(within)?];
        let here = |one: &&UseLine| one.named.within == within;
        let is_it = |one: &&UseLine| one.alias.as_deref() == Some(name);
        let uses = || file.names.uses.iter().filter(here);
        if let Some(one) = uses().find(is_it) {
            // `use name;` or `use name::{self}` is another crate.
            let is_crate = one.named.words.first().is_some_and(|first| first == name)
                && !self.modules.contains_key(&child(within, name));
            return match is_crate {
                true => None,
                false => self.resolved_in(within, &one.named.words, faces),
            };
        }
        let whole = uses().filter(|one| one.alias.is_none());
        let modules = whole.filter_map(|one| self.resolved_in(within, &one.named.words, faces));
        let mut paths = modules.map(|module| child(&module, name));
        paths.find(|path| self.is_there(path, within, faces))
    }

    /// Returns whether `name` can be taken from a module in `within` by a `use` of all its names.
    fn is_there(&self, path: &[String], within: &[String], faces: usize) -> bool {
        let Some((name, module)) = path.split_last() else {
            return false;
        };
        let is_passed_on = || {
            let may_see = within.starts_with(module);
            let file = self.modules.get(module).map(|file| &self.files[*file]);
            let mut uses = file.into_iter().flat_map(|file| &file.names.uses);
            let passes = |one: &UseLine| {
                one.named.within == module && (one.scope == UseScope::Reexported || may_see)
            };
            let is_it = |one: &UseLine| one.alias.as_ref().is_none_or(|alias| alias == name);
            uses.any(|one| passes(one) && is_it(one))
        };
        let faces = faces.checked_sub(1);
        self.is_of(module, name)
            || is_passed_on()
                && faces.is_some_and(|faces| self.brought(module, name, faces).is_some())
    }

    /// Returns whether `name` is a module or item of `module`.
    fn is_of(&self, module: &[String], name: &str) -> bool {
        let key = (module.to_vec(), name.to_owned());
        let file = self.modules.get(module);
        self.modules.contains_key(&child(module, name))
            || file.is_some_and(|file| self.files[*file].names.defined.contains(&key))
    }

    /// Calls `found` with each file that `path` leads through: that of its module, and those of the modules behind
    /// faces that re-export the name.
    fn follow(&self, path: &[String], faces: usize, found: &mut dyn FnMut(usize)) {
        let lengths = (0..=path.len()).rev();
        let Some(length) = lengths
            .into_iter()
            .find(|&n| self.modules.contains_key(&path[..n]))
        else {
            return;
        };
        let (module, rest) = path.split_at(length);
        let file = self.modules[module];
        found(file);
        let (Some((name, rest)), Some(faces)) = (rest.split_first(), faces.checked_sub(1)) else {
            return;
        };
        if self.is_of(module, name) {
            return;
        }
        if let Some(mut behind) = self.brought(module, name, faces) {
            behind.extend_from_slice(rest);
            self.follow(&behind, faces, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The imports of a crate of these files, as `from:line to` without their folder.
    pub(crate) fn imports(files: &[(&str, &str)]) -> Vec<String> {
        let path = |name: &str| PathBuf::from(format!("crates/a/src/{name}"));
        let parse = |(name, text): &(&str, &str)| {
            Source::parse(&path(name), (*text).to_owned()).expect("it is Rust")
        };
        let sources: Vec<Source> = files.iter().map(parse).collect();
        let placed = sources
            .iter()
            .filter_map(|source| Some((source, place(&source.path)?.1)));
        let all = ModuleTree::new(placed).imports();
        let short = |path: &PathBuf| {
            path.strip_prefix("crates/a/src")
                .expect("it is there")
                .display()
                .to_string()
        };
        let row = |from: &PathBuf, (to, import): (&PathBuf, &Import)| {
            format!("{}:{} {}", short(from), import.line, short(to))
        };
        all.iter()
            .flat_map(|(from, tos)| tos.iter().map(move |to| row(from, to)))
            .collect()
    }

    #[test]
    fn uses_and_paths_lead_to_files() {
        let a = "use crate::b::{self, c::C};\n\nfn f(x: super::d::D) { self::inside() }\nmod e { use super::super::d; }";
        let files = [
            ("lib.rs", "mod a; mod b; mod d;"),
            ("a.rs", a),
            ("b/mod.rs", "mod c;"),
            ("b/c.rs", "struct C;"),
            ("d.rs", "struct D;"),
        ];
        assert_eq!(
            imports(&files),
            ["a.rs:1 b/c.rs", "a.rs:1 b/mod.rs", "a.rs:3 d.rs"]
        );
    }

    #[test]
    fn a_face_imports_a_child_only_where_it_uses_it() {
        let declares = [("lib.rs", "mod a;\npub use a::A;"), ("a.rs", "struct A;")];
        assert!(imports(&declares).is_empty());
        let uses = [
            ("lib.rs", "mod a;\npub use a::A;\nfn f(a: A) {}"),
            ("a.rs", "struct A;"),
        ];
        assert_eq!(imports(&uses), ["lib.rs:2 a.rs"]);
        let calls = [
            ("lib.rs", "mod a;\nfn f() { a::g() }"),
            ("a.rs", "fn g() {}"),
        ];
        assert_eq!(imports(&calls), ["lib.rs:2 a.rs"]);
        let takes = [("lib.rs", "mod a;\nuse a::A;"), ("a.rs", "struct A;")];
        assert_eq!(imports(&takes), ["lib.rs:2 a.rs"]);
    }

    #[test]
    fn a_name_is_followed_through_faces_to_where_it_is_defined() {
        let files = [
            ("lib.rs", "mod a;\nmod b;"),
            (
                "a.rs",
                "use crate::b::C;\nuse crate::b::D as E;\nfn f() { E::g() }",
            ),
            (
                "b/mod.rs",
                "mod c;\nmod d;\npub(crate) use c::*;\npub(crate) use d::D;",
            ),
            ("b/c.rs", "pub(crate) struct C;"),
            ("b/d.rs", "pub(crate) struct D;"),
        ];
        let expected = ["a.rs:1 b/c.rs", "a.rs:2 b/d.rs", "a.rs:1 b/mod.rs"];
        assert_eq!(imports(&files), expected);
    }

    #[test]
    fn a_sibling_that_is_taken_from_the_face_is_found() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\nuse b::B;"),
            ("a.rs", "use super::B;"),
            ("b.rs", "struct B;"),
        ];
        assert_eq!(
            imports(&files),
            ["a.rs:1 b.rs", "a.rs:1 lib.rs", "lib.rs:3 b.rs"]
        );
    }

    #[test]
    fn tests_and_words_about_who_may_see_are_no_imports() {
        let files = [
            ("lib.rs", "mod a;\n#[cfg(test)]\nmod fake;\nmod tests;"),
            (
                "a.rs",
                "pub(in crate::b) fn f() {}\n#[cfg(test)]\nmod tests { use crate::b; }",
            ),
            ("b.rs", ""),
            ("fake.rs", "use crate::b;"),
            ("tests.rs", "use crate::b;"),
        ];
        assert!(imports(&files).is_empty());
    }

    #[test]
    fn a_name_of_the_file_is_not_looked_for_where_it_is_imported_from_it() {
        let files = [
            (
                "a/mod.rs",
                "mod b;\npub use b::*;\nstruct A;\nfn f() { A::g() }",
            ),
            ("a/b.rs", "use super::A;"),
        ];
        assert_eq!(imports(&files), ["a/b.rs:1 a/mod.rs"]);
    }

    #[test]
    fn names_of_other_crates_are_no_imports() {
        let files = [
            ("lib.rs", "mod a;\nmod io;"),
            (
                "a.rs",
                "use std::io;\nuse mio;\nfn f() { io::read(); mio::poll(); x.io(); std::io::b(); }",
            ),
            ("io.rs", ""),
        ];
        assert!(imports(&files).is_empty());
    }
}
