//! Finds files of one crate that import one another. Pairs may, and so may the cycles in a list that only shrinks.

mod allowed;
mod graph;
mod names;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::complaint::Complaint;
use super::source::Source;
use allowed::ALLOWED;
use graph::{Graph, strongly_connected, walk};
use tree::{Imports, ModuleTree};

/// Files each of which leads to each by imports.
struct ImportCycle {
    files: BTreeSet<PathBuf>,
    /// A walk along the imports, through all of the files and back.
    chain: String,
}

/// Two files may import one another.
const FILES_MAX: usize = 2;

/// Compares the cycles among `sources` with the list of allowed ones.
pub(crate) fn check(sources: &[Source]) -> Vec<Complaint> {
    let mut circles = find_cycles(sources);
    circles.retain(|circle| circle.files.len() > FILES_MAX);
    compare(&circles, ALLOWED)
}

/// Each pair and each larger cycle among `sources`, listed or not, as a chain of imports.
pub(crate) fn chains(sources: &[Source]) -> Vec<String> {
    let circles = find_cycles(sources).into_iter();
    circles
        .map(|circle| format!("{} files:{}", circle.files.len(), circle.chain))
        .collect()
}

fn find_cycles(sources: &[Source]) -> Vec<ImportCycle> {
    let mut crates: BTreeMap<PathBuf, Vec<(&Source, names::NamePath)>> = BTreeMap::new();
    for source in sources {
        if let Some((folder, module)) = tree::place(&source.path) {
            crates.entry(folder).or_default().push((source, module));
        }
    }
    let crates = crates.into_values();
    crates
        .flat_map(|sources| cycles_in(&ModuleTree::new(sources).imports()))
        .collect()
}

fn cycles_in(imports: &Imports) -> Vec<ImportCycle> {
    let mut graph = Graph::new();
    for (from, tos) in imports {
        graph.insert(from, tos.keys().collect());
    }
    let circle = |knot: &BTreeSet<&PathBuf>| ImportCycle {
        files: knot.iter().map(|&file| file.clone()).collect(),
        chain: chain(imports, &walk(&graph, knot)),
    };
    strongly_connected(&graph).iter().map(circle).collect()
}

fn chain(imports: &Imports, walk: &[&PathBuf]) -> String {
    let row = |step: &[&PathBuf]| {
        let import = &imports[step[0]][step[1]];
        let [from, to] = [step[0], step[1]].map(|file| file.display());
        format!(
            "\n    {from}:{} takes `{}` from {to}",
            import.line, import.path
        )
    };
    walk.windows(2).map(row).collect()
}

fn compare(circles: &[ImportCycle], allowed: &[&[&str]]) -> Vec<Complaint> {
    let listed = allowed
        .iter()
        .map(|files| files.iter().map(PathBuf::from).collect::<BTreeSet<_>>());
    let listed: Vec<BTreeSet<PathBuf>> = listed.collect();
    let is_listed = |circle: &&ImportCycle| listed.contains(&circle.files);
    let is_part = |circle: &&ImportCycle| listed.iter().any(|files| circle.files.is_subset(files));
    let unlisted = circles.iter().filter(|circle| !is_part(circle));
    let gone = listed
        .iter()
        .filter(|files| !circles.iter().any(|c| c.files == **files));
    let shrunk = circles
        .iter()
        .filter(|circle| is_part(circle) && !is_listed(circle));
    unlisted
        .map(new)
        .chain(gone.map(|files| outdated(files, shrunk.clone())))
        .collect()
}

fn new(circle: &ImportCycle) -> Complaint {
    let first = circle.files.first().map_or(Path::new(""), PathBuf::as_path);
    let what = format!(
        "a circle of {} files, of which each leads to each:{}\n   ",
        circle.files.len(),
        circle.chain
    );
    let instead = "move what two of them share to a file that imports neither, or name it from the file that defines it";
    Complaint::new(first, 1, what, instead)
}

