//! Amounts of memory on a command line.

use sublet_types::{Bytes, ParseBytesError};

const MIN: Bytes = Bytes::mib(64);

/// Parses an amount of memory that is large enough to be timed.
pub(super) fn worth_timing(text: &str) -> Result<Bytes, String> {
    let amount: Bytes = text
        .parse()
        .map_err(|error: ParseBytesError| error.to_string())?;
    match amount < MIN {
        true => Err(format!("{text} is too little; give {MIN} or more")),
        false => Ok(amount),
    }
}
