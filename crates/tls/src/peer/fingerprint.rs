//! A certificate's fingerprint: what a deny list names it by.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::digest::{SHA256, digest};
use rustls::pki_types::CertificateDer;

/// The bytes of a SHA-256 hash.
const BYTES: usize = 32;

/// The SHA-256 hash of a certificate's DER, as `openssl x509 -fingerprint -sha256` shows it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; BYTES]);

/// Why a text is no fingerprint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no fingerprint of a certificate: write the 64 hexadecimal digits of its SHA-256, with or without colons"
)]
pub struct FingerprintError(pub String);

impl Fingerprint {
    /// Returns the fingerprint of a certificate.
    pub fn of(certificate: &CertificateDer<'_>) -> Fingerprint {
        let hash = digest(&SHA256, certificate.as_ref());
        let mut bytes = [0; BYTES];
        bytes.copy_from_slice(hash.as_ref());
        Fingerprint(bytes)
    }
}

/// Reads 64 hexadecimal digits. Each pair may be followed by a colon and another pair.
impl FromStr for Fingerprint {
    type Err = FingerprintError;

    fn from_str(text: &str) -> Result<Fingerprint, FingerprintError> {
        let refused = || FingerprintError(text.to_owned());
        let width = if text.contains(':') { 3 } else { 2 };
        // The text of 32 pairs, with a colon that stands for the missing last one.
        let padded = match width {
            3 => format!("{text}:"),
            _ => text.to_owned(),
        };
        if padded.len() != BYTES * width {
            return Err(refused());
        }
        let mut bytes = [0; BYTES];
        for (byte, pair) in bytes.iter_mut().zip(padded.as_bytes().chunks_exact(width)) {
            *byte = parsed_pair(pair).ok_or_else(refused)?;
        }
        Ok(Fingerprint(bytes))
    }
}

/// Returns the value of two hexadecimal digits. Only a colon may follow them.
fn parsed_pair(pair: &[u8]) -> Option<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    match pair {
        [high, low] | [high, low, b':'] => u8::try_from(digit(high)? * 16 + digit(low)?).ok(),
        _ => None,
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The SHA-256 hash of the three bytes `abc`, from FIPS 180-2, appendix B.1.
    const OF_ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn it_is_the_hash_of_the_der_and_reads_as_openssl_writes_it() {
        let fingerprint = Fingerprint::of(&CertificateDer::from(&b"abc"[..]));
        assert_eq!(fingerprint.to_string(), OF_ABC);
        let pairs: Vec<String> = OF_ABC
            .as_bytes()
            .chunks(2)
            .map(|pair| String::from_utf8_lossy(pair).to_uppercase())
            .collect();
        for text in [OF_ABC.to_owned(), OF_ABC.to_uppercase(), pairs.join(":")] {
            assert_eq!(text.parse(), Ok(fingerprint), "{text}");
        }
    }

    #[test]
    fn nothing_else_is_read() {
        let wrong = [
            String::new(),
            ":".to_owned(),
            OF_ABC[1..].to_owned(),
            format!("{OF_ABC}0"),
            format!("{}g", &OF_ABC[1..]),
            format!("+{}", &OF_ABC[1..]),
            OF_ABC.replace('b', ":"),
            format!("{}é", &OF_ABC[2..]),
            "a:".repeat(48),
        ];
        for text in wrong {
            assert!(text.parse::<Fingerprint>().is_err(), "{text}");
        }
    }
}
