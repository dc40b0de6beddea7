//! Private keys, in any form and whatever their label says.

use std::path::Path;
use std::sync::Arc;

use pem::Pem;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};
use rustls::sign::SigningKey;
use x509_parser::der_parser::ber::{BerObject, BerObjectContent};
use x509_parser::der_parser::der::parse_der;

use crate::pem_files::PemBlocks;
use crate::{CredentialError, UnusableKeyKind};

const LABELS: [&str; 3] = ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"];

/// Returns the private key of a file, ready to sign.
pub(crate) fn signing_key(
    PemBlocks { all, found }: &PemBlocks,
    path: &Path,
    provider: &CryptoProvider,
) -> Result<Arc<dyn SigningKey>, CredentialError> {
    let path = path.to_owned();
    if all.iter().any(is_encrypted) {
        return Err(CredentialError::Encrypted { path });
    }
    let Some(block) = all.iter().find(|block| LABELS.contains(&block.tag())) else {
        let found = found.clone();
        return Err(CredentialError::NoKey { path, found });
    };
    let der = block.contents();
    readings(der)
        .into_iter()
        .find_map(|reading| provider.key_provider.load_private_key(reading).ok())
        .ok_or_else(|| CredentialError::Key {
            path,
            found: kind(der).unwrap_or(UnusableKeyKind::Garbled),
        })
}

fn is_encrypted(block: &Pem) -> bool {
    let header = block.headers().get("Proc-Type");
    block.tag() == "ENCRYPTED PRIVATE KEY" || header.is_some_and(|h| h.contains("ENCRYPTED"))
}

/// Returns the bytes as each of the forms that a key may have. Labels can be wrong: a block labelled `RSA PRIVATE KEY`
/// may hold PKCS#8.
fn readings(der: &[u8]) -> [PrivateKeyDer<'static>; 3] {
    let der = || der.to_vec();
    [
        PrivatePkcs8KeyDer::from(der()).into(),
        PrivatePkcs1KeyDer::from(der()).into(),
        PrivateSec1KeyDer::from(der()).into(),
    ]
}

/// Returns the kind of a key, as far as it can be parsed.
fn kind(der: &[u8]) -> Option<UnusableKeyKind> {
    let (_, object) = parse_der(der).ok()?;
    let [_, second, third, ..] = &object.as_sequence().ok()?[..] else {
        return None;
    };
    match &second.content {
        BerObjectContent::Integer(modulus) => Some(UnusableKeyKind::Rsa(bits(modulus))),
        BerObjectContent::OctetString(_) => {
            let (_, curve) = parse_der(third.as_slice().ok()?).ok()?;
            Some(UnusableKeyKind::Curve(name(&curve)?))
        }
        BerObjectContent::Sequence(algorithm) => of_algorithm(algorithm, third),
        _ => None,
    }
}

fn of_algorithm(algorithm: &[BerObject<'_>], key: &BerObject<'_>) -> Option<UnusableKeyKind> {
    let [algorithm, parameters @ ..] = algorithm else {
        return None;
    };
    let number = algorithm.as_oid_val().ok()?.to_id_string();
    match number.as_str() {
        "1.2.840.113549.1.1.1" => kind(key.as_slice().ok()?),
        "1.2.840.113549.1.1.10" => Some(UnusableKeyKind::RsaPss),
        "1.2.840.10045.2.1" => Some(UnusableKeyKind::Curve(name(parameters.first()?)?)),
        "1.2.840.10040.4.1" => Some(UnusableKeyKind::Dsa),
        _ => Some(UnusableKeyKind::Other(name(algorithm)?)),
    }
}

/// Returns the name of an algorithm or a curve.
fn name(object: &BerObject<'_>) -> Option<String> {
    let Ok(number) = object.as_oid_val() else {
        return Some("that its own parameters describe".to_owned());
    };
    let number = number.to_id_string();
    let known = match number.as_str() {
        "1.3.101.110" => "X25519",
        "1.3.101.113" => "Ed448",
        "1.3.132.0.10" => "secp256k1",
        "1.3.132.0.33" => "P-224",
        "1.2.840.10045.3.1.1" => "P-192",
        "1.3.36.3.3.2.8.1.1.7" => "brainpoolP256r1",
        "1.3.36.3.3.2.8.1.1.11" => "brainpoolP384r1",
        "1.3.36.3.3.2.8.1.1.13" => "brainpoolP512r1",
        _ => return Some(number),
    };
    Some(known.to_owned())
}

fn bits(modulus: &[u8]) -> usize {
    let leading = modulus.iter().take_while(|byte| **byte == 0).count();
    let rest = modulus.get(leading..).unwrap_or_default();
    let first = rest.first().map_or(0, |byte| byte.leading_zeros() as usize);
    rest.len() * 8 - first
}
