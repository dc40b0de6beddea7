//! The files of a source tree, and a walk over them as compilers do it. The walk looks at all files. Then it reads each
//! source once and, for each, some headers. A few headers are read far more often than others.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sublet_sim::rng::{SimRng, Zipf};
use sublet_types::Bytes;

use super::super::super::shuffle::shuffled;

/// Half of the files are smaller than this.
const MEDIAN_BYTES: f64 = 5000.0;
/// The standard deviation of a size's logarithm: sizes are log-normal.
const SIGMA: f64 = 1.2;
const BYTES_MAX: f64 = 1_048_576.0;

/// Files per folder, and folders per folder.
const FOLDER_FILES: usize = 24;
const FOLDER_FOLDERS: usize = 16;

/// One file in this many is a header.
const HEADER_OF: usize = 3;

/// Headers that are read per source.
const HEADERS_READ: usize = 4;
const HEADERS_ALPHA: f64 = 1.0;

/// The number of compilers at work.
pub(super) const THREADS: usize = 8;

/// The files of a tree.
pub(super) struct SourceTree {
    files: Vec<PlannedFile>,
    /// Indexes of headers in `files`, the most read first.
    headers: Vec<usize>,
    sources: Vec<usize>,
    popularity: Zipf,
}

/// A file that is to be made.
struct PlannedFile {
    path: PathBuf,
    bytes: usize,
}

/// A file of a tree failed.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {source}", path = .path.display())]
pub(crate) struct SourceTreeError {
    path: PathBuf,
    source: io::Error,
}

impl SourceTree {
    /// Plans a tree of about `amount`. It is always the same one.
    pub(super) fn of(amount: Bytes) -> SourceTree {
        let mut rng = SimRng::seeded(0x7ee);
        let (mut files, mut sum) = (Vec::new(), 0);
        while sum < amount.0 {
            let bytes = size(&mut rng);
            sum += bytes as u64;
            files.push(PlannedFile {
                path: path(files.len()),
                bytes,
            });
        }
        let (headers, sources): (Vec<usize>, Vec<usize>) =
            (0..files.len()).partition(|place| is_header(*place));
        let order = shuffled(headers.len(), &mut rng);
        let headers: Vec<usize> = order.iter().map(|at| headers[*at as usize]).collect();
        SourceTree {
            popularity: Zipf::of(headers.len() as u64, HEADERS_ALPHA),
            files,
            headers,
            sources,
        }
    }

    /// The number of files.
    pub(super) fn files(&self) -> usize {
        self.files.len()
    }

    /// Makes the files below `top`.
    pub(super) fn write(&self, top: &Path) -> Result<(), SourceTreeError> {
        for (place, file) in self.files.iter().enumerate() {
            let at = top.join(&file.path);
            let folder = at.parent().unwrap_or(top);
            fs::create_dir_all(folder)
                .and_then(|()| fs::write(&at, file_content(place, file.bytes)))
                .map_err(|source| SourceTreeError { path: at, source })?;
        }
        Ok(())
    }

    /// Walks the tree below `top`. Returns how long that took.
    pub(super) fn walk(&self, top: &Path) -> Result<Duration, SourceTreeError> {
        let begun = Instant::now();
        side_by_side(self.files.len(), |place, _| self.look_at(top, place))?;
        side_by_side(self.sources.len(), |number, room| {
            self.read(top, self.sources[number], room)?;
            for header in self.headers_of(number) {
                self.read(top, header, room)?;
            }
            Ok(())
        })?;
        Ok(begun.elapsed())
    }

    /// The headers that a source includes. They are the same for every compiler.
    fn headers_of(&self, source: usize) -> impl Iterator<Item = usize> + use<'_> {
        let mut rng = SimRng::seeded(source as u64);
        let headers = HEADERS_READ.min(self.headers.len());
        (0..headers).map(move |_| self.headers[self.popularity.draw(&mut rng) as usize])
    }

    fn look_at(&self, top: &Path, place: usize) -> Result<(), SourceTreeError> {
        let file = &self.files[place];
        let path = top.join(&file.path);
        let right = fs::metadata(&path).and_then(|found| match found.len() == file.bytes as u64 {
            true => Ok(()),
            false => Err(wrong()),
        });
        right.map_err(|source| SourceTreeError { path, source })
    }

    fn read(&self, top: &Path, place: usize, room: &mut Vec<u8>) -> Result<(), SourceTreeError> {
        let file = &self.files[place];
        let path = top.join(&file.path);
        room.clear();
        let right = fs::File::open(&path)
            .and_then(|mut opened| opened.read_to_end(room))
            .and_then(|_| match has_file_content(place, file.bytes, room) {
                true => Ok(()),
                false => Err(wrong()),
            });
        right.map_err(|source| SourceTreeError { path, source })
    }
}

fn wrong() -> io::Error {
    io::Error::other("it is not what was written")
}

fn is_header(place: usize) -> bool {
    place.is_multiple_of(HEADER_OF)
}

