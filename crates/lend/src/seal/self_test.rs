//! The start-up test of the ciphers: a known answer, and for AEGIS the speed. It decides which cipher seals.

use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};

use super::cipher::{Cipher, CipherChoice};
use super::key::{LeaseKey, Page, PageTag};
use super::nonce::{PageNonce, WriteSequence};

/// The longest that AEGIS-128X2 may take to seal a page. AES instructions need about 0.3 µs. Without them a page takes
/// tens to hundreds of microseconds.
pub const SEAL_TIME_MAX: Duration = Duration::from_micros(5);

/// Pages that the speed test seals. Their median counts.
const TIMED_PAGES: usize = 65;

/// Whether the speed test of AEGIS counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AegisTrial {
    /// AEGIS is used if it is quick.
    #[default]
    Measure,
    /// AEGIS is taken to be slow. Tests run the fallback so.
    Refuse,
}

/// Why a cipher was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CipherReason {
    /// The setting names it.
    Configured,
    /// AEGIS is quick: the median time to seal a page.
    AegisIsQuick(Duration),
    /// AEGIS is slower than [`SEAL_TIME_MAX`]: the median time to seal a page.
    AegisIsSlow(Duration),
    /// AEGIS computes a wrong answer.
    AegisIsBroken,
    /// The caller refused AEGIS.
    AegisIsRefused,
}

/// The cipher that seals pages, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CipherSelection {
    /// The cipher. It has passed its known answer.
    pub cipher: Cipher,
    /// Why it was chosen.
    pub reason: CipherReason,
}

/// A cipher that computes wrong bytes in this build or on this CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "self-test of {0}: the sealed page is not the known answer: nothing is borrowed; use another build or \
     another `borrow.cipher`"
)]
pub struct BrokenCipher(pub Cipher);

/// Tests the ciphers and chooses one. `clock` returns the time since any start.
pub fn choose_cipher(
    choice: CipherChoice,
    trial: AegisTrial,
    clock: impl FnMut() -> Duration,
) -> Result<CipherSelection, BrokenCipher> {
    let (cipher, reason) = match choice {
        CipherChoice::AesGcm => (Cipher::Aes128Gcm, CipherReason::Configured),
        CipherChoice::Auto => automatic(try_aegis(trial, clock)),
    };
    if !KnownAnswer::of(cipher).is_met() {
        return Err(BrokenCipher(cipher));
    }
    Ok(CipherSelection { cipher, reason })
}

fn automatic(reason: CipherReason) -> (Cipher, CipherReason) {
    match reason {
        CipherReason::AegisIsQuick(_) => (Cipher::Aegis128X2, reason),
        _ => (Cipher::ChaCha20Poly1305, reason),
    }
}

fn try_aegis(trial: AegisTrial, clock: impl FnMut() -> Duration) -> CipherReason {
    if trial == AegisTrial::Refuse {
        return CipherReason::AegisIsRefused;
    }
    if !KnownAnswer::of(Cipher::Aegis128X2).is_met() {
        return CipherReason::AegisIsBroken;
    }
    let median = seal_time(Cipher::Aegis128X2, clock);
    if median > SEAL_TIME_MAX {
        CipherReason::AegisIsSlow(median)
    } else {
        CipherReason::AegisIsQuick(median)
    }
}

/// Returns the median time that a page takes to seal.
fn seal_time(cipher: Cipher, mut clock: impl FnMut() -> Duration) -> Duration {
    let key = LeaseKey::new(cipher, &KEY);
    let (page, mut sealed) = (page(), [0; size_of::<Page>()]);
    let mut times = [Duration::ZERO; TIMED_PAGES];
    for (write, time) in (1..).zip(&mut times) {
        let sequence = WriteSequence(write);
        let began = clock();
        key.seal(PageNonce { sequence, ..NONCE }, &page, &mut sealed);
        *time = clock().saturating_sub(began);
    }
    times.sort_unstable();
    times[TIMED_PAGES / 2]
}

/// The key of the known answers: the bytes 0 to 31.
const KEY: [u8; 32] = {
    let mut key = [0; 32];
    let mut at = 0;
    while at < key.len() {
        key[at] = at as u8;
        at += 1;
    }
    key
};

/// The nonce of the known answers.
const NONCE: PageNonce = PageNonce {
    index: 0x0102_0304,
    place: 0x0105,
    sequence: WriteSequence(0x0a0b_0c0d),
};

/// Returns the page of the known answers. No two of its 64-byte lines are the same.
fn page() -> Page {
    std::array::from_fn(|at| (at * 7 + (at >> 8)) as u8)
}

/// What a cipher makes of [`page`] under [`KEY`] and [`NONCE`].
struct KnownAnswer {
    cipher: Cipher,
    tag: [u8; 16],
    /// SHA-256 of the sealed page.
    sha256: [u8; 32],
}

