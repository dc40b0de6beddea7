//! Errors of certificates and keys. Each names the file, what it holds, and what to do.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// The keys that can be used.
const KEYS: &str = "RSA of 2048 to 8192 bits, EC on P-256, P-384 or P-521, and Ed25519 can be used";

/// Why certificates or keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// The system did not read the file.
    #[error("cannot read {path}: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A block of PEM is damaged.
    #[error("{path} is damaged: {source}; copy it again from where it was made")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: pem::PemError,
    },
    /// The file holds no certificate.
    #[error("{path} holds no certificate but {found}; name a file with -----BEGIN CERTIFICATE-----{}", .found.remedy("x509"))]
    NoCertificate {
        /// The file.
        path: PathBuf,
        /// What it holds instead.
        found: FileContent,
    },
    /// The file holds no private key.
    #[error("{path} holds no private key but {found}; name a file with -----BEGIN PRIVATE KEY-----{}", .found.remedy("pkey"))]
    NoKey {
        /// The file.
        path: PathBuf,
        /// What it holds instead.
        found: FileContent,
    },
    /// The key is encrypted, and nobody is there to type its password.
    #[error(
        "the key in {path} is encrypted; write it without its password: openssl pkey -in {path} -out KEY"
    )]
    Encrypted {
        /// The key's file.
        path: PathBuf,
    },
    /// The key is of a kind or size that cannot be used.
    #[error("cannot use the key in {path}: it is {found}; {KEYS}")]
    Key {
        /// The key's file.
        path: PathBuf,
        /// What it is.
        found: UnusableKeyKind,
    },
    /// The bytes under a certificate's label are no certificate.
    #[error(
        "certificate {nth} in {path} is no X.509 certificate; look at it: openssl x509 -in {path} -noout -text"
    )]
    NotX509 {
        /// The file.
        path: PathBuf,
        /// The number of the certificate in the file, from 1.
        nth: usize,
    },
    /// The certificate and the key do not belong together.
    #[error(
        "the key in {key} is not the one of the first certificate in {chain}; name the two that belong together, and put the server's own certificate first"
    )]
    Mismatch {
        /// The certificate's file.
        chain: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
}

/// What a file holds instead of a certificate or a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileContent {
    /// Not one byte.
    Nothing,
    /// No block of PEM.
    OtherText,
    /// Binary DER, perhaps of the same certificate or key.
    Der,
    /// Text in UTF-16, as some editors write it.
    Utf16,
    /// A block of PEM without an end.
    Unended,
    /// Other blocks of PEM, by their labels.
    Blocks(Vec<String>),
}

impl FileContent {
    fn remedy(&self, command: &str) -> String {
        match self {
            FileContent::Der => {
                format!(", made by: openssl {command} -inform DER -in FILE -out PEM")
            }
            FileContent::Utf16 => ", saved as UTF-8".to_owned(),
            FileContent::Nothing
            | FileContent::OtherText
            | FileContent::Unended
            | FileContent::Blocks(_) => String::new(),
        }
    }
}

impl fmt::Display for FileContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileContent::Nothing => f.write_str("nothing"),
            FileContent::OtherText => f.write_str("text without a block of PEM"),
            FileContent::Der => f.write_str("DER, which is not PEM"),
            FileContent::Utf16 => f.write_str("text in UTF-16"),
            FileContent::Unended => f.write_str("a block of PEM without its END line"),
            FileContent::Blocks(labels) => f.write_str(&labels.join(", ")),
        }
    }
}

/// The kind of a key that cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub enum UnusableKeyKind {
    /// RSA, of this many bits.
    Rsa(usize),
    /// RSA for PSS signatures only.
    RsaPss,
    /// An elliptic curve, by its name or its number.
    Curve(String),
    /// DSA.
    Dsa,
    /// Another algorithm, by its name or its number.
    Other(String),
    /// No key that can be parsed.
    Garbled,
}

impl fmt::Display for UnusableKeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnusableKeyKind::Rsa(bits) => write!(f, "an RSA key of {bits} bits"),
            UnusableKeyKind::RsaPss => f.write_str("an RSA-PSS key"),
            UnusableKeyKind::Curve(name) => write!(f, "a key on the curve {name}"),
            UnusableKeyKind::Dsa => f.write_str("a DSA key"),
            UnusableKeyKind::Other(name) => write!(f, "a key of the algorithm {name}"),
            UnusableKeyKind::Garbled => f.write_str("damaged, or no key"),
        }
    }
}
