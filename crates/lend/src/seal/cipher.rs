//! The ciphers, and the setting that picks one.

use std::fmt;

/// An authenticated cipher that seals pages. The lender runs none, so two hosts that lend to each other may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cipher {
    /// AEGIS-128X2 of the CFRG draft `draft-irtf-cfrg-aegis-aead`: the quickest where the CPU has AES instructions.
    Aegis128X2,
    /// ChaCha20-Poly1305 of RFC 8439, for CPUs without AES instructions.
    ChaCha20Poly1305,
    /// AES-128-GCM of NIST SP 800-38D, for audits that ask for an approved cipher.
    Aes128Gcm,
}

impl Cipher {
    /// All ciphers.
    pub const ALL: [Cipher; 3] = [
        Cipher::Aegis128X2,
        Cipher::ChaCha20Poly1305,
        Cipher::Aes128Gcm,
    ];
}

impl fmt::Display for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cipher::Aegis128X2 => "AEGIS-128X2",
            Cipher::ChaCha20Poly1305 => "ChaCha20-Poly1305",
            Cipher::Aes128Gcm => "AES-128-GCM",
        })
    }
}

/// The setting `borrow.cipher`. None of its values sends plaintext.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CipherChoice {
    /// `auto`: AEGIS-128X2 where it is quick, ChaCha20-Poly1305 elsewhere.
    #[default]
    Auto,
    /// `aes-gcm`: AES-128-GCM everywhere.
    AesGcm,
}
