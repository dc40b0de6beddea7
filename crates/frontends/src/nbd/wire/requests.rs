//! The bytes of requests, and the commands that they stand for once everything is checked.

use super::BigEndianReader;
use super::replies::{Errno, ReplyFormat};
use crate::block_device::{
    DiskFault, DiskOperation, DiskShape, ExtentLimit, Fua, Hole, REQUEST_BYTES_MAX, ZeroSpeed,
    Zeroing,
};

const REQUEST_MAGIC: u32 = 0x2560_9513;

/// Bytes of a request's header.
pub const HEADER_BYTES: usize = 28;

mod flag {
    pub(super) const FUA: u16 = 1 << 0;
    pub(super) const NO_HOLE: u16 = 1 << 1;
    pub(super) const DF: u16 = 1 << 2;
    pub(super) const REQ_ONE: u16 = 1 << 3;
    pub(super) const FAST_ZERO: u16 = 1 << 4;
}

mod command {
    pub(super) const READ: u16 = 0;
    pub(super) const WRITE: u16 = 1;
    pub(super) const DISC: u16 = 2;
    pub(super) const FLUSH: u16 = 3;
    pub(super) const TRIM: u16 = 4;
    pub(super) const PREFETCH: u16 = 5;
    pub(super) const WRITE_ZEROES: u16 = 6;
    pub(super) const BLOCK_STATUS: u16 = 7;
}

/// What client and server agreed on before the first request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NegotiatedOptions {
    /// How the daemon answers reads and BLOCK_STATUS.
    pub reply_format: ReplyFormat,
    /// Whether the client may ask BLOCK_STATUS for base:allocation.
    pub extents: bool,
}

/// The header of a request, unchecked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    flags: u16,
    command: u16,
    /// The client's name for the request, which the reply repeats.
    pub cookie: u64,
    /// The offset of the first byte.
    pub at: u64,
    /// How many bytes.
    pub len: u32,
}

/// What a request asks for. Its range lies on the disk, and its length is within bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NbdCommand {
    /// Read the bytes.
    Read,
    /// Write the payload.
    Write {
        /// When the daemon answers.
        fua: Fua,
    },
    /// Close the connection after everything is answered.
    Disconnect,
    /// Make every answered change durable.
    Flush,
    /// Drop the bytes, which nobody needs any more.
    Trim {
        /// When the daemon answers.
        fua: Fua,
    },
    /// Make the bytes zero.
    Zero(Zeroing),
    /// Expect the bytes to be read soon.
    Prefetch,
    /// Find out which parts have bytes.
    Extents {
        /// How many extents the client wants.
        limit: ExtentLimit,
    },
}

impl RequestHeader {
    /// Reads a request's header. `None` if the magic is wrong.
    pub fn of(bytes: &[u8; HEADER_BYTES]) -> Option<RequestHeader> {
        let mut reader = BigEndianReader(bytes);
        if reader.u32()? != REQUEST_MAGIC {
            return None;
        }
        Some(RequestHeader {
            flags: reader.u16()?,
            command: reader.u16()?,
            cookie: reader.u64()?,
            at: reader.u64()?,
            len: reader.u32()?,
        })
    }

    /// Bytes of the payload that follows, whether the request makes sense or not.
    pub fn payload_len(&self) -> u32 {
        match self.command {
            command::WRITE => self.len,
            _ => 0,
        }
    }

    /// Bytes that the request needs in a disk buffer.
    pub fn buffer_len(&self) -> usize {
        match self.command {
            command::READ | command::WRITE => self.len.min(REQUEST_BYTES_MAX) as usize,
            _ => 0,
        }
    }

    /// In which format the daemon reports this request's errors.
    pub(crate) fn error_format(&self, negotiated: &NegotiatedOptions) -> ReplyFormat {
        match self.command {
            command::READ | command::BLOCK_STATUS => negotiated.reply_format,
            _ => ReplyFormat::Simple,
        }
    }

