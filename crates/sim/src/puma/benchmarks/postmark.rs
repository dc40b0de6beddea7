//! Postmark: small files that are read, appended to, created and deleted.

use std::collections::VecDeque;
use std::ops::Range;

use super::shape::{BenchmarkFigure, BenchmarkShape, BenchmarkStep, GUEST_MIB, TransactionSource};
use crate::puma::setting::PumaScale;
use crate::rng::SimRng;
use crate::virtual_time::VirtualDuration;

/// MiB of all files.
const FILES_MIB: u64 = 3584;

/// Bytes of a file, at least and at most.
const FILE_BYTES: Range<u64> = 512..64 * 1024;

/// Bytes of an append at most.
const APPEND_MAX: u64 = 16 * 1024;

const PAGE: u64 = sublet_types::PAGE_BYTES;

/// A file's parts, in order, and the bytes in its last page.
struct SmallFile {
    parts: Vec<Range<u64>>,
    tail: u64,
}

struct Postmark {
    files: Vec<SmallFile>,
    /// Files to create before the transactions begin.
    wanted: u64,
    /// Where the next file goes. New files lie one after the other.
    end: u64,
}

impl Postmark {
    fn create(&mut self, rng: &mut SimRng, steps: &mut VecDeque<BenchmarkStep>) {
        let bytes = FILE_BYTES.start + rng.below(FILE_BYTES.end - FILE_BYTES.start);
        let part = self.allocate(bytes.div_ceil(PAGE));
        steps.push_back(BenchmarkStep::Write(part.clone()));
        self.files.push(SmallFile {
            parts: vec![part],
            tail: bytes % PAGE,
        });
    }

    fn allocate(&mut self, pages: u64) -> Range<u64> {
        let first = self.end;
        self.end += pages;
        first..self.end
    }

    fn read(&self, file: usize, steps: &mut VecDeque<BenchmarkStep>) {
        let parts = self.files[file].parts.iter();
        steps.extend(parts.map(|part| BenchmarkStep::Read(part.clone())));
    }

    /// A last page that is not full is read before it is written.
    fn append(&mut self, file: usize, rng: &mut SimRng, steps: &mut VecDeque<BenchmarkStep>) {
        let bytes = 1 + rng.below(APPEND_MAX);
        let of = &mut self.files[file];
        let room = if of.tail == 0 { 0 } else { PAGE - of.tail };
        if room > 0
            && let Some(last) = of.parts.last()
        {
            let page = last.end - 1..last.end;
            steps.push_back(BenchmarkStep::Read(page.clone()));
            steps.push_back(BenchmarkStep::Write(page));
        }
        of.tail = (of.tail + bytes) % PAGE;
        let more = bytes.saturating_sub(room).div_ceil(PAGE);
        if more > 0 {
            let part = self.allocate(more);
            steps.push_back(BenchmarkStep::Write(part.clone()));
            self.files[file].parts.push(part);
        }
    }

    fn delete(&mut self, file: usize, steps: &mut VecDeque<BenchmarkStep>) {
        let deleted = self.files.swap_remove(file);
        steps.extend(deleted.parts.into_iter().map(BenchmarkStep::Delete));
    }
}

impl TransactionSource for Postmark {
    fn next(&mut self, rng: &mut SimRng, steps: &mut VecDeque<BenchmarkStep>) {
        if self.wanted > 0 {
            self.wanted -= 1;
            self.create(rng, steps);
        } else {
            let file = rng.below(self.files.len() as u64) as usize;
            match rng.happens(0.5) {
                true => self.read(file, steps),
                false => self.append(file, rng, steps),
            }
            let other = rng.below(self.files.len() as u64) as usize;
            match rng.happens(0.5) || self.files.len() < 2 {
                true => self.create(rng, steps),
                false => self.delete(other, steps),
            }
        }
        steps.push_back(BenchmarkStep::End(VirtualDuration::default()));
    }
}

pub(super) fn shape(scale: PumaScale) -> BenchmarkShape {
    // Half a page of the last one is empty in the mean.
    let mean = (FILE_BYTES.start + FILE_BYTES.end) / 2 + PAGE / 2;
    let files = scale.pages(FILES_MIB) * PAGE / mean;
    let source = Postmark {
        files: Vec::new(),
        wanted: files,
        end: 0,
    };
    BenchmarkShape {
        source: Box::new(source),
        threads: 1,
        warm_up: 2 * files,
        counted: files,
        figure: BenchmarkFigure::Rate,
        guest_mib: GUEST_MIB,
    }
}
