//! The parts of a save and the checksums over them, whatever the parts contain.

use std::io::{self, Read, Write};

use sublet_types::{FileKind, FileVersion};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use crate::api::RestoreError;

const MAGIC: &[u8; 8] = b"SUBLETPG";
const PAGE_MARK: u8 = b'P';
const END_MARK: u8 = b'E';
const SUM_BYTES: usize = 16;

/// Writes a save, part by part.
pub(crate) struct SaveWriter<W> {
    out: W,
    sums: Xxh3,
    pages: u64,
    /// The part that is being written.
    part: Vec<u8>,
}

impl<W: Write> SaveWriter<W> {
    /// Writes the head: the version, and what `append_head` appends.
    pub(crate) fn begin(
        out: W,
        append_head: impl FnOnce(&mut Vec<u8>),
    ) -> io::Result<SaveWriter<W>> {
        let mut writer = SaveWriter {
            out,
            sums: Xxh3::new(),
            pages: 0,
            part: MAGIC.to_vec(),
        };
        let version = FileKind::Save.current();
        writer.part.extend_from_slice(&version.to_le_bytes());
        append_head(&mut writer.part);
        writer.end_part()?;
        Ok(writer)
    }

    /// Writes a page with what `room` appends.
    pub(crate) fn page(&mut self, room: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        self.part.push(PAGE_MARK);
        room(&mut self.part);
        self.pages += 1;
        self.end_part()
    }

    fn end_part(&mut self) -> io::Result<()> {
        let sum = xxh3_128(&self.part).to_le_bytes();
        self.sums.update(&sum);
        self.part.extend_from_slice(&sum);
        self.out.write_all(&self.part)?;
        self.part.clear();
        Ok(())
    }

    /// Writes the end mark. Returns how many pages there are.
    pub(crate) fn end(mut self) -> io::Result<u64> {
        self.sums.update(&self.pages.to_le_bytes());
        self.out.write_all(&[END_MARK])?;
        self.out.write_all(&self.pages.to_le_bytes())?;
        self.out.write_all(&self.sums.digest128().to_le_bytes())?;
        self.out.flush()?;
        Ok(self.pages)
    }
}

/// Reads a save, part by part.
pub(crate) struct SaveReader<R> {
    input: R,
    /// The number of bytes that were read.
    at: u64,
    sums: Xxh3,
    pages: u64,
}

impl<R: Read> SaveReader<R> {
    /// Reads the beginning of the head. Returns its bytes, for the checksum, and its version.
    pub(crate) fn begin(input: R) -> Result<(SaveReader<R>, FileVersion, Vec<u8>), RestoreError> {
        let mut importer = SaveReader {
            input,
            at: 0,
            sums: Xxh3::new(),
            pages: 0,
        };
        // A file that is no save, or one of another version, may be shorter than a head of this version.
        let mut head = Vec::new();
        importer.read(&mut head, MAGIC.len())?;
        if head != MAGIC {
            return Err(RestoreError::NoSave);
        }
        let found = importer.read_u32(&mut head)?;
        let version = FileKind::Save.version(found)?;
        Ok((importer, version, head))
    }

    /// Reads `len` more bytes of a part.
    pub(crate) fn read(&mut self, part: &mut Vec<u8>, len: usize) -> Result<(), RestoreError> {
        let read = self.input.by_ref().take(len as u64).read_to_end(part);
        match read {
            Err(error) => Err(RestoreError::Unreadable(error)),
            Ok(read) => {
                self.at += read as u64;
                match read < len {
                    true => Err(RestoreError::Truncated(self.at)),
                    false => Ok(()),
                }
            }
        }
    }

    /// Reads one more number of a part.
    pub(crate) fn read_u32(&mut self, part: &mut Vec<u8>) -> Result<u32, RestoreError> {
        self.read(part, size_of::<u32>())?;
        let number = part.last_chunk().copied().unwrap_or_default();
        Ok(u32::from_le_bytes(number))
    }

    /// Reads the checksum of a part and compares it.
    pub(crate) fn check(&mut self, part: &[u8]) -> Result<(), RestoreError> {
        let at = self.at - part.len() as u64;
        let mut said = Vec::new();
        self.read(&mut said, SUM_BYTES)?;
        self.sums.update(&said);
        match said[..] == xxh3_128(part).to_le_bytes() {
            true => Ok(()),
            false => Err(RestoreError::Damaged(at)),
        }
    }

    /// Reads the next page, of `len` bytes after its mark. Returns `None` after the end mark if all checksums held.
    pub(crate) fn page(&mut self, len: usize) -> Result<Option<Vec<u8>>, RestoreError> {
        let mut record = Vec::with_capacity(1 + len);
        self.read(&mut record, 1)?;
        match record[0] {
            PAGE_MARK => {}
            END_MARK => return self.end().map(|()| None),
            _ => return Err(RestoreError::Damaged(self.at - 1)),
        }
        self.read(&mut record, len)?;
        self.check(&record)?;
        self.pages += 1;
        Ok(Some(record))
    }

    /// Pages that were read.
    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    /// The error for a page that was read before. The page has `len` bytes after its mark.
    pub(crate) fn repeated(&self, len: usize) -> RestoreError {
        RestoreError::Repeated(self.at - (1 + len + SUM_BYTES) as u64)
    }

    /// The error for bytes that have an impossible value.
    pub(crate) fn damaged(&self) -> RestoreError {
        RestoreError::Damaged(self.at)
    }

    fn end(&mut self) -> Result<(), RestoreError> {
        let at = self.at;
        let mut said = Vec::new();
        self.read(&mut said, size_of::<u64>() + SUM_BYTES)?;
        let (pages, sum) = said.split_at(size_of::<u64>());
        self.sums.update(pages);
        let is_whole =
            pages == self.pages.to_le_bytes() && sum == self.sums.digest128().to_le_bytes();
        if !is_whole {
            return Err(RestoreError::Damaged(at));
        }
        match self.input.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(RestoreError::Trailing(self.at)),
            Err(error) => Err(RestoreError::Unreadable(error)),
        }
    }
}
