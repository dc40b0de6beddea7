//! How long borrowers may take to give back what they have of this host.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// How long borrowers may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoticePeriod(Duration);

/// A text that is no such time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write a time such as 0s, 30s, 5m or 1h, an hour at most")]
pub(crate) struct NoticePeriodError;

impl NoticePeriod {
    /// In milliseconds, as the daemon takes it.
    pub(crate) fn millis(self) -> u64 {
        self.0.as_millis() as u64
    }
}

impl FromStr for NoticePeriod {
    type Err = NoticePeriodError;

    fn from_str(text: &str) -> Result<NoticePeriod, NoticePeriodError> {
        let units = [('h', 3600), ('m', 60), ('s', 1)];
        let in_unit = |(unit, secs)| Some((text.strip_suffix(unit)?, secs));
        let (digits, unit) = units.into_iter().find_map(in_unit).unwrap_or((text, 1));
        let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
        let number: u64 = digits.parse().map_err(|_| NoticePeriodError)?;
        match number.saturating_mul(unit) {
            secs @ 0..=3600 if is_number => Ok(NoticePeriod(Duration::from_secs(secs))),
            _ => Err(NoticePeriodError),
        }
    }
}

impl fmt::Display for NoticePeriod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}s", self.0.as_secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_reads_as_people_write_it() {
        for (text, secs) in [
            ("0s", 0),
            ("30", 30),
            ("90s", 90),
            ("60m", 3600),
            ("1h", 3600),
        ] {
            let notice = Ok(NoticePeriod(Duration::from_secs(secs)));
            assert_eq!(text.parse(), notice, "{text}");
        }
        for wrong in [
            "",
            "s",
            "-1s",
            "+1",
            "61m",
            "3601",
            "2h",
            "99999999999999999999m",
        ] {
            assert_eq!(
                wrong.parse::<NoticePeriod>(),
                Err(NoticePeriodError),
                "{wrong}"
            );
        }
    }
}
