//! memcached's numbers and times.
//!
//! The module parses most words of a request strictly: digits, and a sign where one may stand. It parses a value that
//! is counted, and the flags and the time of a store, as C's `strtol` family does.

use sublet_types::{Expiry, Nanos, Second};

use crate::tenancy::Clock;

/// The longest relative time to live, in seconds. Longer ones are Unix times.
const RELATIVE_MAX: i64 = 60 * 60 * 24 * 30;

/// Nanoseconds per second.
const NANOS: u64 = 1_000_000_000;

/// A second that is always past.
const PAST: Expiry = Expiry::At(Second(0));

/// What memcached adds to a key and a value: the item's head, the cas unique and terminators. The limit `-I` and the
/// sizes that memcached shows include it, so the same items fit here.
const ITEM_HEAD: usize = 48 + 8 + 1 + 2;

/// What memcached adds for client flags. It adds this only if there are any.
const ITEM_FLAGS: usize = 4;

/// Returns the size of an item as memcached counts it, in bytes.
pub(super) fn item_size(key: usize, flags: u32, value: usize) -> usize {
    let flags = if flags == 0 { 0 } else { ITEM_FLAGS };
    ITEM_HEAD + key + flags + value
}

/// Parses an unsigned number of 64 bits.
pub(super) fn unsigned(word: &[u8]) -> Option<u64> {
    magnitude(word)
}

/// Parses an unsigned number of 32 bits.
pub(super) fn unsigned_32(word: &[u8]) -> Option<u32> {
    u32::try_from(unsigned(word)?).ok()
}

/// Parses a signed number of 32 bits.
pub(super) fn signed_32(word: &[u8]) -> Option<i32> {
    let (negative, digits) = match word.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, word),
    };
    let number = i64::try_from(magnitude(digits)?).ok()?;
    i32::try_from(if negative { -number } else { number }).ok()
}

/// Parses an unsigned number of 64 bits. White space may surround it, and a sign may stand before it.
pub(super) fn loose_unsigned(text: &[u8]) -> Option<u64> {
    let (negative, digits) = split_sign(text)?;
    let number = magnitude(digits)?;
    (!negative || number == 0).then_some(number)
}

/// Parses the same, cut to 32 bits as memcached cuts it (2^32 + 1 is 1).
pub(super) fn loose_unsigned_32(text: &[u8]) -> Option<u32> {
    loose_unsigned(text).map(|number| number as u32)
}

/// Parses a signed number, cut to 32 bits as memcached cuts it.
pub(super) fn loose_signed_32(text: &[u8]) -> Option<i32> {
    let (negative, digits) = split_sign(text)?;
    let number = i64::try_from(magnitude(digits)?).ok()?;
    Some(if negative { -number } else { number } as i32)
}

/// Parses a number with a fraction.
pub(super) fn fraction(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}

/// Returns the sign and the text that follows it, up to white space.
fn split_sign(text: &[u8]) -> Option<(bool, &[u8])> {
    let text = text.trim_ascii_start();
    let (negative, rest) = match text.first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = rest.iter().position(u8::is_ascii_whitespace);
    Some((negative, &rest[..end.unwrap_or(rest.len())]))
}

