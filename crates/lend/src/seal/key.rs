//! The key of a lease: it seals pages and opens them.

use aegis::aegis128x2::Aegis128X2;
use aws_lc_rs::aead::{AES_128_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use std::fmt;
use sublet_types::PAGE_BYTES;
use zeroize::Zeroizing;

use super::cipher::Cipher;
use super::nonce::PageNonce;

/// The bytes of a page, sealed or plain.
pub(super) type Page = [u8; PAGE_BYTES as usize];

/// Bytes of a key for AEGIS-128X2 and for AES-128-GCM.
const SHORT_KEY_BYTES: usize = 16;

/// Bytes of a tag.
const TAG_BYTES: usize = 16;

/// The authentication tag of a sealed page. It stays at the borrower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageTag(pub [u8; TAG_BYTES]);

/// A page that is not what the borrower sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "block {}, place {}: the lender's bytes are not what was sealed there as write {}: count it and answer a miss",
    .0.index, .0.place, .0.sequence.0
)]
pub struct ForgedPage(pub PageNonce);

/// The key of one lease. It dies with the lease and is never stored. Its bytes are overwritten when it is dropped.
pub struct LeaseKey {
    cipher: Cipher,
    secret: CipherKey,
}

enum CipherKey {
    Aegis(Zeroizing<[u8; SHORT_KEY_BYTES]>),
    AwsLc(LessSafeKey),
}

impl fmt::Debug for LeaseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LeaseKey({})", self.cipher)
    }
}

impl LeaseKey {
    /// Makes the key of a lease from 32 random bytes. AEGIS-128X2 and AES-128-GCM use the first 16. The caller draws
    /// new bytes for each lease and overwrites its copy.
    pub fn new(cipher: Cipher, random: &[u8; 32]) -> LeaseKey {
        let short = random
            .first_chunk::<SHORT_KEY_BYTES>()
            .expect("32 bytes begin with 16");
        let secret = match cipher {
            Cipher::Aegis128X2 => CipherKey::Aegis(Zeroizing::new(*short)),
            Cipher::ChaCha20Poly1305 => {
                CipherKey::AwsLc(aws_lc_key(UnboundKey::new(&CHACHA20_POLY1305, random)))
            }
            Cipher::Aes128Gcm => CipherKey::AwsLc(aws_lc_key(UnboundKey::new(&AES_128_GCM, short))),
        };
        LeaseKey { cipher, secret }
    }

    /// Seals `page` into `sealed` and returns the tag. The caller never uses a nonce for two pages.
    pub fn seal(&self, nonce: PageNonce, page: &Page, sealed: &mut Page) -> PageTag {
        match &self.secret {
            CipherKey::Aegis(key) => {
                // The copy stays in the first cache. The crate's call between two slices is slower: it wipes a larger
                // state.
                sealed.copy_from_slice(page);
                PageTag(Aegis128X2::new(key, &nonce.wide()).encrypt_in_place(sealed, &[]))
            }
            CipherKey::AwsLc(key) => {
                let mut tag = [0; TAG_BYTES];
                key.seal_out_of_place_scatter(
                    narrow(nonce),
                    Aad::empty(),
                    page,
                    sealed,
                    &[],
                    &mut tag,
                )
                .expect("a page and its tag have the lengths that the cipher asks for");
                PageTag(tag)
            }
        }
    }

    /// Opens a sealed page in place. A forged page is overwritten with zeros.
    pub fn open(&self, nonce: PageNonce, tag: PageTag, page: &mut Page) -> Result<(), ForgedPage> {
        let is_genuine = match &self.secret {
            CipherKey::Aegis(key) => Aegis128X2::new(key, &nonce.wide())
                .decrypt_in_place(page, &tag.0, &[])
                .is_ok(),
            CipherKey::AwsLc(key) => key
                .open_in_place_separate_tag(narrow(nonce), Aad::empty(), &tag.0, page)
                .is_ok(),
        };
        if is_genuine {
            return Ok(());
        }
        page.fill(0);
        Err(ForgedPage(nonce))
    }

    /// Opens `sealed` into `page`. The page is zeros after an error.
    pub fn open_into(
        &self,
        nonce: PageNonce,
        tag: PageTag,
        sealed: &Page,
        page: &mut Page,
    ) -> Result<(), ForgedPage> {
        page.copy_from_slice(sealed);
        self.open(nonce, tag, page)
    }
}

fn aws_lc_key(key: Result<UnboundKey, aws_lc_rs::error::Unspecified>) -> LessSafeKey {
    LessSafeKey::new(key.expect("the key has the cipher's length"))
}

fn narrow(nonce: PageNonce) -> Nonce {
    Nonce::assume_unique_for_key(nonce.narrow())
}
