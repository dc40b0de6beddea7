//! Seals pages before they leave the host, and opens them when they come back.
//!
//! A lender holds ciphertext and nothing else. The borrower keeps the key of the lease, and the tag and the write
//! sequence of each page. So a lender cannot read a page, alter it, exchange it for another, or return an older one.
//!
//! ```text
//!   borrower                                                lender
//!   page ──seal(key, nonce)──► ciphertext ────────────────► frame `place` of block `index`
//!            nonce = index ‖ place ‖ sequence
//!            tag and sequence stay here
//!   page ◄─open(key, nonce, tag)── ciphertext ◄──────────── the same frame
//! ```
//!
//! There is no associated data. The nonce names the frame and the write, and each lease has a key of its own.

mod cipher;
mod key;
mod nonce;
mod self_test;

pub use cipher::{Cipher, CipherChoice};
pub use key::{ForgedPage, LeaseKey, PageTag};
pub use nonce::{PageNonce, WriteSequence};
pub use self_test::{
    AegisTrial, BrokenCipher, CipherReason, CipherSelection, SEAL_TIME_MAX, choose_cipher,
};
