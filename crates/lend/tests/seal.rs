//! A page opens as what was sealed, and only so: no other bytes, tag, frame, write or key are believed.

use proptest::prelude::*;
use sublet_lend::seal::{Cipher, ForgedPage, LeaseKey, PageNonce, PageTag, WriteSequence};

type Page = [u8; 4096];

const BLANK: Page = [0; 4096];

/// What a refused page was before it was opened: not zeros.
const USED: Page = [0xee; 4096];

/// A page whose bytes follow from `seed`.
fn page_of(seed: u64) -> Page {
    let mut state = seed | 1;
    std::array::from_fn(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    })
}

fn nonce_of(index: u32, place: u16, sequence: u32) -> PageNonce {
    PageNonce {
        index,
        place,
        sequence: WriteSequence(sequence),
    }
}

/// A page as the lender holds it, with what the borrower keeps of it.
#[derive(Debug)]
struct SealedPage {
    key: LeaseKey,
    nonce: PageNonce,
    tag: PageTag,
    bytes: Page,
}

impl SealedPage {
    fn new(cipher: Cipher, secret: [u8; 32], nonce: PageNonce, page: &Page) -> SealedPage {
        let key = LeaseKey::new(cipher, &secret);
        let mut bytes = USED;
        let tag = key.seal(nonce, page, &mut bytes);
        SealedPage {
            key,
            nonce,
            tag,
            bytes,
        }
    }

    /// Opens the page in place and into another page. Both must say the same. After a refusal both must be zeros.
    fn open(&self) -> Result<Page, ForgedPage> {
        let (mut in_place, mut elsewhere) = (self.bytes, USED);
        let opened = self.key.open(self.nonce, self.tag, &mut in_place);
        let copied = self
            .key
            .open_into(self.nonce, self.tag, &self.bytes, &mut elsewhere);
        assert_eq!(opened, copied);
        assert_eq!(in_place, elsewhere);
        if let Err(forged) = opened {
            assert_eq!(forged, ForgedPage(self.nonce));
            assert_eq!(in_place, BLANK, "nothing of a refused page is left");
        }
        opened.map(|()| in_place)
    }
}

fn any_cipher() -> impl Strategy<Value = Cipher> {
    prop::sample::select(Cipher::ALL.to_vec())
}

fn any_nonce() -> impl Strategy<Value = PageNonce> {
    (any::<u32>(), 0u16..512, any::<u32>())
        .prop_map(|(index, place, sequence)| nonce_of(index, place, sequence))
}

/// A sealed page and the page.
fn any_sealed() -> impl Strategy<Value = (SealedPage, Page)> {
    (any_cipher(), any::<[u8; 32]>(), any_nonce(), any::<u64>()).prop_map(
        |(cipher, secret, nonce, seed)| {
            let page = page_of(seed);
            (SealedPage::new(cipher, secret, nonce, &page), page)
        },
    )
}