fn path(place: usize) -> PathBuf {
    let folder = place / FOLDER_FILES;
    let (upper, lower) = (folder / FOLDER_FOLDERS, folder % FOLDER_FOLDERS);
    let kind = if is_header(place) { "h" } else { "c" };
    PathBuf::from(format!("part{upper}/part{lower}/file{place}.{kind}"))
}

/// A random size.
fn size(rng: &mut SimRng) -> usize {
    let bytes = MEDIAN_BYTES * (SIGMA * rng.normal()).exp();
    bytes.clamp(1.0, BYTES_MAX) as usize
}

/// The content of a file. No two files have a page in common.
fn file_content(place: usize, bytes: usize) -> Vec<u8> {
    let mut rng = SimRng::seeded(!(place as u64));
    let words = (0..bytes.div_ceil(8)).flat_map(|_| rng.bits().to_le_bytes());
    words.take(bytes).collect()
}

/// Returns whether a file has its length and its first bytes. A comparison of all bytes would take longer than reading
/// them from memory.
fn has_file_content(place: usize, bytes: usize, found: &[u8]) -> bool {
    let begin = file_content(place, bytes.min(8));
    found.len() == bytes && found.starts_with(&begin)
}

/// Lets threads do `work` for 0 to `count - 1`. Each thread takes the next number that nobody has taken.
fn side_by_side(
    count: usize,
    work: impl Fn(usize, &mut Vec<u8>) -> Result<(), SourceTreeError> + Sync,
) -> Result<(), SourceTreeError> {
    let next = AtomicUsize::new(0);
    let one = || {
        let mut room = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return Ok(());
            }
            work(number, &mut room)?;
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(one)).collect();
        let ended = threads.into_iter().map(|thread| match thread.join() {
            Ok(ended) => ended,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ended.collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_log_normal() {
        let mut rng = SimRng::seeded(3);
        let mut logs: Vec<f64> = (0..20_000).map(|_| (size(&mut rng) as f64).ln()).collect();
        logs.sort_by(f64::total_cmp);
        // Of a normal distribution 15.87 % lie one deviation below the median, and as many above.
        let at = |share: f64| logs[(share * logs.len() as f64) as usize];
        assert!((at(0.5) - MEDIAN_BYTES.ln()).abs() < 0.05);
        assert!((at(0.5) - at(0.1587) - SIGMA).abs() < 0.05);
        assert!((at(0.8413) - at(0.5) - SIGMA).abs() < 0.05);
    }

    #[test]
    fn a_tree_is_of_its_amount_and_always_the_same() {
        let (one, other) = (SourceTree::of(Bytes::mib(8)), SourceTree::of(Bytes::mib(8)));
        let sum: usize = one.files.iter().map(|file| file.bytes).sum();
        assert!((8 << 20..=9 << 20).contains(&sum), "{sum}");
        let sizes =
            |tree: &SourceTree| tree.files.iter().map(|file| file.bytes).collect::<Vec<_>>();
        assert_eq!(sizes(&one), sizes(&other));
        assert_eq!(one.headers, other.headers);
        assert_eq!(one.headers.len() + one.sources.len(), one.files());
        assert!(
            one.headers
                .iter()
                .all(|place| path(*place).extension() == Some("h".as_ref()))
        );
    }

    #[test]
    fn a_few_headers_are_read_most() {
        let tree = SourceTree::of(Bytes::mib(8));
        let mut reads = vec![0; tree.files()];
        for source in 0..tree.sources.len() {
            tree.headers_of(source)
                .for_each(|header| reads[header] += 1);
        }
        assert_eq!(
            reads.iter().sum::<usize>(),
            HEADERS_READ * tree.sources.len()
        );
        assert!(tree.sources.iter().all(|source| reads[*source] == 0));
        // By Zipf's law with exponent 1 the first of n is read 1 ÷ (ln(n) + 0.58) of the time.
        let due = HEADERS_READ as f64 * tree.sources.len() as f64
            / ((tree.headers.len() as f64).ln() + 0.577);
        let first = reads[tree.headers[0]] as f64;
        assert!((0.8..1.2).contains(&(first / due)), "{first} of {due}");
    }

    #[test]
    fn a_walk_finds_what_was_written_and_nothing_else() -> Result<(), Box<dyn std::error::Error>> {
        let top = tempfile::tempdir()?;
        let tree = SourceTree::of(Bytes::mib(1));
        tree.write(top.path())?;
        tree.walk(top.path())?;
        let source = top.path().join(path(tree.sources[0]));
        let bytes = fs::read(&source)?;
        fs::write(&source, vec![0; bytes.len()])?;
        let found = tree.walk(top.path()).map_err(|error| error.to_string());
        assert!(found.is_err_and(|why| why.contains("not what was written")));
        fs::write(&source, &bytes[1..])?;
        assert!(tree.walk(top.path()).is_err());
        Ok(())
    }
}
