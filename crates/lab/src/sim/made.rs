//! Made traces where a file is asked for: `made:NAME`, or `made:NAME:FOLDER` with the folder of the popularities that they
//! are made of.

use std::fs;
use std::io::{self, Cursor, Read};
use std::path::Path;

use sublet_sim::traces::made::Made;

/// The format that their bytes are in.
pub(super) const FORMAT: &str = "raw32le";

const PREFIX: &str = "made:";

/// Whether a file's name is that of a made trace.
pub(super) fn is_made(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// The bytes of a made trace.
pub(super) fn bytes(name: &str) -> io::Result<Box<dyn Read>> {
    let name = name.strip_prefix(PREFIX).unwrap_or(name);
    let (name, folder) = name.split_once(':').unwrap_or((name, ""));
    let made: Made = name
        .parse()
        .map_err(|error| io::Error::new(io::ErrorKind::NotFound, error))?;
    let ids = made.ids(1, |file| fs::read(Path::new(folder).join(file)))?;
    let bytes: Vec<u8> = ids.flat_map(|id| (id as u32).to_le_bytes()).collect();
    Ok(Box::new(Cursor::new(bytes)))
}