proptest! {
    #[test]
    fn a_page_opens_as_it_was_sealed((sealed, page) in any_sealed()) {
        prop_assert_ne!(sealed.bytes, page);
        prop_assert_eq!(sealed.open(), Ok(page));
    }

    #[test]
    fn any_other_bit_of_the_bytes_is_refused((mut sealed, _) in any_sealed(), bit in 0usize..4096 * 8) {
        sealed.bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(sealed.open().is_err());
    }

    #[test]
    fn any_other_bit_of_the_tag_is_refused((mut sealed, _) in any_sealed(), bit in 0usize..128) {
        sealed.tag.0[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(sealed.open().is_err());
    }

    #[test]
    fn any_other_bit_of_the_nonce_is_refused((mut sealed, _) in any_sealed(), bit in 0u32..32 + 16 + 32) {
        match bit {
            0..32 => sealed.nonce.index ^= 1 << bit,
            32..48 => sealed.nonce.place ^= 1 << (bit - 32),
            _ => sealed.nonce.sequence.0 ^= 1 << (bit - 48),
        }
        prop_assert!(sealed.open().is_err());
    }

    #[test]
    fn any_other_bit_of_the_key_is_refused(
        cipher in any_cipher(),
        secret in any::<[u8; 32]>(),
        nonce in any_nonce(),
        bit in 0usize..256,
    ) {
        let mut sealed = SealedPage::new(cipher, secret, nonce, &page_of(7));
        let is_used = cipher == Cipher::ChaCha20Poly1305 || bit < 128;
        let mut other = secret;
        other[bit / 8] ^= 1 << (bit % 8);
        sealed.key = LeaseKey::new(cipher, &other);
        prop_assert_eq!(sealed.open().is_err(), is_used);
    }

    #[test]
    fn an_older_page_of_the_frame_is_refused(
        cipher in any_cipher(),
        secret in any::<[u8; 32]>(),
        nonce in any_nonce(),
        age in 1u32..1000,
    ) {
        let older = nonce_of(nonce.index, nonce.place, nonce.sequence.0.wrapping_sub(age));
        let old = SealedPage::new(cipher, secret, older, &page_of(1));
        let mut new = SealedPage::new(cipher, secret, nonce, &page_of(2));
        new.bytes = old.bytes;
        prop_assert!(new.open().is_err());
        new.tag = old.tag;
        prop_assert!(new.open().is_err(), "not even with the tag of then");
    }

    #[test]
    fn the_pages_of_two_frames_exchanged_are_refused(
        cipher in any_cipher(),
        secret in any::<[u8; 32]>(),
        one in any_nonce(),
        two in any_nonce(),
    ) {
        prop_assume!((one.index, one.place) != (two.index, two.place));
        let two = PageNonce { sequence: one.sequence, ..two };
        let mut first = SealedPage::new(cipher, secret, one, &page_of(1));
        let mut second = SealedPage::new(cipher, secret, two, &page_of(1));
        std::mem::swap(&mut first.bytes, &mut second.bytes);
        prop_assert!(first.open().is_err() && second.open().is_err());
        std::mem::swap(&mut first.tag, &mut second.tag);
        prop_assert!(first.open().is_err() && second.open().is_err(), "nor with their tags");
    }
}

/// What `cipher` makes of a blank page under a key of zeros and a nonce of zeros.
fn sealed_blank(cipher: Cipher) -> SealedPage {
    SealedPage::new(cipher, [0; 32], nonce_of(0, 0, 0), &BLANK)
}

/// RFC 8439, A.1, test vector 2: the block of counter 1, with which the sealed bytes begin.
#[test]
fn chacha_is_that_of_rfc_8439() {
    let block = [
        0x9f, 0x07, 0xe7, 0xbe, 0x55, 0x51, 0x38, 0x7a, 0x98, 0xba, 0x97, 0x7c, 0x73, 0x2d, 0x08,
        0x0d, 0xcb, 0x0f, 0x29, 0xa0, 0x48, 0xe3, 0x65, 0x69, 0x12, 0xc6, 0x53, 0x3e, 0x32, 0xee,
        0x7a, 0xed, 0x29, 0xb7, 0x21, 0x76, 0x9c, 0xe6, 0x4e, 0x43, 0xd5, 0x71, 0x33, 0xb0, 0x74,
        0xd8, 0x39, 0xd5, 0x31, 0xed, 0x1f, 0x28, 0x51, 0x0a, 0xfb, 0x45, 0xac, 0xe1, 0x0a, 0x1f,
        0x4b, 0x79, 0x4d, 0x6f,
    ];
    let sealed = sealed_blank(Cipher::ChaCha20Poly1305);
    assert_eq!(sealed.bytes[..64], block);
}

/// The GCM specification (McGrew and Viega), test case 2: the first block.
#[test]
fn aes_gcm_is_that_of_its_specification() {
    let block = [
        0x03, 0x88, 0xda, 0xce, 0x60, 0xb6, 0xa3, 0x92, 0xf3, 0x28, 0xc2, 0xb9, 0x71, 0xb2, 0xfe,
        0x78,
    ];
    assert_eq!(sealed_blank(Cipher::Aes128Gcm).bytes[..16], block);
}

#[test]
fn a_key_shows_its_cipher_and_none_of_its_bytes() {
    for cipher in Cipher::ALL {
        let shown = format!("{:?}", LeaseKey::new(cipher, &[0xab; 32]));
        assert_eq!(shown, format!("LeaseKey({cipher})"));
    }
}

#[test]
fn a_forged_page_is_named() {
    assert_eq!(
        ForgedPage(nonce_of(7, 8, 9)).to_string(),
        "block 7, place 8: the lender's bytes are not what was sealed there as write 9: count it and answer a miss"
    );
}
