//! The `sublet` under test.

use std::env;
use std::io;
use std::path::PathBuf;

/// The option that names it.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct SubletOption {
    /// Measure this sublet; else the one beside this program.
    #[arg(long = "sublet", value_name = "PATH")]
    path: Option<PathBuf>,
}

/// The program was not found.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SubletNotFound {
    /// It is not where it is looked for.
    #[error(
        "there is no sublet at {}: build it (`cargo build --release -p sublet`), or name its path with --sublet PATH",
        .0.display()
    )]
    Absent(PathBuf),
    /// The path of this program is unknown.
    #[error("cannot look for sublet beside this program: {0}; name its path with --sublet PATH")]
    Beside(#[from] io::Error),
}

impl SubletOption {
    /// Its path.
    pub(super) fn program(&self) -> Result<PathBuf, SubletNotFound> {
        let path = match &self.path {
            Some(path) => path.clone(),
            None => env::current_exe()?.with_file_name("sublet"),
        };
        match path.is_file() {
            true => Ok(path),
            false => Err(SubletNotFound::Absent(path)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_must_be_there() {
        let named = |path: &str| SubletOption {
            path: Some(path.into()),
        };
        assert_eq!(named("/bin/sh").program().ok(), Some("/bin/sh".into()));
        let why = named("/none/sublet")
            .program()
            .expect_err("none")
            .to_string();
        assert!(
            why.contains("/none/sublet") && why.contains("--sublet"),
            "{why}"
        );
    }
}