impl KnownAnswer {
    /// Returns a cipher's known answer. The test vectors of the standards are of other lengths. So the AEGIS answer
    /// was computed once by a program that was written from the draft and passes its vectors, the other two by
    /// OpenSSL.
    fn of(cipher: Cipher) -> KnownAnswer {
        let (tag, sha256) = match cipher {
            Cipher::Aegis128X2 => (
                hex("b2800fed66b2a36f93a7366237942321"),
                hex("f2272a89a6b5b7da708f3ecce84b14e19fe39ed5c161e37e148ef86a3224715f"),
            ),
            Cipher::ChaCha20Poly1305 => (
                hex("b27b6bfbf25bb39abf39ba5bb1e778a9"),
                hex("7c927de3892407365d472f9a38951853076748ce618d6af3dce4b24c586b81ba"),
            ),
            Cipher::Aes128Gcm => (
                hex("9886841ff0d8169148f1129cf5243ab0"),
                hex("5f983e908bf0c95a468c6bfe62b7b0729e0f0729a9daedf89ce29d269167ef52"),
            ),
        };
        KnownAnswer {
            cipher,
            tag,
            sha256,
        }
    }

    /// Returns whether the cipher seals the page to the answer and opens it again.
    fn is_met(&self) -> bool {
        let key = LeaseKey::new(self.cipher, &KEY);
        let mut sealed = [0; size_of::<Page>()];
        let tag = key.seal(NONCE, &page(), &mut sealed);
        let is_answer =
            tag == PageTag(self.tag) && digest(&SHA256, &sealed).as_ref() == self.sha256;
        is_answer && key.open(NONCE, tag, &mut sealed).is_ok() && sealed == page()
    }
}

/// Returns the bytes that `digits` write out, two hexadecimal digits a byte.
const fn hex<const N: usize>(digits: &str) -> [u8; N] {
    let digits = digits.as_bytes();
    assert!(digits.len() == 2 * N, "an answer has its length");
    let mut bytes = [0; N];
    let mut at = 0;
    while at < N {
        bytes[at] = 16 * nibble(digits[2 * at]) + nibble(digits[2 * at + 1]);
        at += 1;
    }
    bytes
}

const fn nibble(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => digit - b'a' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock that goes on by `step` at each look.
    fn clock_of(step: Duration) -> impl FnMut() -> Duration {
        let mut now = Duration::ZERO;
        move || {
            now += step;
            now
        }
    }

    /// What is chosen on a machine where a page takes `step` to seal.
    fn chosen(choice: CipherChoice, trial: AegisTrial, step: Duration) -> CipherSelection {
        choose_cipher(choice, trial, clock_of(step)).expect("the ciphers work here")
    }

    #[test]
    fn every_cipher_meets_its_known_answer() {
        for cipher in Cipher::ALL {
            assert!(KnownAnswer::of(cipher).is_met(), "{cipher}");
        }
    }

    #[test]
    fn an_answer_that_differs_in_tag_or_page_is_not_met() {
        for cipher in Cipher::ALL {
            let mut other = KnownAnswer::of(cipher);
            other.tag[15] ^= 1;
            assert!(!other.is_met(), "{cipher}: tag");
            let mut other = KnownAnswer::of(cipher);
            other.sha256[31] ^= 1;
            assert!(!other.is_met(), "{cipher}: page");
        }
    }

    #[test]
    fn aegis_is_chosen_up_to_5_microseconds_a_page() {
        let selection = chosen(CipherChoice::Auto, AegisTrial::Measure, SEAL_TIME_MAX);
        assert_eq!(selection.cipher, Cipher::Aegis128X2);
        assert_eq!(selection.reason, CipherReason::AegisIsQuick(SEAL_TIME_MAX));
    }

    #[test]
    fn chacha_is_chosen_where_aegis_is_slow() {
        let slow = SEAL_TIME_MAX + Duration::from_nanos(1);
        let selection = chosen(CipherChoice::Auto, AegisTrial::Measure, slow);
        assert_eq!(selection.cipher, Cipher::ChaCha20Poly1305);
        assert_eq!(selection.reason, CipherReason::AegisIsSlow(slow));
    }

    #[test]
    fn a_few_pages_that_took_long_do_not_refuse_aegis() {
        let mut looks = 0;
        let mut now = Duration::ZERO;
        let clock = || {
            looks += 1;
            now += Duration::from_micros(if looks % 8 == 0 { 4000 } else { 1 });
            now
        };
        let selection = choose_cipher(CipherChoice::Auto, AegisTrial::Measure, clock);
        assert_eq!(
            selection.map(|selection| selection.cipher),
            Ok(Cipher::Aegis128X2)
        );
    }

    #[test]
    fn a_clock_that_goes_back_is_no_panic() {
        let mut now = Duration::from_secs(9);
        let clock = || {
            now -= Duration::from_micros(1);
            now
        };
        let selection = choose_cipher(CipherChoice::Auto, AegisTrial::Measure, clock);
        assert!(selection.is_ok(), "{selection:?}");
    }

    #[test]
    fn chacha_is_chosen_where_aegis_is_refused() {
        let selection = chosen(CipherChoice::Auto, AegisTrial::Refuse, Duration::ZERO);
        assert_eq!(selection.cipher, Cipher::ChaCha20Poly1305);
        assert_eq!(selection.reason, CipherReason::AegisIsRefused);
    }

    #[test]
    fn aes_gcm_is_chosen_where_it_is_configured() {
        let trials = [AegisTrial::Measure, AegisTrial::Refuse];
        for trial in trials {
            let selection = chosen(CipherChoice::AesGcm, trial, Duration::ZERO);
            assert_eq!(selection.cipher, Cipher::Aes128Gcm);
            assert_eq!(selection.reason, CipherReason::Configured);
        }
    }
}
