//! Bounds of a scenario's values. A value outside its bounds is refused, and the error names its line.

use serde::de::{Deserialize, Deserializer, Error};

/// The steepest Zipf's law that means anything. Beyond it one page gets all requests.
const EXPONENT_MAX: f64 = 10.0;

/// Reads a part of a whole, from 0 to 1.
pub(crate) fn share<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    up_to(1.0, from)
}

/// Reads the exponent of Zipf's law.
pub(crate) fn exponent<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    up_to(EXPONENT_MAX, from)
}

/// The largest factor on a program's memory.
const SCALE_MAX: f64 = 100.0;

/// Reads a factor on a program's memory.
pub(crate) fn scale<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    up_to(SCALE_MAX, from)
}

/// The widest spread of sizes that means anything. Beyond it sizes are all nothing or all too much.
const DEVIATION_MAX: f64 = 10.0;

/// Reads the deviation of a logarithm.
pub(crate) fn deviation<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    up_to(DEVIATION_MAX, from)
}

fn up_to<'de, D: Deserializer<'de>>(most: f64, from: D) -> Result<f64, D::Error> {
    let value = f64::deserialize(from)?;
    match (0.0..=most).contains(&value) {
        true => Ok(value),
        false => Err(D::Error::custom(format!(
            "must be 0 to {most}, not {value}"
        ))),
    }
}

/// Reads an optional amount that must not be zero.
pub(crate) fn some_or_none<'de, T, D>(from: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de> + Default + PartialEq,
    D: Deserializer<'de>,
{
    some(from).map(Some)
}

/// Reads an amount that must not be zero.
pub(crate) fn some<'de, T, D>(from: D) -> Result<T, D::Error>
where
    T: Deserialize<'de> + Default + PartialEq,
    D: Deserializer<'de>,
{
    let value = T::deserialize(from)?;
    match value == T::default() {
        false => Ok(value),
        true => Err(D::Error::custom("must be more than nothing")),
    }
}
