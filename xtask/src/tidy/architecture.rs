//! Checks that ARCHITECTURE.md agrees with the code: crates, addresses of `unsafe`, functions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::complaint::Complaint;
use super::source::{Source, Token, TokenKind};
use super::{edges, unsafety};

/// The page.
pub(crate) const PAGE: &str = "ARCHITECTURE.md";

/// Compares the page with the tables of tidy and with the sources.
pub(crate) fn check(page: &str, sources: &[Source]) -> Vec<Complaint> {
    let mut complaints = crates(page);
    complaints.extend(addresses(page));
    complaints.extend(names(page, sources));
    complaints
}

/// The table of crates: `| name | purpose | may import |`.
fn crates(page: &str) -> Vec<Complaint> {
    let rows = section(page, "## Crates").filter_map(|(n, line)| Some((n, edge(line)?)));
    let rows: BTreeMap<String, (usize, BTreeSet<String>)> = rows
        .map(|(n, (name, imports))| (name, (n, imports)))
        .collect();
    let mut complaints = Vec::new();
    for (name, allowed) in edges::EDGES {
        let allowed: BTreeSet<String> = allowed.iter().map(|to| (*to).to_owned()).collect();
        match rows.get(name) {
            None => complaints.push(wrong(
                1,
                format!("the table of crates has no row of `{name}`"),
            )),
            Some((line, shown)) if *shown != allowed => {
                let what = format!("`{name}` may import {allowed:?}, and the table says {shown:?}");
                complaints.push(wrong(*line, what));
            }
            Some(_) => {}
        }
    }
    complaints
}

/// The crate of a row, and those that it may import.
fn edge(row: &str) -> Option<(String, BTreeSet<String>)> {
    let cells: Vec<&str> = row.strip_prefix('|')?.split('|').map(str::trim).collect();
    let name = cells.first()?.strip_prefix('`')?.strip_suffix('`')?;
    let imports = cells.get(2)?.replace("its tests:", ",");
    let imports = imports.split([',', ';']).map(str::trim);
    let imports = imports.filter(|to| !to.is_empty() && *to != "–");
    let is_crate = edges::EDGES.iter().any(|(known, _)| *known == name);
    is_crate.then(|| (name.to_owned(), imports.map(str::to_owned).collect()))
}

/// The list of places where `unsafe` may stand. Each item begins with the address.
fn addresses(page: &str) -> Vec<Complaint> {
    let lines = section(page, "## Where `unsafe` stands");
    let shown: BTreeMap<&str, usize> = lines
        .filter_map(|(n, line)| Some((address(line)?, n)))
        .collect();
    let missing = unsafety::ADDRESSES
        .iter()
        .filter(|address| !shown.contains_key(**address));
    let missing = missing.map(|address| {
        wrong(
            1,
            format!("`{address}` may have `unsafe`, and is not listed"),
        )
    });
    let unknown = shown
        .iter()
        .filter(|(address, _)| !unsafety::ADDRESSES.contains(address));
    let unknown =
        unknown.map(|(address, line)| wrong(*line, format!("`{address}` may have no `unsafe`")));
    missing.chain(unknown).collect()
}

fn address(line: &str) -> Option<&str> {
    let (address, _) = line.strip_prefix("- `")?.split_once('`')?;
    Some(address)
}

/// Types, functions and modules that the page names, but that the code does not have: `Type`, `Type::function`,
/// `module::function`.
fn names(page: &str, sources: &[Source]) -> Vec<Complaint> {
    let methods = methods(sources);
    let types: BTreeSet<&str> = methods.iter().map(|(owner, _)| owner.as_str()).collect();
    let types: BTreeSet<&str> = types.into_iter().chain(defined_types(sources)).collect();
    let is_there = |name: &str| match name.split_once("::") {
        Some((owner, function)) if owner.starts_with(char::is_uppercase) => {
            methods.contains(&(owner.to_owned(), function.to_owned()))
        }
        Some((module, rest)) => is_in_module(sources, module, rest),
        None => types.contains(name),
    };
    let mut complaints = Vec::new();
    for (n, line) in page.lines().enumerate() {
        let names = line
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(|name| is_name(name));
        let missing = names.filter(|name| !is_there(name));
        complaints.extend(missing.map(|name| wrong(n + 1, format!("there is no `{name}`"))));
    }
    complaints
}

/// Returns whether a piece of code is the name of a type, or a path of names.
fn is_name(code: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let is_type = code.starts_with(char::is_uppercase) && code.contains(char::is_lowercase);
    code.chars().all(is_word) && (is_type || code.contains("::"))
}

