//! Why certificates or keys cannot be used: which file, what was found in it, what to do.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// What keys can be used.
const KEYS: &str = "RSA of 2048 to 8192 bits, EC on P-256, P-384 or P-521, and Ed25519 can be used";

/// Why certificates or keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The system refused.
    #[error("cannot read {path}: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A block of PEM that is damaged.
    #[error("{path} is damaged: {source}; copy it again from where it was made")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: pem::PemError,
    },
    /// No certificate where one was looked for.
    #[error("{path} holds no certificate but {found}; name a file with -----BEGIN CERTIFICATE-----{}", .found.remedy("x509"))]
    NoCertificate {
        /// The file.
        path: PathBuf,
        /// What it holds.
        found: Found,
    },
    /// No key where one was looked for.
    #[error("{path} holds no private key but {found}; name a file with -----BEGIN PRIVATE KEY-----{}", .found.remedy("pkey"))]
    NoKey {
        /// The file.
        path: PathBuf,
        /// What it holds.
        found: Found,
    },
    /// Nobody is there to type the password.
    #[error(
        "the key in {path} is encrypted; write it without its password: openssl pkey -in {path} -out KEY"
    )]
    Encrypted {
        /// The key's file.
        path: PathBuf,
    },
    /// A key of another kind or size.
    #[error("cannot use the key in {path}: it is {found}; {KEYS}")]
    Key {
        /// The key's file.
        path: PathBuf,
        /// What it is.
        found: KeyKind,
    },
    /// What stands under a certificate's label is none.
    #[error(
        "certificate {nth} in {path} is no X.509 certificate; look at it: openssl x509 -in {path} -noout -text"
    )]
    NotX509 {
        /// The file.
        path: PathBuf,
        /// Which one of its certificates, the first being 1.
        nth: usize,
    },
    /// They were not made together.
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

/// What a file holds instead of what was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Not a byte.
    Nothing,
    /// No block of PEM.
    OtherText,
    /// The same things perhaps, but in binary.
    Der,
    /// An editor's wide characters.
    Utf16,
    /// A block that has no end.
    Unended,
    /// Other blocks of PEM.
    Blocks(Vec<String>),
}

impl Found {
    fn remedy(&self, command: &str) -> String {
        match self {
            Found::Der => format!(", made by: openssl {command} -inform DER -in FILE -out PEM"),
            Found::Utf16 => ", saved as UTF-8".to_owned(),
            Found::Nothing | Found::OtherText | Found::Unended | Found::Blocks(_) => String::new(),
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Found::Nothing => f.write_str("nothing"),
            Found::OtherText => f.write_str("text without a block of PEM"),
            Found::Der => f.write_str("DER, which is not PEM"),
            Found::Utf16 => f.write_str("text in UTF-16"),
            Found::Unended => f.write_str("a block of PEM without its END line"),
            Found::Blocks(labels) => f.write_str(&labels.join(", ")),
        }
    }
}

/// What a key is that cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// RSA, of so many bits.
    Rsa(usize),
    /// RSA for PSS signatures only.
    RsaPss,
    /// An elliptic curve, by its name or its number.
    Curve(String),
    /// DSA.
    Dsa,
    /// Another algorithm, by its name or its number.
    Other(String),
    /// No key at all.
    Garbled,
}

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyKind::Rsa(bits) => write!(f, "an RSA key of {bits} bits"),
            KeyKind::RsaPss => f.write_str("an RSA-PSS key"),
            KeyKind::Curve(name) => write!(f, "a key on the curve {name}"),
            KeyKind::Dsa => f.write_str("a DSA key"),
            KeyKind::Other(name) => write!(f, "a key of the algorithm {name}"),
            KeyKind::Garbled => f.write_str("damaged, or no key"),
        }
    }
}
