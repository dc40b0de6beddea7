//! Reads files that people name, within bounds of size and time. A named pipe may have no writer, and a device no end.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

/// How long the writer of a pipe may take until it closes the pipe.
const WRITTEN_WITHIN: Duration = Duration::from_secs(5);
/// How often a pipe is read until then.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// The writer of a pipe took too long.
#[derive(Debug, thiserror::Error)]
struct PipeTimeout {
    is_pipe: IsPipe,
    bytes_read: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IsPipe {
    Yes,
    No,
}

impl fmt::Display for PipeTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.is_pipe, self.bytes_read) {
            (IsPipe::Yes, 0) => write!(
                f,
                "it is a named pipe, and nobody wrote to it within {WRITTEN_WITHIN:?}; name a file, or start its writer"
            ),
            (IsPipe::Yes, bytes_read) => write!(
                f,
                "it is a named pipe, and its writer had not closed it after {WRITTEN_WITHIN:?} and {bytes_read} bytes"
            ),
            (IsPipe::No, bytes_read) => write!(
                f,
                "it is no regular file, and did not end within {WRITTEN_WITHIN:?}; {bytes_read} bytes came"
            ),
        }
    }
}

/// Reads a whole file. It reads a pipe until its writer has closed it, and waits at most some seconds.
///
/// # Errors
///
/// The system fails, the file is larger than `most` bytes, or a pipe is not written in time.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let nonblock = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(nonblock.bits() as i32)
        .open(path)?;
    let kind = file.metadata()?;
    let limited = (&file).take(most + 1);
    let bytes = match kind.is_file() {
        true => whole(limited)?,
        false if kind.file_type().is_fifo() => waited_for(limited, IsPipe::Yes)?,
        false => waited_for(limited, IsPipe::No)?,
    };
    match bytes.len() as u64 > most {
        true => Err(ErrorKind::FileTooLarge.into()),
        false => Ok(bytes),
    }
}

/// Reads a whole file of text.
///
/// # Errors
///
/// The errors of [`read`], or the file is not UTF-8.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    let bytes = read(path, most)?;
    String::from_utf8(bytes).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

fn whole(mut file: io::Take<&File>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a pipe or a device with a deadline.
///
/// A pipe that no process has open for writing reports its end. It does so before its writer came and after it has
/// gone. Bytes of a writer that has gone before this call are still there.
fn waited_for(mut file: io::Take<&File>, is_pipe: IsPipe) -> io::Result<Vec<u8>> {
    let began = Instant::now();
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    while began.elapsed() < WRITTEN_WITHIN {
        match file.read(&mut piece) {
            Ok(0) if is_pipe == IsPipe::No || !bytes.is_empty() || file.limit() == 0 => {
                return Ok(bytes);
            }
            Ok(0) => sleep(LOOK_INTERVAL),
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => sleep(LOOK_INTERVAL),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let bytes_read = bytes.len();
    let unwritten = PipeTimeout {
        is_pipe,
        bytes_read,
    };
    Err(io::Error::new(ErrorKind::TimedOut, unwritten))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    fn pipe(folder: &tempfile::TempDir) -> std::path::PathBuf {
        let path = folder.path().join("pipe");
        mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).expect("a pipe");
        path
    }

    #[test]
    fn a_pipe_without_a_writer_is_given_up_and_one_with_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = pipe(&folder);
        let unwritten = read(&path, 100).expect_err("nobody writes");
        assert_eq!(unwritten.kind(), ErrorKind::TimedOut);
        assert!(unwritten.to_string().contains("named pipe"), "{unwritten}");
        let large = vec![b'a'; 200_000];
        std::thread::scope(|scope| {
            scope.spawn(|| fs::write(&path, &large).expect("written"));
            assert_eq!(read(&path, 1 << 20).expect("read"), large);
        });
        let _open = OpenOptions::new().read(true).write(true).open(&path);
        let stuck = read(&path, 100).expect_err("it is never closed");
        assert_eq!(stuck.kind(), ErrorKind::TimedOut);
    }

    /// This is how a shell's `<(command)` looks once the command has ended.
    #[test]
    fn what_a_writer_left_in_a_pipe_is_read() {
        let (reads, mut writes) = io::pipe().expect("a pipe");
        writes.write_all(b"left").expect("written");
        drop(writes);
        let path = format!("/dev/fd/{}", reads.as_raw_fd());
        assert_eq!(read(Path::new(&path), 4).expect("read"), b"left");
    }

    #[test]
    fn nothing_larger_than_allowed_is_read_whatever_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        fs::write(&file, "12345").expect("written");
        assert_eq!(read_text(&file, 5).expect("it fits"), "12345");
        for path in [&file, Path::new("/dev/zero")] {
            let refused = read(path, 4).expect_err("too large");
            assert_eq!(refused.kind(), ErrorKind::FileTooLarge);
        }
        assert_eq!(read(Path::new("/dev/null"), 4).expect("it ends"), b"");
    }
}
