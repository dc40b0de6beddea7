//! How often something happens.

use std::str::FromStr;

use serde::{Deserialize, Deserializer};

use crate::rng::SimRng;
use crate::virtual_time::VirtualDuration;

/// The mean number of times per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate(f64);

impl Rate {
    /// The time until the next of events that are independent of one another (a Poisson process).
    pub fn gap(self, rng: &mut SimRng) -> VirtualDuration {
        VirtualDuration((rng.exponential() / self.0 * 1e9) as u64)
    }
}

/// A rate that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no rate; write a number above 0 with /s, /m or /h, as in 145/s")]
pub struct RateError(String);

/// More often than this per second is no rate of requests.
const MOST: f64 = 1e9;

/// Reads `145/s`, `30/m`, `0.5/h`.
impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Rate, RateError> {
        let wrong = || RateError(text.to_owned());
        let (number, unit) = text.split_once('/').ok_or_else(wrong)?;
        let number: f64 = number.trim().parse().map_err(|_| wrong())?;
        let secs = match unit.trim() {
            "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3_600.0,
            _ => return Err(wrong()),
        };
        let rate = number / secs;
        let is_sensible = rate > 0.0 && rate <= MOST;
        is_sensible.then_some(Rate(rate)).ok_or_else(wrong)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Rate, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_read_as_people_write_them() {
        for (text, a_sec) in [("145/s", 145.0), ("30 / m", 0.5), ("7200/h", 2.0)] {
            assert_eq!(text.parse(), Ok(Rate(a_sec)), "{text}");
        }
        for wrong in [
            "", "145", "0/s", "-1/s", "NaN/s", "inf/s", "3/d", "/s", "1/s/s",
        ] {
            assert!(wrong.parse::<Rate>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn gaps_have_the_mean_and_the_deviation_of_the_exponential_law() {
        let rate: Rate = "200/s".parse().expect("a rate");
        let mut rng = SimRng::seeded(4);
        let gaps: Vec<f64> = (0..100_000).map(|_| rate.gap(&mut rng).as_secs()).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let square = gaps.iter().map(|gap| gap * gap).sum::<f64>() / gaps.len() as f64;
        assert!((mean - 0.005).abs() < 0.0001, "{mean}");
        // The mean and the deviation are the same, so the mean square is twice the square of the mean.
        assert!((square / (mean * mean) - 2.0).abs() < 0.06, "{square}");
    }
}
