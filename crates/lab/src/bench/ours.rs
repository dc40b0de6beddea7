//! The `sublet` under test.

use std::env;
use std::io;
use std::path::PathBuf;

/// Which it is.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Ours {
    /// The sublet to measure; else the one beside this program.
    #[arg(long = "sublet", value_name = "PATH")]
    path: Option<PathBuf>,
}

/// There is none.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoSublet {
    /// Not where it is looked for.
    #[error(
        "there is no sublet at {}: build it (`cargo build --release -p sublet`), or say where it is by --sublet PATH",
        .0.display()
    )]
    Absent(PathBuf),
    /// Nobody knows where this program is.
    #[error("cannot look for sublet beside this program: {0}; say where it is by --sublet PATH")]
    Beside(#[from] io::Error),
}

impl Ours {
    /// Its path.
    pub(super) fn program(&self) -> Result<PathBuf, NoSublet> {
        let path = match &self.path {
            Some(path) => path.clone(),
            None => env::current_exe()?.with_file_name("sublet"),
        };
        match path.is_file() {
            true => Ok(path),
            false => Err(NoSublet::Absent(path)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_must_be_there() {
        let named = |path: &str| Ours {
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
