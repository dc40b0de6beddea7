//! Values of a scenario within their bounds: what lies outside is refused with its line.

use serde::de::{Deserialize, Deserializer, Error};

/// The steepest Zipf's law that means anything: beyond it one page is all.
const EXPONENT_MAX: f64 = 10.0;

/// A part of a whole.
pub(crate) fn share<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    up_to(1.0, from)
}

/// The exponent of Zipf's law.
pub(crate) fn exponent<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    up_to(EXPONENT_MAX, from)
}

/// The most that a program's memory is scaled up.
const SCALE_MAX: f64 = 100.0;

/// A factor on a program's memory.
pub(crate) fn scale<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    up_to(SCALE_MAX, from)
}

/// The widest spread of sizes that means anything: beyond it they are all nothing or all too much.
const DEVIATION_MAX: f64 = 10.0;

/// The deviation of a logarithm.
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

/// An amount that is not nothing, where one is given.
pub(crate) fn some_or_none<'de, T, D>(from: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de> + Default + PartialEq,
    D: Deserializer<'de>,
{
    some(from).map(Some)
}

/// An amount that is not nothing.
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
