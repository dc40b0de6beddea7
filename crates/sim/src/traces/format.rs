//! The formats of traces, by the file's name or by the format's own.

use std::str::FromStr;

use super::compression::Compression;
use super::csv::CsvColumns;
use super::lis::LisUnit;

/// The format of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceFormat {
    /// The ARC paper's text: `start count ignore reqno`.
    Lis(LisUnit),
    /// Page numbers, 32 bits, little-endian.
    Raw32Le,
    /// cache2k's ids, 32 bits, big-endian.
    I32Be,
    /// VMware's vscsi, version 1.
    Vscsi,
    /// libCacheSim's oracleGeneral.
    OracleGeneral,
    /// Comma-separated values.
    Csv(CsvColumns),
}

/// No format has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} names no trace format: use lis, lis-page, raw32le, i32be, vscsi, oracle-general or csv"
)]
pub struct TraceFormatError(pub String);

impl FromStr for TraceFormat {
    type Err = TraceFormatError;

    fn from_str(name: &str) -> Result<TraceFormat, TraceFormatError> {
        Ok(match name {
            "lis" | "lis-sector" => TraceFormat::Lis(LisUnit::Sector),
            "lis-page" => TraceFormat::Lis(LisUnit::Page),
            "raw32le" => TraceFormat::Raw32Le,
            "i32be" => TraceFormat::I32Be,
            "vscsi" => TraceFormat::Vscsi,
            "oracle-general" => TraceFormat::OracleGeneral,
            "csv" => TraceFormat::Csv(CsvColumns::default()),
            _ => return Err(TraceFormatError(name.to_owned())),
        })
    }
}

impl TraceFormat {
    /// The format of a file of this name, as far as names tell. `OLTP.lis` counts in pages, other `.lis` files in
    /// sectors. `w*.trace` holds page numbers, other `.trace` files cache2k's ids. The ending of a compression is
    /// ignored.
    ///
    /// # Errors
    ///
    /// The ending belongs to no format.
    pub fn of_name(name: &str) -> Result<TraceFormat, TraceFormatError> {
        let plain = Compression::of_name(name).stem_of(name);
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
            "lis" if stem == "oltp" => Ok(TraceFormat::Lis(LisUnit::Page)),
            "lis" => Ok(TraceFormat::Lis(LisUnit::Sector)),
            "trace" if is_numbered(stem) => Ok(TraceFormat::Raw32Le),
            "trace" | "i32be" => Ok(TraceFormat::I32Be),
            "raw32le" => Ok(TraceFormat::Raw32Le),
            "vscsi" | "vscsitrace" => Ok(TraceFormat::Vscsi),
            "oraclegeneral" | "bin" => Ok(TraceFormat::OracleGeneral),
            "csv" => Ok(TraceFormat::Csv(CsvColumns::default())),
            _ => Err(TraceFormatError(name.to_owned())),
        }
    }
}
