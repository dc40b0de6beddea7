//! Amounts of memory as a command line says them.

use sublet_types::{Bytes, ParseBytesError};

const MIN: Bytes = Bytes::mib(64);

/// An amount of memory in which there is something to time.
pub(super) fn worth_timing(text: &str) -> Result<Bytes, String> {
    let amount: Bytes = text
        .parse()
        .map_err(|error: ParseBytesError| error.to_string())?;
    match amount < MIN {
        true => Err(format!("{text} is too little; give {MIN} or more")),
        false => Ok(amount),
    }
}
