//! `cargo xtask tidy`: checks that clippy cannot make. Each complaint names a place, what is wrong there, and what to
//! do instead.

mod architecture;
mod booleans;
mod complaint;
mod documents;
mod edges;
mod import_cycles;
mod lengths;
mod prose;
mod purity;
mod sentences;
mod sleeps;
mod source;
mod type_names;
mod unreadable;
mod unsafety;
mod words;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use complaint::Complaint;
use source::Source;
use unreadable::Unreadable;

/// Prints every import cycle in the checkout at `root`, including pairs and allowed cycles.
pub(crate) fn show_circles(root: &Path) -> ExitCode {
    match listed(root).and_then(|paths| rust(root, &paths)) {
        Ok(sources) => {
            let chains = import_cycles::chains(&sources);
            chains.iter().for_each(|chain| println!("{chain}\n"));
            println!("tidy: {} circles and pairs", chains.len());
            ExitCode::SUCCESS
        }
        Err(unreadable) => refuse(&unreadable),
    }
}

/// Checks the checkout at `root`.
pub(crate) fn run(root: &Path) -> ExitCode {
    match check(root) {
        Ok(complaints) => report(&complaints),
        Err(unreadable) => refuse(&unreadable),
    }
}

fn refuse(unreadable: &Unreadable) -> ExitCode {
    eprintln!("tidy: {unreadable}");
    ExitCode::FAILURE
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
    let (mut complaints, mut waits) = (Vec::new(), Vec::new());
    let paths = listed(root)?;
    for path in &paths {
        let Ok(text) = read(root, path)? else {
            continue;
        };
        complaints.extend(words::in_file_name(path));
        complaints.extend(words::leftovers(path, &text));
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("md") => {
                complaints.extend(documents::too_long(path, &text));
                complaints.extend(prose::in_page(path, &text));
            }
            Some("rs") => complaints.extend(prose::in_comments(path, &text)),
            Some("py") => waits.extend(sleeps::in_python(path, &text)),
            Some("toml") if path.ends_with("Cargo.toml") => {
                complaints.extend(edges::check(path, &text)?);
            }
            _ => {}
        }
    }
    let sources = rust(root, &paths)?;
    complaints.extend(sources.iter().flat_map(check_rust));
    if let Ok(page) = read(root, Path::new(architecture::PAGE))? {
        complaints.extend(architecture::check(&page, &sources));
    }
    complaints.extend(import_cycles::check(&sources));
    complaints.extend(type_names::twins(&sources));
    complaints.extend(type_names::idle_rows(&sources));
    waits.extend(sources.iter().flat_map(sleeps::in_rust));
    complaints.extend(sleeps::judge(&waits));
    complaints.extend(documents::missing(root));
    Ok(complaints)
}

/// The Rust files among `paths`.
fn rust(root: &Path, paths: &[PathBuf]) -> Result<Vec<Source>, Unreadable> {
    let mut sources = Vec::new();
    for path in paths
        .iter()
        .filter(|path| path.extension().is_some_and(|e| e == "rs"))
    {
        if let Ok(text) = read(root, path)? {
            sources.push(Source::parse(path, text)?);
        }
    }
    source::mark_test_modules(&mut sources);
    Ok(sources)
}

fn check_rust(source: &Source) -> Vec<Complaint> {
    [
        words::in_names(source),
        type_names::riddles(source),
        booleans::check(source),
        lengths::check(source),
        purity::check(source),
        unsafety::check(source),
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

/// The text of a file. The inner `Err` stands for a file that is no text.
fn read(
    root: &Path,
    path: &Path,
) -> Result<Result<String, std::string::FromUtf8Error>, Unreadable> {
    let bytes =
        fs::read(root.join(path)).map_err(|error| Unreadable::File(path.to_path_buf(), error))?;
    Ok(String::from_utf8(bytes))
}
