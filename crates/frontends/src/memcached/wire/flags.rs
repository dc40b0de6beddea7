//! The key and the flags of a meta request.

use sublet_store::NewCas;

use super::super::map::{Key, KeyForm};
use super::super::numbers::{signed_32, unsigned, unsigned_32};
use super::words::Words;

/// The most flags of a request. memcached counts 20 words, among them the command, the key and an empty last one.
const FLAGS_MAX: usize = 17;

/// The longest opaque, including its flag.
const OPAQUE_MAX: usize = 32;

/// Why a request is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::memcached) enum MalformedRequest {
    #[error("bad command line format")]
    Format,
    #[error("options flags are too long")]
    TooManyFlags,
    #[error("duplicate flag")]
    DuplicateFlag,
    #[error("invalid flag")]
    UnknownFlag,
    #[error("bad token in command line format")]
    BadToken,
    #[error("error decoding key")]
    BadKey,
    #[error("opaque token too long")]
    OpaqueTooLong,
    #[error("invalid numeric initial value")]
    BadInitial,
    #[error("invalid numeric delta value")]
    BadDelta,
    #[error("invalid mode for ms M token")]
    StoreMode,
    #[error("invalid mode for ma M token")]
    CountMode,
    #[error("invalid or duplicate flag")]
    FlagsOfCount,
}

/// A meta request without its value.
#[derive(Clone, Debug)]
pub(in crate::memcached) struct MetaFlags<'a> {
    pub(in crate::memcached) key: Key<'a>,
    /// `b`: the key is in base64.
    pub(in crate::memcached) binary_key: bool,
    /// `v`: reply with the value.
    pub(in crate::memcached) value: bool,
    /// `q`: omit the reply to the plain outcome.
    pub(in crate::memcached) quiet: bool,
    /// `c`: reply with the cas unique.
    pub(in crate::memcached) cas: bool,
    /// `u`: do not count this as a use of the item.
    pub(in crate::memcached) no_use: bool,
    /// `I`: mark the item stale, or let a lower cas unique store.
    pub(in crate::memcached) invalidate: bool,
    /// `x`: remove only the value.
    pub(in crate::memcached) empty: bool,
    /// `T`: the new time to live of the item.
    pub(in crate::memcached) expiry: Option<i32>,
    /// `N`: the time to live of an item that is created because none is there.
    pub(in crate::memcached) vivify: Option<i32>,
    /// `R`: an item with less time left than this shall be refreshed.
    pub(in crate::memcached) recache: Option<i32>,
    /// `C`: the cas unique that the client saw.
    pub(in crate::memcached) compare: Option<u64>,
    /// `E`: the new cas unique of the item.
    pub(in crate::memcached) given_cas: Option<u64>,
    /// `F`: the client flags.
    pub(in crate::memcached) client_flags: u32,
    /// `M`: the kind of store or count.
    pub(in crate::memcached) mode: Option<u8>,
    /// `D`: the amount to count by.
    pub(in crate::memcached) delta: u64,
    /// `J`: the number at which a count begins.
    pub(in crate::memcached) initial: u64,
    words: Words<'a>,
}

