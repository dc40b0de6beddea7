//! A meta request's key and flags.

use sublet_store::NewCas;

use super::super::map::Key;
use super::super::numbers::{signed_32, unsigned, unsigned_32};
use super::words::Words;

/// The most flags of a request: memcached counts 20 words, among them the command, the key and an empty last one.
const FLAGS_MAX: usize = 17;

/// The longest opaque, its flag included.
const OPAQUE_MAX: usize = 32;

/// What is wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::memcached) enum Malformed {
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

/// A meta request, but for its value.
#[derive(Clone, Debug)]
pub(in crate::memcached) struct Flags<'a> {
    pub(in crate::memcached) key: Key<'a>,
    /// `b`: the key came in base64.
    pub(in crate::memcached) binary_key: bool,
    /// `v`: the value is wanted.
    pub(in crate::memcached) value: bool,
    /// `q`: the plain outcome is not.
    pub(in crate::memcached) quiet: bool,
    /// `c`: the cas unique is wanted.
    pub(in crate::memcached) cas: bool,
    /// `u`: this is no use of the item.
    pub(in crate::memcached) no_use: bool,
    /// `I`: mark stale; or a lower cas unique may store.
    pub(in crate::memcached) invalidate: bool,
    /// `x`: remove the value alone.
    pub(in crate::memcached) empty: bool,
    /// `T`: the time to live that the item gets.
    pub(in crate::memcached) expiry: Option<i32>,
    /// `N`: the time to live of an item that is made because there is none.
    pub(in crate::memcached) vivify: Option<i32>,
    /// `R`: an item that has less left than this is to be refreshed.
    pub(in crate::memcached) recache: Option<i32>,
    /// `C`: the cas unique that the client saw.
    pub(in crate::memcached) compare: Option<u64>,
    /// `E`: the cas unique that the item gets.
    pub(in crate::memcached) given_cas: Option<u64>,
    /// `F`: client flags.
    pub(in crate::memcached) client_flags: u32,
    /// `M`: what kind of store or count.
    pub(in crate::memcached) mode: Option<u8>,
    /// `D`: by how much to count.
    pub(in crate::memcached) delta: u64,
    /// `J`: where a count begins.
    pub(in crate::memcached) initial: u64,
    words: Words<'a>,
}

impl<'a> Flags<'a> {
    /// Reads a request whose key comes first and its flags next.
    pub(in crate::memcached) fn of(mut words: Words<'a>) -> Result<Flags<'a>, Malformed> {
        let key = words.next().ok_or(Malformed::Format)?;
        Flags::parse(key, words)
    }

    /// Reads a key and the flags behind it. For ms the length lies between them, and is taken off first.
    pub(in crate::memcached) fn parse(
        key: &'a [u8],
        words: Words<'a>,
    ) -> Result<Flags<'a>, Malformed> {
        let mut flags = Flags::new(key, words)?;
        match flags.take_all(words) {
            Ok(taken) if taken <= FLAGS_MAX => Ok(flags),
            // This is said before anything else is looked at.
            Err(wrong) if words.count() <= FLAGS_MAX => Err(wrong),
            _ => Err(Malformed::TooManyFlags),
        }
    }

    /// Says how many there were. Of several that are wrong the last one is told, but for one that is unknown or there twice:
    /// nothing behind it is looked at.
    fn take_all(&mut self, words: Words<'a>) -> Result<usize, Malformed> {
        let mut seen = 0u128;
        let mut wrong = None;
        for flag in words {
            let bit = 1u128
                .checked_shl(flag[0].into())
                .ok_or(Malformed::DuplicateFlag)?;
            if seen & bit != 0 {
                return Err(Malformed::DuplicateFlag);
            }
            seen |= bit;
            match self.take(flag[0], &flag[1..]) {
                Err(Malformed::UnknownFlag) => return Err(Malformed::UnknownFlag),
                // What is said of client flags is what was said before them.
                Err(Malformed::Format) => _ = wrong.get_or_insert(Malformed::Format),
                Err(why) => wrong = Some(why),
                Ok(()) => {}
            }
        }
        match wrong {
            Some(why) => Err(why),
            None => Ok(seen.count_ones() as usize),
        }
    }

    fn new(key: &'a [u8], words: Words<'a>) -> Result<Flags<'a>, Malformed> {
        Ok(Flags {
            key: Key::new(key).ok_or(Malformed::Format)?,
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

    fn take(&mut self, flag: u8, token: &[u8]) -> Result<(), Malformed> {
        let time = || signed_32(token).ok_or(Malformed::BadToken);
        let number = || unsigned(token).ok_or(Malformed::BadToken);
        match flag {
            b'v' => self.value = true,
            b'q' => self.quiet = true,
            b'c' => self.cas = true,
            b'k' | b's' | b't' | b'f' | b'h' | b'l' | b'P' | b'L' => {}
            b'O' if token.len() < OPAQUE_MAX => {}
            b'O' => return Err(Malformed::OpaqueTooLong),
            b'u' => self.no_use = true,
            b'I' => self.invalidate = true,
            b'x' => self.empty = true,
            b'T' => self.expiry = Some(time()?),
            b'N' => self.vivify = Some(time()?),
            b'R' => self.recache = Some(time()?),
            b'C' => self.compare = Some(number()?),
            b'E' => self.given_cas = Some(number()?),
            b'F' => self.client_flags = unsigned_32(token).ok_or(Malformed::Format)?,
            b'J' => self.initial = unsigned(token).ok_or(Malformed::BadInitial)?,
            b'D' => self.delta = unsigned(token).ok_or(Malformed::BadDelta)?,
            // Its first letter counts. None is one that no command has.
            b'M' => self.mode = Some(token.first().copied().unwrap_or(b' ')),
            b'b' => {
                self.key = self.key.decoded().ok_or(Malformed::BadKey)?;
                self.binary_key = true;
            }
            _ => return Err(Malformed::UnknownFlag),
        }
        Ok(())
    }

    /// The flags in the order of the request.
    pub(in crate::memcached) fn returned(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.words
    }

    /// How an item that this request stores gets its cas unique.
    pub(in crate::memcached) fn new_cas(&self) -> NewCas {
        match self.given_cas {
            Some(cas) => NewCas::Is(cas),
            None if self.cas => NewCas::Told,
            None => NewCas::Fresh,
        }
    }
}