/// The names of all types.
fn defined_types(sources: &[Source]) -> Vec<&str> {
    let defines = |text: &str| matches!(text, "struct" | "enum" | "trait" | "type");
    let pairs = sources.iter().flat_map(|source| source.tokens.windows(2));
    let names = pairs.filter(|pair| defines(&pair[0].text) && pair[1].kind == TokenKind::Word);
    names.map(|pair| pair[1].text.as_str()).collect()
}

/// Returns whether the last module of a path has a function or module of the last name.
fn is_in_module(sources: &[Source], first: &str, rest: &str) -> bool {
    let (module, name) = rest.rsplit_once("::").unwrap_or((first, rest));
    let is_module = |source: &&Source| {
        let stem = source.path.file_stem().unwrap_or_default();
        let folder = source
            .path
            .parent()
            .and_then(Path::file_name)
            .unwrap_or_default();
        stem == module || (stem == "mod" && folder == module)
    };
    let files = sources.iter().filter(is_module);
    let mut pairs = files.flat_map(|source| source.tokens.windows(2));
    pairs.any(|pair| matches!(pair[0].text.as_str(), "fn" | "mod") && pair[1].text == name)
}

/// Each type or trait with each of its functions.
fn methods(sources: &[Source]) -> BTreeSet<(String, String)> {
    let mut methods = BTreeSet::new();
    for source in sources {
        let product = source.product();
        for n in 0..product.len() {
            if matches!(product[n].text.as_str(), "impl" | "trait")
                && product[n].kind == TokenKind::Word
            {
                collect(&product[n + 1..], &mut methods);
            }
        }
    }
    methods
}

/// Adds the functions of the next block, for every type that its head names.
fn collect(tokens: &[&Token], methods: &mut BTreeSet<(String, String)>) {
    let Some(open) = tokens
        .iter()
        .position(|token| matches!(token.text.as_str(), "{" | ";"))
    else {
        return;
    };
    let owners: Vec<&str> = tokens[..open]
        .iter()
        .filter(|token| token.kind == TokenKind::Word && token.text.starts_with(char::is_uppercase))
        .map(|token| token.text.as_str())
        .collect();
    let mut depth = 0usize;
    for pair in tokens[open..].windows(2) {
        match pair[0].text.as_str() {
            "{" => depth += 1,
            "}" => depth = depth.saturating_sub(1),
            "fn" if depth == 1 => {
                let function = &pair[1].text;
                methods.extend(
                    owners
                        .iter()
                        .map(|owner| ((*owner).to_owned(), function.clone())),
                );
            }
            _ => {}
        }
        if depth == 0 {
            return;
        }
    }
}

/// The numbered lines below a heading, up to the next heading of the same level.
fn section<'a>(page: &'a str, heading: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    let lines = page.lines().enumerate().map(|(n, line)| (n + 1, line));
    let below = lines.skip_while(move |(_, line)| *line != heading).skip(1);
    below.take_while(|(_, line)| !line.starts_with("## "))
}

fn wrong(line: usize, what: String) -> Complaint {
    Complaint::new(
        Path::new(PAGE),
        line,
        what,
        "let the page say what the code says",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> String {
        let rows = edges::EDGES
            .iter()
            .map(|(name, to)| format!("| `{name}` | purpose | {} |\n", to.join(", ")));
        let addresses = unsafety::ADDRESSES
            .iter()
            .map(|address| format!("- `{address}`: why\n"));
        let rows: String = rows.collect();
        let addresses: String = addresses.collect();
        format!("## Crates\n\n{rows}\n## Where `unsafe` stands\n\n{addresses}\n## End\n")
    }

    #[test]
    fn a_page_that_says_what_the_tables_say_is_fine() {
        assert_eq!(check(&page(), &[]), []);
    }

    #[test]
    fn a_row_that_allows_more_is_complained_of() {
        let page = page().replace(
            "| `sim` | purpose | types,",
            "| `sim` | purpose | host, types,",
        );
        assert_eq!(check(&page, &[]).len(), 1);
        assert_eq!(
            check(&page.replace("- `crates/client/src/ffi`: why\n", ""), &[]).len(),
            2
        );
    }

    #[test]
    fn a_function_that_is_not_there_is_complained_of() {
        let text = "impl<T> Draw for Table<T> { fn find() { fn inner() {} } }".to_owned();
        let source = Source::parse(Path::new("crates/store/src/a.rs"), text).expect("it is Rust");
        let sources = [source];
        let named = |name: &str| check(&format!("{}`{name}`\n", page()), &sources).len();
        assert_eq!((named("Table::find"), named("Draw::find")), (0, 0));
        assert_eq!((named("Table::inner"), named("Chair::find")), (1, 1));
        assert_eq!((named("Table"), named("Chair")), (0, 1));
        assert_eq!((named("a::find"), named("a::seek")), (0, 1));
        assert_eq!((named("README"), named("cargo xtask tidy")), (0, 0));
    }
}
