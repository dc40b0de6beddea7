//! A source tree's files, and a walk over them as compilers do it: look at all of them, then read each source once
//! and, for each, some headers, of which a few are read far more often than others.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sublet_sim::chance::{Chance, Zipf};
use sublet_types::Bytes;

use super::super::super::shuffle::shuffled;

/// Half of the files are smaller than this.
const MEDIAN_BYTES: f64 = 5000.0;
/// The standard deviation of a size's logarithm: sizes are log-normal.
const SIGMA: f64 = 1.2;
const BYTES_MAX: f64 = 1_048_576.0;

/// Files of a folder, and folders of a folder.
const FOLDER_FILES: usize = 24;
const FOLDER_FOLDERS: usize = 16;

/// One file of so many is a header.
const HEADER_OF: usize = 3;

/// Headers that are read for a source.
const HEADERS_READ: usize = 4;
const HEADERS_ALPHA: f64 = 1.0;

/// Compilers at work.
pub(super) const THREADS: usize = 8;

/// Which files there are.
pub(super) struct Tree {
    files: Vec<Planned>,
    /// Places of headers in `files`, from the one that is read most.
    headers: Vec<usize>,
    sources: Vec<usize>,
    popularity: Zipf,
}

/// A file to be.
struct Planned {
    path: PathBuf,
    bytes: usize,
}

/// What is wrong with a tree.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {source}", path = .path.display())]
pub(crate) struct TreeError {
    path: PathBuf,
    source: io::Error,
}

impl Tree {
    /// A tree of about `amount`: always the same one.
    pub(super) fn of(amount: Bytes) -> Tree {
        let mut chance = Chance::seeded(0x7ee);
        let (mut files, mut sum) = (Vec::new(), 0);
        while sum < amount.0 {
            let bytes = size(&mut chance);
            sum += bytes as u64;
            files.push(Planned {
                path: path(files.len()),
                bytes,
            });
        }
        let (headers, sources): (Vec<usize>, Vec<usize>) =
            (0..files.len()).partition(|place| is_header(*place));
        let order = shuffled(headers.len(), &mut chance);
        let headers: Vec<usize> = order.iter().map(|at| headers[*at as usize]).collect();
        Tree {
            popularity: Zipf::of(headers.len() as u64, HEADERS_ALPHA),
            files,
            headers,
            sources,
        }
    }

    /// How many files there are.
    pub(super) fn files(&self) -> usize {
        self.files.len()
    }

    /// Makes them below `top`.
    pub(super) fn write(&self, top: &Path) -> Result<(), TreeError> {
        for (place, file) in self.files.iter().enumerate() {
            let at = top.join(&file.path);
            let folder = at.parent().unwrap_or(top);
            fs::create_dir_all(folder)
                .and_then(|()| fs::write(&at, text(place, file.bytes)))
                .map_err(|source| TreeError { path: at, source })?;
        }
        Ok(())
    }

    /// Walks it below `top`; how long that took.
    pub(super) fn walk(&self, top: &Path) -> Result<Duration, TreeError> {
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

    /// What a source includes: the same whoever compiles it.
    fn headers_of(&self, source: usize) -> impl Iterator<Item = usize> + use<'_> {
        let mut chance = Chance::seeded(source as u64);
        let headers = HEADERS_READ.min(self.headers.len());
        (0..headers).map(move |_| self.headers[self.popularity.draw(&mut chance) as usize])
    }

    fn look_at(&self, top: &Path, place: usize) -> Result<(), TreeError> {
        let file = &self.files[place];
        let path = top.join(&file.path);
        let right = fs::metadata(&path).and_then(|found| match found.len() == file.bytes as u64 {
            true => Ok(()),
            false => Err(wrong()),
        });
        right.map_err(|source| TreeError { path, source })
    }

    fn read(&self, top: &Path, place: usize, room: &mut Vec<u8>) -> Result<(), TreeError> {
        let file = &self.files[place];
        let path = top.join(&file.path);
        room.clear();
        let right = fs::File::open(&path)
            .and_then(|mut opened| opened.read_to_end(room))
            .and_then(|_| match is_text(place, file.bytes, room) {
                true => Ok(()),
                false => Err(wrong()),
            });
        right.map_err(|source| TreeError { path, source })
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

/// A size by luck.
fn size(chance: &mut Chance) -> usize {
    let bytes = MEDIAN_BYTES * (SIGMA * chance.normal()).exp();
    bytes.clamp(1.0, BYTES_MAX) as usize
}

/// What a file holds: no two have a page in common.
fn text(place: usize, bytes: usize) -> Vec<u8> {
    let mut chance = Chance::seeded(!(place as u64));
    let words = (0..bytes.div_ceil(8)).flat_map(|_| chance.bits().to_le_bytes());
    words.take(bytes).collect()
}

/// Whether a file has its length and its first bytes. To compare all would take longer than to read them from memory.
fn is_text(place: usize, bytes: usize, found: &[u8]) -> bool {
    let begin = text(place, bytes.min(8));
    found.len() == bytes && found.starts_with(&begin)
}

/// Has threads do what is to be done for 0 to `count - 1`, each taking the next that nobody has taken.
fn side_by_side(
    count: usize,
    work: impl Fn(usize, &mut Vec<u8>) -> Result<(), TreeError> + Sync,
) -> Result<(), TreeError> {
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
        let mut chance = Chance::seeded(3);
        let mut logs: Vec<f64> = (0..20_000)
            .map(|_| (size(&mut chance) as f64).ln())
            .collect();
        logs.sort_by(f64::total_cmp);
        // Of a normal distribution 15.87 % lie one deviation below the median, and as many above.
        let at = |share: f64| logs[(share * logs.len() as f64) as usize];
        assert!((at(0.5) - MEDIAN_BYTES.ln()).abs() < 0.05);
        assert!((at(0.5) - at(0.1587) - SIGMA).abs() < 0.05);
        assert!((at(0.8413) - at(0.5) - SIGMA).abs() < 0.05);
    }

    #[test]
    fn a_tree_is_of_its_amount_and_always_the_same() {
        let (one, other) = (Tree::of(Bytes::mib(8)), Tree::of(Bytes::mib(8)));
        let sum: usize = one.files.iter().map(|file| file.bytes).sum();
        assert!((8 << 20..=9 << 20).contains(&sum), "{sum}");
        let sizes = |tree: &Tree| tree.files.iter().map(|file| file.bytes).collect::<Vec<_>>();
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
        let tree = Tree::of(Bytes::mib(8));
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
        // By Zipf's law with exponent 1 the first of n is read 1 ÷ ln(n) + 0.58 of the time.
        let due = HEADERS_READ as f64 * tree.sources.len() as f64
            / ((tree.headers.len() as f64).ln() + 0.577);
        let first = reads[tree.headers[0]] as f64;
        assert!((0.8..1.2).contains(&(first / due)), "{first} of {due}");
    }

    #[test]
    fn a_walk_finds_what_was_written_and_nothing_else() -> Result<(), Box<dyn std::error::Error>> {
        let top = tempfile::tempdir()?;
        let tree = Tree::of(Bytes::mib(1));
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