fn magnitude(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |sum, digit| {
        let digit = digit.wrapping_sub(b'0');
        (digit < 10).then_some(())?;
        sum.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// Returns when an item stored now with this time to live expires:
///
/// - 0: never.
/// - Negative: at once.
/// - Up to 30 days: after that many seconds.
/// - Above that: at that Unix time.
pub(super) fn expiry(clock: &Clock, now: Second, exptime: i64) -> Expiry {
    match exptime {
        0 => Expiry::Never,
        i64::MIN..=-1 => PAST,
        1..=RELATIVE_MAX => Expiry::At(Second(now.0.saturating_add(exptime as u32))),
        _ => clock.second(exptime as u64).map_or(PAST, Expiry::At),
    }
}

/// Returns the moment at which a delay from now is over. The delay is given as a time to live. Returns `None` if the
/// moment is now or past.
pub(super) fn delay_end(clock: &Clock, delay: i64) -> Option<Nanos> {
    let now = clock.moment();
    let due = match delay {
        ..=0 => return None,
        1..=RELATIVE_MAX => Nanos(now.0 + delay as u64 * NANOS),
        _ => clock.moment_of_unix(delay as u64)?,
    };
    (due > now).then_some(due)
}

/// Returns the seconds that an item has left; −1 if it never expires.
pub(super) fn ttl(now: Second, expiry: Expiry) -> i64 {
    match expiry {
        Expiry::Never => -1,
        Expiry::At(second) => i64::from(second.0) - i64::from(now.0),
    }
}

/// Appends a number in decimal.
pub(super) fn write(out: &mut Vec<u8>, number: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_strictly() {
        for (word, number) in [
            ("0", Some(0)),
            ("007", Some(7)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("+7", None),
            ("-1", None),
            ("", None),
            ("1x", None),
        ] {
            assert_eq!(unsigned(word.as_bytes()), number, "{word:?}");
        }
        assert_eq!(unsigned_32(b"4294967296"), None);
        for (word, number) in [
            ("-0", Some(0)),
            ("-2147483648", Some(i32::MIN)),
            ("2147483648", None),
            ("+1", None),
            ("--1", None),
            ("-", None),
        ] {
            assert_eq!(signed_32(word.as_bytes()), number, "{word:?}");
        }
    }

    #[test]
    fn values_are_read_as_strtoull_reads_them() {
        for (text, number) in [
            ("0", Some(0)),
            (" 12", Some(12)),
            ("12 ", Some(12)),
            ("+7", Some(7)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("-1", None),
            ("", None),
            (" ", None),
            ("1x", None),
            ("x", None),
        ] {
            assert_eq!(loose_unsigned(text.as_bytes()), number, "{text:?}");
        }
    }

    #[test]
    fn what_a_store_says_is_cut_to_32_bits() {
        assert_eq!(loose_unsigned_32(b"4294967297"), Some(1));
        assert_eq!(loose_signed_32(b"-1"), Some(-1));
        assert_eq!(loose_signed_32(b"4294967296"), Some(0));
        assert_eq!(loose_signed_32(b"9223372036854775808"), None);
    }

    #[test]
    fn times_to_live_are_relative_up_to_thirty_days() {
        let clock = Clock::start();
        let now = clock.now();
        assert_eq!(expiry(&clock, now, 0), Expiry::Never);
        assert!(expiry(&clock, now, -1).is_past(now));
        assert!(expiry(&clock, now, 31 * 86_400).is_past(now));
        assert!(!expiry(&clock, now, 30 * 86_400).is_past(now));
        let unix = clock.unix(now) as i64;
        assert!(expiry(&clock, now, unix - 1).is_past(now));
        assert!(!expiry(&clock, now, unix + 10).is_past(now));
        assert_eq!(ttl(now, expiry(&clock, now, unix + 10)), 10);
    }

    #[test]
    fn a_delay_is_over_at_its_moment() {
        let clock = Clock::start();
        let (before, unix) = (clock.moment().0, clock.unix(clock.now()) as i64);
        let after = |due: Nanos| due.0 - before;
        for delay in [1, 30 * 86_400] {
            let due = after(delay_end(&clock, delay).expect("a moment"));
            let exact = delay as u64 * NANOS;
            assert!((exact..=exact + clock.moment().0).contains(&due), "{delay}");
        }
        let due_at_unix = after(delay_end(&clock, unix + 10).expect("a moment"));
        assert!((8 * NANOS..=10 * NANOS).contains(&due_at_unix));
        for past in [0, -1, 31 * 86_400, unix - 1] {
            assert_eq!(delay_end(&clock, past), None, "{past}");
        }
    }
}
