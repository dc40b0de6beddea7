//! Keys and values, which the gateway writes in base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Deserialize, Deserializer, Error};

/// A key or a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Base64Bytes(pub(super) Vec<u8>);

impl<'de> Deserialize<'de> for Base64Bytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Base64Bytes, D::Error> {
        let text = String::deserialize(from)?;
        match STANDARD.decode(text) {
            Ok(bytes) => Ok(Base64Bytes(bytes)),
            Err(_) => Err(D::Error::custom("text that is no base64")),
        }
    }
}
