//! Why tidy cannot read a checkout.

use std::io;
use std::path::PathBuf;

/// Why the checkout could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    /// git does not list it.
    #[error("git does not list the files of this checkout")]
    NoList,
    /// A file that git lists does not exist.
    #[error("{0}: {1}")]
    File(PathBuf, io::Error),
    /// A Rust file does not parse.
    #[error("{0}: not Rust: {1}")]
    NotRust(PathBuf, proc_macro2::LexError),
    /// A Cargo.toml does not parse.
    #[error("{0}: {1}")]
    NotToml(PathBuf, Box<toml::de::Error>),
}
