//! What the bytes of a trace are, by the file's name or by the format's.

use std::str::FromStr;

use super::csv::Columns;
use super::lis::Unit;
use super::unpack::Packing;

/// What the bytes of a trace are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// The ARC paper's text: `start count ignore reqno`.
    Lis(Unit),
    /// Page numbers, 32 bits, little-endian.
    Raw32Le,
    /// cache2k's ids, 32 bits, big-endian.
    I32Be,
    /// VMware's vscsi, version 1.
    Vscsi,
    /// libCacheSim's oracleGeneral.
    OracleGeneral,
    /// Comma-separated values.
    Csv(Columns),
}

/// A name that no format has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} names no trace format: use lis, lis-page, raw32le, i32be, vscsi, oracle-general or csv"
)]
pub struct FormatError(pub String);

impl FromStr for Format {
    type Err = FormatError;

    fn from_str(name: &str) -> Result<Format, FormatError> {
        Ok(match name {
            "lis" | "lis-sector" => Format::Lis(Unit::Sector),
            "lis-page" => Format::Lis(Unit::Page),
            "raw32le" => Format::Raw32Le,
            "i32be" => Format::I32Be,
            "vscsi" => Format::Vscsi,
            "oracle-general" => Format::OracleGeneral,
            "csv" => Format::Csv(Columns::default()),
            _ => return Err(FormatError(name.to_owned())),
        })
    }
}

impl Format {
    /// What a file of this name holds, as far as names tell: `OLTP.lis` counts in pages, other `.lis` in
    /// sectors; `w*.trace` are page numbers, other `.trace` cache2k's ids. Packing is looked through.
    ///
    /// # Errors
    ///
    /// An ending that is no format's.
    pub fn of_name(name: &str) -> Result<Format, FormatError> {
        let plain = Packing::of_name(name).stem_of(name);
        let file = plain
            .rsplit('/')
            .next()
            .unwrap_or(plain)
            .to_ascii_lowercase();
        let (stem, ending) = file.rsplit_once('.').unwrap_or((&file, ""));
        let is_numbered = |stem: &str| {
            let number = stem.strip_prefix('w').unwrap_or("");
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        };
        match ending {
            "lis" if stem == "oltp" => Ok(Format::Lis(Unit::Page)),
            "lis" => Ok(Format::Lis(Unit::Sector)),
            "trace" if is_numbered(stem) => Ok(Format::Raw32Le),
            "trace" | "i32be" => Ok(Format::I32Be),
            "raw32le" => Ok(Format::Raw32Le),
            "vscsi" | "vscsitrace" => Ok(Format::Vscsi),
            "oraclegeneral" | "bin" => Ok(Format::OracleGeneral),
            "csv" => Ok(Format::Csv(Columns::default())),
            _ => Err(FormatError(name.to_owned())),
        }
    }
}
