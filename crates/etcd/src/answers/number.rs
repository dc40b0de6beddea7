//! A number of 64 bits. The gateway writes it as a string, since readers of JSON keep only 53 bits of a number.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A number of 64 bits that is not below zero. Where one is missing it is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GatewayNumber(pub(super) u64);

impl<'de> Deserialize<'de> for GatewayNumber {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<GatewayNumber, D::Error> {
        from.deserialize_any(NumberVisitor)
    }
}

struct NumberVisitor;

impl Visitor<'_> for NumberVisitor {
    type Value = GatewayNumber;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number of 63 bits, perhaps in quotes")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<GatewayNumber, E> {
        // etcd's numbers have a sign.
        match i64::try_from(number) {
            Ok(_) => Ok(GatewayNumber(number)),
            Err(_) => Err(E::custom("a number beyond 63 bits")),
        }
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<GatewayNumber, E> {
        u64::try_from(number)
            .map(GatewayNumber)
            .map_err(|_| E::custom("a number below zero"))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<GatewayNumber, E> {
        let number: i64 = text
            .parse()
            .map_err(|_| E::custom("text that is no whole number of 64 bits"))?;
        self.visit_i64(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_with_and_without_quotes() {
        for (json, number) in [
            ("\"0\"", 0),
            ("7", 7),
            ("\"9223372036854775807\"", i64::MAX as u64),
            ("9223372036854775807", i64::MAX as u64),
        ] {
            let parsed: GatewayNumber = serde_json::from_str(json).expect(json);
            assert_eq!(parsed.0, number);
        }
        for json in [
            "-1",
            "\"-1\"",
            "1.5",
            "\"\"",
            "\"x\"",
            "null",
            "[]",
            "\"9223372036854775808\"",
            "9223372036854775808",
            "18446744073709551616",
            "\" 1\"",
        ] {
            assert!(
                serde_json::from_str::<GatewayNumber>(json).is_err(),
                "{json}"
            );
        }
    }
}
