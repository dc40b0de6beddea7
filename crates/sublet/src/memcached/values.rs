//! Parsers for the values of options.

use std::path::PathBuf;

use super::parsed_options::UsageError;

/// Parses a whole number.
pub(super) fn number<N: std::str::FromStr>(
    option: &'static str,
    value: &str,
    wanted: &'static str,
) -> Result<N, UsageError> {
    value.trim().parse().map_err(|_| UsageError::NotANumber {
        option,
        value: value.to_owned(),
        wanted,
    })
}

pub(super) fn positive(
    option: &'static str,
    value: &str,
    of_what: &'static str,
) -> Result<usize, UsageError> {
    match value.trim().parse::<i64>() {
        Ok(n) if n > 0 => Ok(n as usize),
        _ => Err(UsageError::NotPositive {
            option,
            value: value.to_owned(),
            of_what,
        }),
    }
}

/// Parses a port. `-1` lets the kernel choose.
pub(super) fn port(option: &'static str, value: &str) -> Result<i32, UsageError> {
    let port: i32 = number(option, value, "a port")?;
    match port {
        -1..=65535 => Ok(port),
        _ => Err(UsageError::OutOfRange {
            option,
            value: value.to_owned(),
            wanted: "between 0 and 65535, or -1",
        }),
    }
}

/// Makes a path absolute, so that it means the same after `-d` left the folder.
pub(super) fn path(option: &'static str, value: &str) -> Result<PathBuf, UsageError> {
    std::path::absolute(value).map_err(|_| UsageError::NoPath { option })
}

pub(super) fn item_size(value: &str) -> Result<u64, UsageError> {
    let (digits, unit) = match value.trim().char_indices().last() {
        Some((at, 'k' | 'K')) => (&value.trim()[..at], 1 << 10),
        Some((at, 'm' | 'M')) => (&value.trim()[..at], 1 << 20),
        _ => (value, 1),
    };
    let size: u64 = number("-I", digits, "a size such as 2097152, 512k or 2m")?;
    Ok(size.saturating_mul(unit))
}
