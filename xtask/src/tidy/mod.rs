//! `cargo xtask tidy`: what clippy cannot check. Each complaint names a place, what is wrong there, and what to
//! do instead.

mod documents;
mod edges;
mod lengths;
mod purity;
mod source;
mod unsafety;
mod words;

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use source::Source;

/// Something that breaks a rule of the house.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Complaint {
    path: PathBuf,
    line: usize,
    what: String,
    instead: String,
}

impl Complaint {
    fn new(path: &Path, line: usize, what: impl Into<String>, instead: impl Into<String>) -> Self {
        Complaint {
            path: path.to_path_buf(),
            line,
            what: what.into(),
            instead: instead.into(),
        }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Complaint {
            path,
            line,
            what,
            instead,
        } = self;
        write!(f, "{}:{line}: {what}; {instead}", path.display())
    }
}

/// Why the checkout could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    /// git does not list it.
    #[error("git does not list the files of this checkout")]
    NoList,
    /// A file that git lists is not there.
    #[error("{0}: {1}")]
    File(PathBuf, io::Error),
    /// A Rust file does not parse.
    #[error("{0}: not Rust: {1}")]
    NotRust(PathBuf, proc_macro2::LexError),
    /// A Cargo.toml does not parse.
    #[error("{0}: {1}")]
    NotToml(PathBuf, Box<toml::de::Error>),
}

/// Checks the checkout at `root`.
pub(crate) fn run(root: &Path) -> ExitCode {
    match check(root) {
        Ok(complaints) => report(&complaints),
        Err(unreadable) => {
            eprintln!("tidy: {unreadable}");
            ExitCode::FAILURE
        }
    }
}

fn report(complaints: &[Complaint]) -> ExitCode {
    complaints
        .iter()
        .for_each(|complaint| println!("{complaint}"));
    if complaints.is_empty() {
        println!("tidy: nothing to complain of");
        return ExitCode::SUCCESS;
    }
    println!("tidy: {} complaints", complaints.len());
    ExitCode::FAILURE
}

fn check(root: &Path) -> Result<Vec<Complaint>, Unreadable> {
    let mut complaints = Vec::new();
    for path in listed(root)? {
        let Ok(text) = read(root, &path)? else {
            continue;
        };
        complaints.extend(words::in_file_name(&path));
        complaints.extend(words::leftovers(&path, &text));
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("rs") => complaints.extend(check_rust(Source::parse(&path, text)?)),
            Some("md") => complaints.extend(documents::too_long(&path, &text)),
            Some("toml") if path.ends_with("Cargo.toml") => {
                complaints.extend(edges::check(&path, &text)?);
            }
            _ => {}
        }
    }
    complaints.extend(documents::missing(root));
    Ok(complaints)
}

fn check_rust(source: Source) -> Vec<Complaint> {
    [
        words::in_names(&source),
        lengths::check(&source),
        purity::check(&source),
        unsafety::check(&source),
    ]
    .concat()
}

/// The files that git knows or would add, in order, relative to `root`.
fn listed(root: &Path) -> Result<Vec<PathBuf>, Unreadable> {
    let listing = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
            "--deduplicate",
        ])
        .current_dir(root)
        .output()
        .ok()
        .filter(|listing| listing.status.success())
        .ok_or(Unreadable::NoList)?;
    let names = String::from_utf8_lossy(&listing.stdout).into_owned();
    let is_there = |path: &PathBuf| root.join(path).is_file();
    Ok(names
        .split_terminator('\0')
        .map(PathBuf::from)
        .filter(is_there)
        .collect())
}

/// The text of a file; `Err` inside for one that is no text.
fn read(
    root: &Path,
    path: &Path,
) -> Result<Result<String, std::string::FromUtf8Error>, Unreadable> {
    let bytes =
        fs::read(root.join(path)).map_err(|error| Unreadable::File(path.to_path_buf(), error))?;
    Ok(String::from_utf8(bytes))
}
