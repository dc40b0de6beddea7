//! Amounts of memory, written the way people write them (`2GiB`, `64m`, `1500000`).

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub, SubAssign};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes in a block, the unit in which memory moves (ARCHITECTURE.md, "Words").
pub const BLOCK_BYTES: u64 = 2 << 20;

/// Bytes in a page, the unit of put, get and flush.
pub const PAGE_BYTES: u64 = 4096;

/// An amount of memory in pages of 4 KiB.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Pages(pub u64);

impl Pages {
    /// The number of whole pages in an amount.
    pub const fn of(bytes: Bytes) -> Pages {
        Pages(bytes.0 / PAGE_BYTES)
    }

    /// As bytes.
    pub const fn bytes(self) -> Bytes {
        Bytes(self.0.saturating_mul(PAGE_BYTES))
    }
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pages = if self.0 == 1 { "page" } else { "pages" };
        write!(f, "{} {pages} ({})", self.0, self.bytes())
    }
}

impl Sum for Pages {
    fn sum<I: Iterator<Item = Pages>>(amounts: I) -> Pages {
        Pages(amounts.map(|pages| pages.0).fold(0, u64::saturating_add))
    }
}

/// An amount of memory in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

impl Bytes {
    /// Nothing.
    pub const ZERO: Bytes = Bytes(0);

    /// `n` kibibytes.
    pub const fn kib(n: u64) -> Bytes {
        Bytes(n << 10)
    }

    /// `n` mebibytes.
    pub const fn mib(n: u64) -> Bytes {
        Bytes(n << 20)
    }

    /// `n` gibibytes.
    pub const fn gib(n: u64) -> Bytes {
        Bytes(n << 30)
    }

    /// `self - other`, or zero if `other` is larger.
    pub const fn saturating_sub(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(other.0))
    }

    /// The number of whole blocks in this amount.
    pub const fn blocks(self) -> u64 {
        self.0 / BLOCK_BYTES
    }

    /// Returns the amount unless it is less than a block. Memory moves in blocks, so a smaller amount is nothing.
    pub const fn of_a_block_or_more(self) -> Result<Bytes, BelowBlock> {
        match self.blocks() {
            0 => Err(BelowBlock(self)),
            _ => Ok(self),
        }
    }
}

/// An amount of less than a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub struct BelowBlock(pub Bytes);

/// Numbers below this are taken for gibibytes whose unit was forgotten.
const FORGOTTEN_GIB_END: u64 = 4097;

/// Numbers from there to below this are taken for mebibytes. Larger numbers had a unit, but too small a one.
const FORGOTTEN_MIB_END: u64 = 1 << 16;

/// Suggests what was probably meant: `10 B is less than a block, 2.00 MiB; did you mean 10GiB?`
impl fmt::Display for BelowBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.0.0;
        write!(f, "{} is less than a block, {}", self.0, Bytes(BLOCK_BYTES))?;
        match number {
            0 => Ok(()),
            1..FORGOTTEN_GIB_END => write!(f, "; did you mean {number}GiB?"),
            FORGOTTEN_GIB_END..FORGOTTEN_MIB_END => write!(f, "; did you mean {number}MiB?"),
            _ => Ok(()), // its unit was said
        }
    }
}

impl Add for Bytes {
    type Output = Bytes;
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Bytes) {
        *self = *self + other;
    }
}

impl Sub for Bytes {
    type Output = Bytes;
    fn sub(self, other: Bytes) -> Bytes {
        self.saturating_sub(other)
    }
}

impl SubAssign for Bytes {
    fn sub_assign(&mut self, other: Bytes) {
        *self = *self - other;
    }
}

impl Mul<u64> for Bytes {
    type Output = Bytes;
    fn mul(self, by: u64) -> Bytes {
        Bytes(self.0.saturating_mul(by))
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Bytes>>(amounts: I) -> Bytes {
        amounts.fold(Bytes::ZERO, Add::add)
    }
}

/// Prints the largest binary unit that keeps three digits: `1.50 GiB`, `64.0 MiB`, `512 B`.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
        if self.0 < 1 << 10 {
            return f.pad(&format!("{} B", self.0));
        }
        let mut amount = self.0 as f64 / 1024.0;
        let mut unit = 0;
        while amount >= 999.95 && unit + 1 < UNITS.len() {
            amount /= 1024.0;
            unit += 1;
        }
        let digits = match amount {
            a if a < 9.995 => 2,
            a if a < 99.95 => 1,
            _ => 0,
        };
        f.pad(&format!("{amount:.digits$} {}", UNITS[unit]))
    }
}

