//! The output of `-h`, `-i` and `-V`.

use std::fmt::Write;

use sublet_frontends::memcached::instance::VERSION;

use super::flags::FLAGS;
use super::parsed_options::PrintRequest;
use super::suboptions::SUBOPTIONS;

const COLUMN: usize = 28;

/// The text to print.
pub(super) fn text(shown: PrintRequest) -> String {
    match shown {
        PrintRequest::Help => help(),
        PrintRequest::License => format!(
            "{}\nsublet {}, Apache License 2.0\n",
            version(),
            env!("CARGO_PKG_VERSION")
        ),
        PrintRequest::Version => format!("{}\n", version()),
    }
}

/// The version text. The version that clients get comes first, because scripts look for it there.
fn version() -> String {
    format!("memcached {VERSION} (sublet {})", env!("CARGO_PKG_VERSION"))
}

fn help() -> String {
    let mut out = version() + "\n";
    for flag in FLAGS {
        let Some(help) = flag.help else { continue };
        let mut left = format!("-{}", flag.short);
        if let Some(long) = flag.long {
            let _ = write!(left, ", --{long}");
        }
        if let Some(value) = flag.value {
            let _ = write!(
                left,
                "{}<{value}>",
                if flag.long.is_some() { "=" } else { " " }
            );
        }
        row(&mut out, &left, help);
    }
    for option in SUBOPTIONS {
        if let Some(help) = option.help {
            row(&mut out, &format!("   - {}:", option.name), help);
        }
    }
    out.push_str("Other options of memcached are taken without effect; -v says which and why. That -e keeps\nnothing over a restart is always said.\n");
    out
}

fn row(out: &mut String, left: &str, help: &str) {
    for (n, line) in help.lines().enumerate() {
        let left = if n == 0 { left } else { "" };
        let _ = writeln!(out, "{left:<COLUMN$} {line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_what_scripts_look_for_and_nothing_that_is_not_there() {
        let help = help();
        for there in ["unix-socket", "enable-ssl", "sasl", "enable-shutdown"] {
            assert!(help.contains(there), "{there}");
        }
        for absent in ["ext_path", "proxy_config", "drop_privileges", "memory-file"] {
            assert!(!help.contains(absent), "{absent}");
        }
        assert!(help.lines().all(|line| line.len() <= 110));
    }
}
