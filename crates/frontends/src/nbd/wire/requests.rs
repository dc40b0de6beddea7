//! The bytes of requests, and what they ask for once all of it is checked.

use super::Front;
use super::replies::Errno;
use crate::block::{self, Fault, REQUEST_BYTES_MAX, Shape};

const REQUEST_MAGIC: u32 = 0x2560_9513;

/// Bytes of a request before its payload.
pub const HEAD_BYTES: usize = 28;

mod flag {
    pub(super) const FUA: u16 = 1 << 0;
    pub(super) const NO_HOLE: u16 = 1 << 1;
    pub(super) const DF: u16 = 1 << 2;
    pub(super) const REQ_ONE: u16 = 1 << 3;
    pub(super) const FAST_ZERO: u16 = 1 << 4;
}

mod verb {
    pub(super) const READ: u16 = 0;
    pub(super) const WRITE: u16 = 1;
    pub(super) const DISC: u16 = 2;
    pub(super) const FLUSH: u16 = 3;
    pub(super) const TRIM: u16 = 4;
    pub(super) const PREFETCH: u16 = 5;
    pub(super) const WRITE_ZEROES: u16 = 6;
    pub(super) const BLOCK_STATUS: u16 = 7;
}

/// What was settled before the first request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Reads are answered in chunks.
    pub structured: bool,
    /// BLOCK_STATUS may be asked for base:allocation.
    pub extents: bool,
}

/// The front of a request, as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    flags: u16,
    verb: u16,
    /// What its reply is called.
    pub cookie: u64,
    /// The first byte.
    pub at: u64,
    /// How many.
    pub len: u32,
}

/// What a request asks for. Its range lies on the disk, and its length is within bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Bytes.
    Read,
    /// Keep these.
    Write {
        /// FUA.
        lasting: bool,
    },
    /// Hang up once all is answered.
    Disconnect,
    /// Keep what was answered.
    Flush,
    /// Forget.
    Trim {
        /// FUA.
        lasting: bool,
    },
    /// Zeroes.
    Zero {
        /// A hole will do.
        hole: bool,
        /// Only if it is faster than a write.
        fast: bool,
        /// FUA.
        lasting: bool,
    },
    /// Soon to be read.
    Prefetch,
    /// Which parts have bytes.
    Extents {
        /// One extent is enough.
        one: bool,
    },
}

impl Head {
    /// Reads a request's head; none where the magic is wrong.
    pub fn of(bytes: &[u8; HEAD_BYTES]) -> Option<Head> {
        let mut front = Front(bytes);
        if front.u32()? != REQUEST_MAGIC {
            return None;
        }
        Some(Head {
            flags: front.u16()?,
            verb: front.u16()?,
            cookie: front.u64()?,
            at: front.u64()?,
            len: front.u32()?,
        })
    }

    /// Bytes that follow it, whether it makes sense or not.
    pub fn payload(&self) -> u32 {
        match self.verb {
            verb::WRITE => self.len,
            _ => 0,
        }
    }

    /// Bytes that a disk would need for it.
    pub fn buffer(&self) -> usize {
        match self.verb {
            verb::READ | verb::WRITE => self.len.min(REQUEST_BYTES_MAX) as usize,
            _ => 0,
        }
    }

    /// Whether its errors come in chunks.
    pub(crate) fn is_answered_in_chunks(&self, terms: &Terms) -> bool {
        terms.structured && matches!(self.verb, verb::READ | verb::BLOCK_STATUS)
    }

    /// What it asks for of a disk of that shape.
    ///
    /// # Errors
    ///
    /// What the client is told instead.
    pub fn ask(&self, terms: &Terms, shape: &Shape) -> Result<Ask, Errno> {
        let ask = self.known()?;
        if self.flags & !self.flags_granted(terms) != 0 {
            return Err(Errno::Invalid);
        }
        match ask {
            Ask::Disconnect => return Ok(ask),
            Ask::Flush if self.at != 0 || self.len != 0 => return Err(Errno::Invalid),
            Ask::Extents { .. } if !terms.extents || self.len == 0 => return Err(Errno::Invalid),
            Ask::Write { .. } | Ask::Trim { .. } | Ask::Zero { .. } if shape.read_only => {
                return Err(Errno::NotPermitted);
            }
            Ask::Read if self.len > REQUEST_BYTES_MAX && self.has(flag::DF) => {
                return Err(Errno::Overflow);
            }
            Ask::Read | Ask::Write { .. } if self.len > REQUEST_BYTES_MAX => {
                return Err(Errno::Invalid);
            }
            _ => {}
        }
        let checked = shape.check(self.at, u64::from(self.len));
        checked.map_err(|fault| ask.errno(fault))?;
        Ok(ask)
    }

    fn known(&self) -> Result<Ask, Errno> {
        let lasting = self.has(flag::FUA);
        Ok(match self.verb {
            verb::READ => Ask::Read,
            verb::WRITE => Ask::Write { lasting },
            verb::DISC => Ask::Disconnect,
            verb::FLUSH => Ask::Flush,
            verb::TRIM => Ask::Trim { lasting },
            verb::PREFETCH => Ask::Prefetch,
            verb::WRITE_ZEROES => Ask::Zero {
                hole: !self.has(flag::NO_HOLE),
                fast: self.has(flag::FAST_ZERO),
                lasting,
            },
            verb::BLOCK_STATUS => Ask::Extents {
                one: self.has(flag::REQ_ONE),
            },
            _ => return Err(Errno::Invalid),
        })
    }

    /// FUA must be borne with everywhere.
    fn flags_granted(&self, terms: &Terms) -> u16 {
        flag::FUA
            | match self.verb {
                verb::READ if terms.structured => flag::DF,
                verb::WRITE_ZEROES => flag::NO_HOLE | flag::FAST_ZERO,
                verb::BLOCK_STATUS => flag::REQ_ONE,
                _ => 0,
            }
    }

    fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

impl Ask {
    /// The same, as a disk is asked; none for what no disk hears of.
    pub fn verb(self) -> Option<block::Verb> {
        Some(match self {
            Ask::Read => block::Verb::Read,
            Ask::Write { lasting } => block::Verb::Write { lasting },
            Ask::Disconnect => return None,
            Ask::Flush => block::Verb::Flush,
            Ask::Trim { .. } => block::Verb::Trim,
            Ask::Zero {
                hole,
                fast,
                lasting,
            } => block::Verb::Zero {
                hole,
                fast,
                lasting,
            },
            Ask::Prefetch => block::Verb::Prefetch,
            Ask::Extents { one } => block::Verb::Extents { one },
        })
    }

    /// What a client is told of a fault.
    pub fn errno(self, fault: Fault) -> Errno {
        match (fault, self) {
            (Fault::OutOfRange, Ask::Write { .. } | Ask::Zero { .. }) => Errno::NoSpace,
            (Fault::OutOfRange, _) => Errno::Invalid,
            (Fault::ReadOnly, _) => Errno::NotPermitted,
            (Fault::NoSpace, _) => Errno::NoSpace,
            (Fault::Io, _) => Errno::Io,
            (Fault::NotSupported, Ask::Zero { fast: true, .. }) => Errno::NotSupported,
            (Fault::NotSupported, _) => Errno::Invalid,
            (Fault::Leaving, _) => Errno::Shutdown,
        }
    }
}
