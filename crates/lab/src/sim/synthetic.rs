//! Synthetic traces in place of a file: `made:NAME`, or `made:NAME:FOLDER` with the folder of the popularities that
//! they need.

use std::fs;
use std::io::{self, Cursor, Read};
use std::path::Path;

use sublet_sim::traces::synthetic::SyntheticTrace;

/// The format of their bytes.
pub(super) const FORMAT: &str = "raw32le";

const PREFIX: &str = "made:";

/// Returns whether a file's name is that of a synthetic trace.
pub(super) fn is_synthetic(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// The bytes of a synthetic trace.
pub(super) fn bytes(name: &str) -> io::Result<Box<dyn Read>> {
    let name = name.strip_prefix(PREFIX).unwrap_or(name);
    let (name, folder) = name.split_once(':').unwrap_or((name, ""));
    let trace: SyntheticTrace = name
        .parse()
        .map_err(|error| io::Error::new(io::ErrorKind::NotFound, error))?;
    let ids = trace.ids(1, |file| fs::read(Path::new(folder).join(file)))?;
    let bytes: Vec<u8> = ids.flat_map(|id| (id as u32).to_le_bytes()).collect();
    Ok(Box::new(Cursor::new(bytes)))
}
