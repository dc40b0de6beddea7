//! Transcendent memory's three-part key: a tenant's pool, an object in the pool, a page in the object.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A pool during its lifetime. Slots are used again; generations are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId {
    /// Its slot in the store's table.
    pub slot: u32,
    /// Counts the pools that had this slot.
    pub generation: u32,
}

/// A file, or an extent of a device, in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub u64);

/// A page in an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageIndex(pub u32);

/// What a pool promises. The flags are fixed when the pool is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PoolFlags {
    /// Its pages come back until they are flushed. Otherwise they may vanish at any time.
    pub persistent: bool,
    /// Several tenants use the pool under its shared name.
    pub shared: bool,
    /// A get leaves the page in the pool.
    pub keeping: bool,
}

/// What a get does to the page that it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GetMode {
    /// A get takes the page out of the pool.
    Exclusive,
    /// A get leaves the page in the pool.
    Keeping,
}

impl From<bool> for GetMode {
    fn from(is_keeping: bool) -> GetMode {
        match is_keeping {
            true => GetMode::Keeping,
            false => GetMode::Exclusive,
        }
    }
}

/// The name by which tenants share a pool: 128 bits, written as a UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SharedName(pub u128);

/// Why a shared pool's name was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no UUID: write 32 hexadecimal digits, as in 6f1c2f0e-9d3b-4f7a-8c55-0123456789ab"
)]
pub struct SharedNameError(pub String);

impl FromStr for SharedName {
    type Err = SharedNameError;

    fn from_str(text: &str) -> Result<SharedName, SharedNameError> {
        let wrong = || SharedNameError(text.to_owned());
        let digits: String = text.chars().filter(|c| *c != '-').collect();
        let hexadecimal = digits.len() == 32 && digits.chars().all(|c| c.is_ascii_hexdigit());
        match hexadecimal {
            true => u128::from_str_radix(&digits, 16)
                .map(SharedName)
                .map_err(|_| wrong()),
            false => Err(wrong()),
        }
    }
}

impl fmt::Display for SharedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:032x}", self.0);
        let parts = [
            &digits[..8],
            &digits[8..12],
            &digits[12..16],
            &digits[16..20],
            &digits[20..],
        ];
        f.pad(&parts.join("-"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_shared_pools_read_as_they_print() {
        let name = SharedName(0x6f1c_2f0e_9d3b_4f7a_8c55_0123_4567_89ab);
        let text = name.to_string();
        assert_eq!(text, "6f1c2f0e-9d3b-4f7a-8c55-0123456789ab");
        assert_eq!(text.parse(), Ok(name));
        assert_eq!(text.replace('-', "").parse(), Ok(name));
        for wrong in [
            "",
            "6f1c",
            "6f1c2f0e-9d3b-4f7a-8c55-0123456789ag",
            "+f1c2f0e9d3b4f7a8c550123456789ab",
        ] {
            assert_eq!(
                wrong.parse::<SharedName>(),
                Err(SharedNameError(wrong.to_owned()))
            );
        }
    }
}
