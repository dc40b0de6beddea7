//! Points in time, as people write and read them.

use std::str::FromStr;

use jiff::tz::TimeZone;
use jiff::{ZonedDateTime, civil};

/// A point in time, in the local time of the reader.
pub(crate) fn format_time(unix: u64) -> String {
    let at = jiff::Timestamp::from_second(unix as i64).unwrap_or_default();
    at.to_zoned_datetime(TimeZone::system())
        .strftime("%Y-%m-%d %H:%M:%S")
        .to_string()
}

/// The present time in Unix seconds.
pub(crate) fn now() -> u64 {
    jiff::Timestamp::now().as_second() as u64
}

/// A point in time, in Unix seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timestamp(u64);

impl Timestamp {
    /// The Unix seconds.
    pub(crate) fn unix(self) -> u64 {
        self.0
    }
}

/// Why a time was refused.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is no time: write 14:03, 14:03:30, 2026-11-22T14:03, or -10m for ten minutes ago")]
pub(crate) struct TimestampError(String);

impl FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Timestamp, TimestampError> {
        let moment = match text.strip_prefix('-') {
            Some(ago) => before_now(ago),
            None => parse_clock_time(text),
        };
        moment
            .map(Timestamp)
            .ok_or_else(|| TimestampError(text.to_owned()))
    }
}

/// A point in time, or how long ago it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SinceTimestamp(u64);

impl SinceTimestamp {
    /// The Unix seconds.
    pub(crate) fn unix(self) -> u64 {
        self.0
    }
}

/// Why such a time was refused.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is no time: write 1h or 30m for how long ago, or 14:03, 14:03:30, 2026-11-22T14:03")]
pub(crate) struct SinceTimestampError(String);

impl FromStr for SinceTimestamp {
    type Err = SinceTimestampError;

    fn from_str(text: &str) -> Result<SinceTimestamp, SinceTimestampError> {
        let ago = text.strip_prefix('-').unwrap_or(text);
        let moment = before_now(ago).or_else(|| parse_clock_time(text));
        moment
            .map(SinceTimestamp)
            .ok_or_else(|| SinceTimestampError(text.to_owned()))
    }
}

fn before_now(ago: &str) -> Option<u64> {
    let span: jiff::Span = ago.parse().ok()?;
    let then = ZonedDateTime::now().checked_sub(span).ok()?;
    u64::try_from(then.timestamp().as_second()).ok()
}

/// A time of day means the last such time, by the local clock. A time without seconds means the end of its minute.
fn parse_clock_time(text: &str) -> Option<u64> {
    if !text.contains(':') {
        return None; // an hour alone, or a day, is no moment
    }
    let now = ZonedDateTime::now().datetime();
    let when = match text.parse::<civil::DateTime>() {
        Ok(when) => when,
        Err(_) => {
            let time: civil::Time = text.parse().ok()?;
            match time <= now.time() {
                true => now.date().to_datetime(time),
                false => now.date().yesterday().ok()?.to_datetime(time),
            }
        }
    };
    let to_the_minute = text.matches(':').count() < 2;
    let rest = if to_the_minute { 59 } else { 0 };
    let zoned = when.to_zoned_datetime(TimeZone::system()).ok()?;
    u64::try_from(zoned.timestamp().as_second() + rest).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_read_as_people_write_them() {
        let ago = "-10m".parse::<Timestamp>().expect("ten minutes ago").0;
        assert!(now().abs_diff(ago + 600) <= 1);
        let minute = "2026-11-22T14:03".parse::<Timestamp>().expect("a minute").0;
        let second = "2026-11-22T14:03:30"
            .parse::<Timestamp>()
            .expect("a second")
            .0;
        assert_eq!(minute, second + 29);
        let day_before = "2026-11-21T14:03".parse::<Timestamp>().expect("a minute").0;
        assert!((minute - day_before).abs_diff(24 * 3600) <= 3600);
        let minute_of_day = "14:03".parse::<Timestamp>().expect("the last one").0;
        let soonest = now().saturating_sub(25 * 3600);
        assert!((soonest..now() + 60).contains(&minute_of_day));
        for wrong in ["", "soon", "25:00", "-soon", "14"] {
            assert!(wrong.parse::<Timestamp>().is_err(), "{wrong}");
            assert!(wrong.parse::<SinceTimestamp>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn since_is_how_long_ago_or_a_moment() {
        for text in ["1h", "-1h", "60m"] {
            let hour = text.parse::<SinceTimestamp>().expect("an hour ago").0;
            assert!(now().abs_diff(hour + 3600) <= 1, "{text}");
        }
        let minute = "2026-11-22T14:03"
            .parse::<SinceTimestamp>()
            .expect("a minute")
            .0;
        assert_eq!(
            minute,
            "2026-11-22T14:03".parse::<Timestamp>().expect("one").0
        );
    }
}