/// Why a written amount was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseBytesError {
    /// The text has no digits.
    #[error("no number; write an amount such as 512MiB or 2GiB")]
    NoNumber,
    /// The text has an unknown unit.
    #[error("unknown unit {0:?}; use B, KiB, MiB, GiB or TiB")]
    UnknownUnit(String),
    /// The amount exceeds 2^64 bytes.
    #[error("too large an amount")]
    TooLarge,
}

/// Reads `2GiB`, `2 GiB`, `2g`, `1.5G`, `64m`, `4096`. Units are binary throughout, as memory's are.
impl FromStr for Bytes {
    type Err = ParseBytesError;

    fn from_str(text: &str) -> Result<Bytes, ParseBytesError> {
        let text = text.trim();
        let digits = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let number: f64 = text[..digits]
            .parse()
            .map_err(|_| ParseBytesError::NoNumber)?;
        let unit = text[digits..].trim().to_ascii_lowercase();
        let shift = match unit.as_str() {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            "t" | "tb" | "tib" => 40,
            _ => return Err(ParseBytesError::UnknownUnit(text[digits..].trim().into())),
        };
        let bytes = number * (1u64 << shift) as f64;
        if bytes >= u64::MAX as f64 {
            return Err(ParseBytesError::TooLarge);
        }
        Ok(Bytes(bytes as u64))
    }
}

/// Serialised as a plain number of bytes.
impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

/// Read from a number of bytes or from a written amount.
impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum BytesRepr {
            Number(u64),
            Text(String),
        }
        match BytesRepr::deserialize(deserializer)? {
            BytesRepr::Number(bytes) => Ok(Bytes(bytes)),
            BytesRepr::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forgotten_unit_is_guessed() {
        let said = |bytes| Bytes(bytes).of_a_block_or_more().map_err(|e| e.to_string());
        let gib = "10 B is less than a block, 2.00 MiB; did you mean 10GiB?";
        let mib = "15.6 KiB is less than a block, 2.00 MiB; did you mean 16000MiB?";
        assert_eq!(said(10), Err(gib.into()));
        assert_eq!(said(16_000), Err(mib.into()));
        let meant = "1.00 MiB is less than a block, 2.00 MiB";
        assert_eq!(said(1 << 20), Err(meant.into()), "its unit was there");
        assert_eq!(said(0), Err("0 B is less than a block, 2.00 MiB".into()));
        assert_eq!(said(BLOCK_BYTES), Ok(Bytes(BLOCK_BYTES)));
    }

    #[test]
    fn amounts_read_as_people_write_them() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("2GiB", 2 << 30),
            ("2 GiB", 2 << 30),
            ("64m", 64 << 20),
            ("1.5G", 3 << 29),
            ("10 kb", 10 << 10),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
    }

    #[test]
    fn wrong_amounts_say_what_is_wrong() {
        assert_eq!("".parse::<Bytes>(), Err(ParseBytesError::NoNumber));
        assert_eq!("-1".parse::<Bytes>(), Err(ParseBytesError::NoNumber));
        assert_eq!(
            "3 furlongs".parse::<Bytes>(),
            Err(ParseBytesError::UnknownUnit("furlongs".into()))
        );
        assert_eq!(
            "99999999999T".parse::<Bytes>(),
            Err(ParseBytesError::TooLarge)
        );
    }

    #[test]
    fn amounts_print_with_three_digits() {
        for (bytes, text) in [
            (512, "512 B"),
            (1024, "1.00 KiB"),
            (64 << 20, "64.0 MiB"),
            (1000 << 20, "0.98 GiB"),
            (3 << 29, "1.50 GiB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }
}