impl<'a> MetaFlags<'a> {
    /// Parses a request whose key comes first and whose flags come next.
    pub(in crate::memcached) fn of(
        mut words: Words<'a>,
    ) -> Result<MetaFlags<'a>, MalformedRequest> {
        let key = words.next().ok_or(MalformedRequest::Format)?;
        MetaFlags::parse(key, words)
    }

    /// Parses a key and the flags behind it. In an ms request the length stands between them, and the caller removes it
    /// first.
    pub(in crate::memcached) fn parse(
        key: &'a [u8],
        words: Words<'a>,
    ) -> Result<MetaFlags<'a>, MalformedRequest> {
        let mut flags = MetaFlags::new(key, words)?;
        match flags.parse_all(words) {
            Ok(taken) if taken <= FLAGS_MAX => Ok(flags),
            // Too many flags are reported before any other error of the flags.
            Err(wrong) if words.count() <= FLAGS_MAX => Err(wrong),
            _ => Err(MalformedRequest::TooManyFlags),
        }
    }

    /// Parses all flags and returns their number. If several are wrong, the error is that of the last one. But an
    /// unknown or repeated flag ends the parsing, and the error is that flag's.
    fn parse_all(&mut self, words: Words<'a>) -> Result<usize, MalformedRequest> {
        let mut seen = 0u128;
        let mut wrong = None;
        for flag in words {
            let bit = 1u128
                .checked_shl(flag[0].into())
                .ok_or(MalformedRequest::DuplicateFlag)?;
            if seen & bit != 0 {
                return Err(MalformedRequest::DuplicateFlag);
            }
            seen |= bit;
            match self.parse_flag(flag[0], &flag[1..]) {
                Err(MalformedRequest::UnknownFlag) => return Err(MalformedRequest::UnknownFlag),
                // Wrong client flags do not replace an earlier error.
                Err(MalformedRequest::Format) => _ = wrong.get_or_insert(MalformedRequest::Format),
                Err(why) => wrong = Some(why),
                Ok(()) => {}
            }
        }
        match wrong {
            Some(why) => Err(why),
            None => Ok(seen.count_ones() as usize),
        }
    }

    fn new(key: &'a [u8], words: Words<'a>) -> Result<MetaFlags<'a>, MalformedRequest> {
        Ok(MetaFlags {
            key: Key::new(key).ok_or(MalformedRequest::Format)?,
            binary_key: false,
            value: false,
            quiet: false,
            cas: false,
            no_use: false,
            invalidate: false,
            empty: false,
            expiry: None,
            vivify: None,
            recache: None,
            compare: None,
            given_cas: None,
            client_flags: 0,
            mode: None,
            delta: 1,
            initial: 0,
            words,
        })
    }

    fn parse_flag(&mut self, flag: u8, token: &[u8]) -> Result<(), MalformedRequest> {
        let time = || signed_32(token).ok_or(MalformedRequest::BadToken);
        let number = || unsigned(token).ok_or(MalformedRequest::BadToken);
        match flag {
            b'v' => self.value = true,
            b'q' => self.quiet = true,
            b'c' => self.cas = true,
            b'k' | b's' | b't' | b'f' | b'h' | b'l' | b'P' | b'L' => {}
            b'O' if token.len() < OPAQUE_MAX => {}
            b'O' => return Err(MalformedRequest::OpaqueTooLong),
            b'u' => self.no_use = true,
            b'I' => self.invalidate = true,
            b'x' => self.empty = true,
            b'T' => self.expiry = Some(time()?),
            b'N' => self.vivify = Some(time()?),
            b'R' => self.recache = Some(time()?),
            b'C' => self.compare = Some(number()?),
            b'E' => self.given_cas = Some(number()?),
            b'F' => self.client_flags = unsigned_32(token).ok_or(MalformedRequest::Format)?,
            b'J' => self.initial = unsigned(token).ok_or(MalformedRequest::BadInitial)?,
            b'D' => self.delta = unsigned(token).ok_or(MalformedRequest::BadDelta)?,
            // Only the first letter counts. An empty mode becomes one that no command has.
            b'M' => self.mode = Some(token.first().copied().unwrap_or(b' ')),
            b'b' => {
                self.key = self.key.decoded().ok_or(MalformedRequest::BadKey)?;
                self.binary_key = true;
            }
            _ => return Err(MalformedRequest::UnknownFlag),
        }
        Ok(())
    }

    /// Returns the form in which the request gives its key.
    pub(in crate::memcached) fn key_form(&self) -> KeyForm {
        match self.binary_key {
            true => KeyForm::Base64,
            false => KeyForm::Plain,
        }
    }

    /// Returns the flags in the order of the request.
    pub(in crate::memcached) fn in_request_order(
        &self,
    ) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.words
    }

    /// Returns how an item that this request stores gets its cas unique.
    pub(in crate::memcached) fn new_cas(&self) -> NewCas {
        match self.given_cas {
            Some(cas) => NewCas::Is(cas),
            None if self.cas => NewCas::Reported,
            None => NewCas::Fresh,
        }
    }
}