    /// Checks the request against a disk of that shape.
    ///
    /// # Errors
    ///
    /// The errno that the client gets instead.
    pub fn validate(
        &self,
        negotiated: &NegotiatedOptions,
        shape: &DiskShape,
    ) -> Result<NbdCommand, Errno> {
        let command = self.parse_command()?;
        if self.flags & !self.allowed_flags(negotiated) != 0 {
            return Err(Errno::Invalid);
        }
        match command {
            NbdCommand::Disconnect => return Ok(command),
            NbdCommand::Flush if self.at != 0 || self.len != 0 => return Err(Errno::Invalid),
            NbdCommand::Extents { .. } if !negotiated.extents || self.len == 0 => {
                return Err(Errno::Invalid);
            }
            NbdCommand::Write { .. } | NbdCommand::Trim { .. } | NbdCommand::Zero(_)
                if shape.read_only =>
            {
                return Err(Errno::NotPermitted);
            }
            NbdCommand::Read if self.len > REQUEST_BYTES_MAX && self.has(flag::DF) => {
                return Err(Errno::Overflow);
            }
            NbdCommand::Read | NbdCommand::Write { .. } if self.len > REQUEST_BYTES_MAX => {
                return Err(Errno::Invalid);
            }
            _ => {}
        }
        let checked = shape.check(self.at, u64::from(self.len));
        checked.map_err(|fault| command.errno(fault))?;
        Ok(command)
    }

    fn parse_command(&self) -> Result<NbdCommand, Errno> {
        let fua = match self.has(flag::FUA) {
            true => Fua::On,
            false => Fua::Off,
        };
        Ok(match self.command {
            command::READ => NbdCommand::Read,
            command::WRITE => NbdCommand::Write { fua },
            command::DISC => NbdCommand::Disconnect,
            command::FLUSH => NbdCommand::Flush,
            command::TRIM => NbdCommand::Trim { fua },
            command::PREFETCH => NbdCommand::Prefetch,
            command::WRITE_ZEROES => NbdCommand::Zero(self.zeroing(fua)),
            command::BLOCK_STATUS => NbdCommand::Extents {
                limit: match self.has(flag::REQ_ONE) {
                    true => ExtentLimit::One,
                    false => ExtentLimit::Many,
                },
            },
            _ => return Err(Errno::Invalid),
        })
    }

    fn zeroing(&self, fua: Fua) -> Zeroing {
        Zeroing {
            hole: match self.has(flag::NO_HOLE) {
                true => Hole::Forbidden,
                false => Hole::Allowed,
            },
            speed: match self.has(flag::FAST_ZERO) {
                true => ZeroSpeed::FastOnly,
                false => ZeroSpeed::Any,
            },
            fua,
        }
    }

    /// The flags that this command may have. The protocol has every command accept FUA.
    fn allowed_flags(&self, negotiated: &NegotiatedOptions) -> u16 {
        flag::FUA
            | match self.command {
                command::READ if negotiated.reply_format == ReplyFormat::Structured => flag::DF,
                command::WRITE_ZEROES => flag::NO_HOLE | flag::FAST_ZERO,
                command::BLOCK_STATUS => flag::REQ_ONE,
                _ => 0,
            }
    }

    fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

impl NbdCommand {
    /// The disk operation for this command. `None` for a command that no disk carries out.
    pub fn disk_operation(self) -> Option<DiskOperation> {
        Some(match self {
            NbdCommand::Read => DiskOperation::Read,
            NbdCommand::Write { fua } => DiskOperation::Write { fua },
            NbdCommand::Disconnect => return None,
            NbdCommand::Flush => DiskOperation::Flush,
            NbdCommand::Trim { .. } => DiskOperation::Trim,
            NbdCommand::Zero(zeroing) => DiskOperation::Zero(zeroing),
            NbdCommand::Prefetch => DiskOperation::Prefetch,
            NbdCommand::Extents { limit } => DiskOperation::Extents { limit },
        })
    }

    /// The errno that tells a client of a fault.
    pub fn errno(self, fault: DiskFault) -> Errno {
        match (fault, self) {
            (DiskFault::OutOfRange, NbdCommand::Write { .. } | NbdCommand::Zero(_)) => {
                Errno::NoSpace
            }
            (DiskFault::OutOfRange, _) => Errno::Invalid,
            (DiskFault::ReadOnly, _) => Errno::NotPermitted,
            (DiskFault::NoSpace, _) => Errno::NoSpace,
            (DiskFault::Io, _) => Errno::Io,
            (
                DiskFault::NotSupported,
                NbdCommand::Zero(Zeroing {
                    speed: ZeroSpeed::FastOnly,
                    ..
                }),
            ) => Errno::NotSupported,
            (DiskFault::NotSupported, _) => Errno::Invalid,
            (DiskFault::Leaving, _) => Errno::Shutdown,
        }
    }
}
