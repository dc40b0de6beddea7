//! Makes keys and certificates: an authority's, and a node's.
//!
//! Keys are on the curve P-256. Every TLS library takes them, and so do the key stores that some owners put the
//! authority's key into.

use std::time::Duration;

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData, SanType,
    SerialNumber, date_time_ymd,
};
use sublet_tls::peer::{CertificateUri, NodeIdentity};
use sublet_types::ClusterName;

use super::ca_error::CaError;

/// The bytes of a serial number. RFC 5280 allows 20.
const SERIAL_BYTES: usize = 16;

/// From when to when a certificate is valid, in Unix seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Validity {
    pub(super) starts_unix: u64,
    pub(super) ends_unix: u64,
}

/// Makes an authority's own certificate. Its URI names the cluster.
pub(super) fn authority_certificate(
    cluster: &ClusterName,
    key: &KeyPair,
    validity: Validity,
) -> Result<Certificate, CaError> {
    let mut params = authority_params(cluster);
    params.subject_alt_names = vec![uri(&CertificateUri::Cluster(cluster.clone()))?];
    set_validity(&mut params, validity);
    params.serial_number = Some(serial_number()?);
    Ok(params.self_signed(key)?)
}

/// Makes a node's certificate for a public key. Its URI names the cluster and the node.
pub(super) fn node_certificate(
    identity: &NodeIdentity,
    public_key: &impl PublicKeyData,
    authority_key: KeyPair,
    validity: Validity,
) -> Result<Certificate, CaError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = name("Sublet node", identity.node.as_str());
    params.subject_alt_names = vec![uri(&CertificateUri::Node(identity.clone()))?];
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    params.use_authority_key_identifier_extension = true;
    set_validity(&mut params, validity);
    // The library's default depends on the key alone, so a renewed certificate would have the old one's number.
    params.serial_number = Some(serial_number()?);
    let issuer = Issuer::new(authority_params(&identity.cluster), authority_key);
    Ok(params.signed_by(public_key, &issuer)?)
}

/// What an authority's certificate says of itself, and each certificate that it signs says of its issuer.
fn authority_params(cluster: &ClusterName) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = name("Sublet cluster", cluster.as_str());
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// A node may have its cluster's name. The organization keeps the two apart: equal names mean self-signed.
fn name(organization: &str, common: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::OrganizationName, organization);
    name.push(DnType::CommonName, common);
    name
}

fn uri(names: &CertificateUri) -> Result<SanType, rcgen::Error> {
    Ok(SanType::URI(names.to_string().try_into()?))
}

fn set_validity(params: &mut CertificateParams, validity: Validity) {
    let epoch = date_time_ymd(1970, 1, 1);
    params.not_before = epoch + Duration::from_secs(validity.starts_unix);
    params.not_after = epoch + Duration::from_secs(validity.ends_unix);
}

/// A random number that is positive and has all its bytes.
fn serial_number() -> Result<SerialNumber, CaError> {
    let mut bytes = [0; SERIAL_BYTES];
    let filled = sublet_tls::provider().secure_random.fill(&mut bytes);
    filled.map_err(|_| CaError::NoRandomBytes)?;
    bytes[0] = bytes[0] & 0x3f | 0x40;
    Ok(SerialNumber::from_slice(&bytes))
}