/// Complaints about listed cycles that are gone or smaller.
fn outdated<'a>(
    files: &BTreeSet<PathBuf>,
    shrunk: impl Iterator<Item = &'a ImportCycle>,
) -> Complaint {
    let first = files.first().map_or(Path::new(""), PathBuf::as_path);
    let rest = shrunk.filter(|circle| circle.files.is_subset(files));
    let rest: String = rest.map(|circle| listing(&circle.files)).collect();
    let instead = match rest.is_empty() {
        true => format!("strike it from {}", allowed::PATH),
        false => format!("put this in its place in {}:\n{rest}", allowed::PATH),
    };
    let what = format!(
        "the circle of {} files that is listed does not stand any more",
        files.len()
    );
    Complaint::new(first, 1, what, instead)
}

/// A cycle as it stands in the list.
fn listing(files: &BTreeSet<PathBuf>) -> String {
    let rows = files
        .iter()
        .map(|file| format!("        \"{}\",\n", file.display()));
    format!("    &[\n{}    ],\n", rows.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(files: &[(&str, &str)]) -> Vec<Source> {
        let parse = |(name, text): &(&str, &str)| {
            Source::parse(Path::new(name), (*text).to_owned()).expect("it is Rust")
        };
        files.iter().map(parse).collect()
    }

    const CIRCLE: [(&str, &str); 4] = [
        ("crates/a/src/lib.rs", "mod b;\nmod c;\nmod d;"),
        ("crates/a/src/b.rs", "\nuse crate::c;"),
        ("crates/a/src/c.rs", "fn f() {\n  super::d::g();\n}"),
        ("crates/a/src/d.rs", "use super::b::B;"),
    ];

    const FILES: [&str; 3] = [
        "crates/a/src/b.rs",
        "crates/a/src/c.rs",
        "crates/a/src/d.rs",
    ];

    fn complaints(allowed: &[&[&str]]) -> Vec<String> {
        let complaints = compare(&find_cycles(&sources(&CIRCLE)), allowed);
        complaints.iter().map(Complaint::to_string).collect()
    }

    #[test]
    fn a_circle_is_told_as_a_chain_of_imports() {
        let complaints = complaints(&[]);
        assert_eq!(complaints.len(), 1);
        let chain = "\n    crates/a/src/b.rs:2 takes `crate::c` from crates/a/src/c.rs\
                     \n    crates/a/src/c.rs:2 takes `super::d::g` from crates/a/src/d.rs\
                     \n    crates/a/src/d.rs:1 takes `super::b::B` from crates/a/src/b.rs";
        assert!(complaints[0].contains(chain), "{}", complaints[0]);
    }

    #[test]
    fn a_circle_that_is_listed_may_stand() {
        assert!(complaints(&[&FILES]).is_empty());
    }

    #[test]
    fn a_circle_that_became_smaller_or_vanished_must_leave_the_list() {
        let larger = [&FILES[..], &["crates/a/src/e.rs"]].concat();
        let smaller = complaints(&[&larger]);
        assert_eq!(smaller.len(), 1);
        assert!(
            smaller[0].contains("put this in its place"),
            "{}",
            smaller[0]
        );
        assert!(
            smaller[0].contains("        \"crates/a/src/d.rs\",\n    ],"),
            "{}",
            smaller[0]
        );
        let vanished = complaints(&[
            &FILES,
            &[
                "crates/b/src/x.rs",
                "crates/b/src/y.rs",
                "crates/b/src/z.rs",
            ],
        ]);
        assert_eq!(vanished.len(), 1);
        assert!(vanished[0].contains("strike it"), "{}", vanished[0]);
    }

    #[test]
    fn a_circle_that_grew_is_a_new_one() {
        let grown = complaints(&[&FILES[..2]]);
        assert_eq!(grown.len(), 2);
        assert!(grown[0].contains("a circle of 3 files"), "{}", grown[0]);
    }

    #[test]
    fn crates_are_apart_and_each_circle_is_a_chain() {
        let other = CIRCLE.map(|(path, text)| (path.replace("/a/", "/b/"), text));
        let other: Vec<_> = other
            .iter()
            .map(|(path, text)| (path.as_str(), *text))
            .collect();
        let all = sources(&[&CIRCLE[..], &other].concat());
        assert_eq!(chains(&all).len(), 2);
    }
}
